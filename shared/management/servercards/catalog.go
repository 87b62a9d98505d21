package servercards

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
)

// CatalogPath is the path at which clients that know only a host look for its catalog. CatalogType is its media type.
const (
	CatalogPath = "/.well-known/ai-catalog.json"
	CatalogType = "application/ai-catalog+json"
)

type catalog struct {
	SpecVersion string  `json:"specVersion"`
	Host        host    `json:"host"`
	Entries     []entry `json:"entries"`
}

type host struct {
	DisplayName      string `json:"displayName"`
	DocumentationURL string `json:"documentationUrl"`
}

type entry struct {
	Identifier string `json:"identifier"`
	// DisplayName is the card's title, for clients of the first drafts of the catalog, which do not read cards.
	DisplayName string `json:"displayName"`
	Type        string `json:"type"`
	URL         string `json:"url"`
}

// Catalog returns the list of the cards in an installation. address is the public address of the
// installation, without a final slash. Identifiers of entries begin with the installation's host, so
// that the servers of two installations have different identifiers although their names are the same.
func Catalog(address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("read the installation's address: %w", err)
	}
	c := catalog{SpecVersion: "1.0", Host: host{DisplayName: "Gatewright", DocumentationURL: address + "/docs"}}
	for _, s := range Servers() {
		c.Entries = append(c.Entries, entry{
			Identifier:  "urn:air:" + u.Hostname() + ":mcp:" + path.Base(s.Name),
			DisplayName: s.Title, Type: MediaType, URL: address + s.CardPath(),
		})
	}
	out, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the catalog: %w", err)
	}
	return out, nil
}
