// The live page in a browser: node --test tests/watch.test.mjs, with the program in TRIREME, the browser in CHROMIUM. A run starts, saves,
// hangs (its process is stopped) and goes on; the page follows.
import assert from 'node:assert/strict';
import {spawn} from 'node:child_process';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import {after, before, test} from 'node:test';
import {becomes, isDrawn, launch, openPage} from './pages.mjs';

const program = path.resolve(process.env.TRIREME ?? '../build/cpu/trireme');
const root = path.resolve(process.env.TRIREME_ROOT ?? '..'); // of the repository, for recipes
const place = fs.mkdtempSync(path.join(os.tmpdir(), 'trireme-watch-'));
const pictures = process.env.SCREENSHOTS ?? path.join(place, 'screenshots');
const started = [];
let browser;

before(async () => {
  fs.mkdirSync(pictures, {recursive: true});
  browser = await launch();
});
after(async () => {
  await browser?.close();
  for (const child of started) {
    child.kill('SIGCONT');
    child.kill('SIGKILL');
  }
  fs.rmSync(place, {recursive: true, force: true});
});

function start(...words) {
  const child = spawn(program, words, {cwd: root, stdio: ['ignore', 'pipe', 'inherit']});
  child.text = '';
  child.stdout.on('data', (data) => (child.text += data));
  child.ended = new Promise((done) => child.on('exit', done));
  started.push(child);
  return child;
}

async function watch(...paths) {
  const child = start('watch', ...paths);
  await becomes(() => /http:\/\/\S+\//.test(child.text), 'the address is printed');
  return {child, address: /http:\/\/\S+\//.exec(child.text)[0]};
}

const statusOf = (address, headers = {}, method = 'GET') => new Promise((done, failed) => {
  const request = http.request(address, {headers, method}, (answer) => {
    answer.resume();
    done(answer.statusCode);
  });
  request.on('error', failed);
  request.end();
});

test('a run that starts, saves, hangs and goes on is followed', async () => {
  const runs = path.join(place, 'runs');
  fs.mkdirSync(runs);
  const {child: server, address} = await watch(runs);
  assert.match(server.text, /ssh -N -L/);
  const {page, troubles, context} = await openPage(browser, address);
  await becomes(async () => (await page.locator('.live').textContent()).startsWith('live, '), 'the page is live before there is a run');
  const run = start('train', 'recipes/quickstart.toml', '--run', path.join(runs, 'first'), '--steps', '120', '--set', 'data.source="synthetic"',
    '--set', 'validation.every=20', '--set', 'validation.samples=8', '--set', 'checkpoint.every=20');
  const row = page.locator('#runs tbody tr');
  const steps = async () => ((await row.count()) === 1 ? Number(/(\d+)( of 120)?/.exec(await row.locator('td').nth(3).textContent())?.[1] ?? 0) : 0);
  await becomes(async () => (await steps()) > 3, 'steps appear');
  await becomes(() => isDrawn(page.locator('[data-chart=loss] canvas')), 'the loss is drawn');
  await becomes(async () => (await row.textContent()).includes('training'), 'the run is training');
  await page.locator('#events').scrollIntoViewIfNeeded();
  await becomes(async () => (await page.locator('#events').textContent()).includes('checkpoint of step 20'), 'the save is an event');
  const before = await steps();
  await becomes(async () => (await steps()) > before, 'steps go on');
  run.kill('SIGSTOP');
  await becomes(async () => /no step for \d+ s; one takes/.test(await row.textContent()), 'the hang is told');
  assert.ok((await row.locator('.wrong').count()) === 1);
  await page.evaluate(() => window.scrollTo({top: 0, behavior: 'instant'}));
  await page.screenshot({path: path.join(pictures, 'watch-hangs.png')});
  const stopped = await steps();
  run.kill('SIGCONT');
  await becomes(async () => (await steps()) > stopped, 'the run goes on');
  await becomes(async () => (await row.locator('.wrong').count()) === 0, 'the hang is over');
  await run.ended;
  await becomes(async () => (await row.textContent()).includes('finished') && (await steps()) === 120, 'the run is finished');
  assert.equal(await page.locator('#curves').isVisible(), true);
  // What the page gathered by and by is what a page that is opened now holds.
  const csvOf = (one) => one.evaluate(() => document.querySelector('#runs tbody').innerText.replace(/\s+/g, ' '));
  const second = await openPage(browser, address);
  await becomes(async () => (await second.page.locator('#runs tbody').textContent()).includes('finished'), 'a page that is opened later');
  assert.equal(await csvOf(page), await csvOf(second.page));
  assert.deepEqual(second.troubles, []);
  await second.context.close();
  assert.deepEqual(troubles, []);
  server.kill();
  await server.ended;
  await becomes(async () => (await page.locator('.live').textContent()).startsWith('no answer for'), 'the page says that nobody answers');
  await context.close();
});

test('only the token and a name of this machine open it', async () => {
  const folder = path.join(place, 'some');
  fs.mkdirSync(folder);
  fs.writeFileSync(path.join(folder, 'metrics.jsonl'), '{"step":1,"loss":2.5,"seconds":0.1}\n');
  const {child, address} = await watch(folder);
  const {origin, port} = new URL(address);
  assert.equal(new URL(address).hostname, '127.0.0.1');
  assert.match(new URL(address).pathname, /^\/[0-9a-f]{32}\/$/);
  assert.equal(await statusOf(address), 200);
  assert.equal(await statusOf(`${address}changes?since=0`), 200);
  assert.equal(await statusOf(address, {Host: `localhost:${port}`}), 200);
  assert.equal(await statusOf(address, {Host: `evil.example:${port}`}), 403);
  assert.equal(await statusOf(address, {}, 'POST'), 405);
  for (const other of ['/', '/changes', `/${'0'.repeat(32)}/`, '/metrics.jsonl']) {
    assert.equal(await statusOf(origin + other), 404, other);
  }
  for (const other of ['metrics.jsonl', '../some/metrics.jsonl', '%2e%2e/%2e%2e/etc/passwd', 'changes/']) {
    assert.equal(await statusOf(address + other), 404, other);
  }
  const again = await watch(folder);
  assert.notEqual(new URL(again.address).pathname, new URL(address).pathname);
  for (const one of [child, again.child]) {
    one.kill();
    await one.ended;
  }
});
