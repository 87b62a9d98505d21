package cards_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/cards"
	"github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

const address = "https://api.example.com/stage"

// schemaOf reads a schema of ours, formats included.
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

func cardOf(t *testing.T, s cards.Server) []byte {
	t.Helper()
	raw, err := s.Card(address)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestCardsFollowTheSchema(t *testing.T) {
	schema := schemaOf(t, "server-card.schema.json")
	for _, s := range cards.Servers() {
		raw := cardOf(t, s)
		if err := schema.Validate(parse(t, raw)); err != nil {
			t.Errorf("%s: %v", raw, err)
		}
		for _, text := range []string{s.Title, s.Description} {
			if n := utf8.RuneCountInString(text); n == 0 || n > 100 {
				t.Errorf("%s: %q has %d characters", s.Name, text, n)
			}
		}
	}
}

// TestSchemaOfCardsRefusesWhatIsNone keeps the schema from taking anything.
func TestSchemaOfCardsRefusesWhatIsNone(t *testing.T) {
	schema := schemaOf(t, "server-card.schema.json")
	endpoint := func(card map[string]any) map[string]any { return card["remotes"].([]any)[0].(map[string]any) }
	key := func(card map[string]any) map[string]any { return endpoint(card)["headers"].([]any)[0].(map[string]any) }
	for name, spoil := range map[string]func(map[string]any){
		"no schema": func(c map[string]any) { delete(c, "$schema") },
		"another schema": func(c map[string]any) {
			c["$schema"] = "https://static.modelcontextprotocol.io/schemas/v1/server.schema.json"
		},
		"no name":               func(c map[string]any) { delete(c, "name") },
		"a name without a part": func(c map[string]any) { c["name"] = "gatewright" },
		"two slashes":           func(c map[string]any) { c["name"] = "io.github/gatewright/api" },
		"no version":            func(c map[string]any) { delete(c, "version") },
		"a range of versions":   func(c map[string]any) { c["version"] = "^1.0.0" },
		"no description":        func(c map[string]any) { delete(c, "description") },
		"a long description":    func(c map[string]any) { c["description"] = strings.Repeat("é", 101) },
		"a relative website":    func(c map[string]any) { c["websiteUrl"] = "/docs" },
		"tools":                 func(c map[string]any) { c["tools"] = []any{} },
		"another transport":     func(c map[string]any) { endpoint(c)["type"] = "stdio" },
		"a relative endpoint":   func(c map[string]any) { endpoint(c)["url"] = "/mcp" },
		"no endpoint":           func(c map[string]any) { delete(endpoint(c), "url") },
		"one version":           func(c map[string]any) { endpoint(c)["supportedProtocolVersions"] = "2026-07-28" },
		"a header without name": func(c map[string]any) { delete(key(c), "name") },
		"a secret by word":      func(c map[string]any) { key(c)["isSecret"] = "yes" },
		"a misspelt field":      func(c map[string]any) { key(c)["required"] = true },
	} {
		t.Run(name, func(t *testing.T) {
			card := parse(t, cardOf(t, cards.API()))
			spoil(card)
			if schema.Validate(card) == nil {
				t.Error("the schema takes it")
			}
		})
	}
}

// TestCardOfTheAPISaysHowToConnect, the required and secret key included; that of the
// documentation asks for none.
func TestCardOfTheAPISaysHowToConnect(t *testing.T) {
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
	if err := json.Unmarshal(cardOf(t, cards.API()), &card); err != nil {
		t.Fatal(err)
	}
	if card.Name != cards.API().Name || card.Version != "1.0.0" || card.WebsiteURL != address+"/docs" || len(card.Remotes) != 1 {
		t.Fatalf("the card is %+v", card)
	}
	to := card.Remotes[0]
	if to.Type != "streamable-http" || to.URL != address+"/mcp" {
		t.Errorf("it leads to %+v", to)
	}
	if diff := cmp.Diff(mcp.Versions(), to.SupportedProtocolVersions); diff != "" {
		t.Errorf("the versions are not those that the server speaks:\n%s", diff)
	}
	if len(to.Headers) != 1 || to.Headers[0].Name != "Authorization" || !to.Headers[0].IsRequired || !to.Headers[0].IsSecret {
		t.Errorf("the headers are %+v", to.Headers)
	}
	card.Remotes = nil
	if err := json.Unmarshal(cardOf(t, cards.Docs()), &card); err != nil {
		t.Fatal(err)
	}
	if to := card.Remotes[0]; to.URL != address+"/mcp/docs" || len(to.Headers) != 0 || card.Name != cards.Docs().Name {
		t.Errorf("the documentation's card is %+v", card)
	}
}

func TestCatalogLeadsToEveryCard(t *testing.T) {
	raw, err := cards.Catalog("http://127.0.0.1:9000")
	if err != nil {
		t.Fatal(err)
	}
	if err := schemaOf(t, "ai-catalog.schema.json").Validate(parse(t, raw)); err != nil {
		t.Errorf("%s: %v", raw, err)
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
		t.Error(diff)
	}
}

// TestSchemaOfTheCatalogRefusesWhatIsNone keeps the schema from taking anything.
func TestSchemaOfTheCatalogRefusesWhatIsNone(t *testing.T) {
	schema := schemaOf(t, "ai-catalog.schema.json")
	first := func(c map[string]any) map[string]any { return c["entries"].([]any)[0].(map[string]any) }
	for name, spoil := range map[string]func(map[string]any){
		"no version":        func(c map[string]any) { delete(c, "specVersion") },
		"no entries":        func(c map[string]any) { delete(c, "entries") },
		"a nameless host":   func(c map[string]any) { delete(c["host"].(map[string]any), "displayName") },
		"no identifier":     func(c map[string]any) { delete(first(c), "identifier") },
		"no type":           func(c map[string]any) { delete(first(c), "type") },
		"no address":        func(c map[string]any) { delete(first(c), "url") },
		"address and data":  func(c map[string]any) { first(c)["data"] = map[string]any{} },
		"relative address":  func(c map[string]any) { first(c)["url"] = "/mcp/server-card" },
		"its former field":  func(c map[string]any) { first(c)["mediaType"] = first(c)["type"] },
		"no air identifier": func(c map[string]any) { first(c)["identifier"] = "urn:mcp:server:api" },
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := cards.Catalog(address)
			if err != nil {
				t.Fatal(err)
			}
			c := parse(t, raw)
			spoil(c)
			if schema.Validate(c) == nil {
				t.Error("the schema takes it")
			}
		})
	}
}
