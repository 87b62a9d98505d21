// A slow line: responses that come late, after the responses to later requests, or after the person has gone to another page.
import assert from 'node:assert/strict';
import { account, accountKey, ask, key, of, open, openFinder, said, signIn, story, timeout, unique } from './lib.mjs';

/**
 * Holds back the responses of an address. begun resolves when the first response is on its way back. come releases the responses, and resolves when the page
 * has them. answer replaces the response of the API. Playwright does not pass on the browser's own headers, so sec-fetch-site is set here.
 */
async function held(page, pattern, { method = 'GET', answer } = {}) {
  let come, begun;
  const ends = [];
  const goes = new Promise((done) => (come = done));
  const began = Promise.race([new Promise((done) => (begun = done)), new Promise((_, fail) => setTimeout(() => fail(new Error(`${method} ${pattern} is not asked`)), timeout).unref())]);
  const hold = async (route) => {
    const response = answer ?? { response: await route.fetch({ headers: { ...(await route.request().allHeaders()), 'sec-fetch-site': 'same-origin' } }) };
    begun();
    await goes;
    // The page may have aborted the request.
    await route.fulfill(response).catch(() => {});
  };
  await page.route(pattern, (route) => {
    if (route.request().method() !== method) return route.fallback();
    ends.push(hold(route));
    return ends.at(-1);
  });
  const over = async () => {
    come();
    await Promise.all(ends);
    await page.unroute(pattern);
    await frames(page);
  };
  return { begun: began, come: over };
}

/** Waits until the page has handled what has come, so that a fault would be visible. */
const frames = (page) => page.evaluate(async () => { for (let i = 0; i < 6; i++) await new Promise((done) => setTimeout(() => requestAnimationFrame(done), 20)); });

const problem = (status, title) => ({ status, headers: { 'content-type': 'application/problem+json' }, body: JSON.stringify({ type: 'about:blank', title, status, detail: `${title}, says the API.` }) });
const to = (page, hash) => page.evaluate((h) => { window.location.hash = h; }, hash);
const name = (page) => page.getByRole('textbox', { name: 'Name', exact: true });

/** Accepts every dialog of the browser, and returns the list of their messages. */
function acceptDialogs(page) {
  const asked = [];
  page.on('dialog', (dialog) => {
    asked.push(dialog.message());
    return dialog.accept();
  });
  return asked;
}

