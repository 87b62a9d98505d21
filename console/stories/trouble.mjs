import assert from 'node:assert/strict';
import { account, ask, checked, of, offline, open, signIn, story, unique } from './lib.mjs';

const list = '**/key-buckets?*';
const lists = '**/key-buckets';
/** Sends a request to the API, but the page does not get the response. Playwright does not pass on the browser's own headers, so sec-fetch-site is set here. */
const carryOut = async (route) => assert.ok((await route.fetch({ headers: { ...(await route.request().allHeaders()), 'sec-fetch-site': 'same-origin' } })).ok());
const problem = (status, title, headers = {}) => ({ status, headers: { 'content-type': 'application/problem+json', ...headers }, body: JSON.stringify({ type: 'about:blank', title, status, detail: `${title}, says the API.`, trace: { requestId: 'req-1' } }) });

for (const [what, answer, text] of [
  ['5xx', (route) => route.fulfill(problem(503, 'Service Unavailable')), 'Service Unavailable, says the API.'],
  ['a page of a proxy', (route) => route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>Bad gateway</h1><script>alert(1)</script>' }), 'Nothing is known to have changed'],
  ['a cut connection', (route) => route.abort('connectionreset'), 'The API did not answer'],
  ['a cut answer', (route) => route.fulfill({ status: 200, contentType: 'application/json', body: '{"data":[{"na' }), 'The answer was cut'],
  ['403', (route) => route.fulfill(problem(403, 'Forbidden')), 'This key may not do that'],
]) {
  story(`${what} is reported, and the list is shown after another try`, async ({ page }) => {
    const name = unique('keys');
    await ask('POST', of('/key-buckets'), { name });
    for (const pattern of [list, lists]) await page.route(pattern, answer);
    await open(page, '/buckets', 'Key buckets');
    await page.getByRole('alert').filter({ hasText: text }).waitFor();
    await checked(page, what);
    await page.unrouteAll();
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('link', { name }).waitFor();
    assert.equal(await page.getByRole('alert').count(), 0);
  });
}

story('a page whose code could not be loaded is shown when the device is online again', async ({ page }) => {
  await open(page, '/', 'Overview');
  await offline(page, true);
  await page.evaluate(() => (window.location.hash = '#/client-cas'));
  await page.getByRole('alert').filter({ hasText: 'The code of this page could not be loaded' }).waitFor();
  await checked(page, 'a page that did not come');
  await offline(page, false);
  await page.getByRole('heading', { level: 1, name: 'Client CAs' }).waitFor();
});

story('after a 429 the request is repeated when the wait is over', async ({ page }) => {
  const shown = page.getByRole('searchbox').or(page.getByText('No key bucket yet')).first();
  await open(page, '/buckets', 'Key buckets');
  await shown.waitFor(); // the requests of the earlier page have ended; its lists have the same address
  let asked = 0;
  for (const pattern of [list, lists]) await page.route(pattern, (route) => (asked++ === 0 ? route.fulfill(problem(429, 'Too Many Requests', { 'retry-after': '5' })) : route.continue()));
  await page.reload({ waitUntil: 'commit' });
  await page.getByRole('status').filter({ hasText: 'The API asks to wait' }).waitFor();
  await shown.waitFor();
  assert.equal(asked, 2);
});

story('a change whose response was lost is repeated as the same change', async ({ page }) => {
  const name = unique('keys');
  const keys = [];
  await open(page, '/buckets?create=yes', 'Key buckets');
  await page.route(lists, async (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    keys.push(route.request().headers()['idempotency-key']);
    if (keys.length > 1) return route.continue();
    // The API carries out the request, but the response is lost.
    await carryOut(route);
    return route.abort('connectionreset');
  });
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill(name);
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('alert').filter({ hasText: 'did not answer' }).waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  assert.equal(keys.length, 2);
  assert.ok(keys[0] && keys[0] === keys[1], 'the repeat has no or another Idempotency-Key');
});

story('a repeated deletion whose first response was lost succeeds', async ({ page }) => {
  const name = unique('keys');
  await ask('POST', of('/key-buckets'), { name });
  await open(page, `/buckets/${name}`, name);
  await page.getByRole('button', { name: 'Delete' }).click();
  let first = true;
  await page.route(`**/key-buckets/${name}`, async (route) => {
    if (route.request().method() !== 'DELETE' || !first) return route.continue();
    first = false;
    await carryOut(route);
    return route.abort('connectionreset');
  });
  await page.getByRole('textbox', { name: /^Its name/ }).fill(name);
  await page.getByRole('button', { name: 'Delete it' }).click();
  await page.getByRole('alert').filter({ hasText: 'did not answer' }).waitFor();
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { level: 1, name: 'Key buckets' }).waitFor();
});

story('an offline device is reported, and the page stays', async ({ page }) => {
  const name = unique('keys');
  await ask('POST', of('/key-buckets'), { name });
  await open(page, `/buckets/${name}`, name);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel(/^Description/).fill('Written on a train');
  await offline(page, true);
  await page.getByText('This device is offline. What is shown may be old.').waitFor();
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').filter({ hasText: 'offline' }).waitFor();
  await checked(page, 'offline');
  await offline(page, false);
  await page.getByRole('button', { name: 'Try again' }).click();
  await page.getByText('Written on a train').first().waitFor();
  assert.equal((await ask('GET', of(`/key-buckets/${name}`))).description, 'Written on a train');
});

story('the browser asks before unsaved input is discarded', async ({ page }) => {
  const answers = [false, true];
  const asked = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.message());
    return answers.shift() ? dialog.accept() : dialog.dismiss();
  });
  await open(page, '/buckets?create=yes', 'Key buckets');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('half-typed');
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue(), 'half-typed');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal(asked.length, 2);
});

story('the next page gets the focus if the first one is left before its code is loaded', async ({ page, key }) => {
  let comes;
  const late = new Promise((resolve) => (comes = resolve));
  await page.route('**/chunk-*.js', async (route) => {
    const response = await route.fetch();
    if ((await response.text()).includes('What this key may')) await late; // only the overview has this text
    await route.fulfill({ response });
  });
  await signIn(page, key);
  await page.keyboard.press('g');
  await page.keyboard.press('b');
  await page.getByRole('heading', { level: 1, name: 'Key buckets' }).waitFor();
  await page.waitForFunction(() => document.activeElement.tagName === 'H1');
  comes();
}, { signed: false });

story('a list that cannot be read again stays, and has no duplicates after another try', async ({ page }) => {
  const name = unique('shop');
  await ask('POST', `/v1/projects?accountName=${account}`, { name });
  const variables = of(`/projects/${name}/branches/main/variables`);
  for (const letter of ['A', 'B']) await ask('POST', variables, { name: letter, value: letter, isSecret: false });
  await open(page, `/projects/${name}/branches/main/variables`, 'Variables of main');
  await page.getByRole('button', { name: 'Delete B' }).click();
  await page.route('**/variables', (route) => route.fulfill(problem(503, 'Service Unavailable')));
  await page.getByRole('textbox', { name: /^Its name/ }).fill('B');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').filter({ hasText: 'Service Unavailable' }).waitFor();
  await page.unrouteAll();
  await page.getByRole('button', { name: 'Try again' }).click();
  // The alert disappears when the request is sent. The list changes when its response comes.
  await page.getByRole('rowheader', { name: 'B', exact: true }).waitFor({ state: 'detached' });
  assert.deepEqual(await page.locator('tbody th').allTextContents(), ['A']);
  assert.equal(await page.getByRole('alert').count(), 0);
});
