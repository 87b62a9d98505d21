package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// Version of the API's description (specification 9).
const Version = "1.0.0"

// humaConfig is the same for serving and for describing.
func humaConfig() huma.Config {
	setUpHuma()
	c := huma.DefaultConfig("Gatewright Developer Management API", Version)
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // GET /openapi is an operation of ours
	c.CreateHooks = nil                                   // no $schema in answers
	// Existing clients send fields that we give out or do not know.
	c.AllowAdditionalPropertiesByDefault = true
	c.Info.Description = "Manages accounts, API keys and deployments of a Gatewright installation."
	c.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"accountKey": {
			Type: "http", Scheme: "bearer",
			Description: "An account key: gwa_, 32 characters, a checksum.",
		},
	}
	c.Security = []map[string][]string{{"accountKey": {}}}
	return c
}

// Document is the OpenAPI 3.1 description of groups, as indented JSON. It is
// the same bytes at each call.
func Document(groups []Group) ([]byte, error) {
	a := huma.NewAPI(humaConfig(), nowhere{})
	for _, g := range groups {
		a.OpenAPI().Tags = append(a.OpenAPI().Tags, &huma.Tag{Name: g.Title, Description: g.Description})
		for _, o := range g.Operations {
			o.route(g.Title).register(a, nil)
		}
	}
	raw, err := json.Marshal(a.OpenAPI())
	if err != nil {
		return nil, fmt.Errorf("encode the OpenAPI document: %w", err)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, raw, "", "  "); err != nil {
		return nil, fmt.Errorf("indent the OpenAPI document: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// nowhere is an adapter that serves nothing, for the document alone.
type nowhere struct{}

// Handle implements huma.Adapter.
func (nowhere) Handle(*huma.Operation, func(huma.Context)) {}

// ServeHTTP implements huma.Adapter.
func (nowhere) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
