import assert from 'node:assert/strict';
import { ask, checked, open, retype, said, story, tabTo, type, unique } from './lib.mjs';

const press = (page) => page.keyboard.press('Enter');
const focusHeading = (page) => page.evaluate(() => document.querySelector('h1').focus());

/** Creates a metering bucket with a plan. */
async function bucketWithPlan(label = 'Small') {
  const { id } = await ask('POST', '/v1/metering');
  const plan = await ask('POST', `/v1/metering/${id}/plans`, { label, planExternalId: 'price_small', meters: { requests: { max: 1000 } } });
  return { id, plan };
}

/** Subscribes a customer to a plan. */
const subscribe = ({ id, plan }, customerKey) => ask('POST', `/v1/metering/${id}/subscriptions`, {
  customerKey, customerExternalId: 'cus_1', subscriptionExternalId: unique('sub'), planIds: [plan.id], planExternalIds: [plan.planExternalId], status: 'active', region: 'us-central1', renewalStrategy: 'monthly', type: 'periodic',
});

story('a metering bucket, a plan and a subscription are made, changed and deleted, by the keyboard alone', async ({ page }) => {
  await open(page, '/metering', 'Metering');
  await page.getByText('No metering bucket yet').or(page.getByRole('searchbox')).first().waitFor();
  await checked(page, 'the metering buckets');
  await page.keyboard.press('n');
  await tabTo(page, 'Create');
  await press(page);
  await said(page, 'The metering bucket is created.');
  await page.getByText('No plan yet').waitFor();
  const id = /metering\/([^/?]+)/.exec(page.url())[1];
  await checked(page, 'an empty metering bucket');

  await tabTo(page, 'Create a plan');
  await press(page); // the field for the label has the focus
  await type(page, 'Small');
  await tabTo(page, /^External id/);
  await type(page, 'price_small');
  await tabTo(page, /^Units a period/);
  await type(page, '-5');
  await press(page);
  await page.locator('[data-field="meters.requests.max"] .fault').waitFor();
  await checked(page, 'a plan with a fault');
  await retype(page, '9007199254740991');
  await tabTo(page, 'Add a meter');
  await press(page);
  await type(page, 'requests');
  await press(page);
  await page.getByText('The meter requests stands there twice.').waitFor();
  await retype(page, 'computeUnits');
  await page.keyboard.press('Tab');
  await type(page, '50');
  await press(page);
  await said(page, 'The plan Small is created.');
  await page.getByText('9,007,199,254,740,991').waitFor();
  const [plan] = (await ask('GET', `/v1/metering/${id}/plans`)).data;
  assert.deepEqual(Object.fromEntries(Object.entries(plan.meters).map(([k, m]) => [k, m.max])), { requests: 9007199254740991, computeUnits: 50 });

  await focusHeading(page);
  await tabTo(page, 'Edit the plan Small');
  await press(page);
  await page.getByLabel(/^Label/).first().waitFor();
  await retype(page, 'Little');
  await press(page);
  await said(page, 'The plan Little is saved.');

  await focusHeading(page);
  await tabTo(page, 'Create a subscription');
  await press(page);
  await type(page, 'acme');
  await page.keyboard.press('Tab');
  await type(page, 'cus_1');
  await page.keyboard.press('Tab');
  await type(page, 'sub_1');
  await press(page);
  await page.getByText('Choose at least one plan.').waitFor();
  await checked(page, 'a subscription without a plan');
  await tabTo(page, /^Little/);
  await page.keyboard.press('Space');
  await tabTo(page, 'Create');
  await press(page);
  await page.getByRole('heading', { level: 1, name: 'Subscription of acme' }).waitFor();
  await page.getByRole('meter', { name: 'Left of computeUnits' }).waitFor();
  await checked(page, 'a subscription');

  await tabTo(page, 'Edit');
  await press(page);
  await tabTo(page, /^Part of the quotas/);
  await type(page, '2');
  await press(page);
  await page.locator('[data-field=prorate] .fault').waitFor();
  await retype(page, '0.5');
  await press(page);
  await said(page, 'The subscription of acme is saved.');
  await page.locator('td.numeric').getByText('25', { exact: true }).waitFor();

  await focusHeading(page);
  await tabTo(page, /^An instant of the period/);
  await type(page, '1999-01-01T00:00:00Z');
  await press(page);
  await page.locator('main .problem').waitFor();
  assert.match(page.url(), /period=1999/);
  await checked(page, 'a period that is none');
  await focusHeading(page);
  await tabTo(page, 'Delete');
  await press(page);
  await tabTo(page, /^Its name/);
  await type(page, 'acme');
  await press(page);
  await page.getByText('No subscription yet').waitFor();

  await focusHeading(page);
  await tabTo(page, 'Delete the plan Little');
  await press(page);
  await tabTo(page, /^Its name/);
  await type(page, 'Little');
  await press(page);
  await page.getByText('No plan yet').waitFor();
  await focusHeading(page);
  await tabTo(page, 'Delete');
  await press(page);
  await page.getByText('0 plans and 0 subscriptions').waitFor();
  await tabTo(page, /^Its name/);
  await type(page, id);
  await press(page);
  await page.getByRole('heading', { level: 1, name: 'Metering' }).waitFor();
  await assert.rejects(ask('GET', `/v1/metering/${id}`), /404/);
});

