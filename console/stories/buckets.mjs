import assert from 'node:assert/strict';
import { account, ask, checked, of, open, openFinder, retype, said, story, tabTo, type, unique } from './lib.mjs';

story('a bucket is created, changed and deleted by the keyboard alone', async ({ page }) => {
  const name = unique('keys');
  await page.keyboard.press('g');
  await page.keyboard.press('b');
  await page.getByRole('heading', { level: 1, name: 'Key buckets' }).waitFor();
  // The heading of the new page gets the focus, so that screen readers continue there.
  await page.waitForFunction(() => document.activeElement.tagName === 'H1');
  await page.keyboard.press('n');
  await page.getByRole('dialog', { name: 'Create a key bucket' }).waitFor();
  await checked(page, 'the form of a bucket');
  await tabTo(page, /^Name/);
  await type(page, 'No');
  await page.keyboard.press('Enter');
  const field = page.getByRole('textbox', { name: 'Name', exact: true });
  await page.locator('[aria-invalid=true]').waitFor();
  assert.equal(await field.evaluate((e) => e === document.activeElement), true, 'the focus is not on the field at fault');
  await checked(page, 'the form of a bucket with a fault');
  await retype(page, name);
  await tabTo(page, 'Add a tag');
  await page.keyboard.press('Enter');
  await type(page, 'team');
  await page.keyboard.press('Tab');
  await type(page, 'core');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await said(page, `The key bucket ${name} is created.`);
  assert.equal((await ask('GET', of(`/key-buckets/${name}`))).tags.team, 'core');
  await checked(page, 'a bucket');

  await tabTo(page, 'Edit');
  await page.keyboard.press('Enter');
  await tabTo(page, /^Description/);
  await type(page, 'For partners');
  await page.keyboard.press('Enter');
  await said(page, `The key bucket ${name} is saved.`);
  await page.getByText('For partners').waitFor();

  await ask('POST', of(`/key-buckets/${name}/consumers`), { name: 'acme' });
  await tabTo(page, 'Delete');
  await page.keyboard.press('Enter');
  await page.getByText('1 consumer').waitFor();
  await checked(page, 'the question before a bucket is deleted');
  await tabTo(page, /^Its name/);
  await type(page, 'another');
  await page.keyboard.press('Enter');
  await page.getByText('It is another name.').waitFor();
  await retype(page, name);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Key buckets' }).waitFor();
  const gone = await fetch(new URL(of(`/key-buckets/${name}`), page.url())).then((r) => r.status);
  assert.equal(gone, 401, 'the API accepts a request without a session');
  await assert.rejects(ask('GET', of(`/key-buckets/${name}`)), /404/);
});

story('conflicting edits of a bucket are both shown, and none is lost', async ({ page }) => {
  const name = unique('keys');
  await ask('POST', of('/key-buckets'), { name, description: 'First' });
  const edit = async (text) => {
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel(/^Description/).fill(text);
    await ask('PATCH', of(`/key-buckets/${name}`), { description: `${text}, they say` });
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog', { name: `The key bucket ${name} has changed meanwhile` }).waitFor();
  };
  const now = async () => (await ask('GET', of(`/key-buckets/${name}`))).description;
  await open(page, `/buckets/${name}`, name);
  await edit('Mine');
  await page.getByRole('cell', { name: 'Mine, they say' }).waitFor();
  await checked(page, 'two versions');
  assert.equal(await now(), 'Mine, they say');
  await page.getByRole('button', { name: 'Go on editing' }).click();
  assert.equal(await page.getByLabel(/^Description/).inputValue(), 'Mine', 'what was typed is gone');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('button', { name: 'Save mine over it' }).click();
  await said(page, 'is saved');
  assert.equal(await now(), 'Mine');

  await edit('Again');
  await page.getByRole('button', { name: 'Take what is saved' }).click();
  assert.equal(await page.getByLabel(/^Description/).inputValue(), 'Again, they say');
  assert.equal(await now(), 'Again, they say');
});

story('a key that may only read is offered no change', async ({ page }) => {
  await open(page, '/buckets', 'Key buckets');
  await page.getByRole('searchbox').or(page.getByText('No key bucket yet')).first().waitFor();
  assert.equal(await page.getByRole('button', { name: 'Create a bucket' }).count(), 0);
  const links = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents();
  assert.ok(!links.includes('Projects') && links.includes('Key buckets'), links.join());
  await page.keyboard.press('n');
  assert.equal(await page.getByRole('dialog').count(), 0);
}, { rights: { scopes: ['key-buckets:read'] } });

story('hostile text of a bucket is shown as text', async ({ page }) => {
  const name = unique('keys');
  const evil = '<img src=x onerror=alert(1)> \u202Etxt.exe {{7*7}} ${1} \u200B';
  await ask('POST', of('/key-buckets'), { name, description: evil.repeat(12), tags: { '<b>': '"><script>alert(1)</script>', 'ع\u2067x': 'z'.repeat(200) } });
  page.on('dialog', () => assert.fail('a script ran'));
  await open(page, '/buckets', 'Key buckets');
  await page.getByRole('link', { name }).waitFor();
  assert.equal(await page.locator('main img, main script, main b').count(), 0);
  await page.getByText('U+202E').first().waitFor();
  await checked(page, 'the list with texts of others');
  await page.getByRole('link', { name }).click();
  // The list has the same text, so wait for the heading of the page.
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByText('U+2067').first().waitFor();
  await checked(page, 'the bucket with texts of others');
  for (const path of ['/buckets/%2e%2e', '/buckets/..%2F..%2Fopenapi', '/buckets/%E0%A4%A', '/buckets/<script>']) {
    await page.goto(`${page.url().split('#')[0]}#${path}`);
    await page.getByText(/Not found|No such page|nowhere|nothing of the name/).first().waitFor();
  }
  assert.ok(account.length > 0);
});

story('a filter and a sort order are in the address', async ({ page }) => {
  const word = unique('find');
  for (const letter of ['a', 'c', 'b']) await ask('POST', of('/key-buckets'), { name: `${word}-${letter}` });
  await open(page, '/buckets', 'Key buckets');
  await page.getByRole('searchbox').waitFor();
  await page.keyboard.press('/');
  await type(page, word);
  await page.waitForFunction((w) => location.hash.includes(`find=${w}`), word);
  const names = () => page.locator('tbody th').allTextContents();
  assert.deepEqual(await names(), ['a', 'b', 'c'].map((l) => `${word}-${l}`));
  await page.getByRole('button', { name: 'Name' }).click();
  await page.getByRole('button', { name: 'Name' }).click();
  await page.reload();
  await page.getByRole('link', { name: `${word}-a` }).waitFor();
  assert.deepEqual(await names(), ['c', 'b', 'a'].map((l) => `${word}-${l}`));
  await openFinder(page);
  await type(page, `${word}-b`);
  await page.getByRole('option', { name: `${word}-b Key bucket` }).waitFor();
  await checked(page, 'the finder');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: `${word}-b` }).waitFor();
});

story('text that is typed into a filter does not filter the next page', async ({ page }) => {
  for (const wait of [200, 230, 245, 255, 270]) { // the address follows typing after 250 ms
    await open(page, '/buckets', 'Key buckets');
    await page.getByRole('searchbox').fill('nothing-is-called-so');
    await page.waitForTimeout(wait);
    await page.evaluate(() => (window.location.hash = '#/projects'));
    await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
    await page.waitForTimeout(400);
    assert.equal(new URL(page.url()).hash, '#/projects');
  }
});
