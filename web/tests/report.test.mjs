// The report in a browser: node --test tests/report.test.mjs, with the program in TRIREME, the browser in CHROMIUM. Screenshots go to
// SCREENSHOTS. Times are printed, not judged.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {becomes, isDrawn, launch, openPage} from './pages.mjs';

const program = path.resolve(process.env.TRIREME ?? '../build/cpu/trireme');
const root = path.resolve(process.env.TRIREME_ROOT ?? '..'); // of the repository, for recipes
const place = fs.mkdtempSync(path.join(os.tmpdir(), 'trireme-web-'));
const pictures = process.env.SCREENSHOTS ?? path.join(place, 'screenshots');
const hostile = '<img src=x onerror=document.title=1>';
let browser;

const trireme = (...words) => execFileSync(program, words, {cwd: root, stdio: ['ignore', 'pipe', 'inherit']}).toString();

function train(name, ...more) {
  trireme('train', 'recipes/quickstart.toml', '--run', path.join(place, name), '--steps', '24', '--set', 'data.source="synthetic"',
    '--set', 'validation.every=8', '--set', 'validation.samples=16', '--set', 'checkpoint.every=12', ...more);
}

// A folder of a run as train would have left it.
function invent(name, steps, start, events = []) {
  const folder = path.join(place, name);
  fs.mkdirSync(folder, {recursive: true});
  const rows = [];
  for (let step = 1; step <= steps; ++step) {
    const loss = 2 + 6 / Math.sqrt(1 + (step * 400) / steps) + 0.05 * Math.sin(step * start) + (events.some((event) => event.step === step) ? 3 : 0);
    rows.push(`{"step":${step},"loss":${loss.toFixed(4)},"grad_norm":${(0.5 + 0.2 * Math.cos(step)).toFixed(3)},"learning_rate":${(3e-4 * (1 - step / steps / 1.1)).toExponential(3)},"global_batch":16,"consumed_tokens":${step * 2048},"seconds":${(0.2 + 0.01 * Math.sin(step)).toFixed(4)},"tokens_per_second":${Math.round(9000 + 500 * Math.sin(step / 9))},"memory_bytes":10400000}`);
  }
  fs.writeFileSync(path.join(folder, 'metrics.jsonl'), rows.join('\n') + '\n');
  fs.writeFileSync(path.join(folder, 'events.jsonl'), events.map((event) => JSON.stringify({time: 1.7e9, ...event})).join('\n') + '\n');
  return folder;
}

async function open(file, options = {}) {
  const began = performance.now();
  const {page, troubles, context} = await openPage(browser, file, options);
  // Not waitForFunction: it evaluates text, which the page's policy forbids.
  await becomes(() => page.evaluate(() => document.documentElement.dataset.ready !== undefined && (document.querySelector('.chart canvas') !== null || document.querySelector('#curves').hidden)), 'the page is drawn');
  return {page, troubles, milliseconds: Math.round(performance.now() - began), context};
}

before(async () => {
  fs.mkdirSync(pictures, {recursive: true});
  browser = await launch();
});
after(async () => {
  await browser?.close();
  fs.rmSync(place, {recursive: true, force: true});
});

