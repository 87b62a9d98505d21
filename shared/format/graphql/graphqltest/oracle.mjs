// Runs documents and responses through GraphQL.js. Each line of stdin is a call
// in JSON, and each line of stdout is its result.
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { measurer } from './measure.mjs';

const library = createRequire(process.argv[2])('graphql');
const { buildClientSchema, buildSchema, graphqlSync, Kind, parse, printSchema, validateSchema, visit } = library;

const schema = buildSchema(`
  directive @limit(of: Secret, rows: Int) on FIELD
  interface Node { id: ID! }
  interface Audited { audit: [Audit!]! }
  type Query {
    me: User
    node(id: ID!): Node
    search(text: String!, by: Order = NEWEST, where: Filter, only: SecretFilter): [Result!]!
    secretReport(of: Secret): Audit
    secrets: [[Secret!]!]!
    note(text: String): String
  }
  type Mutation { forget(input: Forget!): Boolean, change: Change }
  type Change { query: Query, name: String }
  type User implements Node & Audited {
    id: ID!
    name: String
    salary: Int
    audit: [Audit!]!
    friends(first: Int = 10, by: Order = PAID): [User!]
  }
  type Audit implements Node { id: ID!, by: User, secret: Secret }
  enum Secret { LOW HIGH }
  enum Order { NEWEST OLDEST PAID }
  union Result = User | Audit
  union Hidden = Audit
  type OnlyAudits { audits: [Audit], deeper: DeeperAudits }
  type DeeperAudits { of: Audit, again: OnlyAudits }
  input Filter { name: String, secret: Secret, salary: Int, order: Order = PAID }
  input SecretFilter { secret: Secret! }
  input Forget { id: ID!, why: SecretFilter }
`);
const root = { me: { id: '1', name: 'Ann', friends: [] }, note: ({ text }) => text, change: { query: {}, name: 'It' } };

const methods = {
  parse: (text) => {
    const document = parse(text);
    const fields = [];
    visit(document, { Field: (f) => void fields.push(f.name.value), FragmentSpread: (f) => void fields.push('...' + f.name.value) });
    return { fields, operations: document.definitions.filter((d) => d.kind === Kind.OPERATION_DEFINITION).length };
  },
  measure: measurer(library),
  execute: ({ sdl, query, variables, operationName }) =>
    graphqlSync({ schema: sdl ? buildSchema(sdl) : schema, source: query, rootValue: root, variableValues: variables, operationName: operationName || undefined }),
  build: (data) => {
    const built = buildClientSchema(data);
    return { sdl: printSchema(built), errors: validateSchema(built).map((e) => e.message) };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [method, argument] = Object.entries(JSON.parse(line))[0];
  let out;
  try {
    out = { result: methods[method](argument) };
  } catch (error) {
    out = { error: String(error.message) };
  }
  process.stdout.write(JSON.stringify(out) + '\n');
}
