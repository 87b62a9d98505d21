package servercards_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/servercards"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

const address = "https://api.example.com/stage"

// schemaOf returns a compiled schema of testdata, which also checks formats.
func schemaOf(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func parse(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func cardOf(t *testing.T, s servercards.Server) []byte {
	t.Helper()
	raw, err := s.Card(address)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestCardsFollowTheSchema checks that each card is valid, and that its texts have at most 100 characters.
func TestCardsFollowTheSchema(t *testing.T) {
	schema := schemaOf(t, "server-card.schema.json")
	for _, s := range servercards.Servers() {
		raw := cardOf(t, s)
		if err := schema.Validate(parse(t, raw)); err != nil {
			t.Errorf("Validate(%s) = %v, want nil", raw, err)
		}
		for _, text := range []string{s.Title, s.Description} {
			if n := utf8.RuneCountInString(text); n == 0 || n > 100 {
				t.Errorf("%s: %q has %d characters, want 1 to 100", s.Name, text, n)
			}
		}
	}
}

// TestCardSchemaRefusesInvalidCards checks that the schema in testdata refuses invalid cards.
func TestCardSchemaRefusesInvalidCards(t *testing.T) {
	schema := schemaOf(t, "server-card.schema.json")
	endpoint := func(card map[string]any) map[string]any { return card["remotes"].([]any)[0].(map[string]any) }
	header := func(card map[string]any) map[string]any { return endpoint(card)["headers"].([]any)[0].(map[string]any) }
	for name, corrupt := range map[string]func(map[string]any){
		"no schema": func(c map[string]any) { delete(c, "$schema") },
		"another schema": func(c map[string]any) {
			c["$schema"] = "https://static.modelcontextprotocol.io/schemas/v1/server.schema.json"
		},
		"no name":                       func(c map[string]any) { delete(c, "name") },
		"a name without a slash":        func(c map[string]any) { c["name"] = "gatewright" },
		"a name with two slashes":       func(c map[string]any) { c["name"] = "io.github/gatewright/api" },
		"no version":                    func(c map[string]any) { delete(c, "version") },
		"a range of versions":           func(c map[string]any) { c["version"] = "^1.0.0" },
		"no description":                func(c map[string]any) { delete(c, "description") },
		"a long description":            func(c map[string]any) { c["description"] = strings.Repeat("é", 101) },
		"a relative website":            func(c map[string]any) { c["websiteUrl"] = "/docs" },
		"tools":                         func(c map[string]any) { c["tools"] = []any{} },
		"another transport":             func(c map[string]any) { endpoint(c)["type"] = "stdio" },
		"a relative endpoint":           func(c map[string]any) { endpoint(c)["url"] = "/mcp" },
		"no endpoint":                   func(c map[string]any) { delete(endpoint(c), "url") },
		"a version instead of a list":   func(c map[string]any) { endpoint(c)["supportedProtocolVersions"] = "2026-07-28" },
		"a header without name":         func(c map[string]any) { delete(header(c), "name") },
		"a string instead of a boolean": func(c map[string]any) { header(c)["isSecret"] = "yes" },
		"a misspelled field":            func(c map[string]any) { header(c)["required"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			card := parse(t, cardOf(t, servercards.API()))
			corrupt(card)
			if schema.Validate(card) == nil {
				t.Error("Validate(corrupt card) = nil, want an error")
			}
		})
	}
}

// TestAPICardHasRemote checks that the card of the API has a header field for the key,
// which is required and secret. The card of the documentation must not require a key.
func TestAPICardHasRemote(t *testing.T) {
	var card struct {
		Name, Version, WebsiteURL string
		Remotes                   []struct {
			Type, URL                 string
			SupportedProtocolVersions []string
			Headers                   []struct {
				Name                 string
				IsRequired, IsSecret bool
			}
		}
	}
	if err := json.Unmarshal(cardOf(t, servercards.API()), &card); err != nil {
		t.Fatal(err)
	}
	if card.Name != servercards.API().Name || card.Version != "1.0.0" || card.WebsiteURL != address+"/docs" ||
		len(card.Remotes) != 1 {
		t.Fatalf("card = %+v, want %s 1.0.0 with the website %s/docs and one remote", card, servercards.API().Name, address)
	}
	remote := card.Remotes[0]
	if remote.Type != "streamable-http" || remote.URL != address+"/mcp" {
		t.Errorf("remote = %+v, want streamable-http at %s/mcp", remote, address)
	}
	if diff := cmp.Diff(mcp.Versions(), remote.SupportedProtocolVersions); diff != "" {
		t.Errorf("versions of the card (-want those of the server, +got):\n%s", diff)
	}
	if len(remote.Headers) != 1 || remote.Headers[0].Name != "Authorization" || !remote.Headers[0].IsRequired ||
		!remote.Headers[0].IsSecret {
		t.Errorf("headers = %+v, want a required and secret Authorization", remote.Headers)
	}
	card.Remotes = nil
	if err := json.Unmarshal(cardOf(t, servercards.Docs()), &card); err != nil {
		t.Fatal(err)
	}
	if remote := card.Remotes[0]; remote.URL != address+"/mcp/docs" || len(remote.Headers) != 0 ||
		card.Name != servercards.Docs().Name {
		t.Errorf("card of the documentation = %+v, want %s at %s/mcp/docs without headers", card, servercards.Docs().Name,
			address)
	}
}

func TestCatalogListsEveryCard(t *testing.T) {
	raw, err := servercards.Catalog("http://127.0.0.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	if err := schemaOf(t, "ai-catalog.schema.json").Validate(parse(t, raw)); err != nil {
		t.Errorf("Validate(%s) = %v, want nil", raw, err)
	}
	want := map[string]any{
		"specVersion": "1.0",
		"host":        map[string]any{"displayName": "Gatewright", "documentationUrl": "http://127.0.0.1:9000/docs"},
		"entries": []any{
			map[string]any{
				"identifier": "urn:air:127.0.0.1:mcp:api", "displayName": "Gatewright API",
				"type": "application/mcp-server-card+json", "url": "http://127.0.0.1:9000/mcp/server-card",
			},
			map[string]any{
				"identifier": "urn:air:127.0.0.1:mcp:docs", "displayName": "Gatewright documentation",
				"type": "application/mcp-server-card+json", "url": "http://127.0.0.1:9000/mcp/docs/server-card",
			},
		},
	}
	if diff := cmp.Diff(want, parse(t, raw)); diff != "" {
		t.Errorf("Catalog() (-want +got):\n%s", diff)
	}
}

// TestCatalogSchemaRefusesInvalidCatalogs checks that the schema in testdata refuses invalid catalogs.
func TestCatalogSchemaRefusesInvalidCatalogs(t *testing.T) {
	schema := schemaOf(t, "ai-catalog.schema.json")
	first := func(c map[string]any) map[string]any { return c["entries"].([]any)[0].(map[string]any) }
	for name, corrupt := range map[string]func(map[string]any){
		"no version":                    func(c map[string]any) { delete(c, "specVersion") },
		"no entries":                    func(c map[string]any) { delete(c, "entries") },
		"a host without a name":         func(c map[string]any) { delete(c["host"].(map[string]any), "displayName") },
		"no identifier":                 func(c map[string]any) { delete(first(c), "identifier") },
		"no type":                       func(c map[string]any) { delete(first(c), "type") },
		"no address":                    func(c map[string]any) { delete(first(c), "url") },
		"address and data":              func(c map[string]any) { first(c)["data"] = map[string]any{} },
		"relative address":              func(c map[string]any) { first(c)["url"] = "/mcp/server-card" },
		"the former name of type":       func(c map[string]any) { first(c)["mediaType"] = first(c)["type"] },
		"an identifier without urn:air": func(c map[string]any) { first(c)["identifier"] = "urn:mcp:server:api" },
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := servercards.Catalog(address)
			if err != nil {
				t.Fatal(err)
			}
			c := parse(t, raw)
			corrupt(c)
			if schema.Validate(c) == nil {
				t.Error("Validate(corrupt catalog) = nil, want an error")
			}
		})
	}
}
