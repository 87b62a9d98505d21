import assert from 'node:assert/strict';
import { api, ask, checked, key, of, open, openFinder, retype, said, story, tabTo, type, unique } from './lib.mjs';

const press = (page) => page.keyboard.press('Enter');
const configuration = (id) => of(`/tunnels/${id}/services-configuration`);

/** Reports whether a secret is in the storage of the browser or in the address. */
const kept = (page, secret) => page.evaluate((s) => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state, location.href]).includes(s), secret);

story('a tunnel is created, given services, gets another token and is deleted, by the keyboard alone', async ({ page }) => {
  const name = unique('t').slice(0, 24);
  const project = unique('shop');
  // The name of a service is unique in the account.
  const service = unique('stock');
  await ask('POST', '/v1/projects', { name: project });
  await open(page, '/tunnels', 'Tunnels');
  await page.getByText('No tunnel yet').or(page.getByRole('searchbox')).first().waitFor();
  await checked(page, 'the tunnels');
  await page.keyboard.press('n');
  await page.getByRole('dialog', { name: 'Create a tunnel' }).waitFor();
  await tabTo(page, /^Name/);
  await type(page, 'a b');
  await press(page);
  await page.locator('.fault').filter({ hasText: 'letters' }).waitFor();
  await checked(page, 'a name that is none');
  await retype(page, name);
  await press(page);
  await said(page, `The tunnel ${name} is created.`);
  const { id } = (await ask('GET', of('/tunnels'))).data.find((t) => t.name === name);
  const { token } = await ask('GET', of(`/tunnels/${id}`));
  assert.ok(!(await page.content()).includes(token), 'the token stands in the page before it is asked for');
  await checked(page, 'the token of a new tunnel');
  await tabTo(page, 'Show');
  await press(page);
  await page.getByText(token).waitFor();
  assert.ok(!(await kept(page, token)), 'the browser keeps the token');
  await tabTo(page, 'Say what is behind it');
  await press(page);
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByText('No service yet').waitFor();
  assert.ok(!(await page.content()).includes(token));
  await checked(page, 'a tunnel without services');

  await tabTo(page, 'Edit services');
  await press(page);
  await tabTo(page, 'Add a service');
  await press(page);
  await type(page, service);
  await tabTo(page, /^Endpoint/);
  await type(page, 'localhost');
  await tabTo(page, 'Let a project call it');
  await press(page);
  await page.keyboard.press('Shift+Tab');
  await page.keyboard.press('Shift+Tab');
  for (let i = 0; i < 3; i++) await page.keyboard.press('Shift+Tab');
  assert.match(await page.evaluate(() => document.activeElement.labels?.[0]?.textContent ?? ''), /^Project 1/);
  await type(page, 'nowhere-at-all');
  await press(page);
  await page.locator('[data-field="services[0].endpoint"] .fault').waitFor();
  assert.equal(await page.evaluate(() => document.activeElement.name), 'services[0].endpoint', 'the focus is not where the fault is');
  await checked(page, 'services with a fault');
  await retype(page, 'http://localhost:8080');
  await press(page);
  await page.locator('[data-field="services[0].configurations[0]"] .fault').waitFor();
  await retype(page, project);
  await press(page);
  await said(page, 'The configuration of 1 service is saved.');
  await page.getByText(`${project}: production`).waitFor();
  await page.getByText('The tunnel’s services are as configured.').or(page.getByText("The tunnel's services are as configured.")).waitFor();
  assert.match(page.url(), /provisioning=/);
  await checked(page, 'a tunnel with a service');
  assert.deepEqual((await ask('GET', configuration(id))).services, [{ name: service, endpoint: 'http://localhost:8080', configurations: [{ project, accessibleBy: ['production'] }] }]);

  await tabTo(page, 'Rotate the token');
  await press(page);
  await checked(page, 'the question before a token is rotated');
  await tabTo(page, 'Rotate it');
  await press(page);
  await said(page, 'has another token');
  const rotated = (await ask('GET', of(`/tunnels/${id}`))).token;
  assert.notEqual(rotated, token);
  await tabTo(page, 'Show');
  await press(page);
  await page.getByText(rotated).waitFor();

  await tabTo(page, 'Delete');
  await press(page);
  await page.getByText('1 service', { exact: true }).waitFor();
  await tabTo(page, /^Its name/);
  await type(page, name);
  await press(page);
  await page.getByRole('heading', { level: 1, name: 'Tunnels' }).waitFor();
  await assert.rejects(ask('GET', of(`/tunnels/${id}`)), /404/);
});

story('conflicting configurations of services are both shown', async ({ page }) => {
  const { tunnelId: id, name } = await ask('POST', of('/tunnels'), { name: unique('c').slice(0, 24) });
  const put = (services) => ask('PUT', configuration(id), { version: 1, services: services.map((s) => ({ name: s, endpoint: `http://${s}`, configurations: [] })) });
  const words = ['a', 'b', 'c'].map((w) => unique(w).slice(0, 24));
  await put([words[0]]);
  await open(page, `/tunnels/${id}`, name);
  await page.getByRole('button', { name: 'Edit services' }).click();
  await page.getByLabel('Name').fill(words[1]);
  await put([words[2]]);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog', { name: 'The configuration has changed meanwhile' }).waitFor();
  await page.getByText(`${words[2]} → http://${words[2]}`).waitFor();
  await checked(page, 'two configurations');
  assert.equal((await ask('GET', configuration(id))).services[0].name, words[2], 'the other version was replaced before the person chose');
  await page.getByRole('button', { name: 'Save mine over it' }).click();
  await said(page, 'is saved');
  assert.equal((await ask('GET', configuration(id))).services[0].name, words[1]);
});

story('a key that may only read tunnels is offered no change', async ({ page }) => {
  const { tunnelId: id, name } = await ask('POST', of('/tunnels'), { name: unique('r').slice(0, 24) }, key);
  await open(page, '/tunnels', 'Tunnels');
  await page.getByRole('link', { name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByText('No service yet').waitFor();
  for (const button of ['Edit services', 'Rotate the token', 'Delete']) assert.equal(await page.getByRole('button', { name: button }).count(), 0, button);
  assert.ok(page.url().includes(id) && api.length > 0);
}, { rights: { scopes: ['tunnels:read'] } });

story('hostile text in the filter and in the form of services', async ({ page }) => {
  const { tunnelId: id, name } = await ask('POST', of('/tunnels'), { name: unique('h').slice(0, 24) });
  page.on('dialog', () => assert.fail('a script ran'));
  await open(page, `/tunnels?find=${name}`, 'Tunnels');
  await page.getByRole('link', { name }).waitFor();
  assert.equal(await page.locator('tbody tr').count(), 1);
  await page.getByRole('searchbox').fill('<img src=x onerror=alert(1)>\u202E');
  await said(page, '0 tunnels'); await page.locator('main').getByText('0 tunnels').waitFor();
  await openFinder(page);
  await type(page, name);
  await page.getByRole('option', { name }).waitFor();
  await press(page);
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByRole('button', { name: 'Edit services' }).click();
  await page.getByRole('button', { name: 'Add a service' }).click();
  await page.getByLabel('Name').fill('<script>alert(1)</script>\u202E');
  await page.getByLabel('Endpoint').fill(`javascript:alert(1)//${'x'.repeat(3000)}`);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('[data-field="services[0].name"] .fault').waitFor();
  await page.locator('[data-field="services[0].endpoint"] .fault').waitFor();
  assert.equal(await page.locator('dialog script, dialog img').count(), 0);
  await checked(page, 'hostile services');
  assert.deepEqual((await ask('GET', configuration(id))).services, []);
});
