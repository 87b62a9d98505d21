// Package conformance runs the public conformance suite of the Model Context Protocol against shared/format/mcp, which serves all MCP
// servers of the product. It contains only tests: a server that offers everything that the suite calls, and a run of the suite for each
// version of the protocol.
//
//	package.json           the version of the suite, and the version of Node that it needs
//	testdata/results.txt   each scenario's result
//
// It does not test the product's own servers: the suite calls tools and reads resources with names that it prescribes. Read
// conformance_test.go first; docs/decisions/0049-the-public-suite-of-mcp.md says which scenarios do not pass, and why.
package conformance
