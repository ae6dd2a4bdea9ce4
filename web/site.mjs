// Builds the static site: node site.mjs OUTPUT_FOLDER REPOSITORY PLANNER.html
// The documents as HTML, with the planner's page and the pictures. A link within the site that leads nowhere is an error.
import fs from 'node:fs';
import path from 'node:path';
import {Marked} from 'marked';

const [output, repository, planner] = process.argv.slice(2);
const pages = (folder) => fs.readdirSync(path.join(repository, folder)).filter((name) => name.endsWith('.md')).sort().map((name) => `${folder}/${name}`);
const documents = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md', 'SECURITY.md', ...['docs', 'docs/reference', 'docs/evidence'].flatMap(pages)];
const target = (name) => (name === 'README.md' ? 'index.html' : name.replace(/\.md$/, '.html'));
const escape = (text) => text.replace(/[&<>"]/g, (letter) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'})[letter]);
// As GitHub names the headings of a document.
const anchor = (text) => text.toLowerCase().replace(/<[^>]*>/g, '').replace(/[^\p{L}\p{N}\- _]/gu, '').replace(/ /g, '-');

const written = new Set();
const anchors = new Map();
const links = [];
const titles = new Map(documents.map((name) => [name, /^# (.*)$/m.exec(fs.readFileSync(path.join(repository, name), 'utf8'))?.[1] ?? name]));

function write(name, content) {
  const file = path.join(output, name);
  fs.mkdirSync(path.dirname(file), {recursive: true});
  fs.writeFileSync(file, content);
  written.add(name);
}

// Where a link of `from` leads on the site: to a document, to a file that is copied, or to the folder or source that stays
// in the repository and is shown by its name alone.
function resolve(from, href) {
  if (/^[a-z]+:/.test(href)) {
    return href;
  }
  const [file, fragment] = href.split('#');
  const there = file === '' ? from : path.posix.normalize(path.posix.join(path.posix.dirname(from), file));
  const source = path.join(repository, there);
  if (!fs.existsSync(source)) {
    throw new Error(`${from} links to ${href}, which is not there`);
  }
  let name = there;
  if (documents.includes(there)) {
    name = target(there);
    links.push({from, to: name, fragment});
  } else if (/\.(svg|png|webp)$/.test(there)) {
    write(there, fs.readFileSync(source));
  } else {
    return null;
  }
  return path.posix.relative(path.posix.dirname(target(from)), name) + (fragment === undefined ? '' : `#${fragment}`);
}

function render(name) {
  const ids = new Set();
  const seen = new Map();
  const marked = new Marked({
    renderer: {
      heading(text, level, raw) {
        const base = anchor(raw);
        const count = seen.get(base) ?? 0;
        seen.set(base, count + 1);
        const id = count === 0 ? base : `${base}-${count}`;
        ids.add(id);
        return `<h${level} id="${escape(id)}">${text}</h${level}>\n`;
      },
      link(href, _title, text) {
        const to = resolve(name, href);
        return to === null ? text : `<a href="${escape(to)}">${text}</a>`;
      },
      image(href, _title, text) {
        return `<img src="${escape(resolve(name, href))}" alt="${escape(text)}">`;
      },
      table: (head, body) => `<div class="scroll"><table><thead>${head}</thead><tbody>${body}</tbody></table></div>\n`,
    },
  });
  const body = marked.parse(fs.readFileSync(path.join(repository, name), 'utf8'));
  anchors.set(target(name), ids);
  const up = path.posix.relative(path.posix.dirname(target(name)), '.') || '.';
  const list = documents.map((one) => `<a href="${up}/${target(one)}"${one === name ? ' aria-current="page"' : ''}>${escape(titles.get(one))}</a>`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escape(titles.get(name))} · Trireme</title>
<link rel="icon" href="data:,">
<style>
:root { color-scheme: light dark; }
body { margin: 0 auto; max-width: 76rem; padding: 1rem; font: 16px/1.5 system-ui, sans-serif; display: grid; grid-template-columns: 15rem minmax(0, 1fr); gap: 2.5rem; }
nav { font-size: 0.9rem; display: flex; flex-direction: column; gap: 0.3rem; }
nav a { text-decoration: none; }
nav a[aria-current] { font-weight: 700; }
nav .planner { font-weight: 700; margin-bottom: 0.8rem; }
img { max-width: 100%; }
pre, .scroll { overflow-x: auto; }
pre { padding: 0.7rem; background: #8882; border-radius: 6px; }
table { border-collapse: collapse; font-size: 0.9rem; }
th, td { padding: 0.3rem 0.7rem; border: 1px solid #8885; text-align: left; vertical-align: top; }
@media (max-width: 50rem) { body { display: block; } nav { margin-bottom: 2rem; } }
</style>
</head>
<body>
<nav aria-label="Documents"><a class="planner" href="${up}/planner.html">Planner</a>${list.join('')}</nav>
<main>
${body}</main>
</body>
</html>
`;
}

for (const name of documents) {
  write(target(name), render(name));
}
write('planner.html', fs.readFileSync(planner));
for (const {from, to, fragment} of links) {
  if (!written.has(to) || (fragment !== undefined && !anchors.get(to).has(fragment))) {
    throw new Error(`${from} links to ${to}${fragment === undefined ? '' : `#${fragment}`}, which the site does not have`);
  }
}
console.log(`${written.size} files in ${output}, ${links.length} links between documents`);
