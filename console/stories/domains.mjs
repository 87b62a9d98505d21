import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { account, ask, checked, of, open, retype, said, story, tabTo, type, unique } from './lib.mjs';

const press = (page) => page.keyboard.press('Enter');

/** Creates a certificate for a hostname, with its key, in PEM. */
function certificate(hostname, days = 10) {
  const folder = mkdtempSync(join(tmpdir(), 'certificate-'));
  try {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', `${days}`, '-subj', '/O=Acme', '-addext', `subjectAltName=DNS:${hostname}`,
      '-addext', 'basicConstraints=critical,CA:FALSE', '-keyout', join(folder, 'key'), '-out', join(folder, 'pem')], { stdio: 'ignore' });
    return { pem: readFileSync(join(folder, 'pem'), 'utf8'), key: readFileSync(join(folder, 'key'), 'utf8') };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Sets a record that replaces a DNS record (docs/custom-domains.md). */
const setRecord = ({ name, value }) => appendFileSync(join(process.env.GATEWRIGHT_CONSOLE_DATA, 'dns-records'), `${name} TXT ${value}\n`);

/** Deploys an empty OpenAPI document to a branch, and returns the name of the deployment. */
async function deploy(projectName, branchName) {
  const folder = mkdtempSync(join(tmpdir(), 'deploy-'));
  try {
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config', 'routes.oas.json'), JSON.stringify({ openapi: '3.1.0', info: { title: 'story', version: '1' }, paths: {} }));
    const archive = execFileSync('tar', ['-cz', '-C', folder, '.']);
    const source = await ask('POST', '/v1/deployments/sources', { accountName: account, projectName, branchName });
    const put = await fetch(source.uploadUrl, { method: 'PUT', body: archive });
    assert.ok(put.ok, `${put.status} ${await put.text()}`);
    for (;;) {
      const { status } = await ask('GET', of(`/projects/${projectName}/deployment-status/${source.deploymentId}`));
      assert.notEqual(status, 'ERROR');
      if (status !== 'IN_PROGRESS') break;
      await new Promise((done) => setTimeout(done, 500));
    }
    const { data } = await ask('GET', of(`/projects/${projectName}/deployments`));
    return data.find((d) => d.branchName === branchName || d.name.includes(`-${branchName}-`)).name;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const read = (hostname) => ask('GET', of(`/custom-domains/${hostname}`));

/** Reports whether a private key is in the page, in the storage of the browser, or in the address. */
const holds = async (page, text) => (await page.content()).includes(text) || page.evaluate((s) => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state, location.href, [...document.querySelectorAll('input, textarea')].map((e) => e.value)]).includes(s), text);

story('a custom domain is added, verified, given a certificate and deleted, by the keyboard alone', async ({ page }) => {
  const hostname = `${unique('api')}.example.com`;
  await open(page, '/domains', 'Custom domains');
  await page.keyboard.press('n');
  await page.getByRole('dialog', { name: 'Add a custom domain' }).waitFor();
  await tabTo(page, /^Hostname/);
  await type(page, 'not a hostname');
  await press(page);
  await page.locator('[data-field=hostname] .fault').waitFor();
  await checked(page, 'a hostname that is none');
  await retype(page, hostname);
  await press(page);
  await page.getByRole('heading', { level: 1, name: hostname }).waitFor();
  await said(page, `The custom domain ${hostname} is added.`);
  const proof = (await read(hostname)).ownershipVerification;
  await page.getByText(proof.value).waitFor();
  await checked(page, 'a custom domain that is not proven');
  assert.equal(await page.getByRole('button', { name: /Upload/ }).count(), 0, 'a certificate can be uploaded before the hostname is verified');

  await tabTo(page, 'Copy the value of the TXT record');
  await press(page);
  await said(page, 'Copied');
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), proof.value);
  await page.keyboard.press('Shift+Tab');
  await page.evaluate(() => document.querySelector('h1').focus());
  await tabTo(page, 'Look for the record now');
  await press(page);
  await page.locator('main .problem').waitFor();
  await checked(page, 'a record that is missing');
  await page.evaluate(() => document.querySelector('h1').focus());
  await tabTo(page, 'Look for the record now');
  // Set the record last: the server looks for it too, and the button disappears when it finds it.
  setRecord(proof);
  await press(page);
  await page.getByText('The hostname is yours; its TXT record may go.').waitFor();

  const { pem, key } = certificate(hostname);
  const secret = key.split('\n')[1];
  await page.evaluate(() => document.querySelector('h1').focus());
  await tabTo(page, 'Upload a certificate');
  await press(page);
  await page.getByLabel('Certificate', { exact: true }).fill(pem);
  await page.getByLabel('Private key', { exact: true }).fill('no key');
  await checked(page, 'a certificate to upload');
  await page.evaluate(() => document.querySelector('dialog textarea').focus());
  await tabTo(page, 'Upload');
  await press(page);
  await page.locator('[data-field=key] .fault').waitFor();
  await page.getByLabel('Private key from a file').setInputFiles({ name: 'key.pem', mimeType: 'text/plain', buffer: Buffer.from(key) });
  await page.waitForFunction((s) => document.querySelector('textarea[name=key]').value.includes(s), secret);
  await page.evaluate(() => document.querySelector('dialog textarea').focus());
  await tabTo(page, 'Upload');
  await press(page);
  await said(page, 'within 5 seconds');
  await page.getByText('ends soon').waitFor();
  assert.ok(!(await holds(page, secret)), 'the key is in the page, the browser or the address after it was sent');
  await checked(page, 'a custom domain with a certificate');
  assert.equal((await read(hostname)).certificate.source, 'uploaded');
  await page.evaluate(() => document.querySelector('h1').focus());
  await tabTo(page, 'Upload another one');
  await press(page);
  assert.equal(await page.getByLabel('Private key', { exact: true }).inputValue(), '', 'the form remembers the key');
  await page.keyboard.press('Escape');

  await tabTo(page, 'Delete the certificate');
  await press(page);
  await tabTo(page, 'Delete it');
  await press(page);
  await page.getByText('No certificate', { exact: true }).waitFor();
  assert.equal((await read(hostname)).certificate, null);

  await page.evaluate(() => document.querySelector('h1').focus());
  await tabTo(page, 'Delete');
  await press(page);
  await tabTo(page, /^Its name/);
  await type(page, hostname);
  await press(page);
  await page.getByRole('heading', { level: 1, name: 'Custom domains' }).waitFor();
  await assert.rejects(read(hostname), /404/);
});

