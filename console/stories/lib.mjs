// What stories share: a browser, a page that is signed in and watched, an axe, and the API beside the page, by which a story makes what
// it needs. The test in internal/system/consolestories starts the product and says where it is.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { chromium } from 'playwright-core';

/** What the test that starts the product tells the stories. */
export const need = (name) => process.env[name] ?? assert.fail(`${name} is not set: make test-console sets it`);

/** Where the API is, without a slash behind. */
export const api = need('GATEWRIGHT_CONSOLE_API');
/** The first key of the account, which may everything. It comes by a file, so that it stands in no list of processes. */
export const key = readFileSync(need('GATEWRIGHT_CONSOLE_KEY_FILE'), 'utf8').trim();
export const account = need('GATEWRIGHT_CONSOLE_ACCOUNT');
/** Where a gateway serves what is deployed, for requests that stories make. */
export const gateway = process.env.GATEWRIGHT_CONSOLE_GATEWAY ?? '';
const chrome = need('GATEWRIGHT_CONSOLE_BROWSER');
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** How long a page may take until it shows what it is waited for, in milliseconds: a busy machine is no defect. */
export const patience = 20_000;

/** A name that no other story has. */
export const unique = (word) => `${word}-${randomBytes(4).toString('hex')}`;

/** Asks the API, and again after the wait that it names: stories that are told at the same time share a key, which has a rate. */
export async function asked(path, init) {
  for (;;) {
    const response = await fetch(api + path, init);
    const wait = response.headers.get('retry-after');
    if (response.status !== 429 || wait === null) return response;
    await response.text();
    await new Promise((done) => setTimeout(done, 1000 * Number(wait)));
  }
}

