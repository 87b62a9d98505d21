import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { account, api, ask, checked, of, open, said, story, tabTo, unique } from './lib.mjs';

const forward = { handler: { export: 'urlForwardHandler', module: '$import(@gatewright/runtime)', options: { baseUrl: api } } };
const okResponse = { responses: { 200: { description: 'Well.' } } };

/** Uploads a project with these paths and policies, and returns its status when the build has ended. */
async function deploy(projectName, { paths, policies = [], branch = 'main', sha = 'c0ffee1' }) {
  const folder = mkdtempSync(join(tmpdir(), 'console-story-'));
  try {
    mkdirSync(join(folder, 'project', 'config'), { recursive: true });
    writeFileSync(join(folder, 'project', 'config', 'routes.oas.json'), JSON.stringify({ openapi: '3.1.0', info: { title: 'Shop', version: '1' }, paths }, undefined, 1));
    writeFileSync(join(folder, 'project', 'config', 'policies.json'), JSON.stringify({ policies }, undefined, 1));
    execFileSync('tar', ['-czf', join(folder, 'project.tar.gz'), '-C', join(folder, 'project'), '.']);
    const source = await ask('POST', '/v1/deployments/source-url', { accountName: account, projectName, environment: branch, sha });
    const put = await fetch(source.uploadUrl, { method: 'PUT', body: readFileSync(join(folder, 'project.tar.gz')) });
    assert.ok(put.ok, `the upload: ${put.status}`);
    for (;;) {
      const status = await ask('GET', of(`/projects/${projectName}/deployment-status/${source.deploymentId}`));
      if (status.status !== 'IN_PROGRESS') return { ...status, id: source.deploymentId, name: /\/\/([^.]+)/.exec(status.url)?.[1] };
      await new Promise((done) => setTimeout(done, 200));
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Creates and deploys a project with a public route and a route that requires a key of an empty bucket. */
async function served(branch) {
  const project = unique('shop');
  const bucket = unique('keys');
  await ask('POST', of('/key-buckets'), { name: bucket });
  const policies = [{ name: 'who-are-you', policyType: 'api-key-inbound', handler: { export: 'ApiKeyInboundPolicy', module: '$import(@gatewright/runtime)', options: { bucketName: bucket } } }];
  const paths = {
    '/v1/openapi.json': { get: { ...okResponse, operationId: 'describe', 'x-gateway-route': forward } },
    '/orders/{id}': { get: { ...okResponse, operationId: 'readOrder', parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string' } }], 'x-gateway-route': { ...forward, policies: { inbound: ['who-are-you'] } } } },
  };
  const status = await deploy(project, { paths, policies, ...(branch ? { branch } : {}) });
  assert.equal(status.status, 'SUCCESS', JSON.stringify(status));
  return { project, name: status.name, url: new URL(status.url), paths, policies };
}

/** Calls a deployment and returns the status. This machine need not know the host name of the deployment. */
const callDeployment = (url, path) => new Promise((done, failed) => {
  request({ host: '127.0.0.1', port: url.port, path, headers: { host: url.host } }, (answer) => answer.resume().on('end', () => done(answer.statusCode))).on('error', failed).end();
});

/** Replaces the response to an operation of the API. */
const mock = (page, path, answer) => page.route((url) => url.pathname.endsWith(path), (route) => route.fulfill({ json: typeof answer === 'function' ? answer(new URL(route.request().url())) : answer }));

/** Waits until is returns true, at most a minute. Gateways report calls within 20 seconds. */
async function until(what, is) {
  for (let i = 0; i < 120; i++) {
    if (await is()) return;
    await new Promise((done) => setTimeout(done, 500));
  }
  assert.fail(`not within a minute: ${what}`);
}

story('a deployment is built again, rolled back and deleted by the keyboard', async ({ page }) => {
  const { project, name } = await served();
  await open(page, `/projects/${project}`, project);
  await tabTo(page, 'Deployments');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: `Deployments of ${project}` }).waitFor();
  await page.getByRole('table', { name: 'Deployments' }).getByText('started').waitFor();
  await checked(page, 'deployments');
  await page.getByRole('searchbox').fill('nothing-of-this');
  await page.getByText('None of these').waitFor();
  assert.match(page.url(), /find=nothing-of-this/);
  await page.getByRole('button', { name: 'Show all' }).click();
  await page.getByLabel('Its id').fill('no-build');
  await page.keyboard.press('Enter');
  await page.getByText('It is a UUID').waitFor();
  await page.getByRole('link', { name: 'main', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name }).waitFor();
  const history = page.getByRole('table', { name: 'Builds that were served' });
  await history.getByText('c0ffee1').waitFor();
  assert.equal(await page.getByRole('button', { name: /^Roll back/ }).count(), 0, 'a rollback is offered without an earlier build');
  await checked(page, 'a deployment');

  await tabTo(page, 'Deploy again');
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: `Deploy ${name} again?` }).waitFor();
  await checked(page, 'the question before a build');
  await tabTo(page, 'Deploy again');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: /^Build / }).waitFor();
  await page.getByText('succeeded').nth(4).waitFor();
  await page.getByText('Nothing was found to be wrong.').waitFor();
  await checked(page, 'a build that has succeeded');
  await page.getByRole('navigation', { name: 'Where this stands' }).getByRole('link', { name }).click();
  await history.getByText('previous').waitFor();
  const live = async () => (await ask('GET', `/v1/deployments/${name}/history`)).data.find((b) => b.state === 'live').buildId;
  const before = await live();
  await tabTo(page, /^Roll back to the build/);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog', { name: /^Roll back to the build .* of c0ffee1/ }).waitFor();
  await checked(page, 'the question before a rollback');
  await tabTo(page, 'Roll back');
  await page.keyboard.press('Enter');
  await said(page, `${name} serves the build`);
  assert.notEqual(await live(), before);

  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByText('2 builds and 2 routes').waitFor();
  await checked(page, 'the question before a deployment is deleted');
  await page.getByRole('textbox', { name: /^Its name/ }).fill('another');
  await page.keyboard.press('Enter');
  await page.getByText('It is another name.').waitFor();
  await page.getByRole('textbox', { name: /^Its name/ }).fill(name);
  await page.keyboard.press('Enter');
  await said(page, `The deployment ${name} is deleted.`);
  await page.getByText('No deployment yet').waitFor();
  await checked(page, 'a project without deployments');
  await assert.rejects(ask('GET', `/v1/deployments/${name}`), /404/);
});

