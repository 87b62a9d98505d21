// Package openapi uses the OpenAPI document as its users do: two linters check it, and a TypeScript client and a Go
// client are generated from it and make calls. The package contains only the test that runs the two clients against an
// installation in memory.
//
//	tsclient/     openapi-typescript with openapi-fetch
//	goclient/     oapi-codegen, in a module of its own
//	package.json  the linters and the TypeScript tools
//
// It does not create the document: shared/management/api and the tests of functions do. Read tsclient/client.ts first, which is an
// example of a client; docs/api.md has the commands that generate one.
package openapi