test('every view of real runs is drawn, from a file, without a request or an error', async () => {
  train('tp2-pp2-dp2', '--trace', '8-12');
  train('zero-3', '--set', 'layout.zero=3', '--set', 'layout.tensor=1', '--set', 'layout.pipeline=1', '--set', 'layout.data=4');
  invent(`tp4 ${hostile.replaceAll('/', '')}`, 24, 1.7, [
    {step: 12, kind: 'spike', text: `step 12: loss spike: ${hostile}`},
    {step: 18, kind: 'skip', text: 'step 18: not finite'},
    {step: 20, kind: 'start', text: 'resumed after step 20'},
  ]);
  const file = path.join(place, 'report.html');
  const timeline = path.join(place, 'pipeline.json');
  trireme('plan', '--model', 'gpt2-124m', '--cluster', 'dgx-a100', '--nodes', '1', '--global-batch', '64', '--layout', 'tp=1 pp=4 dp=2 mbs=2', '--timeline', timeline);
  const plan = path.join(place, 'plan.json');
  fs.writeFileSync(plan, trireme('plan', '--model', 'gpt2-124m', '--cluster', 'dgx-a100', '--nodes', '1', '--global-batch', '64', '--json'));
  const study = path.join(place, 'study.csv');
  fs.writeFileSync(study, 'case,sec/it,predicted,remark\nlayout.tensor=1,0.5,0.45,\nlayout.tensor=2,0.3,0.31,\nlayout.tensor=4,,,"out of memory: <b>9 GB</b>, there are 8"\n');
  trireme('report', place, timeline, plan, study, '--output', file);
  const {page, troubles, context} = await open(file);
  for (const id of ['runs', 'curves', 'seconds', 'studies', 'plans', 'timeline', 'memory', 'events', 'config', 'machine']) {
    assert.equal(await page.locator(`section#${id}`).count(), 1, `section ${id}`);
    await page.locator(`section#${id}`).scrollIntoViewIfNeeded();
    await page.waitForTimeout(150);
  }
  for (const chart of ['loss', 'validation', 'grad_norm', 'learning_rate', 'tokens_per_second', 'seconds']) {
    const canvas = page.locator(`[data-chart=${chart}] canvas`);
    await canvas.scrollIntoViewIfNeeded();
    await becomes(() => isDrawn(canvas), `${chart} is drawn`);
  }
  // What never changes is text; the spike of the third run is cut off and counted.
  assert.match(await page.locator('.constants').textContent(), /Memory of the fullest rank: .*Global batch: 16/);
  assert.ok(await page.locator('[data-chart=memory]').isHidden());
  assert.ok(await page.locator('section#predictions').isHidden());
  await becomes(() => isDrawn(page.locator('.timeline canvas').first()), 'the timeline is drawn');
  // One colour for a kind of work on the whole page; saves, validations and tensor collectives have theirs.
  const legend = page.locator('#timeline .legend').first();
  const swatches = await legend.evaluate((node) => Object.fromEntries([...node.querySelectorAll('.swatch')].map((mark) => [mark.nextSibling?.textContent.trim() ?? '', mark.style.background])));
  for (const kind of ['forward', 'backward', 'save', 'validate', 'tensor all-reduce', 'data reduce-scatter']) {
    assert.ok(kind in swatches, `${kind} in ${Object.keys(swatches)}`);
  }
  const bars = await page.locator('#seconds svg [fill]').evaluateAll((nodes) => nodes.map((node) => getComputedStyle(node).fill));
  for (const kind of ['forward', 'backward', 'optimizer']) {
    assert.ok(bars.includes(swatches[kind]) || kind === 'optimizer', `${kind}: ${swatches[kind]} in ${[...new Set(bars)]}`);
  }
  assert.match(await page.locator('#timeline .lead').first().textContent(), /^Measured, steps 8 to 12, a row per rank, .*; below predicted, a row per stage/);
  await becomes(async () => (await page.locator('#timeline').textContent()).includes('forward'), 'the timeline has a legend');
  await becomes(async () => (await page.locator('.timeline canvas').count()) === 2, 'timelines of the traced run and of the plan');
  for (const [shapes, least] of [['#memory svg rect', 9], ['#seconds svg rect', 5], ['#plans svg circle', 11], ['#studies svg circle', 2]]) {
    await becomes(async () => (await page.locator(`section${shapes}`).count()) >= least, `${shapes}: ${least} or more`);
  }
  assert.equal(await page.locator('section#studies svg circle').count(), 2);
  assert.ok((await page.locator('section#studies').textContent()).includes('<b>9 GB</b>'));
  // A hostile name is text everywhere.
  assert.equal(await page.locator('img').count(), 0);
  assert.ok((await page.locator('section#runs').textContent()).includes(hostile));
  assert.ok((await page.title()).endsWith('Trireme report'));
  // Equal ranks are one row; validation loss and differing settings are columns.
  await becomes(async () => (await page.locator('#memory').textContent()).includes('each of ranks 0-3, stage 0'), 'equal ranks are joined');
  const columns = await page.locator('#runs thead th').allTextContents();
  assert.ok(columns.includes('validation loss') && columns.includes('layout'), String(columns));
  // Only keys that differ, and on request all of them.
  const config = page.locator('section#config');
  await config.locator('tbody tr').first().waitFor();
  const differing = await config.locator('tbody tr').count();
  await config.getByLabel('every key').check();
  await becomes(async () => (await config.locator('tbody tr').count()) > differing, `more than the ${differing} keys that differ`);
  // Mouse: drag zooms all charts, a button shows everything again.
  const over = page.locator('[data-chart=loss] .u-over');
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * 0.3, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, {steps: 5});
  await page.mouse.up();
  const everything = page.getByRole('button', {name: 'Show everything'});
  await becomes(async () => (await everything.isEnabled()), 'zoomed in');
  await everything.click();
  await becomes(async () => !(await everything.isEnabled()), 'everything is shown');
  // Keyboard: + zooms, 0 shows everything; arrows choose the axis; space hides a run.
  await page.locator('[data-chart=loss]').focus();
  await page.keyboard.press('+');
  await becomes(async () => (await everything.isEnabled()), 'zoomed in');
  await page.keyboard.press('0');
  await becomes(async () => !(await everything.isEnabled()), 'everything is shown');
  await page.locator('#axis-step').focus();
  await page.keyboard.press('ArrowRight');
  assert.equal(await page.locator('#axis-tokens').isChecked(), true);
  await page.getByLabel('log scale').check();
  await page.locator('#smoothing').fill('0.9');
  await becomes(() => isDrawn(page.locator('[data-chart=loss] canvas')), 'the loss is drawn');
  await page.locator('section#runs tbody input').first().focus();
  await page.keyboard.press('Space');
  await becomes(async () => (await page.locator('section#runs [role=status]').textContent()).startsWith('2 of 3'), '2 of 3 runs are shown');
  // The address holds all of it: another reader sees the same.
  const address = new URL(page.url()).hash;
  assert.deepEqual(Object.fromEntries(new URLSearchParams(address.slice(1))), {axis: 'tokens', smooth: '0.9', log: '1', hide: '0'});
  const other = await open(`${file}${address}`);
  assert.equal(await other.page.locator('#axis-tokens').isChecked(), true);
  assert.equal(await other.page.getByLabel('log scale').isChecked(), true);
  assert.equal(await other.page.locator('#smoothing').inputValue(), '0.9');
  assert.match(await other.page.locator('section#runs [role=status]').textContent(), /^2 of 3/);
  assert.deepEqual(other.troubles, []);
  await other.context.close();
  await page.keyboard.press('Space');
  await page.locator('.timeline canvas').first().focus();
  await page.keyboard.press('+');
  await page.keyboard.press('ArrowRight');
  await becomes(() => isDrawn(page.locator('.timeline canvas').first()), 'the timeline is drawn');
  assert.deepEqual(troubles, []);
  await context.close();
});

