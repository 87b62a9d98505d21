import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ask, checked, of, open, retype, said, story, tabTo, type, unique } from './lib.mjs';

const press = (page) => page.keyboard.press('Enter');
const focusHeading = (page) => page.evaluate(() => document.querySelector('h1').focus());

/** Creates a certificate of a CA or a client, with its key, in PEM. subject is in the format of openssl. */
function certificate({ ca = false, subject = '/O=Acme', days = 10 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'certificate-'));
  try {
    execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-utf8', '-days', `${days}`, '-subj', subject,
      '-addext', `basicConstraints=critical,CA:${ca ? 'TRUE' : 'FALSE'}`, ...(ca ? ['-addext', 'keyUsage=critical,keyCertSign'] : ['-addext', 'extendedKeyUsage=clientAuth']),
      '-keyout', join(folder, 'key'), '-out', join(folder, 'pem')], { stdio: 'ignore' });
    return { pem: readFileSync(join(folder, 'pem'), 'utf8'), key: readFileSync(join(folder, 'key'), 'utf8') };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const cas = async () => (await ask('GET', of('/client-mtls-ca-certificates'))).data;
const word = (w) => unique(w).replaceAll('-', '_');

story('a client CA is added from PEM, renamed and deleted, by the keyboard alone', async ({ page }) => {
  const [name, renamed] = [word('partners'), word('renamed')];
  const { pem } = certificate({ ca: true, subject: '/O=<img src=x onerror=alert(1)>\u202E' });
  page.on('dialog', () => assert.fail('a script ran'));
  await open(page, '/client-cas', 'Client CAs');
  await page.getByText('No client CA yet').or(page.getByRole('searchbox')).first().waitFor();
  await page.keyboard.press('n');
  await page.getByRole('dialog', { name: 'Add a client CA' }).waitFor();
  await tabTo(page, /^Name/);
  await type(page, '1 name');
  await tabTo(page, 'Certificate');
  await type(page, 'no PEM');
  await tabTo(page, 'Add');
  await press(page);
  await page.locator('[data-field=name] .fault').waitFor();
  await checked(page, 'a CA with faults');
  await retype(page, name);
  await press(page);
  await page.locator('[data-field=certificate] .fault').waitFor();
  await page.getByLabel('Certificate', { exact: true }).fill(pem);
  await tabTo(page, 'Add');
  await press(page);
  await said(page, `The CA ${name} is added.`);
  await page.getByText('ends soon').first().waitFor();
  await page.getByText('onerror').first().waitFor();
  assert.equal(await page.locator('main img').count(), 0);
  await checked(page, 'the CAs');

  await focusHeading(page);
  await tabTo(page, `Rename ${name}`);
  await press(page);
  await tabTo(page, /^Name/);
  await retype(page, renamed);
  const { id } = (await cas()).find((c) => c.name === name);
  const theirs = word('theirs');
  await ask('PATCH', of(`/client-mtls-ca-certificates/${id}`), { name: theirs });
  await press(page);
  await page.getByRole('dialog', { name: /has changed meanwhile/ }).waitFor();
  await checked(page, 'two names of a CA');
  assert.equal((await cas()).find((c) => c.id === id).name, theirs);
  await tabTo(page, 'Save mine over it');
  await press(page);
  await said(page, `The CA ${renamed} has its new name.`);
  assert.equal((await cas()).find((c) => c.id === id).name, renamed);

  await page.getByRole('button', { name: `Delete ${renamed}` }).waitFor();
  await focusHeading(page);
  await tabTo(page, `Delete ${renamed}`);
  await press(page);
  await tabTo(page, /^Its name/);
  await type(page, renamed);
  await press(page);
  await said(page, 'is deleted');
  assert.equal((await cas()).find((c) => c.id === id), undefined);
});

story('an mTLS certificate of a project is uploaded, enabled for other environments and deleted, and nothing stores its key', async ({ page }) => {
  const project = unique('shop');
  const name = word('warehouse');
  await ask('POST', '/v1/projects', { name: project });
  const list = async () => (await ask('GET', of(`/projects/${project}/mtls-certificates`))).data;
  const { pem, key } = certificate();
  const secret = key.split('\n')[1];
  await open(page, `/projects/${project}`, project);
  await page.getByRole('link', { name: 'mTLS certificates' }).click();
  await page.getByRole('heading', { level: 1, name: `mTLS certificates of ${project}` }).waitFor();
  await page.getByText('No certificate yet').waitFor();
  await page.keyboard.press('n');
  await tabTo(page, /^Name/);
  await type(page, name);
  await page.getByLabel('Certificate from a file').setInputFiles({ name: 'c.pem', mimeType: 'text/plain', buffer: Buffer.from(pem) });
  await page.getByLabel('Private key', { exact: true }).fill('-----BEGIN');
  await tabTo(page, 'Upload');
  await press(page);
  await page.locator('[data-field=key] .fault').waitFor();
  await checked(page, 'a certificate to upload');
  await page.getByLabel('Private key', { exact: true }).fill(key);
  await tabTo(page, 'preview');
  await page.keyboard.press('Space');
  await tabTo(page, 'Upload');
  await press(page);
  await said(page, `The certificate ${name} is uploaded.`);
  await page.getByText('ends soon').waitFor();
  assert.ok(!(await page.content()).includes(secret));
  assert.ok(!(await page.evaluate((s) => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, history.state, location.href, [...document.querySelectorAll('input, textarea')].map((e) => e.value)]).includes(s), secret)), 'the key is kept');
  await checked(page, 'the certificates');
  assert.deepEqual((await list())[0].environments, { production: true, preview: true, development: false });

  await page.getByRole('button', { name: `Enable ${name}` }).click();
  await page.getByLabel('development').check();
  await ask('PATCH', of(`/projects/${project}/mtls-certificates/${(await list())[0].id}`), { environments: ['preview'] });
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog', { name: /has changed meanwhile/ }).waitFor();
  await page.getByRole('button', { name: 'Save mine over it' }).click();
  await said(page, 'Builds go by where');
  assert.deepEqual((await list())[0].environments, { production: true, preview: true, development: true });

  await page.getByRole('button', { name: `Delete ${name}` }).waitFor();
  await focusHeading(page);
  await tabTo(page, `Delete ${name}`);
  await press(page);
  await tabTo(page, /^Its name/);
  await type(page, name);
  await press(page);
  await page.getByText('No certificate yet').waitFor();
  assert.deepEqual(await list(), []);
});

story('a key that may only read CAs and projects is offered no change of a certificate', async ({ page }) => {
  const project = unique('shop');
  await ask('POST', '/v1/projects', { name: project });
  const { pem } = certificate({ ca: true });
  await ask('POST', of('/client-mtls-ca-certificates'), { name: word('read'), certificate: pem });
  for (const [path, heading] of [['/client-cas', 'Client CAs'], [`/projects/${project}/certificates`, `mTLS certificates of ${project}`]]) {
    await open(page, path, heading);
    await page.getByText('No certificate yet').or(page.getByRole('searchbox')).first().waitFor();
    assert.equal(await page.locator('main').getByRole('button', { name: /Rename|Delete|Add|Upload|Enable/ }).count(), 0);
  }
}, { rights: { scopes: ['ca-certificates:read', 'projects:read'] } });
