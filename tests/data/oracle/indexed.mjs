// Megatron's indexed datasets by a reader and a writer made from the description of the format alone: one that we wrote
// must read here, ones written here must read with our tool.
//   node indexed.mjs TOOL PREFIX
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';

const [tool, prefix] = process.argv.slice(2);
const kinds = {
  1: [1, 'readUInt8', 'writeUInt8'], 2: [1, 'readInt8', 'writeInt8'], 3: [2, 'readInt16LE', 'writeInt16LE'],
  4: [4, 'readInt32LE', 'writeInt32LE'], 5: [8, 'readBigInt64LE', 'writeBigInt64LE'], 8: [2, 'readUInt16LE', 'writeUInt16LE'],
};

function read(path) {
  const idx = readFileSync(`${path}.idx`);
  const bin = readFileSync(`${path}.bin`);
  if (idx.toString('latin1', 0, 9) !== 'MMIDIDX\0\0' || idx.readBigUInt64LE(9) !== 1n) throw new Error('header');
  const [size, get] = kinds[idx.readUInt8(17)];
  const sequences = Number(idx.readBigUInt64LE(18));
  const boundaries = Number(idx.readBigUInt64LE(26));
  const lengthsAt = 34;
  const offsetsAt = lengthsAt + 4 * sequences;
  const boundariesAt = offsetsAt + 8 * sequences;
  if (idx.length !== boundariesAt + 8 * boundaries) throw new Error('size');
  let text = '';
  for (let document = 0; document + 1 < boundaries; ++document) {
    const end = Number(idx.readBigInt64LE(boundariesAt + 8 * (document + 1)));
    for (let s = Number(idx.readBigInt64LE(boundariesAt + 8 * document)); s < end; ++s) {
      const offset = Number(idx.readBigInt64LE(offsetsAt + 8 * s));
      for (let i = 0; i < idx.readInt32LE(lengthsAt + 4 * s); ++i) text += `${bin[get](offset + i * size)} `;
      text += '|';
    }
    text += '\n';
  }
  return text;
}

function write(path, code, documents) {
  const [size, , put] = kinds[code];
  const sequences = documents.flat();
  const header = Buffer.alloc(34);
  header.write('MMIDIDX\0\0', 0, 'latin1');
  header.writeBigUInt64LE(1n, 9);
  header.writeUInt8(code, 17);
  header.writeBigUInt64LE(BigInt(sequences.length), 18);
  header.writeBigUInt64LE(BigInt(documents.length + 1), 26);
  const lengths = Buffer.alloc(4 * sequences.length);
  const offsets = Buffer.alloc(8 * sequences.length);
  let at = 0;
  sequences.forEach((sequence, i) => {
    lengths.writeInt32LE(sequence.length, 4 * i);
    offsets.writeBigInt64LE(BigInt(at), 8 * i);
    at += sequence.length * size;
  });
  const boundaries = Buffer.alloc(8 * (documents.length + 1));
  let count = 0;
  documents.forEach((document, i) => boundaries.writeBigInt64LE(BigInt((count += document.length)), 8 * (i + 1)));
  const bin = Buffer.alloc(at);
  sequences.flat().forEach((token, i) => bin[put](code === 5 ? BigInt(token) : token, i * size));
  writeFileSync(`${path}.idx`, Buffer.concat([header, lengths, offsets, boundaries]));
  writeFileSync(`${path}.bin`, bin);
}

const dump = (path) => execFileSync(tool, ['dump', path], { maxBuffer: 1 << 30, encoding: 'utf8' });
function check(name, same) {
  console.log(`indexed dataset, ${name}: ${same ? 'equal' : 'DIFFERS'}`);
  if (!same) process.exitCode = 1;
}

check('ours read by another reader', read(prefix) === dump(prefix));
for (const code of Object.keys(kinds).map(Number)) {
  const documents = Array.from({ length: 50 }, (_, d) =>
    Array.from({ length: d % 3 }, (__, s) => Array.from({ length: (d * 7 + s) % 11 }, (___, i) => (d * 31 + s * 5 + i) % 128)));
  write(`kind-${code}`, code, documents);
  const expected = documents.map((document) => document.map((sequence) => sequence.map((token) => `${token} `).join('') + '|').join('') + '\n').join('');
  check(`kind ${code} of another writer`, dump(`kind-${code}`) === expected);
}