story('a response that comes after its page was left is announced, and opens no page', async ({ page }) => {
  const bucket = unique('keys');
  const asked = acceptDialogs(page);
  for (const [answer, told] of [[undefined, `The key bucket ${bucket} is created.`], [problem(409, 'Conflict'), 'was not done: Conflict, says the API.']]) {
    await open(page, '/buckets?create=yes', 'Key buckets');
    await name(page).fill(bucket);
    const made = await held(page, '**/key-buckets', { method: 'POST', answer });
    await page.getByRole('button', { name: 'Create', exact: true }).click();
    await made.begun;
    await to(page, '#/tunnels?create=yes');
    await page.getByRole('dialog', { name: 'Create a tunnel' }).waitFor();
    await name(page).fill('half-typed');
    await made.come();
    await said(page, told);
    await frames(page);
    assert.match(page.url(), /#\/tunnels\?create=yes$/, 'the response has opened another page');
    assert.equal(await name(page).inputValue(), 'half-typed');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
  assert.equal(asked.filter((q) => q.includes('on its way')).length, 2, `questions about leaving a change that is on its way = ${asked}, want 2`);
});

story('the late response of a closed dialog closes no other dialog, and the list shows the change', async ({ page }) => {
  acceptDialogs(page);
  const project = unique('shop');
  await ask('POST', `/v1/projects?accountName=${account}`, { name: project });
  for (const letter of ['A', 'B', 'C']) await ask('POST', of(`/projects/${project}/branches/main/variables`), { name: letter, value: letter, isSecret: false });
  const remove = async (letter) => {
    await page.getByRole('button', { name: `Delete ${letter}` }).click();
    await page.getByRole('textbox', { name: /^Its name/ }).fill(letter);
    const gone = await held(page, `**/variables/${letter}`, { method: 'DELETE' });
    await page.keyboard.press('Enter');
    await gone.begun;
    return gone;
  };
  await open(page, `/projects/${project}/branches/main/variables`, 'Variables of main');
  const first = await remove('A');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.getByRole('button', { name: 'Change B' }).click();
  await page.getByRole('textbox', { name: 'Value' }).fill('half-typed');
  await first.come();
  await said(page, 'The variable A is deleted.');
  await page.getByRole('rowheader', { name: 'A', exact: true, includeHidden: true }).waitFor({ state: 'detached' });
  assert.equal(await page.getByRole('textbox', { name: 'Value' }).inputValue(), 'half-typed');
  await page.getByRole('button', { name: 'Cancel' }).click();

  const second = await remove('B');
  await second.come();
  await page.getByRole('rowheader', { name: 'B', exact: true }).waitFor({ state: 'detached' });
  await page.waitForFunction(() => document.activeElement !== document.body, undefined, { timeout: 5000 }); // the button that had the focus is gone

  const third = await remove('C');
  await to(page, '#/tunnels');
  await page.getByRole('heading', { level: 1, name: 'Tunnels' }).waitFor();
  let lists = 0;
  page.on('request', (r) => r.url().endsWith('/variables') && lists++);
  await third.come();
  await said(page, 'The variable C is deleted.');
  await frames(page);
  assert.equal(lists, 0, 'a list that is not shown is read');
});

story('a late 401 from before a new sign-in does not end the session', async ({ page }) => {
  const project = unique('shop');
  await ask('POST', '/v1/projects', { name: project });
  const late = await held(page, '**/environments?*', { answer: problem(401, 'Unauthorized') });
  await page.route(`**/projects/${project}`, (route) => route.fulfill(problem(401, 'Unauthorized')), { times: 1 });
  await to(page, `#/projects/${project}`);
  await late.begun;
  const again = page.getByRole('dialog', { name: 'Your session has ended' });
  await again.waitFor();
  await page.getByLabel('Account key').fill(key);
  await page.keyboard.press('Enter');
  await again.waitFor({ state: 'detached' });
  await late.come();
  await page.getByText('No environment yet').waitFor();
  assert.equal(await again.count(), 0);
});

story('after a sign-out, no late response signs in again, and the next key sees nothing of the last one', async ({ page }) => {
  const label = unique('gone');
  await ask('POST', of('/account-keys'), { label, scopes: ['key-buckets:read'] });
  await open(page, '/account-keys', 'Account keys');
  await page.getByRole('button', { name: `Revoke ${label}` }).click();
  await page.getByRole('textbox', { name: /^Its name/ }).fill(label);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Revoked just now' }).waitFor();
  const late = await held(page, '**/v1/session');
  await page.evaluate(() => new BroadcastChannel('gatewright-session').postMessage({ type: 'in' })); // as another tab that has signed in
  await late.begun;
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You have signed out.').waitFor();
  await late.come();
  assert.equal(await page.getByRole('navigation', { name: 'Pages' }).count(), 0, 'a late response shows the console after the sign-out');
  await page.getByText('You have signed out.').waitFor();
  await page.getByLabel('Account key').fill(await accountKey({ scopes: 'all' }));
  await page.keyboard.press('Enter');
  await page.getByRole('table', { name: 'Account keys' }).waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Revoked just now' }).count(), 0, 'another key sees the keys that the last one has revoked');
});

story('a request that waits after a 429 is not repeated with another key', async ({ page }) => {
  acceptDialogs(page);
  await open(page, '/buckets?create=yes', 'Key buckets');
  await name(page).fill(unique('keys'));
  let posts = 0;
  await page.route('**/key-buckets', (route) => {
    if (route.request().method() !== 'POST') return route.fallback();
    return route.fulfill({ ...problem(429, 'Too Many Requests'), headers: { 'content-type': 'application/problem+json', 'retry-after': String(3 * ++posts) } });
  });
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('status').filter({ hasText: 'The API asks to wait' }).waitFor();
  await page.evaluate(() => new BroadcastChannel('gatewright-session').postMessage({ type: 'out' })); // as another tab that has signed out
  await page.getByLabel('Account key').fill(await accountKey({ scopes: 'all' }));
  await page.keyboard.press('Enter');
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
  await page.waitForTimeout(4_000);
  assert.equal(posts, 1, 'the request of the last key is repeated with another key');
});

story('a key whose response comes while the page is hidden is not shown', async ({ page }) => {
  const bucket = unique('keys');
  await ask('POST', of('/key-buckets'), { name: bucket });
  await ask('POST', of(`/key-buckets/${bucket}/consumers?with-api-key=true`), { name: 'ada' });
  const [made] = (await ask('GET', of(`/key-buckets/${bucket}/consumers/ada/keys?key-format=visible`))).data;
  await open(page, `/buckets/${bucket}/consumers/ada`, 'ada');
  const hidden = (is) => page.evaluate((h) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => h });
    document.dispatchEvent(new Event('visibilitychange'));
  }, is);
  const late = await held(page, `**/keys/${made.id}?*`);
  await page.getByRole('button', { name: /^Reveal/ }).click();
  await late.begun;
  await hidden(true);
  await late.come();
  await page.locator('output').waitFor();
  await hidden(false);
  assert.ok(!(await page.content()).includes(made.key), 'the key is shown in a tab that was hidden');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.getByText(made.key).waitFor();
});

