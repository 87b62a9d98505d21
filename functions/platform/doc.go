// Package platform serves the operations on the installation and the caller. They return the API's description, the
// identity of the caller, and the accounts that the caller's key can see. They also return the cards with which clients
// find the MCP servers (specification 4.1), and the pages of the documentation.
//
// The two MCP servers themselves are in functions/mcp and functions/mcpdocs. Read operations.go first, then
// handlers.go. docs.go has the pages, which package pages renders. cards.go has the cards, which package servercards
// writes.
package platform
