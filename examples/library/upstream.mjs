// What this project's routes lead to: a library, as a GraphQL server and by plain HTTP, on
// http://127.0.0.1:9002 until it is stopped. Another port may stand behind the command; 0 is any that is free.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

// The packages are those of the tests: npm ci --prefix local/dev installs them.
const require = createRequire(new URL('../../local/dev/package.json', import.meta.url));
const { GraphQLError, buildSchema } = require('graphql');
const { createHandler } = require('graphql-http/lib/use/http');

const schema = buildSchema(`
  type Query {
    "All books."
    books: [Book!]!
    book(id: ID!): Book
  }
  type Book {
    id: ID!
    title: String!
    author: Author!
    "What was paid for it."
    price: Int!
    loans: [Loan!]!
  }
  type Author { name: String!, books: [Book!]! }
  "Who has a book at home: nobody else's business."
  type Loan { reader: String!, since: String! }
`);

const authors = [{ name: 'Mary Shelley' }, { name: 'Herman Melville' }];
const books = [
  { id: '1', title: 'Frankenstein', author: authors[0], price: 12, loans: [{ reader: 'Ann', since: '2026-11-02' }] },
  { id: '2', title: 'The Last Man', author: authors[0], price: 9, loans: [] },
  { id: '3', title: 'Moby-Dick', author: authors[1], price: 15, loans: [] },
];
for (const author of authors) author.books = () => books.filter((b) => b.author === author);

const find = (id) => books.find((b) => b.id === id);
const graphql = createHandler({
  schema,
  rootValue: {
    books,
    book: ({ id }) => {
      const book = find(id);
      if (!book) throw new GraphQLError('There is no such book.', { extensions: { code: 'NO_SUCH_BOOK' } });
      return book;
    },
  },
});

function send(response, status, contentType, text) {
  response.writeHead(status, { 'Content-Type': contentType });
  response.end(text);
}

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, 'http://library.test');
  const json = (status, value) => send(response, status, 'application/json', JSON.stringify(value));
  if (pathname === '/graphql') return graphql(request, response);
  if (pathname === '/rules') return send(response, 200, 'text/markdown; charset=utf-8', '# Rules\n\nFour weeks a book.\n');
  if (pathname === '/recommend') {
    let body = '';
    for await (const chunk of request) body += chunk;
    return json(200, { messages: [{ role: 'user', content: `Recommend a book to somebody who likes ${JSON.parse(body).likes}.` }] });
  }
  if (!pathname.startsWith('/books/')) return json(404, { error: 'There is nothing here.' });
  const book = find(pathname.slice('/books/'.length));
  if (!book) return json(404, { error: 'There is no such book.' });
  json(200, { id: book.id, title: book.title, author: book.author.name });
});
// Node closes connections that are idle for 5 s. A request that the gateway sends at that moment would fail.
server.keepAliveTimeout = 600_000;
server.listen(Number(process.argv[2] ?? 9002), '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
