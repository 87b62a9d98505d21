import assert from 'node:assert/strict';
import { accountKey, api, ask, checked, of, open, said, signIn, story, tabTo, type, unique } from './lib.mjs';

const row = (page, text) => page.getByRole('row').filter({ hasText: text });
const status = async (as) => (await fetch(`${api}/v1/who-am-i`, { headers: { authorization: `Bearer ${as}` } })).status;
const list = async () => (await ask('GET', of('/account-keys'))).data;

story('an account key is created, shown once and revoked by the keyboard alone', async ({ page }) => {
  const label = unique('ci');
  await page.keyboard.press('g');
  await page.keyboard.press('k');
  await page.getByRole('heading', { level: 1, name: 'Account keys' }).waitFor();
  await row(page, 'this key').waitFor();
  await checked(page, 'account keys');
  await page.keyboard.press('n');
  await page.getByRole('dialog', { name: 'Create an account key' }).waitFor();
  await checked(page, 'the form of an account key');
  await tabTo(page, /^Label/);
  await type(page, label);
  await page.keyboard.press('Enter');
  await page.getByText('Choose what it may do.').waitFor();
  await checked(page, 'the form of an account key with a fault');
  await page.getByRole('combobox', { name: 'deployments' }).focus();
  await type(page, 'write');
  await tabTo(page, /^Projects/);
  await type(page, 'hello');
  await tabTo(page, 'production');
  await page.keyboard.press('Space');
  await tabTo(page, /^Ends/);
  await type(page, 'in 30');
  await page.getByText(`gatewright account-key create --label ${label} --scope deployments:write --project hello --environment preview --environment development --expires-in 720h`, { exact: true }).waitFor();
  await tabTo(page, 'Create');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: `The account key ${label}` }).waitFor();
  const made = (await list()).find((k) => k.label === label);
  assert.deepEqual([made.scopes, made.projects, made.environments], [['deployments:write'], ['hello'], ['preview', 'development']]);
  const days = (new Date(made.expiresOn) - Date.now()) / 86_400_000;
  assert.ok(days > 29 && days < 31, `it ends in ${days} days`);
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('dialog').count(), 1, 'Escape closed the dialog, which loses the key');
  await tabTo(page, 'Show');
  await page.keyboard.press('Enter');
  await page.getByText(/^gwa_/).waitFor();
  await checked(page, 'an account key');
  const key = await page.getByText(/^gwa_/).textContent();
  assert.equal(await status(key), 200);
  await tabTo(page, 'I have kept it');
  await page.keyboard.press('Enter');
  await row(page, label).waitFor();
  assert.ok(!(await page.content()).includes(key), 'the key stays in the page');
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state, location.href]));
  assert.ok(!kept.includes(key), 'the browser keeps the key');

  await tabTo(page, `Revoke ${label}`);
  await page.keyboard.press('Enter');
  await checked(page, 'the question before an account key is revoked');
  await tabTo(page, /^Its name/);
  await type(page, label);
  await page.keyboard.press('Enter');
  await said(page, `The account key ${label} is revoked.`);
  await page.getByText(/is refused everywhere in at most \d+ s/).waitFor();
  assert.equal((await list()).some((k) => k.label === label), false);
});

story('a key cannot create a key with more permissions than its own', async ({ page }) => {
  await open(page, '/account-keys?create=yes', 'Account keys');
  const dialog = page.getByRole('dialog', { name: 'Create an account key' });
  await dialog.waitFor();
  assert.deepEqual(await dialog.locator('.scopes label > span').allTextContents(), ['account-keys', 'projects']);
  assert.deepEqual(await dialog.getByRole('combobox', { name: 'projects' }).locator('option').allTextContents(), ['nothing', 'read']);
  assert.equal(await dialog.getByText('It may everything').count(), 0);
}, { rights: { scopes: ['account-keys:write', 'projects:read'] } });

story('a person who revokes their own key is signed out', async ({ page }) => {
  const own = await accountKey({ scopes: ['account-keys:write'] });
  await signIn(page, own);
  await open(page, '/account-keys', 'Account keys');
  const mine = row(page, 'this key');
  await mine.waitFor();
  const label = /story-\w+/.exec(await mine.textContent())[0];
  await mine.getByRole('button', { name: `Revoke ${label}` }).click();
  await page.getByText('You are signed in with it').waitFor();
  await page.getByLabel(/^Its name/).fill(label);
  await page.getByRole('button', { name: 'Revoke it' }).click();
  await page.getByLabel('Account key', { exact: true }).waitFor();
  assert.equal(await page.getByRole('navigation', { name: 'Pages' }).count(), 0);
}, { signed: false });

story('hostile labels are shown as text', async ({ page }) => {
  const evil = `<img src=x onerror=alert(1)> ${unique('x')}`;
  await ask('POST', of('/account-keys'), { label: evil, scopes: ['projects:read'], projects: ['p'.repeat(40)] });
  page.on('dialog', () => assert.fail('a script ran'));
  await open(page, '/account-keys', 'Account keys');
  await page.getByText('<img src=x').first().waitFor();
  assert.equal(await page.locator('main img').count(), 0);
  await checked(page, 'account keys with texts of others');
});
