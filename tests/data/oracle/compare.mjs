// Compares ids and decoded text, record by record, with Hugging Face's native tokenizers library.
//   node compare.mjs NAME TOKENIZER_JSON RECORDS OURS
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const [name, tokenizerPath, recordsPath, oursPath] = process.argv.slice(2);
const { Tokenizer } = createRequire(process.cwd() + '/')('tokenizers');
const tokenizer = Tokenizer.fromString(readFileSync(tokenizerPath, 'utf8'));
const records = readFileSync(recordsPath);
const ours = readFileSync(oursPath);
const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

const texts = [];
const results = [];
for (let at = 0, our = 0; at < records.length; ) {
  const length = records.readUInt32LE(at);
  texts.push(decoder.decode(records.subarray(at + 4, at + 4 + length)));
  at += 4 + length;
  const ids = [];
  for (let left = ours.readUInt32LE(our); left > 0; --left) ids.push(ours.readInt32LE(our + 4 + ids.length * 4));
  our += 4 + ids.length * 4;
  const size = ours.readUInt32LE(our);
  results.push({ ids, text: decoder.decode(ours.subarray(our + 4, our + 4 + size)) });
  our += 4 + size;
}

let tokens = 0;
let wrong = 0;
for (let first = 0; first < texts.length; first += 1000) {
  const batch = texts.slice(first, first + 1000);
  const encodings = await tokenizer.encodeBatch(batch, { addSpecialTokens: false });
  const theirs = encodings.map((encoding) => encoding.getIds());
  const theirTexts = await tokenizer.decodeBatch(theirs, false);
  batch.forEach((text, i) => {
    const { ids, text: decoded } = results[first + i];
    tokens += ids.length;
    const sameIds = ids.length === theirs[i].length && ids.every((id, k) => id === theirs[i][k]);
    if ((!sameIds || decoded !== theirTexts[i]) && ++wrong <= 5) {
      console.error(`${name}: record ${first + i} ${JSON.stringify(text)}
  ours   ${ids.join(' ')} ${JSON.stringify(decoded)}
  theirs ${theirs[i].join(' ')} ${JSON.stringify(theirTexts[i])}`);
    }
  });
}
console.log(`${name}: ${texts.length} records, ${tokens} tokens, ${wrong} differ`);
if (wrong > 0 || texts.length === 0) process.exit(1);