// Runs on the project's own documents, for the pictures of docs/report.md.
function reportForPictures() {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'trireme-pictures-'));
  const text = path.join(folder, 'documents.txt');
  const pages = fs.readdirSync(path.join(root, 'docs')).filter((name) => name.endsWith('.md')).sort();
  fs.writeFileSync(text, pages.map((name) => fs.readFileSync(path.join(root, 'docs', name), 'utf8')).join('\n'));
  const learn = (name, ...more) =>
    trireme('train', 'recipes/quickstart.toml', '--run', path.join(folder, name), '--steps', '60', '--set', `data.source="${text}"`,
      '--set', 'model.vocabulary=256', '--set', 'validation.every=10', '--set', 'validation.samples=16', '--set', 'checkpoint.every=30', ...more);
  learn('gpt2-adamw', '--trace', '40');
  learn('gpt2-muon', '--set', 'optimizer.name="muon"');
  learn('gpt2-lion', '--set', 'optimizer.name="lion"', '--set', 'optimizer.learning_rate=6e-4');
  const file = path.join(place, 'pictures.html');
  trireme('report', folder, '--output', file);
  fs.rmSync(folder, {recursive: true});
  return file;
}

test('numbers and pictures are saved, and a run that has ended has no value in the tooltip', async () => {
  const short = invent(path.join('ends', 'short'), 40, 1.1);
  const long = invent(path.join('ends', 'long'), 400, 1.4);
  const file = path.join(place, 'ends.html');
  trireme('report', short, long, '--output', file);
  const {page, troubles, context} = await open(file, {acceptDownloads: true});
  const saved = async (name) => {
    const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', {name, exact: true}).click()]);
    return fs.readFileSync(await download.path());
  };
  const table = (await saved('Loss as a table')).toString().trim().split('\n');
  assert.equal(table[0], 'step,short,long');
  assert.equal(table.length, 401);
  assert.match(table[400], /^400,,[\d.]+$/);
  assert.deepEqual([...(await saved('Loss as a picture')).subarray(1, 4)], [...Buffer.from('PNG')]);
  assert.equal((await saved('Runs as a table')).toString().split('\n').length, 4);
  const box = await page.locator('[data-chart=loss] .u-over').boundingBox();
  const tip = page.locator('[data-chart=loss] .tip');
  await page.mouse.move(box.x + box.width * 0.05, box.y + 80);
  await becomes(async () => (await tip.textContent()).includes('short'), 'both runs have values at step 20');
  await page.mouse.move(box.x + box.width * 0.15, box.y + 80);
  await becomes(async () => (await tip.textContent()).includes('long'), 'the long run has a value at step 60');
  assert.doesNotMatch(await tip.textContent(), /short/);
  assert.deepEqual(troubles, []);
  await context.close();
});