story('a plan and a subscription that others have changed meanwhile are shown in both versions', async ({ page }) => {
  const made = await bucketWithPlan();
  const planPath = `/v1/metering/${made.id}/plans/${made.plan.id}`;
  await open(page, `/metering/${made.id}`, made.id);
  await page.getByRole('button', { name: 'Edit the plan Small' }).click();
  await page.getByLabel(/^Units a period/).fill('2000');
  await ask('PATCH', planPath, { meters: { requests: { max: 3000 } } });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('requests: 3000').waitFor();
  await checked(page, 'two versions of a plan');
  assert.equal((await ask('GET', planPath)).meters.requests.max, 3000);
  await page.getByRole('button', { name: 'Take what is saved' }).click();
  assert.equal(await page.getByLabel(/^Units a period/).inputValue(), '3000');
  await page.getByLabel(/^Units a period/).fill('4000');
  await page.getByRole('button', { name: 'Save' }).click();
  await said(page, 'The plan Small is saved.');
  assert.equal((await ask('GET', planPath)).meters.requests.max, 4000);

  const { id } = await subscribe(made, 'globex');
  const path = `/v1/metering/${made.id}/subscriptions/${id}`;
  await open(page, `/metering/${made.id}/subscriptions/${id}`, 'Subscription of globex');
  await page.locator('tbody td').first().waitFor();
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByRole('combobox', { name: 'Status' }).selectOption('paused');
  await ask('PATCH', path, { status: 'unpaid' });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog', { name: /has changed meanwhile/ }).waitFor();
  await page.getByRole('button', { name: 'Save mine over it' }).click();
  await said(page, 'The subscription of globex is saved.');
  assert.equal((await ask('GET', path)).status, 'paused');
});

story('hostile text of plans and subscriptions is shown as text, and a key that may only read is offered no change', async ({ page }) => {
  const evil = '<img src=x onerror=alert(1)> \u202Etxt.exe ${1}';
  page.on('dialog', () => assert.fail('a script ran'));
  const made = await bucketWithPlan(evil);
  const { id } = await subscribe(made, `${evil}${'z'.repeat(200)}`);
  await open(page, '/metering', 'Metering');
  await page.getByRole('searchbox').fill(made.id);
  await page.getByRole('link', { name: made.id }).click();
  await page.getByText('U+202E').first().waitFor();
  await page.getByRole('link', { name: 'onerror' }).waitFor();
  assert.equal(await page.locator('main img, main script').count(), 0);
  await checked(page, 'a metering bucket with texts of others');
  await page.getByRole('link', { name: 'onerror' }).click();
  await page.getByRole('meter').waitFor();
  assert.match(page.url(), new RegExp(id));
  await checked(page, 'a subscription with texts of others');
  assert.equal(await page.locator('main img, main script').count(), 0);
  for (const button of ['Edit', 'Delete']) assert.equal(await page.getByRole('button', { name: button }).count(), 0);
}, { rights: { scopes: ['metering:read'] } });
