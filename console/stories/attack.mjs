import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { chromium } from 'playwright-core';
import { account, api, ask, executablePath, flags, key, of, signIn, unique } from './lib.mjs';

/** Runs a test with a page of another origin, on another port of this machine. The browser treats it as the same site and sends it the session cookie. */
async function withForeignPage(run) {
  const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>Elsewhere</title><p>Elsewhere'));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const browser = await chromium.launch({ executablePath, args: flags });
  try {
    const context = await browser.newContext();
    await signIn(await context.newPage(), key);
    const page = await context.newPage();
    await page.goto(`http://127.0.0.1:${server.address().port}/`);
    await run(page, context);
  } finally {
    await browser.close();
    server.close();
  }
}

test('a page of another origin reads nothing and changes nothing by the session', { timeout: 120_000 }, async () => {
  await withForeignPage(async (page) => {
    const name = unique('stolen');
    const answers = [];
    page.on('response', (response) => answers.push([response.request().method(), response.status()]));
    const read = await page.evaluate(async ({ api, account, name }) => {
      const outcomes = [];
      const attempt = async (path, init) => {
        try {
          const response = await fetch(api + path, { credentials: 'include', ...init });
          outcomes.push(response.type === 'opaque' ? 'opaque' : `${response.status} ${await response.text()}`);
        } catch {
          outcomes.push('refused');
        }
      };
      const buckets = `/v1/accounts/${account}/key-buckets`;
      const body = JSON.stringify({ name });
      await attempt('/v1/session');
      await attempt('/v1/session', { mode: 'no-cors' });
      await attempt(buckets);
      // Without a preflight, as a form could send it.
      await attempt(buckets, { method: 'POST', mode: 'no-cors', headers: { 'content-type': 'text/plain' }, body });
      await attempt(buckets, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
      await attempt('/v1/session', { method: 'DELETE' });
      return outcomes;
    }, { api, account, name });
    for (const outcome of read) assert.ok(!outcome.startsWith('2'), `another origin read ${outcome}`);
    await assert.rejects(ask('GET', of(`/key-buckets/${name}`)), /404/);
    assert.ok(!answers.some(([method, status]) => method !== 'OPTIONS' && status >= 200 && status < 300), JSON.stringify(answers));
  });
});

test('a form of another origin that sends itself changes nothing', { timeout: 120_000 }, async () => {
  await withForeignPage(async (page) => {
    const name = unique('stolen');
    const answer = page.waitForResponse((response) => response.request().method() === 'POST');
    await page.evaluate(({ to, name }) => {
      const form = document.createElement('form');
      form.method = 'post';
      form.enctype = 'text/plain';
      form.action = to;
      const field = document.createElement('input');
      // {"name":"…","description":"="} as the body.
      field.name = `{"name":"${name}","description":"`;
      field.value = '"}';
      form.append(field);
      document.body.append(form);
      form.submit();
    }, { to: api + of('/key-buckets'), name });
    assert.ok((await answer).status() >= 400);
    await assert.rejects(ask('GET', of(`/key-buckets/${name}`)), /404/);
  });
});

test('the console is shown in no frame, and a window that another page opens does not lead back to it', { timeout: 120_000 }, async () => {
  await withForeignPage(async (page, context) => {
    const refusals = [];
    page.on('console', (message) => refusals.push(message.text()));
    await page.evaluate((address) => new Promise((done) => {
      const frame = document.createElement('iframe');
      frame.src = address;
      frame.addEventListener('load', done);
      document.body.append(frame);
    }), `${api}/console`);
    assert.ok(refusals.some((text) => text.includes('frame-ancestors')), refusals.join('\n'));
    const opened = context.waitForEvent('page');
    const reached = await page.evaluate(async (address) => {
      const other = window.open(address);
      await new Promise((done) => setTimeout(done, 1_500));
      return other === null || other.closed ? 'cut' : 'reached';
    }, `${api}/console`);
    const window = await opened;
    await window.getByRole('navigation', { name: 'Pages' }).waitFor();
    assert.equal(await window.evaluate(() => window.opener), null, 'the console can reach the page that opened it');
    assert.equal(reached, 'cut', 'the page that opened the console can reach its window');
  });
});

test('the session counts for requests of the console alone', { timeout: 120_000 }, async () => {
  await withForeignPage(async (_, context) => {
    const cookies = await context.cookies(api);
    const [cookie] = cookies.filter((c) => c.name === '__Host-gatewright-session');
    assert.ok(cookie?.httpOnly && cookie.secure && cookie.sameSite === 'Strict' && cookie.path === '/', JSON.stringify(cookies.map(({ value: _, ...c }) => c)));
    for (const headers of [{}, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }, { 'sec-fetch-site': 'none' }, { 'sec-fetch-site': 'same-origin', authorization: 'Bearer gwa_nothing' }]) {
      const { status } = await fetch(`${api}/v1/session`, { headers: { ...headers, cookie: `${cookie.name}=${cookie.value}` } });
      assert.equal(status, 401, JSON.stringify(headers));
    }
  });
});
