// Package openapi uses the OpenAPI document as its readers do: two linters
// check it, and a client in TypeScript and one in Go are generated from it and
// make calls. There is no code here but the test that runs those clients
// against an installation in memory.
//
//	tsclient/     openapi-typescript with openapi-fetch
//	goclient/     oapi-codegen, in a module of its own
//	package.json  the linters and the TypeScript tools
//
// It does not make the document: shared/api and the tests of functions do.
// Read tsclient/client.ts for what a client looks like; docs/api.md has the
// commands that make one.
package openapi