// Sixteen texts in twelve places, all of them shown as text.
test('hostile texts stay text wherever they are', async () => {
  const texts = ['<script>document.title=1</script>', '<img src=x onerror=document.title=1>', '"><svg onload=document.title=1>', '</script><script>document.title=1</script>', '<!--', '</title><b>', "' onmouseover='document.title=1", 'javascript:document.title=1', '<a href=javascript:document.title=1>x</a>', '${document.title=1}', '{{constructor.constructor("document.title=1")()}}', '&lt;b&gt;', '<iframe srcdoc="<script>parent.document.title=1</script>">', '<style>*{display:none}</style>', '\u202e<b>', '<math><mtext><img src onerror=document.title=1>'];
  const paths = texts.map((text, i) => {
    const folder = invent(path.join('hostile', `${text.replaceAll('/', '∕')} ${i}`), 8, 1 + i / 9, [{step: 3, kind: text, text}]);
    const memory = [{rank: 0, stage: 0, kinds: {[text]: 5 + i}}];
    fs.writeFileSync(path.join(folder, 'memory.json'), JSON.stringify({measured: memory, planned: memory}));
    fs.writeFileSync(path.join(folder, 'machine.json'), JSON.stringify({[text]: text, system: {host: text}}));
    fs.writeFileSync(path.join(folder, 'prediction.json'), JSON.stringify({seconds: 0.2, knowledge: text, causes: {forward: 0.1}}));
    fs.writeFileSync(path.join(folder, 'trace.json'), JSON.stringify({traceEvents: [
      {name: 'process_name', ph: 'M', pid: 1, args: {name: text}}, {name: 'thread_name', ph: 'M', pid: 1, tid: 1, args: {name: text}},
      {name: text, cat: text, ph: 'X', pid: 1, tid: 1, ts: 0, dur: 90}]}));
    return folder;
  });
  const study = path.join(place, 'hostile.csv');
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
  fs.writeFileSync(study, `case,${texts.map(quoted).join(',')}\n${texts.map((text) => [text, ...texts].map(quoted).join(',')).join('\n')}\n`);
  const plan = path.join(place, 'hostile.json');
  fs.writeFileSync(plan, JSON.stringify({ranked: texts.map((text, i) => ({layout: text, seconds: 1 + i, peak_gib: 2 + i, [text]: text}))}));
  const file = path.join(place, 'hostile.html');
  trireme('report', ...paths, study, plan, '--output', file);
  const {page, troubles, context} = await open(file);
  for (const id of ['runs', 'curves', 'studies', 'plans', 'timeline', 'memory', 'events', 'config', 'machine']) {
    await page.locator(`section#${id}`).scrollIntoViewIfNeeded();
    await page.waitForTimeout(100);
  }
  await becomes(async () => (await page.locator('#memory svg').count()) > 0, 'memory is drawn');
  assert.equal(await page.locator('#app').locator('script, img, iframe, math, [onload], [onerror], [onmouseover], a[href^="javascript"]').count(), 0);
  assert.equal(await page.locator('#app style').evaluateAll((styles) => styles.filter((style) => style.textContent.includes('{display:none}')).length), 0);
  assert.notEqual(await page.title(), '1');
  for (const id of ['studies', 'plans', 'events']) {
    const shown = await page.locator(`section#${id}`).textContent();
    for (const text of texts) {
      assert.ok(shown.includes(text), `${id} shows ${text}`);
    }
  }
  assert.deepEqual(troubles, []);
  await context.close();
});

