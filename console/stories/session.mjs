import assert from 'node:assert/strict';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { chromium } from 'playwright-core';
import { accountKey, api, ask, checked, executablePath, flags, key, of, open, said, signIn, story, unique, watch } from './lib.mjs';

story('a person who is not signed in sees a form, which reports a wrong key', async ({ page }) => {
  await page.goto(`${api}/console#/buckets`);
  const field = page.getByLabel('Account key');
  await field.waitFor();
  await checked(page, 'the form to sign in');
  assert.equal(await page.evaluate(() => document.activeElement.id), 'account-key');
  assert.equal(await field.getAttribute('autocomplete'), 'off');
  await page.keyboard.press('Enter');
  await page.getByText('Paste an account key').waitFor();
  await field.fill(`gwa_${'x'.repeat(40)}_00000000`);
  await page.keyboard.press('Enter');
  await page.getByRole('alert').filter({ hasText: 'opens nothing' }).waitFor();
  assert.equal(await field.inputValue(), '', 'the key is still in the field');
  await checked(page, 'the form after a wrong key');
  await field.fill(key);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Key buckets' }).waitFor();
}, { signed: false });

story('signing out ends the session in every tab, for good', async ({ page, context }) => {
  const other = await context.newPage();
  await open(other, '/buckets', 'Key buckets');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You have signed out.').waitFor();
  await other.getByText('You have signed out in another tab.').waitFor();
  assert.equal(await other.getByRole('heading', { name: 'Key buckets' }).count(), 0, 'the page is still shown after the sign-out');
  await other.reload();
  await other.getByLabel('Account key').waitFor();
  await other.getByLabel('Account key').fill(key);
  await other.keyboard.press('Enter');
  await page.getByRole('navigation', { name: 'Pages' }).waitFor();
});

story('when a session ends, nothing that was typed is lost', async ({ page }) => {
  const name = unique('keys');
  await open(page, '/buckets?create=yes', 'Key buckets');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill(name);
  await page.locator('main input[type=search], main .empty').first().waitFor(); // the list has come: nothing else is refused
  await page.evaluate(() => fetch('v1/session', { method: 'DELETE' }));
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
  await checked(page, 'the form over a page');
  await page.getByLabel('Account key').fill(key);
  await page.keyboard.press('Enter');
  // The refused request is repeated, and creates the bucket only once.
  await page.getByRole('heading', { level: 1, name }).waitFor();
  assert.equal((await ask('GET', of('/key-buckets'))).data.filter((b) => b.name === name).length, 1);
});

story('another key starts a new session, and repeats no request of the last key', async ({ page }) => {
  const name = unique('keys');
  const reader = await accountKey({ scopes: ['key-buckets:read'] });
  await open(page, '/buckets?create=yes', 'Key buckets');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill(name);
  await page.locator('main input[type=search], main .empty').first().waitFor(); // the list has come: nothing else is refused
  await page.evaluate(() => fetch('v1/session', { method: 'DELETE' }));
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor();
  await page.getByLabel('Account key').fill(reader);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: 'Your session has ended' }).waitFor({ state: 'detached' });
  await page.getByRole('heading', { level: 1, name: 'Key buckets' }).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 0);
  await assert.rejects(ask('GET', of(`/key-buckets/${name}`)), /404/);
});

story('the overview, the shortcuts, the theme and an unknown address', async ({ page }) => {
  await open(page, '/', 'Overview');
  await page.getByRole('table', { name: 'What happened lately' }).waitFor();
  await checked(page, 'the overview');
  await page.keyboard.press('?');
  await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
  await checked(page, 'the shortcuts');
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByLabel('Look').selectOption('dark');
  const dark = await page.evaluate(() => getComputedStyle(document.body.parentElement).backgroundColor);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  assert.equal(await page.evaluate(() => getComputedStyle(document.body.parentElement).backgroundColor), dark);
  const tokens = () => page.evaluate(() => ['--ground', '--raised', '--text', '--faint', '--accent', '--bad', '--bad-soft', '--focus'].map((n) => getComputedStyle(document.documentElement).getPropertyValue(n)));
  const chosen = await tokens();
  await page.getByLabel('Look').selectOption('system');
  await page.emulateMedia({ colorScheme: 'dark' });
  assert.deepEqual(await tokens(), chosen, 'the chosen dark theme has other colors than the dark theme of the system');
  await open(page, '/nowhere/at/all', 'No such page');
  await checked(page, 'no such page');
});

test('the browser stores the key in no file', { timeout: 240_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'console-'));
  try {
    const context = await chromium.launchPersistentContext(folder, { executablePath, args: flags });
    const watched = await watch(context, key);
    const page = await context.newPage();
    await signIn(page, key);
    await open(page, '/buckets', 'Key buckets');
    await watched.check();
    await context.close();
    const holding = [];
    for (const file of await readdir(folder, { recursive: true, withFileTypes: true })) {
      if (!file.isFile()) continue;
      const bytes = await readFile(join(file.parentPath ?? file.path, file.name));
      if (bytes.includes(key) || bytes.includes(Buffer.from(key, 'utf16le'))) holding.push(file.name);
    }
    assert.deepEqual(holding, []);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});

story('an inactive person is asked before the session ends, and can stay', async ({ page }) => {
  let stays = 0;
  const now = await page.evaluate(() => fetch('v1/session').then((r) => r.json()));
  await page.route('**/v1/session', (route) => {
    if (route.request().method() !== 'GET') return route.continue();
    if (route.request().headers()['gatewright-idle'] === undefined) stays++;
    return route.fulfill({ json: { ...now, session: { ...now.session, idleSeconds: stays > 0 ? 1800 : 100 } } });
  });
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
  await page.locator('.bar', { hasText: 'You will be signed out in' }).waitFor();
  await said(page, 'You will be signed out in two minutes');
  await checked(page, 'the end of a session that comes near');
  await page.getByRole('button', { name: 'Stay signed in' }).click();
  await page.locator('.bar', { hasText: 'You will be signed out in' }).waitFor({ state: 'detached' });
  assert.equal(stays, 1);
});
