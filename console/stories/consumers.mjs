import assert from 'node:assert/strict';
import { accountKey, ask, checked, of, open, openFinder, retype, said, signIn, story, tabTo, type, unique } from './lib.mjs';

/** Creates a bucket and returns its name. */
const bucket = async (rest = {}) => (await ask('POST', of('/key-buckets'), { name: unique('keys'), ...rest })).name;
const press = (page, ...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
const row = (page, text) => page.getByRole('row').filter({ hasText: text });
/** The characters of a key that lists show. */
const end = (key) => key.slice(-8);
/** Returns what the browser stores, and the address. None of it may contain a key. */
const kept = (page) => page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state, location.href]));

story('a consumer is created with its first key, changed and deleted by the keyboard alone', async ({ page }) => {
  const name = await bucket();
  await open(page, `/buckets/${name}`, name);
  await page.getByRole('link', { name: 'Consumers', exact: true }).waitFor();
  await tabTo(page, 'Consumers');
  await press(page, 'Enter');
  await page.getByRole('heading', { level: 1, name: 'Consumers' }).waitFor();
  await page.getByText('No consumer yet').waitFor();
  await checked(page, 'no consumer');
  await press(page, 'n');
  await page.getByRole('dialog', { name: 'Create a consumer' }).waitFor();
  await checked(page, 'the form of a consumer');
  await tabTo(page, /^Name/);
  await type(page, 'No Name');
  await tabTo(page, /^Metadata/);
  await type(page, '{"tenant": 12345678901234567890}');
  await tabTo(page, 'Create');
  await press(page, 'Enter');
  await page.getByText('more digits than a browser keeps').waitFor();
  await page.getByLabel(/^Metadata/).focus();
  await retype(page, '{"tenant": 7}');
  await tabTo(page, 'Create');
  await press(page, 'Enter');
  await page.locator('[aria-invalid=true]').waitFor();
  assert.equal(await page.getByRole('textbox', { name: 'Name', exact: true }).evaluate((e) => e === document.activeElement), true, 'the focus is not on the field at fault');
  await retype(page, 'acme');
  await tabTo(page, 'Add a tag');
  await press(page, 'Enter');
  await type(page, 'plan');
  await press(page, 'Tab');
  await type(page, 'gold');
  await tabTo(page, /^People to invite/);
  await type(page, 'ada@example.com');
  await tabTo(page, 'Create');
  await press(page, 'Enter');
  await page.getByRole('dialog', { name: 'The key of acme' }).waitFor();
  const made = await ask('GET', of(`/key-buckets/${name}/consumers/acme?include-api-keys=true&key-format=visible&include-manager-invites=true`));
  const { key } = made.apiKeys[0];
  assert.deepEqual([made.tags, made.metadata, made.managerInvites.map((i) => i.email)], [{ plan: 'gold' }, { tenant: 7 }, ['ada@example.com']]);
  assert.ok(!(await page.content()).includes(key), 'the key is in the page before it is asked for');
  await checked(page, 'the first key');
  await tabTo(page, 'Show');
  await press(page, 'Enter');
  await page.getByText(key).waitFor();
  await page.getByRole('button', { name: /^Hide \(\d+ s\)$/ }).waitFor();
  await tabTo(page, /^Copy/);
  await press(page, 'Enter');
  await said(page, 'Copied');
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), key);
  assert.ok(!(await kept(page)).includes(key), 'the browser keeps the key');
  await tabTo(page, 'Go on to the consumer');
  await press(page, 'Enter');
  await page.getByRole('heading', { level: 1, name: 'acme' }).waitFor();
  await row(page, end(key)).waitFor();
  assert.ok(!(await page.content()).includes(key), 'the page of the consumer has the key');
  await row(page, 'ada@example.com').waitFor();
  await page.waitForFunction(() => document.querySelector('.source > div')?.shadowRoot);
  await checked(page, 'a consumer');

  await tabTo(page, 'Edit');
  await press(page, 'Enter');
  await tabTo(page, /^Description/);
  await type(page, 'The mobile app');
  await press(page, 'Enter');
  await said(page, 'The consumer acme is saved.');
  await page.getByText('The mobile app').waitFor();
  await tabTo(page, 'Delete');
  await press(page, 'Enter');
  await page.getByText('1 key and 0 managers').waitFor();
  await checked(page, 'the question before a consumer is deleted');
  await tabTo(page, /^Its name/);
  await type(page, 'acme');
  await press(page, 'Enter');
  await page.getByRole('heading', { level: 1, name: 'Consumers' }).waitFor();
  await page.getByText('No consumer yet').waitFor();
  await assert.rejects(ask('GET', of(`/key-buckets/${name}/consumers/acme`)), /404/);
});