test('screenshots at three sizes, light and dark', async () => {
  const file = reportForPictures();
  const shots = [
    ['wide', {viewport: {width: 1440, height: 900}}],
    ['tablet', {viewport: {width: 820, height: 1180}, colorScheme: 'dark'}],
    ['phone', {viewport: {width: 390, height: 844}, deviceScaleFactor: 2, isMobile: true, hasTouch: true}],
  ];
  for (const [name, options] of shots) {
    const {page, troubles, context} = await open(file, options);
    const height = await page.evaluate(() => document.body.scrollHeight);
    for (let top = 0; top < height; top += 600) {
      await page.evaluate((y) => window.scrollTo({top: y, behavior: 'instant'}), top);
      await page.waitForTimeout(60);
    }
    await page.evaluate(() => window.scrollTo({top: 0, behavior: 'instant'}));
    await page.waitForTimeout(200);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${name}: the page is ${wide} pixels wider than the screen`);
    await page.screenshot({path: path.join(pictures, `report-${name}.png`)});
    await page.screenshot({path: path.join(pictures, `report-${name}-whole.png`), fullPage: true});
    assert.deepEqual(troubles, []);
    await context.close();
  }
});

test('printing shows every curve', async () => {
  const {page, context} = await open(path.join(place, 'report.html'));
  const pdf = await page.pdf({format: 'A4'});
  assert.ok(pdf.length > 50_000, `${pdf.length} bytes of PDF`);
  await context.close();
});

test('a million points, a thousand runs, 384 stages', async () => {
  const many = path.join(place, 'many');
  for (let i = 0; i < 1000; ++i) {
    invent(path.join('many', `run-${String(i).padStart(4, '0')}`), 200, 1 + i / 1000);
  }
  invent(path.join('long', 'long'), 800_000, 1.3);
  const events = [{name: 'process_name', ph: 'M', pid: 1, args: {name: 'predicted'}}];
  for (let stage = 0; stage < 384; ++stage) {
    events.push({name: 'thread_name', ph: 'M', pid: 1, tid: stage + 1, args: {name: `stage ${stage}`}});
    for (let i = 0; i < 256; ++i) {
      events.push({name: 'forward', cat: i % 2 ? 'backward' : 'forward', ph: 'X', pid: 1, tid: stage + 1, ts: stage * 10 + i * 100, dur: 90, args: {micro_batch: i >> 1}});
    }
  }
  const trace = path.join(place, 'stages.json');
  fs.writeFileSync(trace, JSON.stringify({traceEvents: events}));
  for (const [what, paths] of [['1,000 runs of 200 steps', [many]], ['800,000 steps of one run', [path.join(place, 'long')]], ['384 stages', [trace]]]) {
    const file = path.join(place, 'large.html');
    const began = performance.now();
    trireme('report', ...paths, '--output', file);
    const written = performance.now() - began;
    const {page, troubles, milliseconds, context} = await open(file);
    console.log(`${what}: written in ${(written / 1000).toFixed(1)} s, ${(fs.statSync(file).size / 1e6).toFixed(1)} MB, drawn in ${milliseconds} ms`);
    if (what.includes('stages')) {
      await page.locator('.timeline canvas').first().scrollIntoViewIfNeeded();
      await becomes(() => isDrawn(page.locator('.timeline canvas').first()), 'the timeline is drawn');
    } else {
      const zoomed = performance.now();
      await page.locator('[data-chart=loss]').focus();
      await page.keyboard.press('+');
      await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
      console.log(`${what}: a zoom takes ${Math.round(performance.now() - zoomed)} ms`);
      await becomes(() => isDrawn(page.locator('[data-chart=loss] canvas')), 'the loss is drawn');
    }
    assert.deepEqual(troubles, []);
    await context.close();
  }
});
