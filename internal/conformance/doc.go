// Package conformance puts the public conformance suite of the Model Context Protocol before shared/mcp, with which all
// MCP servers of the product answer. There is no code here but tests: a server that offers what the suite asks for, and a
// run of the suite for each version of the protocol.
//
//	package.json           the suite, and the Node that it needs
//	testdata/results.txt   each scenario's result
//
// It does not ask the product's own servers: the suite calls tools and reads resources of names that it prescribes.
// Read conformance_test.go first; docs/decisions/0049-the-public-suite-of-mcp.md says what does not pass, and why.
package conformance