story('a running build is followed, but not while the page is hidden', async ({ page }) => {
  const { project } = await served();
  const id = '3f0c6a52-8f0e-4d0b-9c3e-2f1a7b6c5d4e';
  let asked = 0;
  let done = false;
  const time = new Date().toISOString();
  await mock(page, `/deployment-status/${id}`, () => {
    asked++;
    const step = { status: done ? 'SUCCESS' : 'IN_PROGRESS', startedOn: time, ...(done ? { finishedOn: time } : {}) };
    return { status: step.status, url: '', steps: { download: { status: 'SUCCESS', startedOn: time, finishedOn: time }, validate: step }, buildResult: { errors: [], warnings: [] } };
  });
  await open(page, `/projects/${project}/builds/${id}`, 'Build 3f0c6a52');
  await page.getByText('to come').first().waitFor();
  await checked(page, 'a build that is under way');
  await until('it is asked for again', () => asked > 2);
  // Chromium does not hide a page under automation. So change the properties of the document instead.
  const hide = (hidden) => page.evaluate((to) => {
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => to });
    document.dispatchEvent(new Event('visibilitychange'));
  }, hidden);
  await hide(true);
  await page.waitForTimeout(500);
  const seen = asked;
  await page.waitForTimeout(4500);
  assert.ok(asked <= seen, `it was asked for ${asked - seen} times while hidden`);
  done = true;
  await hide(false);
  await said(page, 'The build has succeeded.');
  const ended = asked;
  await page.waitForTimeout(4500);
  assert.ok(asked <= ended + 1, 'a build that has ended is read again');
});

