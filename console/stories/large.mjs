// A bucket with very many consumers, which the test created before it started the product: c-000000 and so on. Every tenth has the tag plan=gold.
import assert from 'node:assert/strict';
import { checked, need, open, story, type } from './lib.mjs';

const name = need('GATEWRIGHT_CONSOLE_LARGE_BUCKET');
const count = Number(need('GATEWRIGHT_CONSOLE_CONSUMERS'));
/** The maximum number of elements of the page, however many consumers there are. */
const maxElements = 300;
const nameOf = (i) => `c-${String(i).padStart(6, '0')}`;

/** Records the largest number of elements, and the duration of each frame from now on. */
const watchFrames = (page) => page.evaluate(() => {
  window.seen = { elements: 0, frames: [] };
  let last = performance.now();
  const look = (now) => {
    window.seen.elements = Math.max(window.seen.elements, document.querySelectorAll('*').length);
    window.seen.frames.push(now - last);
    last = now;
    requestAnimationFrame(look);
  };
  requestAnimationFrame(look);
});

story(`${count} consumers need few elements, and can be scrolled`, async ({ page }) => {
  await open(page, `/buckets/${name}/consumers`, 'Consumers');
  await page.locator('#main').getByText(`${count.toLocaleString('en-US')} consumers`, { exact: true }).waitFor();
  await page.getByRole('link', { name: nameOf(0) }).waitFor();
  await checked(page, 'very many consumers');
  await page.getByRole('button', { name: 'Load all' }).click();
  await page.getByText('are loaded; more come').waitFor({ state: 'detached', timeout: 200_000 });
  const table = page.getByRole('table', { name: `Consumers of ${name}` });
  assert.equal(await table.getAttribute('aria-rowcount'), String(count + 1));
  await page.getByRole('link', { name: nameOf(0) }).hover();
  // Measure the frames of a page at rest, to compare scrolling with them.
  await watchFrames(page);
  await page.waitForTimeout(2_000);
  const rest = await page.evaluate(() => window.seen.frames.splice(0));
  for (let i = 0; i < 120; i++) await page.mouse.wheel(0, i % 20 === 19 ? 36 * 2000 : 480);
  await page.waitForFunction(() => {
    const { scrollTop } = document.querySelector('.virtual');
    const still = scrollTop > 0 && scrollTop === window.lastTop;
    window.lastTop = scrollTop;
    return still;
  }, undefined, { polling: 500 });
  const seen = await page.evaluate(() => window.seen);
  assert.ok(seen.frames.length > 10, `there were ${seen.frames.length} frames only`);
  assert.ok(seen.elements <= maxElements, `the page has ${seen.elements} elements`);
  // A busy machine is not a defect, so print this and do not assert it. A refresh is a sixtieth of a second.
  const within = (frames) => `${((frames.filter((f) => f <= 2000 / 60 + 1).length / frames.length) * 100).toFixed(1)} % of ${frames.length} frames within two refreshes`;
  console.log(`${count} consumers: at most ${seen.elements} elements; scrolling ${within(seen.frames)}, at rest ${within(rest)}`);

  await page.locator('.virtual tbody tr[tabindex="0"]').focus();
  await page.keyboard.press('End');
  await page.waitForFunction((at) => document.activeElement?.getAttribute('aria-rowindex') === at, String(count + 1));
  await page.keyboard.press('PageUp');
  await page.keyboard.press('Home');
  await page.waitForFunction(() => document.activeElement?.getAttribute('aria-rowindex') === '2');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: nameOf(1) }).waitFor();
});

story('very many consumers are searched by the beginning of a name and by a tag, in the address', async ({ page }) => {
  await open(page, `/buckets/${name}/consumers`, 'Consumers');
  await page.getByRole('link', { name: nameOf(0) }).waitFor();
  await page.keyboard.press('/');
  await type(page, 'c-0001');
  await page.locator('#main').getByText('100 consumers', { exact: true }).waitFor();
  await page.getByRole('link', { name: nameOf(100) }).waitFor();
  await page.getByLabel('Tags').fill('plan=gold');
  await page.locator('#main').getByText('10 consumers', { exact: true }).waitFor();
  assert.equal(await page.locator('.virtual tbody th').count(), 10);
  await page.getByText(`gatewright consumer list --bucket ${name} --name-prefix c-0001 --tag plan=gold`).waitFor();
  await page.reload();
  await page.locator('#main').getByText('10 consumers', { exact: true }).waitFor();
  assert.equal(await page.getByLabel('Name begins with').inputValue(), 'c-0001');
  await page.getByLabel('Tags').fill('plan');
  await page.getByText('Write it as name=value.').waitFor();
  await page.getByLabel('Tags').fill('plan=none, other=1');
  await page.getByText('No consumer is like that').waitFor();
  await checked(page, 'no consumer is like that');
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.locator('#main').getByText(`${count.toLocaleString('en-US')} consumers`, { exact: true }).waitFor();
  assert.ok(!page.url().includes('prefix'), page.url());
});
