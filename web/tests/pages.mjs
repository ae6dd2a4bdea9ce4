// What the tests of both pages share: a browser, a page that reports its troubles, and waiting for what is drawn late.
import assert from 'node:assert/strict';
import {pathToFileURL} from 'node:url';
import {chromium} from 'playwright-core';

export const launch = () =>
  chromium.launch({executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu']});

// Opens a page from a file, or one that is served. `troubles` gathers errors and requests that leave the file or the server.
export async function openPage(browser, place, options = {}) {
  const address = place.startsWith('http:') ? place : pathToFileURL(place.split('#')[0]).href + place.slice(place.split('#')[0].length);
  const own = (url) => /^(data|blob):/.test(url) || (place.startsWith('http:') ? new URL(url).origin === new URL(place).origin : url.startsWith('file:'));
  const context = await browser.newContext({viewport: {width: 1440, height: 900}, ...options});
  const page = await context.newPage();
  const troubles = [];
  page.on('console', (message) => message.type() === 'error' && troubles.push(message.text()));
  page.on('pageerror', (error) => troubles.push(String(error)));
  page.on('request', (request) => !own(request.url()) && troubles.push(`request: ${request.url()}`));
  await page.goto(address);
  return {page, troubles, context};
}

// Views are drawn when they come near the screen, and answers come from another thread: waits until `check` holds.
export async function becomes(check, what) {
  for (const end = performance.now() + 120_000; performance.now() < end; await new Promise((done) => setTimeout(done, 50))) {
    if (await check()) {
      return;
    }
  }
  assert.fail(`after 120 s: ${what}`);
}

// Whether a canvas shows more than a few colours.
export const isDrawn = (locator) => locator.evaluate((canvas) => {
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < pixels.length; i += 4) {
    seen.add(pixels[i] * 16777216 + pixels[i + 1] * 65536 + pixels[i + 2] * 256 + pixels[i + 3]);
  }
  return seen.size > 3;
});
