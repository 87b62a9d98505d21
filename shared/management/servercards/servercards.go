// Package servercards describes the platform's own MCP servers to clients that are not connected
// yet: it creates a server card for each server, and the catalog that lists the cards. It also
// defines the names of the servers, so that a server and its card have the same name.
//
// The package does not implement MCP and serves no requests (group platform does). A
// card does not list tools, because they depend on the caller; the server lists them.
//
// Read servercards.go first, then catalog.go. The rules are those of specification 4.1, of the MCP extension for server cards (SEP-2127,
// schema v1 of 2026) and of the AI Catalog 1.0. Both are still drafts; testdata has the parts of their schemas that we use.
package servercards

import (
	"encoding/json"
	"fmt"
	"slices"
)

// MediaType is the media type of a card (specification 4.1).
const MediaType = "application/mcp-server-card+json"

// version is the version of both servers (specification 4.1).
const version = "1.0.0"

// schema is the schema that a card declares.
const schema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"

// namespace is the project's namespace in the names of servers: the domain of
// its pages in reverse order. A server has the same name in each installation.
const namespace = "io.github.gatewright"

// protocolVersions are the protocol versions of the servers, the newest first. Package mcp defines them too, and
// a test compares both. Importing package mcp would add the protocol's SDK to the function that serves the cards.
var protocolVersions = [...]string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}

// Server is one of the platform's MCP servers.
type Server struct {
	// Name is the unique name of the server, in reverse-DNS form.
	Name string
	// Version is the version of the server, not of the protocol.
	Version string
	// Title and Description are for people. They have at most 100 characters.
	Title, Description string
	// Path is the path of the server's endpoint below the installation's address. Its card is at CardPath.
	Path string
	// RequiresKey reports whether the server requires an account key.
	RequiresKey bool
}

// API returns the server with the management API's operations as tools.
func API() Server {
	return Server{
		Name: namespace + "/api", Version: version, Title: "Gatewright API",
		Description: "The operations of a Gatewright installation's management API as tools. It needs an account key.",
		Path:        "/mcp", RequiresKey: true,
	}
}

// Docs returns the server that searches the documentation.
func Docs() Server {
	return Server{
		Name: namespace + "/docs", Version: version, Title: "Gatewright documentation",
		Description: "Searches Gatewright's documentation and answers questions from it. It needs no key.",
		Path:        "/mcp/docs",
	}
}

// Servers returns all servers.
func Servers() []Server { return []Server{API(), Docs()} }

// CardPath returns the path of the card, which the extension reserves below the path of the endpoint.
func (s Server) CardPath() string { return s.Path + "/server-card" }

// card has the fields of a card, in the order of the extension's schema.
type card struct {
	Schema      string   `json:"$schema"`
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Title       string   `json:"title"`
	Description string   `json:"description"`
	WebsiteURL  string   `json:"websiteUrl"`
	Remotes     []remote `json:"remotes"`
}

type remote struct {
	Type                      string   `json:"type"`
	URL                       string   `json:"url"`
	Headers                   []header `json:"headers,omitempty"`
	SupportedProtocolVersions []string `json:"supportedProtocolVersions"`
}

type header struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	IsRequired  bool   `json:"isRequired"`
	IsSecret    bool   `json:"isSecret"`
	Placeholder string `json:"placeholder"`
}

// Card returns the server's card in an installation. address is the public address of the installation, without a final slash.
func (s Server) Card(address string) ([]byte, error) {
	endpoint := remote{
		Type: "streamable-http", URL: address + s.Path,
		SupportedProtocolVersions: slices.Clone(protocolVersions[:]),
	}
	if s.RequiresKey {
		endpoint.Headers = []header{{
			Name:        "Authorization",
			Description: "Bearer and an account key of the installation. The key decides which tools there are.",
			IsRequired:  true, IsSecret: true, Placeholder: "Bearer gwa_…",
		}}
	}
	out, err := json.Marshal(card{
		Schema: schema, Name: s.Name, Version: s.Version, Title: s.Title, Description: s.Description,
		WebsiteURL: address + "/docs", Remotes: []remote{endpoint},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the card of %s: %w", s.Name, err)
	}
	return out, nil
}
