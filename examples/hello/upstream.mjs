// The upstream of this project: node examples/hello/upstream.mjs
// It greets on http://127.0.0.1:9002 until it is stopped.
import { createServer } from "node:http";

const port = Number(process.env.PORT ?? 9002);

createServer((request, response) => {
  const url = new URL(request.url, "http://upstream");
  const name = url.searchParams.get("name") ?? "you";
  const body = url.pathname === "/health" ? { ok: true } : { hello: name, path: url.pathname };
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify(body) + "\n");
}).listen(port, "127.0.0.1", () => console.log(`upstream on http://127.0.0.1:${port}`));
