package mtlscertificates

import (
	"context"
	"slices"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	h := handlers{mtlscertificates.Open(p, deployments.Users{Table: p.Table})}
	return []api.Route{list.To(h.list), create.To(h.create), read.To(h.read), update.To(h.update), remove.To(h.remove)}
}

type handlers struct{ service *mtlscertificates.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.AnswerPart(in.Page, view)(h.service.List(ctx, project(ctx, in.ProjectPath)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*certificateOut, error) {
	return api.Answer(view)(h.service.Create(ctx, project(ctx, in.ProjectPath), mtlscertificates.New{
		Name: in.Body.Name, Certificate: in.Body.Certificate, Key: in.Body.Key, Environments: kinds(in.Body.Environments),
	}))
}

func (h handlers) read(ctx context.Context, in *certificateIn) (*certificateOut, error) {
	return api.Answer(view)(h.service.Read(ctx, project(ctx, in.ProjectPath), in.MtlsCertificateID))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*certificateOut, error) {
	return api.Answer(view)(h.service.Enable(ctx, project(ctx, in.ProjectPath), in.MtlsCertificateID, kinds(in.Body.Environments)))
}

func (h handlers) remove(ctx context.Context, in *certificateIn) (*api.NoContent, error) {
	return nil, h.service.Delete(ctx, project(ctx, in.ProjectPath), in.MtlsCertificateID)
}

func project(ctx context.Context, p api.ProjectPath) mtlscertificates.Project {
	return mtlscertificates.Project{Owner: auth.OwnerFrom(ctx), Name: p.ProjectName}
}

// kinds are names that the declaration has checked.
func kinds(names []string) []environment.Kind {
	out := make([]environment.Kind, 0, len(names))
	for _, name := range names {
		out = append(out, environment.Kind(name))
	}
	return out
}

func view(c mtlscertificates.Certificate) certificate {
	enabled := func(k environment.Kind) bool { return slices.Contains(c.Environments, k) }
	return certificate{
		ID: c.ID, Name: c.Name,
		Info: info{
			Subject: c.Info.Subject, Issuer: c.Info.Issuer, SerialNumber: c.Info.SerialNumber,
			ValidFrom: api.Timestamp(c.Info.ValidFrom), ValidTo: api.Timestamp(c.Info.ValidTo),
		},
		Environments: environments{
			Development: enabled(environment.Development), Preview: enabled(environment.Preview), Production: enabled(environment.Production),
		},
		CreatedOn: api.Timestamp(c.CreatedOn), UpdatedOn: api.Timestamp(c.UpdatedOn),
	}
}
