import assert from 'node:assert/strict';
import { account, ask, checked, of, open, said, story, tabTo, type, unique } from './lib.mjs';

const project = async () => {
  const name = unique('shop');
  await ask('POST', `/v1/projects?accountName=${account}`, { name });
  return name;
};
const variables = (name, branch) => of(`/projects/${name}/branches/${encodeURIComponent(branch)}/variables`);

story('a project with an environment is created, and deleted with its environment', async ({ page }) => {
  const name = unique('shop');
  await open(page, '/projects', 'Projects');
  await page.keyboard.press('n');
  await page.getByRole('dialog', { name: 'Create a project' }).waitFor();
  await tabTo(page, /^Name/);
  await type(page, '-no-');
  await page.keyboard.press('Enter');
  await page.getByRole('alert').waitFor();
  await checked(page, 'the form of a project with a fault');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill(name);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByText('No environment yet').waitFor();
  await checked(page, 'a project');
  await page.keyboard.press('n');
  // The page has a field of this name too, so wait for the dialog.
  await page.getByRole('dialog', { name: 'Create an environment' }).getByRole('textbox', { name: 'Branch', exact: true }).fill('feature/blue');
  await page.getByText('preview', { exact: true }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('table', { name: 'Environments' }).getByText('feature/blue').first().waitFor();
  await checked(page, 'a project with an environment');
  const environments = (await ask('GET', `/v1/environments?projectName=${name}`)).data;
  assert.deepEqual(environments.map((e) => [e.branchName, e.environmentType]), [['feature/blue', 'preview']]);

  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('1 environment').waitFor();
  await checked(page, 'the question before a project is deleted');
  await page.getByRole('textbox', { name: /^Its name/ }).fill(name);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Projects' }).waitFor();
  await said(page, `The project ${name} is deleted.`);
  await assert.rejects(ask('GET', of(`/projects/${name}`)), /404/);
});

story('variables are made, changed and deleted; a secret is never shown', async ({ page }) => {
  const name = await project();
  const branch = 'feature/blue';
  const secret = unique('s3cret');
  await open(page, `/projects/${name}`, name);
  await page.getByRole('textbox', { name: 'Branch', exact: true }).fill(branch);
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('heading', { level: 1, name: `Variables of ${branch}` }).waitFor();
  await page.getByText('No variable yet').waitFor();
  await page.keyboard.press('n');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('upstream_token');
  await page.getByRole('textbox', { name: 'Value' }).fill('x'.repeat(5121));
  await page.getByText('It has 5121 bytes').waitFor();
  await checked(page, 'the form of a variable');
  await page.getByRole('textbox', { name: 'Value' }).fill(secret);
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await said(page, 'The variable UPSTREAM_TOKEN is created.');
  await page.getByRole('cell', { name: 'secret' }).waitFor();
  assert.ok(!(await page.content()).includes(secret), 'the secret stands in the page');
  assert.ok(!page.url().includes(secret));

  await ask('POST', variables(name, branch), { name: 'ORIGIN', value: 'https://one.example.com', isSecret: false });
  await page.reload();
  await page.getByText('https://one.example.com').waitFor();
  await checked(page, 'variables');
  await page.getByRole('button', { name: 'Change ORIGIN' }).click();
  const value = page.getByRole('textbox', { name: 'Value' });
  assert.equal(await value.inputValue(), 'https://one.example.com');
  await value.fill('https://mine.example.com');
  await ask('PATCH', `${variables(name, branch)}/ORIGIN`, { value: 'https://theirs.example.com' });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog', { name: 'The variable ORIGIN has changed meanwhile' }).waitFor();
  await page.getByRole('cell', { name: 'https://theirs.example.com' }).waitFor();
  await page.getByRole('button', { name: 'Save mine over it' }).click();
  await said(page, 'The variable ORIGIN is saved.');
  assert.equal((await ask('GET', `${variables(name, branch)}/ORIGIN`)).value, 'https://mine.example.com');

  await page.getByRole('button', { name: 'Change UPSTREAM_TOKEN' }).click();
  assert.equal(await page.getByRole('textbox', { name: 'Value' }).inputValue(), '');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByText('Type the new value.').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'Delete ORIGIN' }).click();
  await page.getByRole('textbox', { name: /^Its name/ }).fill('ORIGIN');
  await page.keyboard.press('Enter');
  await said(page, 'The variable ORIGIN is deleted.');
  assert.deepEqual((await ask('GET', variables(name, branch))).data.map((v) => v.name), ['UPSTREAM_TOKEN']);
});

story('a key of another project that may only read sees no project and no button', async ({ page }) => {
  await open(page, '/projects', 'Projects');
  await page.getByText('No project yet').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Create a project' }).count(), 0);
  await page.goto(`${page.url().split('#')[0]}#/projects/another`);
  await page.getByRole('alert').filter({ hasText: 'out of this key’s reach' }).waitFor();
}, { rights: { scopes: ['projects:read'], projects: ['no-such-project'] } });