story('the chosen result of the finder stays chosen when more results come', async ({ page }) => {
  const word = unique('w');
  for (const p of [`a-${word}`, `b-${word}`]) await ask('POST', '/v1/projects', { name: p });
  await ask('POST', of('/key-buckets'), { name: `${word}-keys` });
  const late = await held(page, '**/key-buckets*');
  await openFinder(page);
  await page.getByRole('dialog').getByRole('combobox').fill(word);
  await page.getByRole('option', { name: `b-${word} Project` }).waitFor();
  await late.begun;
  for (let i = 0; i < 9 && (await page.getByRole('option', { selected: true, name: `b-${word} Project` }).count()) === 0; i++) await page.keyboard.press('ArrowDown');
  await late.come();
  await page.getByRole('option', { name: `${word}-keys Key bucket` }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: `b-${word}` }).waitFor();
});

story('while a conflict is being read the form is busy, and saves only once', async ({ page }) => {
  const bucket = unique('keys');
  await ask('POST', of('/key-buckets'), { name: bucket });
  await open(page, `/buckets/${bucket}`, bucket);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel(/^Description/).fill('mine');
  await ask('PATCH', of(`/key-buckets/${bucket}`), { description: 'theirs' });
  const late = await held(page, `**/key-buckets/${bucket}`);
  let saves = 0;
  page.on('request', (r) => r.method() === 'PATCH' && saves++);
  await page.getByRole('button', { name: 'Save' }).click();
  await late.begun;
  await frames(page);
  await page.getByRole('button', { name: 'One moment…' }).waitFor();
  await page.keyboard.press('Enter');
  await late.come();
  await page.getByRole('dialog', { name: /has changed meanwhile/ }).waitFor();
  assert.equal(saves, 1);
});

story('a letter that is typed while a filter is applied is not lost', async ({ page }) => {
  const bucket = unique('keys');
  await ask('POST', of('/key-buckets'), { name: bucket });
  await open(page, '/buckets', 'Key buckets');
  const find = page.getByRole('searchbox');
  await find.waitFor();
  await page.evaluate(() => {
    const { replaceState } = history;
    history.replaceState = function (...args) {
      history.replaceState = replaceState;
      history.replaceState(...args);
      setTimeout(() => document.execCommand('insertText', false, 's'));
    };
  });
  await find.fill('key');
  await page.waitForFunction(() => window.location.hash.includes('find=key'));
  await frames(page);
  await page.waitForFunction(() => window.location.hash.endsWith('find=keys'), undefined, { timeout: 5000 });
  assert.equal(await find.inputValue(), 'keys');
});
