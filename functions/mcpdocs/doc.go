// Package mcpdocs answers /mcp/docs: the MCP server, for everybody and without sessions, that searches the documentation and
// answers questions from it (specification 4.1). What is found and how is package docsearch's, the protocol shared/mcp's; here
// are the two tools, the limit of an address, and the file of weights, which is read when somebody searches for the first time.
//
// It asks nothing of the table, and knows no accounts.
//
// Read operations.go first, then server.go and tools.go.
package mcpdocs
