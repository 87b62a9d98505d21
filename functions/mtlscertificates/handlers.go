package mtlscertificates

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{upstreamcerts.Open(p, deployments.CertificateUsers{Table: p.Table})}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create), read.HandledBy(h.read),
		update.HandledBy(h.update), remove.HandledBy(h.remove),
	}
}

type handlers struct{ service *upstreamcerts.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.RespondSlice(in.Page, view)(h.service.List(ctx, projectOf(ctx, in.ProjectPath)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*certificateOut, error) {
	return api.Respond(view)(h.service.Create(ctx, projectOf(ctx, in.ProjectPath), upstreamcerts.CreateInput{
		Name: in.Body.Name, Certificate: in.Body.Certificate, Key: in.Body.Key, Environments: kinds(in.Body.Environments),
	}))
}

func (h handlers) read(ctx context.Context, in *certificateIn) (*certificateOut, error) {
	return api.Respond(view)(h.service.Read(ctx, projectOf(ctx, in.ProjectPath), in.MtlsCertificateID))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*certificateOut, error) {
	return api.Respond(view)(h.service.Enable(ctx, projectOf(ctx, in.ProjectPath), in.MtlsCertificateID,
		kinds(in.Body.Environments)))
}

func (h handlers) remove(ctx context.Context, in *certificateIn) (*api.NoContent, error) {
	return nil, h.service.Delete(ctx, projectOf(ctx, in.ProjectPath), in.MtlsCertificateID)
}

func projectOf(ctx context.Context, p api.ProjectPath) upstreamcerts.Project {
	return upstreamcerts.Project{Owner: auth.OwnerFrom(ctx), Name: p.ProjectName}
}

// kinds converts the names of kinds of environment. Package api has already checked the names against the enum in the
// declaration.
func kinds(names []string) []environment.Kind {
	out := make([]environment.Kind, 0, len(names))
	for _, name := range names {
		out = append(out, environment.Kind(name))
	}
	return out
}

func view(c upstreamcerts.Certificate) certificate {
	enabled := func(k environment.Kind) bool { return slices.Contains(c.Environments, k) }
	return certificate{
		ID: c.ID, Name: c.Name,
		Info: info{
			Subject: c.Info.Subject, Issuer: c.Info.Issuer, SerialNumber: c.Info.SerialNumber,
			ValidFrom: api.Timestamp(c.Info.ValidFrom), ValidTo: api.Timestamp(c.Info.ValidTo),
		},
		Environments: environments{
			Development: enabled(environment.Development), Preview: enabled(environment.Preview),
			Production: enabled(environment.Production),
		},
		CreatedOn: api.Timestamp(c.CreatedOn), UpdatedOn: api.Timestamp(c.UpdatedOn),
	}
}
