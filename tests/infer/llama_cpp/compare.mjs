// Models that this program wrote as GGUF, run by llama.cpp (node-llama-cpp's prebuilt binary).
//   node compare.mjs TRIREME FAMILIES_TABLE FIXTURE CORPUS WORK
// First the models of tests/oracle, every family that llama.cpp runs: logits against those of transformers. Then eight
// models trained here for some hundred steps: 64 greedy tokens in F32, perplexity in Q8_0, ids of hostile text. Then
// SentencePiece tokenizers of BPE and of unigrams, as spm_train makes them: ids of hostile text.
// Exit code 1 names what differs.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const [trireme, familiesTable, fixture, corpus, work] = process.argv.slice(2).map((name) => path.resolve(name));
const run = (program, ...words) => execFileSync(program, words, { encoding: "utf8", maxBuffer: 1 << 28 });
const llama = await getLlama({ build: "never", gpu: false, progressLogs: false, logLevel: LlamaLogLevel.error });
let failures = 0;
const check = (good, text) => {
  console.log(`${good ? "ok    " : "DIFFERS"} ${text}`);
  failures += good ? 0 : 1;
};

async function withModel(file, body) {
  const model = await llama.loadModel({ modelPath: file, gpuLayers: 0 });
  // Flash attention and the cache compute in F16 unless told otherwise.
  const context = await model.createContext({ contextSize: 256, threads: 1, swaFullCache: true, flashAttention: false,
    experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32" });
  try {
    return await body(model, context.getSequence());
  } finally {
    await context.dispose();
    await model.dispose();
  }
}

// Rows of logits after each token.
async function logitsOf(sequence, tokens, vocabulary) {
  const items = tokens.map((token) => [token, { generateNext: { logits: true } }]);
  const output = await sequence.controlledEvaluate(items);
  return output.map(({ next }) => Array.from({ length: vocabulary }, (_, token) => next.logits.get(token)));
}

function largestDifference(a, b) {
  let largest = 0;
  a.forEach((row, i) => row.forEach((value, j) => (largest = Math.max(largest, Math.abs(value - b[i][j])))));
  return largest;
}

// Mean negative log likelihood of each token after those before it.
function lossOf(logits, tokens) {
  let sum = 0;
  for (let i = 0; i + 1 < tokens.length; ++i) {
    const most = Math.max(...logits[i]);
    sum += most + Math.log(logits[i].reduce((total, x) => total + Math.exp(x - most), 0)) - logits[i][tokens[i + 1]];
  }
  return sum / (tokens.length - 1);
}

// What llama.cpp computes with less precision than fp32: GELU from a table of half precision, tanh's form for the exact.
const tolerances = { gpt2: 2e-3, bloom: 2e-3, gpt_neox: 5e-3, gpt_neox_serial: 5e-3, mpt: 5e-3 };
// Families and shapes that llama.cpp's architectures lack: they must be refused.
const refused = { opt: "no GGUF file is written", gemma2: "query_scalar", gemma3: "query_scalar" };
// llama.cpp chooses the factors of longrope by the context, which is at least 256 tokens there: the long ones.
const otherFactors = ["phi3_short"];

// A tokenizer of a few letters: the fixture's models have 43 tokens and none, and node-llama-cpp asks for one.
function writeLetters(file) {
  const vocab = Object.fromEntries([..."abcdefghijklmnopqrstuvwxyzĊĠ"].map((letter, id) => [letter, id]));
  const end = { id: 28, content: "<|endoftext|>", special: true };
  fs.writeFileSync(file, JSON.stringify({ model: { type: "BPE", vocab, merges: [] }, added_tokens: [end],
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false } }));
}

async function compareFixture() {
  const { models } = JSON.parse(fs.readFileSync(fixture, "utf8"));
  const letters = path.join(work, "letters.json");
  writeLetters(letters);
  run(familiesTable, path.join(work, "models"));
  for (const [name, model] of Object.entries(models)) {
    const file = path.join(work, `${name}.gguf`);
    const words = ["checkpoint", "export", path.join(work, "models", name), file, "--format", "gguf", "--type", "f32",
      "--tokenizer", letters];
    if (refused[name]) {
      let message = "";
      try {
        execFileSync(trireme, words, { stdio: "pipe" });
      } catch (error) {
        message = String(error.stderr);
      }
      check(message.includes(refused[name]), `${name}: refused (${message.trim().slice(0, 100)})`);
      continue;
    }
    run(trireme, ...words);
    if (otherFactors.includes(name)) {
      continue;
    }
    await withModel(file, async (loaded, sequence) => {
      // Where llama.cpp has no window, positions within it.
      const count = Math.min(model.tokens.length, loaded.trainContextSize);
      const logits = await logitsOf(sequence, model.tokens.slice(0, count), model.logits[0].length);
      const difference = largestDifference(logits, model.logits.slice(0, count));
      check(difference < (tolerances[name] ?? 5e-5), `${name}: ${count} tokens, logits differ by ${difference.toExponential(1)}`);
    });
  }
}

const hostile = [
  "It's 12345 o'clock,  isn't it?\n\n\tDon't  ", "naïve café — 東京 👍🏽 עברית", "x = {'a': [1,2.5e-3]};  // end\r\n",
  "WE'LL see…   three   spaces", "a\u0301\u200d\u00a0b",
];

const experts = { experts: 8, experts_per_token: 2, expert_ffn: 64, balance_loss: 0.01 };
// A shape, its options and the pattern of its tokenizer.
const trained = {
  gpt2: { pattern: "gpt2", model: {} },
  llama: {
    pattern: "llama3",
    model: { kv_heads: 2, rope_scaling: "llama3", rope_factor: 4, rope_original: 64 },
  },
  gemma3: { pattern: "qwen2", model: { kv_heads: 2, window: 32, window_period: 2, head_dim: 32 } },
  gemma2: { pattern: "gpt2", model: { kv_heads: 2, window: 32, head_dim: 32, attention_cap: 2, logit_cap: 8 } },
  mixtral: { pattern: "gpt2", model: { kv_heads: 2, ...experts } },
  olmoe: { pattern: "gpt2", model: { ...experts, router_renormalize: false } },
  qwen2_moe: { pattern: "qwen2", model: { ...experts, router_renormalize: false, shared_ffn: 64, shared_gate: true } },
  qwen3_moe: { pattern: "qwen2", model: { kv_heads: 2, head_dim: 32, ...experts } },
};

function train(family, { pattern, model }) {
  const at = (name) => path.join(work, family, name);
  fs.mkdirSync(path.join(work, family), { recursive: true });
  run(trireme, "data", "train-tokenizer", corpus, "--vocabulary", "512", "--pattern", pattern, "--output", at("tokenizer.json"));
  run(trireme, "data", "prepare", corpus, "--tokenizer", at("tokenizer.json"), "--output", at("corpus"));
  const keys = { family, layers: 2, hidden: 64, heads: 4, vocabulary: 512, sequence: 128, ...model };
  const lines = Object.entries(keys).map(([key, value]) => `${key} = ${JSON.stringify(value)}`);
  fs.writeFileSync(at("recipe.toml"), `[model]\n${lines.join("\n")}\n[layout]\nmicro_batch = 8\n[batch]\nglobal = 8\n
[optimizer]\nlearning_rate = 4e-3\nschedule = { kind = "cosine", warmup_samples = 80, final = 0.05 }\n[train]\nsteps = 150\n
[data]\nsource = "${at("corpus.bin")}"\n[checkpoint]\nevery = 150\n`);
  run(trireme, "train", at("recipe.toml"), "--run", at("run"));
  for (const type of ["f32", "q8_0"]) {
    run(trireme, "checkpoint", "export", at("run"), at(`${type}.gguf`), "--format", "gguf", "--type", type);
  }
  return at;
}

async function compareTrained(family, options) {
  const at = train(family, options);
  const text = fs.readFileSync(corpus, "utf8").slice(2000, 2400);
  const tokens = JSON.parse(run(trireme, "data", "encode", text, "--tokenizer", at("tokenizer.json"), "--json")).slice(0, 96);
  fs.writeFileSync(at("tokens.txt"), tokens.join(" ") + "\n");
  const ours = JSON.parse(run(trireme, "evaluate", at("run"), "--tokens", at("tokens.txt"), "--dtype", "fp32", "--json")).loss;
  await withModel(at("f32.gguf"), async (model, sequence) => {
    for (const words of [text, ...hostile]) {
      const expected = JSON.parse(run(trireme, "data", "encode", words, "--tokenizer", at("tokenizer.json"), "--json"));
      check(expected.join() === model.tokenize(words).join(), `${family}: ids of ${JSON.stringify(words.slice(0, 24))}`);
    }
    const loss = lossOf(await logitsOf(sequence, tokens, 512), tokens);
    check(Math.abs(loss - ours) < 1e-3, `${family} F32: loss ${loss.toFixed(5)}, here ${ours.toFixed(5)}`);
    await sequence.clearHistory();
    const prompt = "The planner ";
    const greedy = JSON.parse(run(trireme, "generate", at("run"), "--prompt", prompt, "--tokens", "64", "--temperature", "0",
      "--json", "--dtype", "fp32")).tokens;
    const theirs = [];
    for await (const token of sequence.evaluate(model.tokenize(prompt), { temperature: 0 })) {
      theirs.push(token);
      if (theirs.length === greedy.length) {
        break;
      }
    }
    check(greedy.length === 64 && theirs.join() === greedy.join(), `${family} F32: ${theirs.length} greedy tokens`);
  });
  await withModel(at("q8_0.gguf"), async (_, sequence) => {
    const loss = lossOf(await logitsOf(sequence, tokens, 512), tokens);
    const ratio = Math.exp(loss - ours);
    check(Math.abs(ratio - 1) < 0.005, `${family} Q8_0: perplexity is ${ratio.toFixed(5)} of F32's`);
  });
}

// A model of one step whose tokenizer is a SentencePiece model of a kind.
async function compareSentencePieces(kind, byteFallback) {
  const name = `${kind}${byteFallback ? "-bytes" : ""}`;
  const at = (file) => path.join(work, `spm-${name}`, file);
  fs.mkdirSync(at("."), { recursive: true });
  run("spm_train", `--input=${corpus}`, `--model_prefix=${at("tokenizer")}`, "--vocab_size=512", `--model_type=${kind}`,
    `--byte_fallback=${byteFallback}`, "--minloglevel=2",
    // llama.cpp normalises for unigrams alone; BPE is as Llama's, which leaves texts as they are.
    ...(kind === "bpe" ? ["--normalization_rule_name=identity", "--remove_extra_whitespaces=false"] : []));
  fs.writeFileSync(at("recipe.toml"), `[model]\nfamily = "llama"\nlayers = 1\nhidden = 32\nheads = 2\nvocabulary = 512\n
sequence = 32\n[train]\nsteps = 1\n[checkpoint]\nevery = 1\n`);
  run(trireme, "train", at("recipe.toml"), "--run", at("run"));
  const words = ["checkpoint", "export", at("run"), at("model.gguf"), "--format", "gguf", "--type", "f32", "--tokenizer",
    at("tokenizer.model")];
  if (kind === "unigram" && byteFallback) {
    let message = "";
    try {
      execFileSync(trireme, words, { stdio: "pipe" });
    } catch (error) {
      message = String(error.stderr);
    }
    return check(message.includes("byte_fallback"), `SentencePiece ${name}: refused (${message.trim().slice(0, 100)})`);
  }
  run(trireme, ...words);
  const text = fs.readFileSync(corpus, "utf8").slice(2000, 2400);
  await withModel(at("model.gguf"), async (model) => {
    for (const words of [text, ...hostile]) {
      const expected = JSON.parse(run(trireme, "data", "encode", words, "--tokenizer", at("tokenizer.model"), "--json"));
      check(expected.join() === model.tokenize(words).join(), `SentencePiece ${name}: ids of ${JSON.stringify(words.slice(0, 24))}`);
    }
  });
}

fs.rmSync(work, { recursive: true, force: true });
fs.mkdirSync(work, { recursive: true });
await compareFixture();
for (const [family, options] of Object.entries(trained)) {
  await compareTrained(family, options);
}
await compareSentencePieces("bpe", true);
await compareSentencePieces("unigram", false);
await compareSentencePieces("unigram", true);
await llama.dispose();
console.log(failures === 0 ? "llama.cpp computes the same" : `${failures} comparisons failed`);
process.exit(failures === 0 ? 0 : 1);