story('the errors of a build are shown in their source', async ({ page }) => {
  const project = unique('shop');
  const handler = (name) => ({ ...forward, handler: { ...forward.handler, export: name } });
  const status = await deploy(project, {
    branch: 'feature/blue',
    paths: { '/a': { get: { ...okResponse, 'x-gateway-route': handler('noHandler') } }, '/b': { get: { ...okResponse, 'x-gateway-route': { ...handler('another'), policies: { inbound: ['nowhere'] } } } } },
    policies: [{ name: 'wrong', policyType: 'no-such-policy', handler: { export: 'X', module: '$import(@gatewright/runtime)', options: {} } }],
  });
  assert.equal(status.status, 'ERROR');
  const { errors } = status.buildResult;
  assert.ok(new Set(errors.map((e) => e.file)).size > 1, JSON.stringify(errors));
  await open(page, `/projects/${project}/deployments`, `Deployments of ${project}`);
  await page.getByRole('table', { name: 'Deployments' }).getByText('failed').waitFor();
  await page.getByLabel('Its id').fill(status.id);
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: `Build ${status.id.slice(0, 8)}` }).waitFor();
  for (const { file, message, line, column } of errors) {
    const of = page.getByRole('region', { name: `${file}: errors`, exact: true });
    await of.getByText(`line ${line}, column ${column}: ${message}`).first().waitFor();
  }
  const first = errors.find((e) => e.file.endsWith('routes.oas.json'));
  const editor = page.getByRole('textbox', { name: `${first.file} from line 1, with its errors` });
  await editor.waitFor();
  const marked = await editor.locator('.marked-line.error').allTextContents();
  assert.ok(marked.some((text) => text.includes('"export": "noHandler"')), JSON.stringify(marked));
  await page.getByRole('button', { name: `line ${first.line}, column ${first.column}` }).first().focus();
  await page.keyboard.press('Enter');
  await until('the place has the focus', () => editor.evaluate((e) => e.getRootNode().activeElement === e));
  await checked(page, 'a build with errors');

  // Sources are deleted after a day. Then the errors are shown without them.
  await page.route((url) => url.pathname.endsWith('/source'), (route) => route.fulfill({ status: 404, contentType: 'application/problem+json', body: JSON.stringify({ title: 'Not Found', status: 404, detail: 'There is no such source.' }) }));
  await page.reload();
  await page.getByText('The source is not there any more').first().waitFor();
  await page.getByText(first.message).first().waitFor();
});

story('10,000 routes are found by path, method and policy, with few elements', async ({ page }) => {
  const { name } = await served();
  const route = (i) => ({
    corsPolicy: 'none', file: 'config/routes.oas.json', graphql: false, handler: 'urlForwardHandler', method: i % 2 ? 'GET' : 'POST', operationId: `op${i}`, path: `/things/${i}`, pathMode: 'open-api',
    pointer: `/paths/~1things~1${i}/get`, policies: [{ direction: 'inbound', name: i % 3 ? 'key' : 'limit', policyType: 'api-key-inbound' }, { direction: 'outbound', name: 'last', policyType: 'graphql-analytics-outbound' }],
  });
  await open(page, `/deployments/${name}/routes`, `Routes of ${name}`);
  await page.getByRole('link', { name: '/orders/{id}' }).waitFor();
  await checked(page, 'two routes');
  await mock(page, '/routes', (url) => {
    const offset = Number(url.searchParams.get('offset') ?? 0);
    return { data: Array.from({ length: 1000 }, (_, i) => route(offset + i)), limit: 1000, offset, total: 10_000 };
  });
  await page.reload();
  await page.locator('main').getByText('10,000 routes').waitFor();
  const table = page.getByRole('table', { name: 'Routes' });
  assert.equal(await table.getAttribute('aria-rowcount'), '10001');
  const nodes = await table.evaluate((t) => t.querySelectorAll('*').length);
  assert.ok(nodes <= 400, `the table has ${nodes} nodes`);
  await table.getByRole('row').nth(1).focus();
  await page.keyboard.press('End');
  await page.getByRole('link', { name: '/things/9999', exact: true }).waitFor();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog', { name: 'GET /things/9999' });
  await dialog.waitFor();
  assert.deepEqual((await dialog.getByRole('listitem').allTextContents()).map((t) => t.replace(/\s+/g, ' ').trim()), ['inbound limit api-key-inbound', 'handler urlForwardHandler', 'outbound last graphql-analytics-outbound']);
  await checked(page, 'a route');
  const shared = page.url();
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await page.goto('about:blank');
  await page.goto(shared);
  await dialog.waitFor();
  await page.keyboard.press('Escape');
  await page.getByLabel('Filter by path').fill('/things/12');
  await page.locator('main').getByText('111 routes').waitFor();
  await page.getByLabel('Method').selectOption('GET');
  await page.getByLabel('Policy').selectOption('limit');
  assert.match(page.url(), /find=%2Fthings%2F12&method=GET&policy=limit/);
  await page.locator('main').getByText(/^\d\d routes$/).waitFor();
  await checked(page, 'routes that are filtered');
});

