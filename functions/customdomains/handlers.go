package customdomains

import (
	"context"
	"net/url"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{customdomains.Open(p), p.Config}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create), update.HandledBy(h.update), remove.HandledBy(h.remove),
		read.HandledBy(h.read), verify.HandledBy(h.verify),
		upload.HandledBy(h.upload), removeCertificate.HandledBy(h.removeCertificate),
	}
}

type handlers struct {
	service *customdomains.Service
	config  config.Config
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.RespondSlice(in.Page, h.view)(h.service.List(ctx, auth.OwnerFrom(ctx)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*mutationOut, error) {
	return api.Respond(h.viewMutation)(h.service.Create(ctx, auth.OwnerFrom(ctx), customdomains.CreateInput{
		Hostname: in.Body.Hostname, Deployment: in.Body.DeploymentName, Stage: customdomains.Stage(in.Body.Stage),
		Alias: in.Body.IsAlias, Default: in.Body.IsDefault,
	}))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*mutationOut, error) {
	// A request with only the hostname detaches the hostname from all deployments. A caller that also sets isDefault does
	// not want that.
	if in.Body.IsDefault != nil && in.Body.DeploymentName == "" {
		return nil, fault.InvalidField("isDefault", "goes with deploymentName: name the deployment too, or leave both out "+
			"to detach the hostname from all it leads to")
	}
	notDefault := in.Body.IsDefault != nil && !*in.Body.IsDefault
	return api.Respond(h.viewMutation)(h.service.Update(ctx, auth.OwnerFrom(ctx), in.Body.Hostname, in.Body.DeploymentName,
		notDefault))
}

func (h handlers) remove(ctx context.Context, in *removeIn) (*api.NoContent, error) {
	return nil, h.service.Delete(ctx, auth.OwnerFrom(ctx), in.Hostname, in.DeploymentName)
}

func (h handlers) read(ctx context.Context, in *domainIn) (*domainOut, error) {
	return api.Respond(h.view)(h.service.Read(ctx, auth.OwnerFrom(ctx), in.Hostname))
}

func (h handlers) verify(ctx context.Context, in *domainIn) (*domainOut, error) {
	return api.Respond(h.view)(h.service.Verify(ctx, auth.OwnerFrom(ctx), in.Hostname))
}

func (h handlers) upload(ctx context.Context, in *uploadIn) (*domainOut, error) {
	return api.Respond(h.view)(h.service.Upload(ctx, auth.OwnerFrom(ctx), in.Hostname, in.Body.Certificate, in.Body.Key))
}

func (h handlers) removeCertificate(ctx context.Context, in *domainIn) (*domainOut, error) {
	return api.Respond(h.view)(h.service.DeleteCertificate(ctx, auth.OwnerFrom(ctx), in.Hostname))
}

// cname returns the target of a custom domain's CNAME record: the deployment's host name below the installation's
// domain. It returns nil if the configured address of deployments is not a URL.
func (h handlers) cname(deployment string) *string {
	u, err := url.Parse(h.config.DeploymentOrigin(deployment))
	if err != nil {
		return nil
	}
	return new(u.Hostname())
}

func (h handlers) viewMutation(d customdomains.Domain) mutation {
	m := mutation{Hostname: d.Hostname, Stage: new(string(d.Stage)), Proof: viewProof(d.Proof)}
	if len(d.Mappings) > 0 {
		m.DeploymentName, m.CNAME = &d.Mappings[0].Deployment, h.cname(d.Mappings[0].Deployment)
	}
	return m
}

func viewProof(p *customdomains.Proof) *proof {
	if p == nil {
		return nil
	}
	return &proof{Name: p.Name, Type: "TXT", Value: p.Value}
}

func (h handlers) view(d customdomains.Domain) customDomain {
	out := customDomain{
		ID: d.ID, AccountName: d.Account, Hostname: d.Hostname, Deployments: []mapping{},
		Provider: "custom", Status: "active", Proof: viewProof(d.Proof),
		CreatedOn: api.Timestamp(d.CreatedOn), UpdatedOn: api.Timestamp(d.UpdatedOn),
	}
	if d.Alias {
		out.Provider = "alias"
	}
	if d.Proof != nil {
		out.Status = "pending"
	}
	out.Certificate = viewCertificate(d.Certificate)
	for i, m := range d.Mappings {
		if i == 0 {
			out.ProjectName = m.Project
		}
		out.Deployments = append(out.Deployments, mapping{
			DeploymentName: &m.Deployment, Branch: &m.Branch, EnvironmentType: new(m.Kind.Upper()), IsDefault: i == 0,
			Stage: new(string(d.Stage)), CNAME: h.cname(m.Deployment),
		})
	}
	return out
}

func viewCertificate(c *customdomains.Certificate) *certificate {
	if c == nil {
		return nil
	}
	out := &certificate{Source: string(c.Source), Status: "active"}
	if c.ValidTo.IsZero() {
		out.Status = "pending"
	} else {
		out.Issuer, out.ValidFrom, out.ValidTo = &c.Issuer, new(api.Timestamp(c.ValidFrom)), new(api.Timestamp(c.ValidTo))
	}
	if c.Operation != "" {
		out.RenewsOn = new(api.Timestamp(c.Next))
	}
	if c.Message != "" {
		out.Status, out.Message = "failed", &c.Message
	}
	return out
}
