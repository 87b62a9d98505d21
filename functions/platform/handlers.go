package platform

import (
	"context"
	_ "embed"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
)

// description is the golden OpenAPI document: what a review has seen is what
// is served. The test of package functions derives and compares it.
//
//go:embed openapi.json
var description []byte

// Bind returns the group's routes. They need nothing but the caller.
func Bind(installation.Parts) []api.Route {
	return []api.Route{
		openAPI.To(describe),
		whoAmI.To(identify),
		listAccounts.To(accounts),
	}
}

func describe(context.Context, *struct{}) (*openAPIOut, error) {
	return &openAPIOut{ContentType: "application/json", Body: description}, nil
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
