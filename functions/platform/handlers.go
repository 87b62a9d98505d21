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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/pages"
)

// description is the golden OpenAPI document: what a review has seen is what
// is served. The test of package functions derives and compares it.
//
//go:embed openapi.json
var description []byte

// Bind returns the group's routes. They need nothing but the caller and the installation's address.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	d := describer{inYAML: sync.OnceValues(toYAML)}
	site := library{pages.New(docs.Guides, description)}
	found := discovery{address: p.Config.APIURL}
	return []api.Route{
		openAPI.To(d.describe),
		whoAmI.To(identify),
		listAccounts.To(accounts),
		platformCard.To(found.platformCard),
		docsCard.To(found.docsCard),
		aiCatalog.To(found.catalog),
		docsOverview.To(site.overview),
		docsPage.To(site.page),
		platformCardPreflight.To(found.preflight),
		docsCardPreflight.To(found.preflight),
		aiCatalogPreflight.To(found.preflight),
	}
}

// describer answers the description in the form that is asked for.
type describer struct {
	// inYAML makes the YAML for the first who asks for it.
	inYAML func() ([]byte, error)
}

// The forms, the one first that is answered to those who take both, or neither.
const (
	jsonType = "application/json"
	yamlType = "application/yaml" // RFC 9512
)

func (d describer) describe(_ context.Context, in *openAPIIn) (*openAPIOut, error) {
	out := &openAPIOut{ContentType: jsonType, Vary: "Accept", Body: description}
	// The names in use before there was a registered one.
	asked := negotiation.SelectQValue(in.Accept, []string{jsonType, "*/*", yamlType, "application/x-yaml", "text/yaml"})
	if asked == "" || asked == jsonType || asked == "*/*" {
		return out, nil
	}
	body, err := d.inYAML()
	if err != nil {
		return nil, err
	}
	out.ContentType, out.Body = yamlType, body
	return out, nil
}

// toYAML is the description in YAML, in the same order.
func toYAML() ([]byte, error) {
	var out bytes.Buffer
	if err := yaml.Convert(&out, bytes.NewReader(description)); err != nil {
		return nil, fmt.Errorf("write the OpenAPI document as YAML: %w", err)
	}
	return out.Bytes(), nil
}

func identify(ctx context.Context, _ *struct{}) (*whoAmIOut, error) {
	p := auth.From(ctx)
	return &whoAmIOut{Body: caller{Sub: p.KeyID, Account: p.AccountName}}, nil
}

func accounts(ctx context.Context, in *listAccountsIn) (*listAccountsOut, error) {
	p := auth.From(ctx)
	visible := []account{{ID: p.AccountID, Name: p.AccountName}}
	return &listAccountsOut{Body: api.Slice(visible, in.Page)}, nil
}
