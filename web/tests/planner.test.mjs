// The planner's page in a browser: node --test tests/planner.test.mjs, with the program in TRIREME, the browser in CHROMIUM. Screenshots go
// to SCREENSHOTS. Times are printed, not judged.
import assert from 'node:assert/strict';
import {execFile, execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {promisify} from 'node:util';
import {becomes, isDrawn, launch, openPage} from './pages.mjs';

const program = path.resolve(process.env.TRIREME ?? '../build/cpu/trireme');
const root = path.resolve(process.env.TRIREME_ROOT ?? '..'); // of the repository, for clusters, models and stacks
const place = fs.mkdtempSync(path.join(os.tmpdir(), 'trireme-planner-'));
const pictures = process.env.SCREENSHOTS ?? path.join(place, 'screenshots');
const file = path.join(place, 'planner.html');
const questions = Number(process.env.QUESTIONS ?? 50);
let browser;

async function open(options = {}, address = '') {
  const {page, troubles, context} = await openPage(browser, file + address, options);
  // Not waitForFunction: it evaluates text, which the page's policy forbids.
  await becomes(() => page.evaluate(() => document.documentElement.dataset.ready !== undefined), 'the first ranking');
  return {page, troubles, context};
}

const status = (page) => page.locator('#question [role=status]').textContent();
const ranked = (page) => page.locator('#ranking tbody tr');
// Until the answer to the last change is shown.
const settled = (page, what) => becomes(async () => /layouts considered|[^…]$/.test(await status(page)) && !(await status(page)).startsWith('Ranking'), what);

before(async () => {
  fs.mkdirSync(pictures, {recursive: true});
  execFileSync(program, ['plan', '--page', file], {cwd: root, stdio: 'inherit'});
  browser = await launch();
});
after(async () => {
  await browser?.close();
  fs.rmSync(place, {recursive: true, force: true});
});

test('every view is drawn, from a file, without a request or an error', async () => {
  const {page, troubles, context} = await open();
  console.log(`planner page: ${(fs.statSync(file).size / 1e6).toFixed(1)} MB; first ranking shown ${await page.evaluate(() => document.documentElement.dataset.ready)} ms after the page began`);
  console.log(`first ranking: ${await status(page)}`);
  assert.equal(await ranked(page).count(), 15);
  for (const id of ['question', 'ranking', 'scatter', 'layout', 'memory', 'timeline', 'explanation', 'recipe', 'days']) {
    assert.equal(await page.locator(`section#${id}`).count(), 1, `section ${id}`);
  }
  for (const [shapes, least] of [['#scatter svg circle', 16], ['#layout svg rect', 3], ['#memory svg rect', 4]]) {
    await page.locator(shapes.split(' ')[0]).scrollIntoViewIfNeeded();
    await becomes(async () => (await page.locator(shapes).count()) >= least, `${shapes}: ${least} or more`);
  }
  await page.locator('#timeline canvas').scrollIntoViewIfNeeded();
  await becomes(() => isDrawn(page.locator('#timeline canvas')), 'the timeline is drawn');
  assert.match(await page.locator('#explanation-text').textContent(), /single changes that would gain/);
  assert.match(await page.locator('#recipe-text').textContent(), /\[model\]|model\./);
  assert.match(await page.locator('#job-text').textContent(), /#SBATCH/);
  await page.locator('#days').scrollIntoViewIfNeeded();
  await becomes(async () => (await page.locator('#days-status').textContent()).includes('perfect scaling'), 'days against devices');
  await becomes(async () => (await page.locator('#days svg circle').count()) >= 4, 'points of days against devices');

  // Mouse: another layout, from the table and from the scatter; the copy button.
  const second = await page.locator('#ranking .choose').nth(1).textContent();
  await page.locator('#ranking .choose').nth(1).click();
  await becomes(async () => (await page.locator('#chosen').textContent()) === second, 'the second layout is shown');
  assert.match(await page.locator('#layout-command').textContent(), /--layout "/);
  const point = page.locator('#scatter svg circle').last();
  await point.scrollIntoViewIfNeeded();
  await point.hover({force: true});
  await point.click({force: true});
  await becomes(async () => (await page.locator('#chosen').textContent()) !== second, 'a click on the scatter chooses');
  await page.locator('#recipe .copy').first().click();
  await becomes(async () => (await page.locator('#recipe .copy').first().textContent()) === 'Copied', 'the recipe is copied');

  // Keyboard: arrows go through the ranking; sliders, lists and boxes.
  await page.locator('#ranking .choose').first().focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('ArrowDown');
  await becomes(async () => (await page.locator('#chosen').textContent()) === second, 'the arrow key chooses the second layout');
  const title = async () => page.evaluate(() => window.trireme.question().options);
  await page.locator('#nodes').focus();
  await page.keyboard.press('ArrowRight');
  await settled(page, 'more nodes');
  assert.equal((await title()).nodes, 6);
  await page.keyboard.press('ArrowLeft');
  await page.locator('#batch').focus();
  await page.keyboard.press('ArrowRight');
  await page.locator('#micro').focus();
  await page.keyboard.press('ArrowRight');
  await settled(page, 'a batch of 8, micro batch 1');
  assert.deepEqual(await title(), {nodes: 4, 'global-batch': 8, tokens: 1e12, fix: 'mbs=1', rows: 40});
  await becomes(async () => (await ranked(page).first().textContent()).includes('mbs1') || (await status(page)).startsWith('No layout'), 'micro batch 1 is held');

  // Another model, a pasted one, and mistakes: the planner's own words, as text.
  await page.locator('#micro').fill('0');
  await page.locator('#model').selectOption('bloom-7b1');
  await settled(page, 'bloom');
  await becomes(async () => (await page.locator('#about').textContent()).startsWith('bloom'), 'bloom is described');
  await page.locator('#model').selectOption('pasted');
  await page.locator('#config').fill('{"model_type": "llama<img src=x onerror=document.title=1>"}');
  await page.locator('#config').blur();
  await becomes(async () => (await status(page)).includes('llama<img'), 'a mistake is told');
  assert.equal(await page.locator('img').count(), 0);
  await page.locator('#config').fill(JSON.stringify({model_type: 'llama', hidden_size: 2048, intermediate_size: 5632, num_hidden_layers: 16, num_attention_heads: 16, num_key_value_heads: 8, vocab_size: 32000, max_position_embeddings: 2048, tie_word_embeddings: false, rms_norm_eps: 1e-5, hidden_act: 'silu'}));
  await page.locator('#config').blur();
  await becomes(async () => (await page.locator('#about').textContent()).includes('16 layers, hidden 2048, 16 heads (8 of keys)'), 'the pasted model is described');
  await page.locator('#fix').fill('tp=3');
  await page.locator('#fix').blur();
  await becomes(async () => (await status(page)).startsWith('No layout fits'), 'nothing fits');
  assert.deepEqual(troubles, []);
  await context.close();
});

test('the address holds the question, and a mistake is not taken for a lack of layouts', async () => {
  const first = await openPage(browser, `${file}#model=llama-3-70b&nodes=8&fix=tp%3D4`);
  assert.doesNotMatch(await first.page.locator('main').textContent(), /No layout fits|None fits/);
  await becomes(async () => (await ranked(first.page).count()) > 3, 'the ranking of the address');
  assert.equal(await first.page.locator('#model').inputValue(), 'llama-3-70b');
  assert.equal(await first.page.locator('#fix').inputValue(), 'tp=4');
  assert.equal((await first.page.evaluate(() => window.trireme.question())).options.nodes, 8);
  await first.page.locator('#ranking .choose').nth(2).click();
  const layout = await first.page.locator('#ranking .choose').nth(2).textContent();
  await becomes(async () => (await first.page.locator('#chosen').textContent()) === layout, 'the third layout is shown');
  const address = new URL(first.page.url()).hash;
  assert.deepEqual(Object.fromEntries(new URLSearchParams(address.slice(1))), {model: 'llama-3-70b', fix: 'tp=4', nodes: '8', layout});
  const second = await open({}, address);
  await becomes(async () => (await second.page.locator('#chosen').textContent()) === layout, 'the same layout for another reader');
  await second.page.locator('#fix').fill('tp=four');
  await second.page.locator('#fix').blur();
  await becomes(async () => (await status(second.page)).includes('four'), 'the mistake is told');
  await becomes(async () => (await second.page.locator('#chosen').textContent()).startsWith('There is no answer'), 'the layout says so');
  assert.doesNotMatch(await second.page.locator('main').textContent(), /No layout fits|None fits/);
  for (const {troubles, context} of [first, second]) {
    assert.deepEqual(troubles, []);
    await context.close();
  }
});

test('screenshots at three sizes, light and dark', async () => {
  // The part that is photographed, and which layout of the ranking is shown.
  const shots = [
    ['wide', '#question', 0, {viewport: {width: 1440, height: 900}}],
    ['tablet', '#scatter', 3, {viewport: {width: 820, height: 1180}, colorScheme: 'dark'}],
    ['phone', '#layout', 3, {viewport: {width: 390, height: 844}, deviceScaleFactor: 2, isMobile: true, hasTouch: true}],
  ];
  for (const [name, part, place, options] of shots) {
    const {page, troubles, context} = await open(options);
    await page.locator('#model').selectOption('llama-3-70b');
    await page.locator('#cluster').selectOption('dgx-h100');
    await page.locator('.slide input[type=number]').first().fill('8');
    await page.locator('.slide input[type=number]').first().blur();
    await settled(page, 'the ranking');
    const layout = page.locator('#ranking .choose').nth(place);
    await layout.click();
    await becomes(async () => (await page.locator('#chosen').textContent()) === (await layout.textContent()), 'the layout is shown');
    const height = await page.evaluate(() => document.body.scrollHeight);
    for (let top = 0; top < height; top += 600) {
      await page.evaluate((y) => window.scrollTo({top: y, behavior: 'instant'}), top);
      await page.waitForTimeout(60);
    }
    // Searching every allocation takes a while: one picture waits for it.
    await becomes(async () => (name === 'wide' ? (await page.locator('#days-status').textContent()).includes('perfect scaling') : (await page.locator('#days svg circle').count()) >= 4), 'days against devices');
    await page.evaluate((at) => document.querySelector(at).scrollIntoView({behavior: 'instant'}), part);
    await page.waitForTimeout(200);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${name}: the page is ${wide} pixels wider than the screen`);
    await page.screenshot({path: path.join(pictures, `planner-${name}.png`)});
    await page.screenshot({path: path.join(pictures, `planner-${name}-whole.png`), fullPage: true});
    assert.deepEqual(troubles, []);
    await context.close();
  }
});

// A generator that every machine repeats (mulberry32).
function randomNumbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

test(`numbers are the command's in every printed digit, on ${questions} drawn questions`, async () => {
  const random = randomNumbers(22);
  const pick = (list) => list[Math.floor(random() * list.length)];
  const names = (folder) => fs.readdirSync(path.join(root, folder)).filter((name) => name.endsWith('.toml')).map((name) => name.slice(0, -5)).sort();
  const text = (folder, name) => fs.readFileSync(path.join(root, folder, `${name}.toml`), 'utf8');
  const [models, clusters, stacks] = [names('models'), names('clusters'), names('stacks')];
  const {page, troubles, context} = await open();
  const run = promisify(execFile);
  let [layouts, errors] = [0, 0];
  for (let i = 0; i < questions; ++i) {
    const [model, cluster, stack] = [pick(models), pick(clusters), random() < 0.5 ? 'trireme' : pick(stacks)];
    const options = {nodes: pick([1, 1, 2, 3, 4])};
    const perhaps = (chance, name, value) => random() < chance && (options[name] = value);
    perhaps(0.7, 'global-batch', pick([16, 48, 64, 128, 256]));
    perhaps(0.6, 'tokens', pick([1e9, 3e11, 15e12]));
    perhaps(0.3, 'sequence', pick([1024, 2048, 4096]));
    perhaps(0.3, 'fix', pick(['mbs=1', 'tp=2', 'zero=1', 'recompute=full', 'pp=2 mbs=1', 'sp=1 tp=2']));
    perhaps(0.2, 'dtype', pick(['fp16', 'fp32']));
    perhaps(0.2, 'optimizer', pick(['muon', 'lion', 'sgd']));
    perhaps(0.2, 'ramp', '16,16,100000');
    perhaps(0.2, 'rows', 30);
    perhaps(0.3, 'headroom', 0.1);
    options.estimate = options.tokens !== undefined && random() < 0.5;
    const ask = (more) => page.evaluate((question) => window.trireme.ask(question).catch((error) => ({error: error.message})),
      {cluster: text('clusters', cluster), stack: text('stacks', stack), model: {recipe: text('models', model)}, options: {...options, ...more}});
    const command = async (more) => {
      const words = ['plan', '--model', model, '--cluster', cluster, '--stack', stack, '--threads', '1'];
      for (const [name, value] of Object.entries({...options, ...more})) {
        words.push(...(value === true ? [`--${name}`] : value === false ? [] : [`--${name}`, String(value)]));
      }
      const read = async (...last) => run(program, [...words, ...last], {cwd: root, maxBuffer: 1 << 28}).catch((error) => error);
      const text = await read();
      // What --json prints takes a second search: of every other question.
      const json = i % 2 === 0 ? (await read('--json')).stdout : '';
      return {text: text.stdout, errors: text.stderr, json: json === '' ? null : JSON.parse(json), code: text.code ?? 0};
    };
    const same = async (more) => {
      const [here, there] = [await ask(more), await command(more)];
      const what = `question ${i}: ${model} on ${cluster} with ${stack}, ${JSON.stringify({...options, ...more})}`;
      if (here.error !== undefined) {
        ++errors;
        assert.equal(there.code, 2, `${what}: the page says ${here.error}`);
        // The page has no paths: what the command says of a file it says of its text.
        assert.ok(there.errors.includes(here.error.replace(/^the (model|cluster|stack)'s file/, '')), `${what}: ${here.error}; the command: ${there.errors}`);
        return null;
      }
      assert.equal(here.text, there.text, what);
      if (there.json !== null) {
        assert.deepEqual(here.json, there.json, what);
      }
      return here;
    };
    const ranking = await same({});
    const layout = ranking?.json.ranked?.[0]?.layout;
    if (layout !== undefined) {
      ++layouts;
      await same({layout});
    }
  }
  // Nobody has scrolled to the last plot or changed the page's own question meanwhile.
  await becomes(async () => (await page.locator('#days-status').textContent()) !== '', 'the search for days against devices of a question that rests');
  console.log(`${questions} questions: ${layouts} layouts explained, ${errors} refused by both`);
  assert.ok(layouts >= questions / 4, `${layouts} layouts`);
  assert.deepEqual(troubles, []);
  await context.close();
});
