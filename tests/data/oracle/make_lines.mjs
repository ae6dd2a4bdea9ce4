// Writes length-prefixed records that tokenizers find hard: many scripts, code, emoji, white space of every kind,
// control characters, ill-formed UTF-8, special tokens in the text. Seeded.
//   node make_lines.mjs COUNT SEED RECORDS TEXT     TEXT gets the well-formed ones, a line each
import { writeFileSync } from 'node:fs';

const [count, seed, recordsPath, textPath] = process.argv.slice(2);

let state = Number(seed) >>> 0;
function random() {
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const repeat = (most, make) => Array.from({ length: 1 + below(most) }, make).join('');

const words = `the of and to in a is that it was for on are with as I his they be at one have this from or had by hot
but some what there we can out other were all your when up use word how said an each she which do their time if will way
about many then them would write like so these her long make thing see him two has look more day could go come did my
sound no most number who over know water than call first people may down side been now find any new work part take get
place made live where after back little only round man year came show every good me give our under name very through just
form much great think say help low line before turn cause same mean differ move right boy old too does tell sentence
internationalization don't we'll I'm they've it's he'd you're DON'T WE'LL tokenizer parallel checkpoint gradient`.split(/\s+/);
const ranges = [
  [0x00c0, 0x024f], [0x0370, 0x03ff], [0x0400, 0x04ff], [0x0531, 0x0587], [0x05d0, 0x05ea], [0x0600, 0x06ff],
  [0x0700, 0x074f], [0x0900, 0x097f], [0x0980, 0x09fe], [0x0b80, 0x0bfa], [0x0e00, 0x0e5b], [0x0f00, 0x0fda],
  [0x1000, 0x109f], [0x10a0, 0x10ff], [0x1200, 0x137c], [0x13a0, 0x13fd], [0x1780, 0x17f9], [0x1800, 0x1878],
  [0x1e00, 0x1eff], [0x2c80, 0x2cff], [0x3040, 0x30ff], [0x3400, 0x4dbf], [0x4e00, 0x9fff], [0xac00, 0xd7a3],
  [0xf900, 0xfaff], [0xfe70, 0xfefc], [0xff01, 0xffee], [0x10330, 0x1034a], [0x12000, 0x123ff], [0x1d400, 0x1d7ff],
  [0x20000, 0x2a6df],
];
const marks = [0x0300, 0x0301, 0x0308, 0x0323, 0x05b0, 0x064e, 0x093c, 0x094d, 0x0e31, 0x20dd, 0x3099, 0xfe0f, 0x1f3fd];
const digits = [0x30, 0x660, 0x6f0, 0x966, 0x9e6, 0xe50, 0xff10, 0x1d7ce, 0x2160, 0x2460, 0x00bd, 0x3220, 0x0bf0, 0x00b2];
const spaces = [' ', ' ', ' ', '  ', '\t', '\n', '\n\n', '\r\n', '\r', '\v', '\f', '\u0085', '\u00a0', '\u1680', '\u180e',
  '\u2003', '\u2009', '\u200b', '\u200d', '\u2028', '\u2029', '\u202f', '\u205f', '\u2060', '\u3000', '\ufeff', '\u001c'];
const symbols = [...'!"#$%&\'()*+,-./:;<=>?@[\\]^_`{|}~…。，、।۔،«»“”‘’–—€£¥©®™°±×÷§¶•†‡→←∀∑∫≠≤≥√∞☃★♥'];
const contractions = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'T", "'RE", "'Ve", "'M", "'lL", "'D", "'ſ", "'Ll", "''s", "'x", "'"];
const specials = ['<|endoftext|>', '<|begin_of_text|>', '<|end_of_text|>', '<|eot_id|>', '<s>', '</s>', '<pad>', '<unk>',
  '<|endoftext', '|>', '<|im_start|>', '<|im_end|>', '[TOOL]', '[tool]', 'LEFT', 'RIGHT', 'BOTH'];
const code = [
  'for (int i = 0; i < n; ++i) {\n\tsum += values[i] * 0.5f;\n}\n', 'def f(x, *args, **kwargs):\n    return x ** 2  # square\n',
  'SELECT a.id, COUNT(*) FROM a LEFT JOIN b ON a.id=b.id WHERE a.t >= \'2021-01-01\';', '#include <vector>\r\n\r\nint main() { return 0; }\r\n',
  '{"key": [1, 2.5e-3, null, true], "nested": {"a": "b\\n"}}', '<div class="x">\n  <a href="https://example.org/?q=1&r=2">y</a>\n</div>',
  'const f = async (x) => { await g(`${x}`); };', 'std::vector<std::pair<int,int>>&& v = std::move(w);', '$ grep -rn "TODO" ./src | wc -l\n', '0xDEADBEEF 1_000_000 3.14159 1e-10',
  '\\frac{\\partial L}{\\partial w_{ij}} = \\sum_k \\delta_k', 'if (a&&b||!c) {;;}   // ====----====\n\n\n\n    x'];

const char = (range) => {
  const code = range[0] + below(range[1] - range[0] + 1);
  return String.fromCodePoint(code);
};
const emoji = () => {
  const base = () => String.fromCodePoint(pick([0x1f600 + below(80), 0x1f300 + below(200), 0x1f900 + below(200), 0x2600 + below(200)]));
  return pick([
    base, () => base() + '\u200d' + base(), () => base() + '\ufe0f', () => base() + String.fromCodePoint(0x1f3fb + below(5)),
    () => String.fromCodePoint(0x1f1e6 + below(26), 0x1f1e6 + below(26)), () => '👨‍👩‍👧‍👦', () => '1️⃣']) ();
};
const parts = [
  () => pick(words), () => ' ' + pick(words), () => repeat(12, () => pick(words) + ' '),
  () => { const range = pick(ranges); return repeat(10, () => char(range) + (random() < 0.1 ? String.fromCodePoint(pick(marks)) : '')); },
  () => { const range = pick(ranges); return repeat(4, () => repeat(6, () => char(range)) + ' '); },
  () => repeat(9, () => String.fromCodePoint(pick(digits) + below(10))), () => String(below(1e9)),
  () => repeat(5, () => pick(spaces)), () => ' '.repeat(below(20)), () => '\n'.repeat(below(4)) + ' '.repeat(below(4)),
  () => repeat(4, () => pick(symbols)), () => pick(symbols).repeat(below(30)), emoji, () => repeat(5, emoji),
  () => pick(words) + pick(contractions) + pick(['', ' ', 'x', pick(words)]), () => pick(code), () => pick(specials),
  () => String.fromCharCode(below(32)), () => '\u007f', () => String.fromCodePoint(pick([0xe000, 0xfdd0, 0xfffe, 0xffff, 0x10ffff, 0xf0000])),
  () => repeat(3, () => String.fromCodePoint(pick(marks))), () => 'e\u0301 \u212b \u1e9b\u0323 \ufb01 \uac00\u11a8', () => pick(words).repeat(1 + below(20)),
  () => pick(words).toUpperCase(), () => pick('abcxyz0') + pick(symbols), () => repeat(60, () => pick(['a', 'b', 'ab', 'ba', 'aa'])),
  () => { let c; do { c = below(0x110000); } while ((c >= 0xd800 && c < 0xe000) || !/\p{Assigned}/u.test(String.fromCodePoint(c))); return String.fromCodePoint(c); },
];

// Breaks well-formed bytes: cuts, flips, inserts.
function damage(bytes) {
  const list = [...bytes];
  for (let i = 0; i <= below(4); ++i) {
    const at = below(list.length + 1);
    const kind = below(4);
    if (kind === 0) list.splice(at, 1);
    else if (kind === 1) list.splice(at, 0, 128 + below(128));
    else if (kind === 2) list.splice(at, 0, ...pick([[0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf5, 0x80], [0xe2, 0x82], [0xf0, 0x9f, 0x98], [0xff, 0xfe], [0xef, 0xbf]]));
    else if (list.length > 0) list[at % list.length] ^= 1 << below(8);
  }
  return Buffer.from(list);
}

const chunks = [];
const lines = [];
for (let i = 0; i < Number(count); ++i) {
  const text = repeat(8, () => pick(parts)());
  let bytes = Buffer.from(text, 'utf8');
  if (i % 10 === 9) bytes = damage(bytes);
  else lines.push(text.replace(/[\r\n]+/g, ' '));
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.length);
  chunks.push(length, bytes);
}
writeFileSync(recordsPath, Buffer.concat(chunks));
writeFileSync(textPath, lines.join('\n') + '\n');