story('conflicting edits of a consumer are both shown', async ({ page }) => {
  const name = await bucket();
  const path = of(`/key-buckets/${name}/consumers`);
  await ask('POST', path, { name: 'acme', metadata: { tenant: 7 } });
  await open(page, `/buckets/${name}/consumers/acme`, 'acme');
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('dialog').getByLabel(/^Metadata/).fill('{"tenant": 8}');
  await ask('PATCH', `${path}/acme`, { metadata: { tenant: 9 } });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog', { name: 'The consumer acme has changed meanwhile' }).waitFor();
  await page.getByRole('cell', { name: '"tenant": 9' }).waitFor();
  await checked(page, 'two versions of a consumer');
  assert.equal((await ask('GET', `${path}/acme`)).metadata.tenant, 9, 'the other version was replaced before the person chose');
  await page.getByRole('button', { name: 'Save mine over it' }).click();
  await said(page, 'is saved');
  assert.equal((await ask('GET', `${path}/acme`)).metadata.tenant, 8);
});

story('the finder finds consumers by the beginning of a name, and sends no request if the key may not read them', async ({ page }) => {
  const bucket = unique('finder');
  const name = unique('acme');
  await ask('POST', of('/key-buckets'), { name: bucket });
  await ask('POST', of(`/key-buckets/${bucket}/consumers`), { name });
  await open(page, '/', 'Overview');
  await openFinder(page);
  await type(page, name.slice(0, -2).toUpperCase());
  await page.getByRole('option', { name: `${name} Consumer of ${bucket}` }).waitFor();
  await said(page, '1 found');
  await type(page, 'zzz');
  await page.getByText('Nothing of that name.').waitFor();
  await retype(page, name);
  await page.getByRole('option', { name: `${name} Consumer of ${bucket}` }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name }).waitFor();

  const limited = await accountKey({ scopes: ['projects:read'] });
  const other = await page.context().browser().newContext();
  try {
    const stranger = await other.newPage();
    const asked = [];
    stranger.on('request', (request) => asked.push(new URL(request.url()).pathname));
    await signIn(stranger, limited);
    await openFinder(stranger);
    await type(stranger, name);
    await stranger.getByText('Nothing of that name.').waitFor();
    await stranger.waitForTimeout(600); // longer than the pause after which it would be asked
    assert.deepEqual(asked.filter((path) => path.includes('/key-buckets')), []);
  } finally {
    await other.close();
  }
});

story('managers are added and removed, and an invite withdrawn', async ({ page }) => {
  const name = await bucket();
  const path = of(`/key-buckets/${name}/consumers`);
  await ask('POST', path, { name: 'acme', managers: ['ada@example.com'] });
  await open(page, `/buckets/${name}/consumers/acme`, 'acme');
  await row(page, 'ada@example.com').getByText('invited').waitFor();
  await tabTo(page, 'Add a manager');
  await press(page, 'Enter');
  await checked(page, 'the form of a manager');
  await tabTo(page, /^Address/);
  await type(page, 'bob@example.com');
  await press(page, 'Tab');
  await type(page, 'auth0|65f1');
  await press(page, 'Enter');
  await said(page, 'bob@example.com is a manager of acme.');
  await row(page, 'auth0|65f1').waitFor();
  for (const [who, question] of [['bob@example.com', 'Remove'], ['ada@example.com', 'Withdraw it']]) {
    await tabTo(page, `Remove ${who}`);
    await press(page, 'Enter');
    await page.getByRole('dialog').waitFor();
    await tabTo(page, question);
    await press(page, 'Enter');
    await row(page, who).waitFor({ state: 'detached' });
  }
  await page.getByText('No manager', { exact: true }).waitFor();
  const left = await ask('GET', `${path}/acme?include-managers=true&include-manager-invites=true`);
  assert.deepEqual([left.managers, left.managerInvites], [[], []]);
});