story('live traffic shows which policy refused a call, and moves neither the focus nor the scroll position', async ({ page }) => {
  const { name, url } = await served();
  await open(page, `/deployments/${name}/traffic`, `Live traffic of ${name}`);
  await page.getByText('Nobody has called it in the last 24 hours').waitFor();
  await checked(page, 'no traffic');
  assert.equal(await callDeployment(url, '/orders/7'), 401);
  const upstream = await callDeployment(url, '/v1/openapi.json');
  assert.equal(await callDeployment(url, '/nowhere'), 404);
  const table = page.getByRole('table', { name: 'Calls, the newest first' });
  await table.getByRole('row', { name: /GET \/orders\/\{id\} 401 who-are-you/ }).waitFor({ timeout: 60_000 });
  // No policy is shown for a call that the upstream has refused.
  await table.getByRole('row', { name: new RegExp(`GET /v1/openapi.json ${upstream} –`) }).waitFor({ timeout: 60_000 });
  await table.getByRole('row', { name: /no route 404/ }).waitFor({ timeout: 60_000 });
  await checked(page, 'traffic');
  await page.getByLabel('Status').selectOption('policy');
  await until('one is left', async () => (await table.getByRole('row').count()) === 2);
  assert.match(page.url(), /status=policy/);
  await page.getByLabel('Status').selectOption('');
  await page.getByLabel('Consumer, by the whole name').fill('nobody');
  await page.getByText('None of the newest is such a call').waitFor();
  assert.match(page.url(), /consumer=nobody/);
  await page.getByRole('button', { name: 'Show all' }).click();

  // From here on, the story determines the calls.
  let newest = 100;
  let asked = 0;
  let cut = false;
  let late, comes; // late blocks responses, and comes releases them
  const hold = () => (late = new Promise((resolve) => (comes = resolve)));
  await page.route((to) => to.pathname.endsWith('/recent-calls'), async (route) => {
    asked++;
    await late;
    if (cut) return route.abort('connectionreset');
    return route.fulfill({ json: { data: Array.from({ length: newest }, (_, i) => ({ consumer: '', method: 'GET', routePath: `/calls/${newest - i}`, statusCode: '200', policy: '', timeStamp: new Date(1.8e12 + (newest - i) * 1000).toISOString(), city: '', country: '' })) } });
  });
  const row = (n) => table.getByRole('row', { name: new RegExp(`/calls/${n} `) });
  await row(100).waitFor();
  await row(98).focus();
  newest = 103;
  await page.getByRole('button', { name: 'Show 3 newer calls' }).waitFor();
  assert.match(await page.evaluate(() => document.activeElement.textContent), /\/calls\/98/);
  assert.equal(await row(103).count(), 0);
  await page.getByRole('button', { name: 'Show 3 newer calls' }).focus();
  await page.keyboard.press('Enter');
  await row(103).waitFor();
  await table.evaluate((t) => (t.parentElement.scrollTop = 1500));
  newest = 110;
  await page.getByRole('button', { name: 'Show 7 newer calls' }).waitFor();
  assert.equal(await table.evaluate((t) => t.parentElement.scrollTop), 1500);
  await page.getByRole('button', { name: 'Show 7 newer calls' }).click();
  await row(110).waitFor();

  // Pause while a response is on its way. The response comes after that.
  hold();
  newest = 111;
  let before = asked;
  await until('calls are asked for', () => asked > before);
  before = asked;
  await page.getByRole('button', { name: 'Pause' }).click();
  await said(page, 'Paused.');
  comes();
  await page.waitForTimeout(3000);
  assert.equal(asked, before, 'a paused page sends requests');
  assert.equal(await row(111).count(), 0);
  // A request that the person waits for is sent once, however long it takes.
  hold();
  await page.getByRole('button', { name: 'Paused: go on' }).click();
  await page.waitForTimeout(2500);
  assert.equal(asked, before + 1, 'the timer repeats a request that the person waits for');
  comes();
  await row(111).waitFor();
  cut = true;
  await page.getByRole('alert').filter({ hasText: 'did not answer' }).waitFor();
  await row(111).waitFor();
  cut = false;
  await page.getByRole('alert').waitFor({ state: 'detached' });

  // A page that was left sends no more requests either.
  hold();
  before = asked;
  await until('calls are asked for', () => asked > before);
  await open(page, '/buckets', 'Key buckets');
  comes();
  before = asked;
  await page.waitForTimeout(3000);
  assert.equal(asked, before, 'a page that was left sends requests');
});

