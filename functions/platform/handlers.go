package platform

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"sync"

	"github.com/danielgtaylor/huma/v2/negotiation"
	"github.com/danielgtaylor/huma/v2/yaml"

	"github.com/gatewright/gatewright/docs"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/pages"
)

// description is the OpenAPI document in openapi.json. The file is also the golden file of a test of package functions,
// which compares it with the declarations. So the served document is the document that was reviewed.
//
//go:embed openapi.json
var description []byte

// Bind returns the group's routes. They use only the configuration of p.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	d := describer{loadYAML: sync.OnceValues(toYAML)}
	site := docsSite{pages.New(docs.Guides, description)}
	cardHandlers := discovery{apiURL: p.Config.APIURL}
	return []api.Route{
		openAPI.HandledBy(d.describe),
		whoAmI.HandledBy(whoAmIHandler),
		listAccounts.HandledBy(listAccountsHandler),
		platformCard.HandledBy(cardHandlers.platformCard),
		docsCard.HandledBy(cardHandlers.docsCard),
		aiCatalog.HandledBy(cardHandlers.catalog),
		docsOverview.HandledBy(site.overview),
		docsPage.HandledBy(site.page),
		platformCardPreflight.HandledBy(cardHandlers.preflight),
		docsCardPreflight.HandledBy(cardHandlers.preflight),
		aiCatalogPreflight.HandledBy(cardHandlers.preflight),
	}
}

// describer serves the description in the requested format.
type describer struct {
	// loadYAML returns the description in YAML. Its first call converts it.
	loadYAML func() ([]byte, error)
}

// The media types of the description. JSON is the default for clients that accept both or neither.
const (
	jsonType = "application/json"
	yamlType = "application/yaml" // RFC 9512
)

func (d describer) describe(_ context.Context, in *openAPIIn) (*openAPIOut, error) {
	out := &openAPIOut{ContentType: jsonType, Vary: "Accept", Body: description}
	// The other YAML types were in use before application/yaml was registered.
	mediaType := negotiation.SelectQValue(in.Accept, []string{
		jsonType, "*/*", yamlType, "application/x-yaml",
		"text/yaml",
	})
	if mediaType == "" || mediaType == jsonType || mediaType == "*/*" {
		return out, nil
	}
	body, err := d.loadYAML()
	if err != nil {
		return nil, err
	}
	out.ContentType, out.Body = yamlType, body
	return out, nil
}

// toYAML returns the description in YAML, with its members in the same order.
func toYAML() ([]byte, error) {
	var out bytes.Buffer
	if err := yaml.Convert(&out, bytes.NewReader(description)); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document as YAML: %w", err)
	}
	return out.Bytes(), nil
}

func whoAmIHandler(ctx context.Context, _ *struct{}) (*whoAmIOut, error) {
	p := auth.PrincipalFrom(ctx)
	return &whoAmIOut{Body: caller{Sub: p.KeyID, Account: p.AccountName}}, nil
}

func listAccountsHandler(ctx context.Context, in *listAccountsIn) (*listAccountsOut, error) {
	p := auth.PrincipalFrom(ctx)
	visible := []account{{ID: p.AccountID, Name: p.AccountName}}
	return &listAccountsOut{Body: api.Slice(visible, in.Page)}, nil
}