story('keys are made, revealed, changed, rolled and revoked by the keyboard alone', async ({ page }) => {
  const name = await bucket();
  const path = of(`/key-buckets/${name}/consumers/acme`);
  await ask('POST', of(`/key-buckets/${name}/consumers`), { name: 'acme' });
  const keys = async () => (await ask('GET', `${path}/keys?key-format=visible`)).data;
  await open(page, `/buckets/${name}/consumers/acme`, 'acme');
  await page.getByText('No key yet').waitFor();
  await tabTo(page, 'Create keys');
  await press(page, 'Enter');
  await checked(page, 'the form of a key');
  await tabTo(page, /^Description/);
  await type(page, 'phone');
  await press(page, 'Enter');
  await page.getByRole('dialog', { name: 'The new key' }).waitFor();
  const [first] = await keys();
  assert.equal(first.description, 'phone');
  await tabTo(page, 'Show');
  await press(page, 'Enter');
  await page.getByText(first.key).waitFor();
  await press(page, 'Escape');
  await row(page, end(first.key)).waitFor();

  await tabTo(page, `Reveal ${'****'}${end(first.key)}`);
  await press(page, 'Enter');
  await page.getByText(first.key).waitFor();
  await checked(page, 'a key that is revealed');
  assert.ok(!(await kept(page)).includes(first.key), 'the browser keeps the key');
  await press(page, 'Escape');
  assert.ok(!(await page.content()).includes(first.key), 'the key stays in the page');

  await tabTo(page, `Change ****${end(first.key)}`);
  await press(page, 'Enter');
  await page.getByRole('combobox', { name: 'Ends' }).waitFor();
  await checked(page, 'the change of a key');
  await tabTo(page, /^Ends/);
  await type(page, 'in 30');
  await tabTo(page, 'Save');
  await press(page, 'Enter');
  await said(page, 'is saved');
  const days = (new Date((await keys())[0].expiresOn) - Date.now()) / 86_400_000;
  assert.ok(days > 29 && days < 31, `it ends in ${days} days`);

  await page.getByRole('button', { name: 'Create keys' }).click();
  await page.getByLabel('What to make').selectOption('many');
  await page.getByLabel('A description on each line').fill('tablet\n\n  watch <b>\n');
  await page.getByText('2 keys, all or none').waitFor();
  await checked(page, 'the form of many keys');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('dialog', { name: 'The 2 new keys' }).waitFor();
  await page.getByRole('button', { name: 'Show' }).click();
  const several = (await keys()).slice(0, 2);
  assert.deepEqual(several.map((k) => k.description).sort(), ['tablet', 'watch <b>']);
  for (const k of several) await page.getByText(k.key).waitFor();
  await checked(page, 'many new keys');
  await page.getByRole('button', { name: 'Done' }).click();

  const own = `own-${unique('key')}-of-another-system`;
  const theirs = [unique('theirs-of-some-length'), unique('theirs-of-some-length')];
  await page.getByRole('button', { name: 'Create keys' }).click();
  await page.getByLabel('What to make').selectOption('own');
  await page.getByLabel('Key', { exact: true }).fill('too short');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.locator('[aria-invalid=true]').waitFor();
  await page.getByLabel('Key', { exact: true }).fill(own);
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await row(page, end(own)).waitFor();
  await page.getByRole('button', { name: 'Create keys' }).click();
  await page.getByLabel('What to make').selectOption('theirs');
  await page.getByLabel('A key on each line').fill(`${theirs[0]} first one\n${theirs[1]}`);
  await checked(page, 'the form of many keys of another system');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await row(page, 'first one').waitFor();
  assert.deepEqual((await keys()).map((k) => k.key).filter((k) => k === own || theirs.includes(k)).sort(), [own, ...theirs].sort());
  for (const k of [own, ...theirs]) assert.ok(!(await page.content()).includes(k) && !(await kept(page)).includes(k), 'a key stays in the page');

  const before = (await keys()).filter((k) => k.expiresOn === null).map((k) => k.id);
  await tabTo(page, 'Roll the keys');
  await press(page, 'Enter');
  await checked(page, 'the roll of keys');
  await tabTo(page, 'Roll');
  await press(page, 'Enter');
  await page.getByRole('dialog', { name: 'The new key' }).waitFor();
  const [newest, ...others] = await keys();
  assert.equal(newest.expiresOn, null);
  for (const k of others.filter((o) => before.includes(o.id))) assert.ok(k.expiresOn !== null, `${k.description} has no end after the roll`);
  await tabTo(page, 'Show');
  await press(page, 'Enter');
  await page.getByText(newest.key).waitFor();
  await tabTo(page, 'Done');
  await press(page, 'Enter');
  await row(page, end(newest.key)).waitFor();

  await tabTo(page, `Revoke ****${end(newest.key)}`);
  await press(page, 'Enter');
  await page.getByRole('dialog', { name: /^Revoke the key/ }).waitFor();
  await checked(page, 'the question before a key is revoked');
  await tabTo(page, /^Its name/);
  await type(page, end(newest.key));
  await press(page, 'Enter');
  await page.getByText(/is refused everywhere in at most \d+ s/).waitFor();
  await checked(page, 'a key that was revoked');
  await assert.rejects(ask('GET', `${path}/keys/${newest.id}`), /404/);
});

