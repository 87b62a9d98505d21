// Package cards describes the platform's own MCP servers to clients that are not connected yet: a
// server card for each, and the catalog that leads to both. It also says what the servers are
// called, so that a server introduces itself by the name on its card.
//
// What it is not: it speaks no MCP and answers no request (group platform does). A card names no
// tools either: those depend on who asks, and a server lists them.
//
// Read cards.go first, then catalog.go. The rules are those of specification 4.1, of the MCP
// extension for server cards (SEP-2127, schema v1 of 2026) and of the AI Catalog 1.0. Both are
// drafts still; testdata has their schemas as far as they concern us.
package cards

import (
	"encoding/json"
	"fmt"
	"slices"
)

// MediaType is that of a card (specification 4.1).
const MediaType = "application/mcp-server-card+json"

// version is both servers' (specification 4.1).
const version = "1.0.0"

// schema is what a card says that it follows.
const schema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"

// namespace is the project's own in names of servers: the domain of its pages, turned around. A
// server's name is that of the product, the same in each installation.
const namespace = "io.github.gatewright"

// protocolVersions are those that the servers speak, the newest first. Package mcp says so, and a test
// compares: to link it would bring the protocol's SDK into the function that serves the cards.
var protocolVersions = [...]string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}

// Server is one of the platform's MCP servers.
type Server struct {
	// Name tells it apart from all others, in reverse-DNS form.
	Name string
	// Version is the server's own, and none of the protocol's.
	Version string
	// Title and Description are for people, of 100 characters at most.
	Title, Description string
	// Path is its endpoint's, below the installation's address. Its card is at CardPath.
	Path string
	// Keyed servers ask for an account key.
	Keyed bool
}

// API is the server that has the operations of the management API as tools.
func API() Server {
	return Server{
		Name: namespace + "/api", Version: version, Title: "Gatewright API",
		Description: "The operations of a Gatewright installation's management API as tools. It needs an account key.",
		Path:        "/mcp", Keyed: true,
	}
}

// Docs is the server that searches the documentation.
func Docs() Server {
	return Server{
		Name: namespace + "/docs", Version: version, Title: "Gatewright documentation",
		Description: "Searches Gatewright's documentation and answers questions from it. It needs no key.",
		Path:        "/mcp/docs",
	}
}

// Servers are all of them.
func Servers() []Server { return []Server{API(), Docs()} }

// CardPath is where the card is: below the endpoint, at the place that the extension reserves.
func (s Server) CardPath() string { return s.Path + "/server-card" }

// The fields of a card are in the order of the extension's.
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

// Card is the server's card in an installation whose public address is address, without a slash
// at the end.
func (s Server) Card(address string) ([]byte, error) {
	endpoint := remote{
		Type: "streamable-http", URL: address + s.Path,
		SupportedProtocolVersions: slices.Clone(protocolVersions[:]),
	}
	if s.Keyed {
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
