// The page of answers in a browser, which programs without the planner's module write: node --test tests/answers.test.mjs, with the
// program in TRIREME, the browser in CHROMIUM.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {becomes, isDrawn, launch, openPage} from './pages.mjs';

const program = path.resolve(process.env.TRIREME ?? '../build/cpu/trireme');
const root = path.resolve(process.env.TRIREME_ROOT ?? '..'); // of the repository, for clusters, models and stacks
const place = fs.mkdtempSync(path.join(os.tmpdir(), 'trireme-answers-'));
const pictures = process.env.SCREENSHOTS ?? path.join(place, 'screenshots');
const file = path.join(place, 'plan.html');
const question = ['--model', 'gpt2-124m', '--cluster', 'dgx-a100', '--nodes', '2', '--global-batch', '256', '--tokens', '3e11'];
let browser;

const plan = (...words) => execFileSync(program, ['plan', ...question, ...words], {cwd: root, stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 28}).toString();

before(async () => {
  fs.mkdirSync(pictures, {recursive: true});
  plan('--page', file, '--answers');
  browser = await launch();
});
after(async () => {
  await browser?.close();
  fs.rmSync(place, {recursive: true, force: true});
});

async function open(address = file, options = {}) {
  const opened = await openPage(browser, address, options);
  await becomes(() => opened.page.evaluate(() => document.documentElement.dataset.layout !== undefined), 'the first layout is shown');
  return opened;
}

test('ranking, scatter, stages, timeline and days of one question, with the numbers of the command', async () => {
  const {page, troubles, context} = await open();
  console.log(`page of answers: ${(fs.statSync(file).size / 1e6).toFixed(1)} MB`);
  const ranked = JSON.parse(plan('--json', '--rows', '40')).ranked;
  const rows = page.locator('#ranking tbody tr');
  assert.equal(await rows.count(), Math.min(15, ranked.length));
  assert.match(await rows.first().textContent(), new RegExp(ranked[0].seconds.toFixed(3)));
  assert.equal(await page.locator('#chosen').textContent(), ranked[0].layout);
  assert.match(await page.locator('#command').textContent(), /^trireme plan --cluster dgx-a100 .*--model gpt2-124m/);
  for (const [shapes, least] of [['#scatter svg circle', ranked.length], ['#layout svg rect', 3], ['#memory svg rect', 3], ['#days svg circle', 3]]) {
    await page.locator(shapes.split(' ')[0]).scrollIntoViewIfNeeded();
    await becomes(async () => (await page.locator(shapes).count()) >= least, `${shapes}: ${least} or more`);
  }
  await page.locator('#timeline canvas').scrollIntoViewIfNeeded();
  await becomes(() => isDrawn(page.locator('#timeline canvas')), 'the timeline is drawn');
  assert.equal(await page.locator('#explanation-text').textContent(), plan('--layout', ranked[0].layout, '--estimate'));
  assert.match(await page.locator('#recipe-text').textContent(), /\[model\]/);
  // Another layout, whose address shows it again; one beyond those that are explained says what to run.
  await page.locator('#ranking .choose').nth(2).click();
  await becomes(async () => (await page.locator('#chosen').textContent()) === ranked[2].layout, 'the third layout');
  await becomes(async () => new URL(page.url()).hash.includes('layout='), 'the address holds it');
  const again = await open(`${file}${new URL(page.url()).hash}`);
  await becomes(async () => (await again.page.locator('#chosen').textContent()) === ranked[2].layout, 'the third layout by address');
  await again.context.close();
  await page.locator('#ranking .choose').nth(12).click();
  await becomes(async () => (await page.locator('#explanation-text').textContent()).includes('--layout "'), 'the command for a layout that is not explained');
  assert.deepEqual(troubles, []);
  await page.screenshot({path: path.join(pictures, 'answers-whole.png'), fullPage: true});
  await context.close();
});
