// Package mcpdocs serves /mcp/docs, the public MCP server for the documentation. The server searches the documentation,
// and responds to questions with quotations (specification 4.1). It has no sessions. Package docsearch searches and
// ranks, and shared/format/mcp implements the protocol. This package has the two tools and the rate limit per address.
// At the first search or question, it reads the weights of the model for the search by meaning (package minilm) from a
// file.
//
// The package does not use the table or accounts.
//
// Read operations.go first, then server.go and tools.go.
package mcpdocs
