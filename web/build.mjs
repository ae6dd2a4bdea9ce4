// Builds one self-contained HTML file per page: node build.mjs OUTPUT_FOLDER [PLANNER.wasm REPOSITORY]
// The planner's page is built when its module is named; it holds the clusters, models and stacks of the repository.
import fs from 'node:fs';
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {build} from 'vite';
import {viteSingleFile} from 'vite-plugin-singlefile';

const root = path.dirname(fileURLToPath(import.meta.url));
const output = path.resolve(process.argv[2] ?? path.join(root, 'dist'));
const [wasm, repository] = process.argv.slice(3);

function textsOf(folder) {
  const files = fs.readdirSync(path.join(repository, folder)).filter((name) => name.endsWith('.toml')).sort();
  return Object.fromEntries(files.map((name) => [name.slice(0, -5), fs.readFileSync(path.join(repository, folder, name), 'utf8')]));
}

const virtual = {
  'virtual:planner-wasm': () => `export default ${JSON.stringify(fs.readFileSync(wasm).toString('base64'))};`,
  'virtual:planner-files': () => ['clusters', 'models', 'stacks'].map((folder) => `export const ${folder} = ${JSON.stringify(textsOf(folder))};`).join('\n'),
};
const plannerParts = {
  name: 'planner-parts',
  resolveId: (id) => (id in virtual ? `\0${id}` : undefined),
  load: (id) => (id.startsWith('\0virtual:planner') ? virtual[id.slice(1)]() : undefined),
};

for (const page of wasm ? ['report', 'planner'] : ['report']) {
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [plannerParts, viteSingleFile()],
    build: {
      outDir: output,
      emptyOutDir: false,
      target: 'es2020',
      chunkSizeWarningLimit: 5000,
      rollupOptions: {input: path.join(root, `${page}.html`)},
    },
  });
}