story('in a bucket without retrievable keys, keys are shown once and cannot be rolled', async ({ page }) => {
  const name = await bucket({ isRetrievable: false });
  await ask('POST', of(`/key-buckets/${name}/consumers?with-api-key=true`), { name: 'acme' });
  await open(page, `/buckets/${name}/consumers/acme`, 'acme');
  await page.getByRole('button', { name: /^Revoke/ }).waitFor();
  await page.getByRole('button', { name: 'Roll the keys' }).click();
  await page.getByText('shows a key when it is made and never again').waitFor();
  await checked(page, 'a roll that is not offered');
  await page.getByRole('button', { name: 'Create a key' }).click();
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByText('It is shown here and never again').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('dialog', { name: 'The new key' }).count(), 1, 'Escape closed the dialog, which loses the key');
  await page.getByRole('button', { name: 'Done' }).click();
  assert.equal(await page.getByRole('button', { name: /^Reveal/ }).count(), 0);
});

story('a key that may only read is offered no change of consumers', async ({ page }) => {
  const name = await bucket();
  await ask('POST', of(`/key-buckets/${name}/consumers?with-api-key=true`), { name: 'acme' });
  await open(page, `/buckets/${name}/consumers`, 'Consumers');
  await page.getByRole('link', { name: 'acme' }).click();
  await page.getByRole('heading', { level: 1, name: 'acme' }).waitFor();
  await page.getByRole('row').filter({ hasText: '****' }).waitFor();
  for (const button of ['Edit', 'Delete', 'Create keys', 'Roll the keys', 'Add a manager', /^Change/, /^Revoke/]) assert.equal(await page.getByRole('button', { name: button }).count(), 0, String(button));
}, { rights: { scopes: ['key-buckets:read'] } });

story('hostile text of a consumer is shown as text', async ({ page }) => {
  const name = await bucket();
  const evil = '<img src=x onerror=alert(1)> \u202Etxt.exe {{7*7}} \u200B';
  await ask('POST', of(`/key-buckets/${name}/consumers?with-api-key=true`), {
    name: 'a'.repeat(128), description: evil.repeat(12), tags: { '<b>': '"><script>alert(1)</script>', x: 'z'.repeat(200) }, metadata: { [evil]: evil, long: 'y'.repeat(500) },
  });
  const path = of(`/key-buckets/${name}/consumers/${'a'.repeat(128)}`);
  await ask('POST', `${path}/keys`, { description: evil.repeat(5) });
  await ask('POST', `${path}/managers`, { email: 'a@example.com', sub: evil });
  page.on('dialog', () => assert.fail('a script ran'));
  await open(page, `/buckets/${name}/consumers`, 'Consumers');
  await page.getByText('U+202E').first().waitFor();
  await checked(page, 'the list with texts of others');
  await page.getByRole('link', { name: 'a'.repeat(128) }).click();
  await page.getByRole('table', { name: 'Managers' }).waitFor();
  await page.getByRole('table', { name: 'Keys' }).waitFor();
  await checked(page, 'the consumer with texts of others');
  // The editor with the metadata adds empty pictures of its own.
  assert.equal(await page.locator('main img:not(.cm-widgetBuffer), main script, main b').count(), 0);
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('dialog').waitFor();
  await checked(page, 'the edit with texts of others');
});
