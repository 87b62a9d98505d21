package cards

import (
	"encoding/json"
	"fmt"
	"net/url"
	"path"
)

// CatalogPath is where clients that know a host alone look for a catalog, and CatalogType its
// media type.
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
	// DisplayName repeats the card's title: a reader of the catalog's first drafts has no other.
	DisplayName string `json:"displayName"`
	Type        string `json:"type"`
	URL         string `json:"url"`
}

// Catalog lists the cards of an installation whose public address is address, without a slash at
// the end. What an entry is called begins with the installation's host: the servers of two
// installations are two, though their names are one.
func Catalog(address string) ([]byte, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("read the installation's address: %w", err)
	}
	c := catalog{SpecVersion: "1.0", Host: host{DisplayName: "Gatewright", DocumentationURL: address + "/docs"}}
	for _, s := range Servers() {
		c.Entries = append(c.Entries, entry{
			Identifier:  "urn:air:" + at.Hostname() + ":mcp:" + path.Base(s.Name),
			DisplayName: s.Title, Type: MediaType, URL: address + s.CardPath(),
		})
	}
	out, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the catalog: %w", err)
	}
	return out, nil
}
