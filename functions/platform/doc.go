// Package platform answers the operations on the installation and the caller: the
// API's description, who the bearer of a key is, the accounts it sees, the cards by which
// clients find the MCP servers (specification 4.1), and the pages of the documentation.
//
// The two MCP endpoints of the same section are not here. Read operations.go
// first, then handlers.go; docs.go has the pages, which package pages renders, and
// cards.go the cards, which package cards writes.
package platform