story('charts have a table of their numbers, and the range is in the address', async ({ page }) => {
  const { name, url } = await served();
  await open(page, `/deployments/${name}/charts`, `Charts of ${name}`);
  await page.getByText('Nobody has called it in that time.').waitFor();
  await page.getByText('No GraphQL operation').waitFor();
  await checked(page, 'charts of nothing');
  for (let i = 0; i < 3; i++) await callDeployment(url, '/orders/7');
  await until('calls are counted', async () => (await ask('GET', `/v1/deployments/${name}/stats-by-status-code?filter=last-hour&consumers=*`)).data.stats.length > 0);
  await page.getByLabel('How far back').selectOption('last-hour');
  assert.match(page.url(), /range=last-hour/);
  await page.getByText('Calls by status').first().waitFor({ timeout: 60_000 });
  await page.locator('.plot canvas').waitFor();
  await page.getByText('The numbers').focus();
  await page.keyboard.press('Enter');
  const numbers = page.getByRole('table', { name: /^Calls by status/ });
  await until('three were refused', async () => (await numbers.getByRole('cell').allTextContents()).includes('3'));
  await page.getByRole('table', { name: 'Calls by consumer' }).getByText('without one').waitFor();
  await checked(page, 'charts');
  const errorClasses = { auth: 0, resolver: 0, syntax: 0, timeout: 1, validation: 2 };
  const times = { p50Ms: 1.25, p95Ms: 20, p99Ms: 99.99, resolverP50Ms: 1, resolverP95Ms: 2, resolverP99Ms: 3 };
  await mock(page, '/graphql-operations', { data: { totals: { errorClasses, errors: 3, operations: 12, successRate: 0.75, ...times }, operations: [{ operation: 'ListBooks', type: 'query', operations: 12, errors: 3, errorRate: 0.25, errorClasses, complexity: { avg: 3.5, max: 7 }, ...times }] } });
  await page.reload();
  await page.getByRole('table', { name: 'GraphQL operations' }).getByRole('row', { name: /ListBooks query 12 25% 1\.3 ms 20 ms 100 ms 7/ }).waitFor();
  await checked(page, 'charts with GraphQL');
});

const hostile = '<img src=x onerror=alert(1)> \u202Egnp.exe\u202C \u0000\u200B{{7*7}} ' + 'w'.repeat(400);