/** Asks the API with the first key, or another one, and gives the answer's body. It has to be well. */
export async function ask(method, path, body, as = key) {
  const response = await asked(path, { method, headers: { authorization: `Bearer ${as}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

/** The path of something of the account: of(`/key-buckets/${name}`). */
export const of = (path) => `/v1/accounts/${account}${path}`;

/** Makes an account key with these rights, such as { scopes: ['key-buckets:read'] }. */
export async function accountKey(rights) {
  return (await ask('POST', of('/account-keys'), { label: unique('story'), ...rights })).key;
}

/** Starts a browser. Its sandbox needs rights that containers and root do not have; pages are ours. */
export const flags = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost'];
export const executablePath = chrome;

let started;
const browser = () => (started ??= chromium.launch({ executablePath, args: flags }));
after(async () => (await started)?.close());

/**
 * Tells a story: a person who is signed in, with the key that rights have, or the first one. what is asserted at the end of each: the policy of the page refused nothing,
 * no script failed, and the key stands in no address, no storage and no request but the one that exchanged it.
 */
export function story(name, tell, { rights, viewport = { width: 1280, height: 860 }, signed = true } = {}) {
  test(name, { timeout: 240_000 }, async () => {
    const context = await (await browser()).newContext({ viewport, reducedMotion: 'reduce', permissions: ['clipboard-read', 'clipboard-write'] });
    context.setDefaultTimeout(patience);
    const own = rights ? await accountKey(rights) : key;
    try {
      const watched = await watch(context, own);
      const page = await context.newPage();
      await slowed(page);
      routed(page);
      if (signed) await signIn(page, own);
      await tell({ page, context, key: own });
      await watched.check();
    } finally {
      await context.close();
    }
  });
}

/** By how many milliseconds each answer comes later than it would: none, but where somebody looks for stories that pass on a fast machine by luck. */
const latency = Number(process.env.GATEWRIGHT_TEST_CONSOLE_SLOW ?? 0);
const devtools = new WeakMap();

/** Makes a page as slow as one on a busy machine behind a slow line, where latency says so. */
async function slowed(page) {
  devtools.set(page, await page.context().newCDPSession(page));
  if (!latency) return;
  await offline(page, false);
  await devtools.get(page).send('Emulation.setCPUThrottlingRate', { rate: 4 });
}

/**
 * Has page.route end when it holds: Chromium tells a page that was just shown to ask by way of it, and carries out meanwhile what the page asks at once.
 */
function routed(page) {
  const route = page.route.bind(page);
  const probe = '/is-it-routed';
  page.route = async (...args) => {
    await route(...args);
    if (page.url() === 'about:blank') return;
    await route(`**${probe}`, (r) => r.fulfill({ status: 204 }));
    const holds = () => page.evaluate((path) => fetch(path, { credentials: 'omit' }).then((answer) => answer.status === 204, () => false), probe);
    for (let i = 0; i < 40 && !(await holds()); i++) await new Promise((done) => setTimeout(done, 25));
    await page.unroute(`**${probe}`);
  };
}

/** Takes the device of a page off the network, or brings it back. */
export async function offline(page, offline) {
  await devtools.get(page).send('Network.enable');
  await devtools.get(page).send('Network.emulateNetworkConditions', { offline, latency, downloadThroughput: -1, uploadThroughput: -1 });
}

/** Watches all pages of a context. check fails for what should not have been. */
export async function watch(context, secret) {
  const wrong = [];
  await context.exposeBinding('tellViolation', (_, text) => wrong.push(`the policy refused ${text}`));
  await context.addInitScript(() => document.addEventListener('securitypolicyviolation', (e) => window.tellViolation(`${e.violatedDirective}: ${e.blockedURI} ${e.sample}`)));
  await context.addInitScript({ content: axe });
  context.on('page', (page) => {
    page.on('pageerror', (error) => wrong.push(`a script failed: ${error.stack}`));
    page.on('console', (message) => {
      // Chromium tells there of every answer that is no success, which stories bring about.
      if (['error', 'warning'].includes(message.type()) && !message.text().startsWith('Failed to load resource')) wrong.push(`the console says: ${message.text()}`);
      if (message.text().includes(secret)) wrong.push('the key is in the console');
    });
    page.on('framenavigated', (frame) => frame.url().includes(secret) && wrong.push('the key is in an address'));
  });
  context.on('request', (request) => {
    const exchange = request.method() === 'POST' && new URL(request.url()).pathname.endsWith('/v1/session');
    if (request.url().includes(secret) || (request.postData() ?? '').includes(secret)) wrong.push(`the key is in ${request.method()} ${new URL(request.url()).pathname}`);
    if (!exchange && request.headers().authorization !== undefined) wrong.push(`${request.method()} ${request.url()} has Authorization`);
    if (new URL(request.url()).origin !== new URL(api).origin && !request.url().startsWith('data:')) wrong.push(`a request left the origin: ${request.url()}`);
  });
  return {
    /** What was wrong up to now; cleared by who has looked. */
    wrong,
    check: async () => {
      for (const page of context.pages()) {
        if (page.url() === 'about:blank') continue;
        const kept = await page.evaluate(async () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, await indexedDB.databases(), await caches.keys(), history.state, location.href]));
        assert.ok(!kept.includes(secret), 'the browser keeps the key');
        assert.equal(await page.evaluate(() => document.cookie), '', 'a script sees a cookie');
        assert.deepEqual(await page.evaluate(() => Object.keys(localStorage).filter((k) => k !== 'gatewright-theme')), []);
      }
      assert.deepEqual(wrong, []);
    },
  };
}

/** Opens the console and signs in, as a person does. */
export async function signIn(page, as = key) {
  await page.goto(`${api}/console`);
  await page.getByLabel('Account key').fill(as);
  await page.keyboard.press('Enter');
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
}

/** Opens a page of the console by its address behind #, and waits for its heading. */
export async function open(page, path, heading) {
  await page.goto(`${api}/console#${path}`);
  await page.getByRole('heading', { level: 1, name: heading, exact: typeof heading === 'string' }).waitFor();
}

/** Asks axe by day and by night, on a wide and on a narrow screen: nothing may be found; and nothing may be wider than the screen. */
export async function checked(page, what = page.url()) {
  const size = page.viewportSize();
  for (const width of [1280, 320]) {
    await page.setViewportSize({ width, height: size.height });
    for (const colorScheme of ['light', 'dark']) {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      const found = await page.evaluate(async () => {
        const { violations } = await window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] });
        return violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html.slice(0, 200)).join(' | ')}`);
      });
      assert.deepEqual(found, [], `axe on ${what}, ${width} wide, ${colorScheme}`);
    }
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.ok(wide <= 0, `${what} is ${wide} px wider than a screen of ${width}`);
  }
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' });
  await page.setViewportSize(size);
  assert.doesNotMatch(await page.title(), /:\w/, `the window of ${what} has a name of a pattern in its title, and not what it stands for`);
  // The test that tells all stories asks whether each page was looked at.
  if (process.env.GATEWRIGHT_CONSOLE_CHECKED) appendFileSync(process.env.GATEWRIGHT_CONSOLE_CHECKED, `${new URL(page.url()).hash.replace(/^#/, '').split('?')[0] || '/'}\n`);
}

/** Walks by Tab until what has the focus has this accessible name, and fails where it is not reached, or where the focus can't be seen. */
export async function tabTo(page, name, most = 80) {
  const seen = [];
  for (let i = 0; i < most; i++) {
    await page.keyboard.press('Tab');
    const now = await page.evaluate(() => {
      const e = document.activeElement;
      const style = getComputedStyle(e);
      const label = e.getAttribute('aria-label') ?? (e.labels?.[0]?.textContent || e.textContent || '');
      return { label: label.trim(), visible: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1 };
    });
    seen.push(now.label.slice(0, 40));
    const matches = typeof name === 'string' ? now.label === name : name.test(now.label);
    if (matches) {
      assert.ok(now.visible, `the focus on ${now.label} can't be seen`);
      return;
    }
  }
  assert.fail(`Tab does not lead to ${name}: ${seen.join(', ')}`);
}

/**
 * Types into the field that has the focus, once one has it and it has settled there: a form that was just opened, or refused, moves it a
 * frame later than it shows, and a person looks before they type. In a list of choices, the one that begins so is chosen.
 */
export async function type(page, text) {
  await settled(page);
  await page.keyboard.type(text);
  const { value, name } = await page.evaluate(() => {
    const { tagName, value, name, labels } = document.activeElement;
    return { value: tagName === 'SELECT' ? undefined : value, name: name || labels?.[0]?.textContent };
  });
  assert.ok(value === undefined || value.includes(text), `${JSON.stringify(text)} was typed, and the field ${name} holds ${JSON.stringify(value)}`);
}

/** Types instead of what the field that has the focus holds. */
export async function retype(page, text) {
  await settled(page);
  await page.keyboard.press('Control+a');
  await type(page, text);
}

/** Waits until something that is typed into has had the focus for some frames. */
async function settled(page) {
  const where = await page.evaluate(async (patience) => {
    const end = performance.now() + patience;
    let last, frames = 0;
    while (frames < 4 && performance.now() < end) {
      const now = document.activeElement;
      const inside = now.shadowRoot?.activeElement ?? now;
      frames = now === last && (inside.isContentEditable || inside.matches('input, textarea, select')) ? frames + 1 : 0;
      last = now;
      await new Promise(requestAnimationFrame);
    }
    return frames < 4 ? last.outerHTML.slice(0, 200) : '';
  }, patience);
  assert.equal(where, '', 'nothing that is typed into has the focus');
}

/** Waits until what a screen reader is told holds a text. */
export async function said(page, text) {
  await page.locator('[role=status][aria-live=polite]').filter({ hasText: text }).waitFor({ state: 'attached' });
}
