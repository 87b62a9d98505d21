// What the stories share: a browser, a page that is signed in and watched, axe, and requests to the API with which a story creates its data. The test in
// internal/system/consolestories starts the product and sets the variables.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { appendFileSync, readFileSync } from 'node:fs';
import { after, test } from 'node:test';
import { chromium } from 'playwright-core';

/** Returns a variable that the test sets. */
export const need = (name) => process.env[name] ?? assert.fail(`${name} is not set: make test-console sets it`);

/** The URL of the API, without a slash at the end. */
export const api = need('GATEWRIGHT_CONSOLE_API');
/** The account key of the stories, which has full access. The test passes it in a file, so that no list of processes shows it. */
export const key = readFileSync(need('GATEWRIGHT_CONSOLE_KEY_FILE'), 'utf8').trim();
export const account = need('GATEWRIGHT_CONSOLE_ACCOUNT');
/** The URL of a gateway that serves deployments, for the requests of stories. */
export const gateway = process.env.GATEWRIGHT_CONSOLE_GATEWAY ?? '';
const chrome = need('GATEWRIGHT_CONSOLE_BROWSER');
const axe = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');

/** The maximum time until a page shows what a story waits for, in milliseconds. It is long, because a busy machine is not a defect. */
export const timeout = 20_000;

/** Returns a name that no other story uses. */
export const unique = (word) => `${word}-${randomBytes(4).toString('hex')}`;

/** Sends a request to the API, and repeats it after a 429 when the wait is over: stories that run at the same time share a key, which has a rate limit. */
export async function fetchAPI(path, init) {
  for (;;) {
    const response = await fetch(api + path, init);
    const wait = response.headers.get('retry-after');
    if (response.status !== 429 || wait === null) return response;
    await response.text();
    await new Promise((done) => setTimeout(done, 1000 * Number(wait)));
  }
}

