package auditlogs

import (
	"context"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{trail.Open(p), api.OpenCursors(p)}
	return []api.Route{list.HandledBy(h.list), export.HandledBy(h.export)}
}

type handlers struct {
	trail   *trail.Trail
	cursors api.Cursors
}

// maxLimit is the maximum number of records on a page (contract 2.2).
const maxLimit = 100

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	if err := requireFullVisibility(ctx); err != nil {
		return nil, err
	}
	f := trail.Filter{Action: in.Action, Actor: in.Actor, Success: in.Success.pointer()}
	var err error
	if f.From, f.To, err = h.trail.TimeRange(in.StartDate.pointer(), in.EndDate.pointer()); err != nil {
		return nil, err
	}
	page := store.Page{Limit: min(in.Limit, maxLimit), Offset: in.Offset}
	if page.After, err = h.cursors.Open(ctx, in.After); err != nil {
		return nil, err
	}
	result, err := h.trail.List(ctx, auth.OwnerFrom(ctx).AccountID, f, page)
	if err != nil {
		return nil, err
	}
	out := &listOut{Body: auditLog{
		Data:       api.Map(result.Entries, view),
		Pagination: pagination{Limit: page.Limit, Offset: page.Offset, Total: result.Total, HasMore: result.HasMore},
	}}
	out.Body.Next, out.Link, err = h.cursors.Next(ctx, in.After, result.Next())
	return out, err
}

// requireFullVisibility returns Forbidden if the caller's key cannot see the whole account.
func requireFullVisibility(ctx context.Context) error {
	if !auth.PrincipalFrom(ctx).CanSee("", "") {
		return fault.New(fault.Forbidden, "The audit log is the whole account's, and this account key is limited to "+
			"projects or environments. Use a key that sees all of them.")
	}
	return nil
}

// maxExportRecords is the maximum number of records on a page of an export.
const maxExportRecords = 1000

func (h handlers) export(ctx context.Context, in *exportIn) (*exportOut, error) {
	if err := requireFullVisibility(ctx); err != nil {
		return nil, err
	}
	after, err := h.cursors.Open(ctx, in.After)
	if err != nil {
		return nil, err
	}
	owner := auth.OwnerFrom(ctx)
	fits := api.Fits(func(l proof.Link) proof.Link { return l })
	s, err := h.trail.Section(ctx, owner.AccountID, owner.Account, after, maxExportRecords, fits)
	if err != nil {
		return nil, err
	}
	// api.Map makes an empty list of nil.
	links := api.Map(s.Links, func(l proof.Link) proof.Link { return l })
	out := &exportOut{Body: exported{Links: links, Header: s.Header}}
	out.Body.Next, out.Link, err = h.cursors.Next(ctx, in.After, s.Next)
	return out, err
}

func view(e audit.Entry) entry {
	out := entry{
		Action: string(e.Action), Metadata: e.Metadata,
		Route: route{Source: e.Route.Source, URL: e.Route.URL, Method: e.Route.Method},
		Context: origin{
			IPAddress: e.Context.IPAddress, UserAgent: e.Context.UserAgent, Country: e.Context.Country, Region: e.Context.Region,
			City: e.Context.City, PostalCode: e.Context.PostalCode, MetroCode: e.Context.MetroCode, ASOrg: e.Context.ASOrg,
		},
		Timestamp: e.Timestamp, RequestID: e.RequestID, Success: e.Success, Error: e.Error,
		Actor: actor{
			Sub: e.Actor.Sub, Email: e.Actor.Email, Type: e.Actor.Type, Connection: e.Actor.Connection,
			Metadata: e.Actor.Metadata,
		},
	}
	if as := e.Actor.ActingAs; as != nil {
		out.Actor.ActingAs = &actingAs{Sub: as.Sub, Email: as.Email}
	}
	if e.Resources != nil {
		out.Resources = api.Map(e.Resources, func(r audit.Resource) resource {
			return resource{Type: r.Type, ID: r.ID, Metadata: r.Metadata}
		})
	}
	return out
}