story('hostile text in every field is shown as text', async ({ page }) => {
  const name = unique('shop-main');
  const id = '3f0c6a52-8f0e-4d0b-9c3e-2f1a7b6c5d4e';
  const time = new Date().toISOString();
  const deployment = { accountName: account, branchName: hostile, createdOn: time, environmentType: 'PREVIEW', label: hostile, loggingId: hostile, message: hostile, name, projectName: hostile, state: 'STARTED', updatedOn: time, url: `javascript:alert('${hostile}')`, urlParameter: hostile };
  await mock(page, `/deployments/${name}`, deployment);
  await mock(page, '/projects/shop/deployments', { data: [deployment], limit: 1000, offset: 0, total: 1 });
  await mock(page, '/history', { data: [{ buildId: id, createdOn: time, sha: hostile, state: 'live' }, { buildId: id.replace('3f', '4f'), createdOn: time, sha: hostile, state: 'previous' }], limit: 1000, offset: 0, total: 2 });
  await mock(page, '/routes', { data: [{ corsPolicy: hostile, file: hostile, graphql: true, handler: hostile, method: 'GET', operationId: hostile, path: hostile, pathMode: 'url-pattern', pointer: hostile, policies: [{ direction: 'inbound', name: hostile, policyType: hostile }] }], limit: 1000, offset: 0, total: 1 });
  await mock(page, '/recent-calls', { data: [{ consumer: hostile, method: hostile, routePath: hostile, statusCode: hostile, policy: hostile, timeStamp: hostile, city: hostile, country: hostile }] });
  const by = { consumer: hostile, totalCalls: Number.MAX_SAFE_INTEGER, callsByStatusCode: [{ statusCode: '200', totalCalls: Number.MAX_SAFE_INTEGER }] };
  await mock(page, '/stats-by-status-code', { data: { stats: [by], details: [{ ...by, timeStamp: time }] } });
  const finding = { file: hostile, path: hostile, line: 1, column: 3, message: hostile };
  await mock(page, `/deployment-status/${id}`, { status: 'ERROR', url: '', steps: { download: { status: 'ERROR', message: hostile, startedOn: time, finishedOn: time } }, buildResult: { errors: [finding, { ...finding, line: undefined, column: undefined }], warnings: [finding] } });
  await mock(page, '/source', { file: hostile, moreAfter: true, moreBefore: true, startColumn: 1, startLine: 1, text: `😀${hostile}` });
  for (const [path, heading] of [
    ['/projects/shop/deployments', 'Deployments of shop'], [`/deployments/${name}`, name], [`/deployments/${name}/routes`, `Routes of ${name}`], [`/deployments/${name}/traffic`, `Live traffic of ${name}`],
    [`/deployments/${name}/charts`, `Charts of ${name}`], [`/projects/shop/builds/${id}`, 'Build 3f0c6a52'],
  ]) {
    await open(page, path, heading);
    await page.locator('main').getByText('<img src=x').first().waitFor();
    // The editor has empty pictures next to the numbers that replace hidden characters.
    assert.equal(await page.locator('main img:not(.cm-widgetBuffer), main script, main [onerror], main a[href^="javascript"]').count(), 0);
    await page.locator('main').getByText('U+202E').first().waitFor();
    await checked(page, `hostile text on ${path}`);
  }
  await open(page, `/deployments/${name}/routes`, `Routes of ${name}`);
  await page.getByRole('row').nth(1).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor();
  await checked(page, 'a route of hostile text');
});

story('a key that may only read sees deployments, and nothing that changes them', async ({ page }) => {
  // Create a deployment for this story, because other stories delete theirs.
  const { name: deployment } = await served();
  await open(page, '/projects', 'Projects');
  await open(page, `/deployments/${deployment}`, deployment);
  await page.getByRole('heading', { name: 'Builds that were served' }).waitFor();
  for (const name of [/^Deploy again/, /^Roll back/, /^Delete/]) assert.equal(await page.getByRole('button', { name }).count(), 0, String(name));
  assert.equal(await page.getByRole('link', { name: 'Live traffic' }).count(), 0);
  assert.equal(await page.getByRole('link', { name: 'Charts' }).count(), 0);
}, { rights: { scopes: ['projects:read', 'deployments:read'] } });

story('after a cut connection the repeat is the same change, and a missing deployment is reported', async ({ page }) => {
  const { name } = await served();
  await open(page, `/deployments/${name}`, name);
  await page.getByRole('button', { name: 'Deploy again' }).click();
  let keys = [];
  await page.route((url) => url.pathname.endsWith('/deploy'), async (route) => {
    keys.push(route.request().headers()['idempotency-key']);
    if (keys.length === 1) await route.abort('connectionreset');
    else await route.continue();
  });
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Deploy again' }).click();
  await dialog.getByRole('alert').filter({ hasText: 'did not answer' }).waitFor();
  await checked(page, 'a change without an answer');
  await dialog.getByRole('button', { name: 'Try again' }).click();
  await page.getByRole('heading', { level: 1, name: /^Build / }).waitFor();
  assert.equal(keys.length, 2);
  assert.equal(keys[0], keys[1], 'the repeat has no or another Idempotency-Key');
  await page.goto(`${page.url().split('#')[0]}#/deployments/no-such-deployment`);
  await page.getByRole('alert').filter({ hasText: 'out of this key’s reach' }).waitFor();
});
