// Builds one self-contained HTML file per page: node build.mjs OUTPUT_FOLDER [PLANNER.wasm REPOSITORY]
// The planner's page is built when its module is named, next to the page for answers alone; it holds the clusters, models and stacks of the repository.
// packages.txt beside the pages names the packages whose code they hold, a folder below web/ a line: those of bundled modules
// and, as a package may hold code of others, what these depend on.
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
  'virtual:planner-files': (page) => ['clusters', 'models', 'stacks'].map((folder) => `export const ${folder} = ${JSON.stringify(page === 'planner' ? textsOf(folder) : {})};`).join('\n'),
};
const plannerParts = (page) => ({
  name: 'planner-parts',
  resolveId: (id) => (id in virtual ? `\0${id}` : undefined),
  load: (id) => (id.startsWith('\0virtual:planner') ? virtual[id.slice(1)](page) : undefined),
});

const packages = new Set();
function addPackage(folder) {
  if (packages.has(folder)) {
    return;
  }
  packages.add(folder);
  for (const name of Object.keys(JSON.parse(fs.readFileSync(path.join(root, folder, 'package.json'), 'utf8')).dependencies ?? {})) {
    const own = path.join(folder, 'node_modules', name);
    addPackage(fs.existsSync(path.join(root, own)) ? own : path.join('node_modules', name));
  }
}
// Styles leave the modules that import them. Vite's own helpers have no path; its licence names what it holds of others.
const packageLister = () => ({
  name: 'package-lister',
  renderChunk(code, chunk) {
    for (const [id, {renderedLength}] of Object.entries(chunk.modules)) {
      const [folder] = /^.*\/node_modules\/(@[^/]+\/)?[^/]+/.exec(id) ?? [];
      if (folder && (renderedLength > 0 || /\.css(\?|$)/.test(id))) {
        addPackage(path.relative(root, folder));
      } else if (id.startsWith('\0') && !id.startsWith('\0virtual:planner')) {
        packages.add('node_modules/vite');
      }
    }
  },
});

for (const page of ['report', 'answers', ...(wasm ? ['planner'] : [])]) {
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [plannerParts(page), packageLister(), viteSingleFile()],
    worker: {plugins: () => [packageLister()]},
    build: {
      outDir: output,
      emptyOutDir: false,
      target: 'es2020',
      chunkSizeWarningLimit: 5000,
      rollupOptions: {input: path.join(root, `${page}.html`)},
    },
  });
}
fs.writeFileSync(path.join(output, 'packages.txt'), [...packages].sort().map((folder) => `${folder}\n`).join(''));
