// Builds one self-contained HTML file per page: node build.mjs [OUTPUT_FOLDER]
import path from 'node:path';
import {fileURLToPath} from 'node:url';
import {build} from 'vite';
import {viteSingleFile} from 'vite-plugin-singlefile';

const root = path.dirname(fileURLToPath(import.meta.url));
const output = path.resolve(process.argv[2] ?? path.join(root, 'dist'));
for (const page of ['report']) {
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    plugins: [viteSingleFile()],
    build: {
      outDir: output,
      emptyOutDir: false,
      target: 'es2020',
      chunkSizeWarningLimit: 5000,
      rollupOptions: {input: path.join(root, `${page}.html`)},
    },
  });
}
