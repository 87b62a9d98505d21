import assert from 'node:assert/strict';
import { ask, checked, fetchAPI, key, of, open, said, story, tabTo, type, unique } from './lib.mjs';

const row = (page, text) => page.getByRole('row').filter({ hasText: text });
/** Sends a request and returns the status. */
const statusOf = async (method, path, body) => {
  return (await fetchAPI(path, { method, headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify(body) })).status;
};

/** Returns the record of a bucket that a story has just created. Other stories create buckets at the same time. */
async function recorded(bucket) {
  const { data } = await ask('GET', of('/audit-logs?limit=100&action=key-bucket.create&success=true'));
  return data.find((record) => record.resources.some((r) => r.metadata?.name === bucket)) ?? assert.fail(`no record of ${bucket}`);
}

story('records are found with filters, which are in the address, and a record is opened', async ({ page }) => {
  const name = unique('audited');
  await ask('POST', of('/key-buckets'), { name });
  assert.equal(await statusOf('POST', of('/key-buckets'), { name: 'No' }), 400);
  const { actor } = await recorded(name);
  await page.keyboard.press('g');
  await page.keyboard.press('a');
  await page.getByRole('heading', { level: 1, name: 'Audit log' }).waitFor();
  await row(page, name).waitFor();
  await checked(page, 'the audit log');
  await tabTo(page, /^Action/);
  await type(page, 'key-bucket.create');
  await tabTo(page, /^Who/);
  await type(page, actor.sub);
  await page.waitForFunction((sub) => location.hash.includes(`actor=${sub}`) && location.hash.includes('action=key-bucket.create'), actor.sub);
  await tabTo(page, /^Outcome/);
  await type(page, 'what was refused');
  await page.waitForFunction(() => location.hash.includes('success=false'));
  await row(page, name).waitFor({ state: 'detached' });
  await row(page, 'refused').first().waitFor();
  const outcomes = await page.locator('tbody tr td:nth-child(2)').allTextContents();
  assert.ok(outcomes.length > 0 && outcomes.every((o) => o === 'refused'), outcomes.join());
  await page.getByText(`gatewright log list --action key-bucket.create --actor ${actor.sub} --success=false`).waitFor();
  await page.reload();
  await row(page, 'refused').first().waitFor();
  assert.equal(await page.getByLabel('Outcome').inputValue(), 'false');
  await page.getByLabel('Outcome').selectOption('true');
  await row(page, name).waitFor();

  await page.getByLabel('To', { exact: true }).fill('2021-01-20T00:00:00');
  await page.getByLabel('From').fill('2021-01-10T00:00:00');
  await page.getByText('No record', { exact: true }).waitFor();
  assert.match(page.url(), /start=2021-01-(09|10)T/);
  await page.getByLabel('To', { exact: true }).fill('2021-03-01T00:00:00');
  await page.getByText('more than 30 days').waitFor();
  await checked(page, 'the audit log with a fault');
  // The records from the beginning may no longer be on the first page, because other stories write too.
  const last = unique('audited');
  await ask('POST', of('/key-buckets'), { name: last });
  const { timestamp } = await recorded(last);
  await page.getByRole('button', { name: 'Clear the filters' }).click();
  await row(page, last).waitFor();

  await row(page, last).getByRole('button', { name: 'key-bucket.create' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'key-bucket.create' });
  await dialog.getByText(`POST ${of('/key-buckets')}`).first().waitFor();
  await checked(page, 'a record');
  assert.match(page.url(), /record=/);
  // A person who opens the address sees the record, even if no loaded page has it.
  await page.goto(`${page.url().split('?')[0]}?action=key-bucket.delete&record=${encodeURIComponent(new URLSearchParams(page.url().split('?')[1]).get('record'))}`);
  await dialog.getByText(last).first().waitFor();
  assert.ok(page.url().includes(encodeURIComponent(timestamp).slice(0, 10)));
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  assert.ok(!page.url().includes('record='));
});

story('new records appear while the page follows the log', async ({ page }) => {
  await open(page, '/audit-log', 'Audit log');
  await page.getByRole('table').waitFor();
  await tabTo(page, 'Follow the newest');
  await page.keyboard.press('Space');
  await page.getByText('asked for every 3 seconds').waitFor();
  const name = unique('followed');
  await ask('POST', of('/key-buckets'), { name });
  await row(page, name).waitFor();
  await said(page, 'new record');
  assert.match(page.url(), /follow=yes/);
  await page.getByText('gatewright log list --follow').waitFor();
});

story('older records come page by page', async ({ page }) => {
  const name = unique('paged');
  await ask('POST', of('/key-buckets'), { name });
  for (let i = 0; i < 110; i++) await ask('POST', of(`/key-buckets/${name}/consumers`), { name: `${name}-${i}` });
  await open(page, '/audit-log?action=consumer.create', 'Audit log');
  await page.getByRole('button', { name: 'Load older ones' }).click();
  await row(page, `${name}-0`).waitFor();
  const own = (await page.locator('tbody tr td:nth-child(5)').allTextContents()).filter((t) => t.includes(name));
  assert.deepEqual(own, Array.from({ length: 110 }, (_, i) => `consumer ${name}-${109 - i}`), 'a record is missing, occurs twice, or is in the wrong order');
});

story('a key that may not read the log is not offered it', async ({ page }) => {
  const links = await page.getByRole('navigation', { name: 'Pages' }).getByRole('link').allTextContents();
  assert.ok(!links.includes('Audit log') && !links.includes('Account keys'), links.join());
}, { rights: { scopes: ['key-buckets:read'] } });