/** Sends a request to the API with the key of the stories or another one. It returns the body, and fails unless the request succeeds. */
export async function ask(method, path, body, as = key) {
  const response = await fetchAPI(path, { method, headers: { authorization: `Bearer ${as}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }, ...(body === undefined ? {} : { body: JSON.stringify(body) }) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

/** Returns a path below the account: of(`/key-buckets/${name}`). */
export const of = (path) => `/v1/accounts/${account}${path}`;

/** Creates an account key with these rights, such as { scopes: ['key-buckets:read'] }, and returns it. */
export async function accountKey(rights) {
  return (await ask('POST', of('/account-keys'), { label: unique('story'), ...rights })).key;
}

/** The flags of the browser. Its sandbox needs permissions that containers and root do not have. It loads only our own pages. */
export const flags = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost'];
export const executablePath = chrome;

let started;
const browser = () => (started ??= chromium.launch({ executablePath, args: flags }));
after(async () => (await started)?.close());

/**
 * Runs a story as a test. The person is signed in, with a new key that has rights, or with the key of the stories. At the end, every story checks that the
 * content security policy has blocked nothing, that no script has failed, and that the key is in no address, in no storage, and in no request except the one
 * that exchanges it for a session.
 */
export function story(name, run, { rights, viewport = { width: 1280, height: 860 }, signed = true } = {}) {
  test(name, { timeout: 240_000 }, async () => {
    const context = await (await browser()).newContext({ viewport, reducedMotion: 'reduce', permissions: ['clipboard-read', 'clipboard-write'] });
    context.setDefaultTimeout(timeout);
    const own = rights ? await accountKey(rights) : key;
    try {
      const watched = await watch(context, own);
      const page = await context.newPage();
      await slowDown(page);
      waitForRoutes(page);
      if (signed) await signIn(page, own);
      await run({ page, context, key: own });
      await watched.check();
    } finally {
      await context.close();
    }
  });
}

/** The delay of each response in milliseconds. It is usually 0. Set it to find stories that pass only because a machine is fast. */
const latency = Number(process.env.GATEWRIGHT_TEST_CONSOLE_SLOW ?? 0);
const devtools = new WeakMap();

/** Makes a page as slow as on a busy machine with a slow line, if latency is set. */
async function slowDown(page) {
  devtools.set(page, await page.context().newCDPSession(page));
  if (!latency) return;
  await offline(page, false);
  await devtools.get(page).send('Emulation.setCPUThrottlingRate', { rate: 4 });
}

/** Makes page.route wait until the route is active. A page that was just opened can send requests before Chromium applies a new route. */
function waitForRoutes(page) {
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

/** Disconnects a page from the network, or connects it again. */
export async function offline(page, offline) {
  await devtools.get(page).send('Network.enable');
  await devtools.get(page).send('Network.emulateNetworkConditions', { offline, latency, downloadThroughput: -1, uploadThroughput: -1 });
}

/** Watches all pages of a context. check fails if one of the pages did something that it must not do. */
export async function watch(context, secret) {
  const wrong = [];
  await context.exposeBinding('reportViolation', (_, text) => wrong.push(`the content security policy blocked ${text}`));
  await context.addInitScript(() => document.addEventListener('securitypolicyviolation', (e) => window.reportViolation(`${e.violatedDirective}: ${e.blockedURI} ${e.sample}`)));
  await context.addInitScript({ content: axe });
  context.on('page', (page) => {
    page.on('pageerror', (error) => wrong.push(`a script failed: ${error.stack}`));
    page.on('console', (message) => {
      // Chromium logs every failed response there, and stories cause such responses.
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
    /** What was wrong until now. A story that expects a fault clears it. */
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

/**
 * Checks the page with axe in the light and dark theme, on a wide and a narrow screen, and checks that nothing is wider than the screen and that the title has
 * no name of a pattern.
 */
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
  // The test checks with this file that a story has checked each page.
  if (process.env.GATEWRIGHT_CONSOLE_CHECKED) appendFileSync(process.env.GATEWRIGHT_CONSOLE_CHECKED, `${new URL(page.url()).hash.replace(/^#/, '').split('?')[0] || '/'}\n`);
}

/**
 * Presses Tab until an element with this accessible name has the focus. It fails if no such element gets the focus within most presses, or if the focus is
 * invisible.
 */
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
 * Types into the focused field, after the focus has stayed there for some frames: a form that was just opened or refused moves the focus one frame after it is
 * shown, and a person looks before typing. In a select element, this chooses the option that begins with the text.
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

/** Replaces the content of the focused field. */
export async function retype(page, text) {
  await settled(page);
  await page.keyboard.press('Control+a');
  await type(page, text);
}

/** Waits until an input field has had the focus for four frames. */
async function settled(page) {
  const where = await page.evaluate(async (timeout) => {
    const end = performance.now() + timeout;
    let last, frames = 0;
    while (frames < 4 && performance.now() < end) {
      const now = document.activeElement;
      const inside = now.shadowRoot?.activeElement ?? now;
      frames = now === last && (inside.isContentEditable || inside.matches('input, textarea, select')) ? frames + 1 : 0;
      last = now;
      await new Promise(requestAnimationFrame);
    }
    return frames < 4 ? last.outerHTML.slice(0, 200) : '';
  }, timeout);
  assert.equal(where, '', 'no input field has kept the focus');
}

/** Opens the finder by its shortcut. A page has its shortcuts only a moment after it is shown, so the keys are pressed until the finder is open. */
export async function openFinder(page) {
  const finder = page.getByRole('dialog', { name: 'Find' });
  for (const end = Date.now() + timeout; Date.now() < end && !(await finder.isVisible());) {
    await page.keyboard.press('Control+k');
    await finder.waitFor({ timeout: 1_000 }).catch(() => {});
  }
  await finder.waitFor();
}

/** Waits until the announcement for screen readers contains a text. */
export async function said(page, text) {
  await page.locator('[role=status][aria-live=polite]').filter({ hasText: text }).waitFor({ state: 'attached' });
}
