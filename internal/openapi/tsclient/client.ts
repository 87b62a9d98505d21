// A client of the management API as a user would write it: types from openapi-typescript, calls by openapi-fetch.
// `make clients` compiles it and runs it against an installation.
import assert from "node:assert/strict";
import process from "node:process";

import createClient from "openapi-fetch";

import type { components, paths } from "./dist/schema.js";

type Consumer = components["schemas"]["Consumer"];

const { GATEWRIGHT_API: baseUrl, GATEWRIGHT_KEY: key } = process.env;
assert(baseUrl && key, "GATEWRIGHT_API and GATEWRIGHT_KEY say where and as whom");
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });

const description = await client.GET("/openapi");
assert.equal(description.data?.["openapi"], "3.1.0");

const caller = (await client.GET("/v1/who-am-i")).data;
assert(caller?.account);
const accountName = caller.account;

const bucketName = "typescript-client";
const bucket = await client.POST("/v1/accounts/{accountName}/key-buckets", {
  params: { path: { accountName } },
  body: { name: bucketName, description: null, tags: { team: "web" } },
});
assert.equal(bucket.data?.name, bucketName);
assert.deepEqual(bucket.data.tags?.["team"], "web");

const path = { accountName, bucketName };
const created = await client.POST("/v1/accounts/{accountName}/key-buckets/{bucketName}/consumers", {
  params: { path, query: { "with-api-key": true } },
  body: { name: "ada", tags: { plan: "gold" }, metadata: { plan: "gold" }, managers: ["ada@example.com", { email: "joe@example.com", sub: "joe" }] },
});
assert.match(created.data?.apiKeys?.[0]?.key ?? "", /^gwk_/);

const list = await client.GET("/v1/accounts/{accountName}/key-buckets/{bucketName}/consumers", {
  params: { path, query: { limit: 10, "include-managers": true } },
});
const consumers: Consumer[] = list.data?.data ?? [];
assert.deepEqual(consumers.map((c) => [c.name, c.managers?.length]), [["ada", 1]]);

// openapi-fetch does not read a parameter's style: its own of objects is deepObject.
const tagged = async (plan: string) =>
  (
    await client.GET("/v1/accounts/{accountName}/key-buckets/{bucketName}/consumers", {
      params: { path, query: { tag: { "tag.plan": plan } } },
      querySerializer: { object: { style: "form", explode: true } },
    })
  ).data?.total;
assert.deepEqual([await tagged("gold"), await tagged("silver")], [1, 0]);

const missing = await client.GET("/v1/accounts/{accountName}/key-buckets/{bucketName}", {
  params: { path: { accountName, bucketName: "no-such-bucket" } },
});
assert.equal(missing.data, undefined);
assert.equal(missing.error.status, 404);
assert.equal(missing.error.title, "Not Found");
assert(missing.error.trace?.requestId);

const removed = await client.DELETE("/v1/accounts/{accountName}/key-buckets/{bucketName}", { params: { path } });
assert.equal(removed.response.status, 204);

// What the types refuse; each line has to be a mistake, or it does not compile.
export const mistakes = [
  // @ts-expect-error: answers are closed, so that a field they do not have is found
  () => caller.email,
  // @ts-expect-error: a body has its fields' types
  () => client.POST("/v1/projects", { body: { name: 1 } }),
  // @ts-expect-error: a misspelt field is found, though the API ignores it
  (): components["schemas"]["ProjectsCreate"] => ({ name: "shop", nmae: "shop" }),
  // @ts-expect-error: so is a path that does not exist
  () => client.GET("/v1/nothing"),
];