story('a page shows that a custom domain was verified in the meantime', async ({ page }) => {
  const hostname = `${unique('self')}.example.com`;
  await ask('POST', of('/custom-domains'), { hostname, isAlias: true });
  await open(page, `/domains/${hostname}`, hostname);
  const { ownershipVerification } = await read(hostname);
  await page.getByText(ownershipVerification.value).waitFor();
  setRecord(ownershipVerification);
  await ask('POST', of(`/custom-domains/${hostname}/verify`));
  await said(page, `${hostname} is proven to be yours.`);
  await page.getByText('An alias has none: TLS ends before the gateway.').waitFor();
  assert.equal(await page.getByRole('button', { name: /Upload/ }).count(), 0);
});

story('the deployments of a hostname are changed and added, and a conflict is shown', async ({ page }) => {
  const hostname = `${unique('lead')}.example.com`;
  const project = unique('shop');
  await ask('POST', '/v1/projects', { name: project });
  const [main, next] = [await deploy(project, 'main'), await deploy(project, 'next')];
  await ask('POST', of('/custom-domains'), { hostname });
  const served = async () => (await read(hostname)).deployments.find((d) => d.isDefault)?.deploymentName ?? '';
  await open(page, `/domains/${hostname}`, hostname);
  await page.getByRole('button', { name: 'Change what is served' }).click();
  await page.getByRole('textbox', { name: /^Deployment/ }).fill('<img src=x>\u202E');
  await page.getByRole('button', { name: 'Save' }).click();
  await page.locator('dialog .problem, dialog .fault').first().waitFor();
  await page.getByRole('textbox', { name: /^Deployment/ }).fill(main);
  await page.getByRole('button', { name: 'Save' }).click();
  await said(page, `leads to ${main}`);
  await page.getByRole('button', { name: 'Add a deployment' }).click();
  await page.getByRole('textbox', { name: /^Deployment/ }).fill(next);
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await said(page, `leads to ${next} as well`);
  assert.equal(await served(), main);
  await checked(page, 'a hostname of two deployments');
  await page.getByRole('button', { name: `Serve ${next}` }).click();
  await page.getByRole('button', { name: 'Serve it' }).click();
  await said(page, `serves ${next}`);
  assert.equal(await served(), next);
  await page.getByRole('button', { name: `Remove ${main}` }).click();
  await page.getByRole('button', { name: 'Remove it' }).click();
  await said(page, 'no more');
  await page.getByRole('button', { name: `Remove ${main}` }).waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'Change what is served' }).click();
  await page.getByRole('textbox', { name: /^Deployment/ }).fill('');
  await ask('PATCH', of('/custom-domains'), { hostname, deploymentName: main });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog', { name: /has changed meanwhile/ }).waitFor();
  await checked(page, 'two versions of a custom domain');
  assert.equal(await served(), main);
  await page.getByRole('button', { name: 'Save mine over it' }).click();
  await page.getByText('It leads nowhere yet').waitFor();
  assert.equal(await served(), '');
});

story('a key that may only read custom domains is offered no change', async ({ page }) => {
  const hostname = `${unique('read')}.example.com`;
  await ask('POST', of('/custom-domains'), { hostname });
  await open(page, `/domains?find=${hostname}`, 'Custom domains');
  await checked(page, 'the custom domains');
  await page.getByRole('link', { name: hostname }).click();
  await page.getByRole('heading', { level: 1, name: hostname }).waitFor();
  await page.getByRole('heading', { level: 2, name: 'DNS' }).waitFor();
  for (const button of ['Delete', 'Look for the record now', 'Change what is served', 'Add a deployment']) assert.equal(await page.getByRole('button', { name: button }).count(), 0, button);
}, { rights: { scopes: ['custom-domains:read'] } });
