// Makes tokenizer.json files that use what the published ones do not: normal forms, prefix space, added tokens with every
// flag, merges as pairs, Mistral Nemo's pattern.
//   node variants.mjs GPT2_JSON DIRECTORY
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';

const [source, directory] = process.argv.slice(2);
const read = () => JSON.parse(readFileSync(source, 'utf8'));
const added = (id, content, flags) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: true, special: false, ...flags });
function write(name, json) {
  mkdirSync(`${directory}/${name}`, { recursive: true });
  writeFileSync(`${directory}/${name}/tokenizer.json`, JSON.stringify(json));
}

for (const form of ['NFC', 'NFD', 'NFKC', 'NFKD']) {
  const json = read();
  json.normalizer = form === 'NFC' ? { type: 'Sequence', normalizers: [{ type: form }] } : { type: form };
  write(`variant-${form.toLowerCase()}`, json);
}
const prefix = read();
prefix.pre_tokenizer.add_prefix_space = true;
prefix.model.merges = prefix.model.merges.map((merge) => (Array.isArray(merge) ? merge : merge.split(' ')));
write('variant-prefix', prefix);
const tekken = read();  // Mistral Nemo's pattern
tekken.pre_tokenizer = {
  type: 'Sequence',
  pretokenizers: [
    {
      type: 'Split',
      pattern: {
        Regex:
          '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|' +
          '[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|' +
          '\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+',
      },
      behavior: 'Isolated',
      invert: false,
    },
    { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
  ],
};
write('variant-tekken', tekken);
const tokens = read();
tokens.normalizer = { type: 'NFC' };
let next = 50257;
const add = (content, flags) => tokens.added_tokens.push(added(tokens.model.vocab[content] ?? next++, content, flags));
add('[TOOL]', { single_word: true });
add('LEFT', { lstrip: true });
add('RIGHT', { rstrip: true, normalized: false });
add('BOTH', { lstrip: true, rstrip: true, special: true, normalized: false });
add('the', { single_word: true });
add('\u00e9 ', {});
add('<s>', { special: true, normalized: false });
add('<|endoftext', { normalized: false });
write('variant-added', tokens);
