package tunnels

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	h := handlers{tunnels.Open(p)}
	return []api.Route{
		list.To(h.list), create.To(h.create), read.To(h.read), remove.To(h.remove), rotate.To(h.rotate),
		teardown.To(h.teardown), provisioning.To(h.provisioning), configured.To(h.configured), configure.To(h.configure),
	}
}

type handlers struct{ service *tunnels.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.AnswerPart(in.Page, entry)(h.service.List(ctx, auth.OwnerFrom(ctx)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*tunnelOut, error) {
	return api.Answer(view)(h.service.Create(ctx, auth.OwnerFrom(ctx), in.Body.Name))
}

func (h handlers) read(ctx context.Context, in *tunnelIn) (*tunnelOut, error) {
	return api.Answer(view)(h.service.Read(ctx, auth.OwnerFrom(ctx), in.TunnelID))
}

func (h handlers) remove(ctx context.Context, in *tunnelIn) (*operationOut, error) {
	return api.Answer(progress)(h.service.Delete(ctx, auth.OwnerFrom(ctx), in.TunnelID))
}

func (h handlers) rotate(ctx context.Context, in *tunnelIn) (*tunnelOut, error) {
	return api.Answer(view)(h.service.Rotate(ctx, auth.OwnerFrom(ctx), in.TunnelID))
}

func (h handlers) teardown(ctx context.Context, in *operationIn) (*operationOut, error) {
	return api.Answer(progress)(h.service.Teardown(ctx, auth.OwnerFrom(ctx), in.TunnelID, in.OperationID))
}

func (h handlers) provisioning(ctx context.Context, in *operationIn) (*operationOut, error) {
	return api.Answer(progress)(h.service.Provisioning(ctx, auth.OwnerFrom(ctx), in.TunnelID, in.OperationID))
}

func (h handlers) configured(ctx context.Context, in *tunnelIn) (*configurationOut, error) {
	return api.Answer(shown)(h.service.Configured(ctx, auth.OwnerFrom(ctx), in.TunnelID))
}

func (h handlers) configure(ctx context.Context, in *configureIn) (*operationOut, error) {
	return api.Answer(progress)(h.service.Configure(ctx, auth.OwnerFrom(ctx), in.TunnelID, api.Each(in.Body.Services, wanted)))
}

func entry(t tunnels.Tunnel) listed { return listed{ID: t.ID, Name: t.Name} }

func view(t tunnels.Tunnel) tunnel { return tunnel{TunnelID: t.ID, Name: t.Name, Token: t.Token} }

func progress(o tunnels.Operation) operation {
	return operation{ID: o.ID, Status: string(o.Status), Message: o.Message, Details: o.Details}
}

func wanted(s putService) tunnels.Spec {
	return tunnels.Spec{
		Name: s.Name, Endpoint: s.Endpoint,
		Configurations: api.Each(s.Configurations, func(c putAccess) tunnels.Configuration {
			return tunnels.Configuration{Project: c.Project, AccessibleBy: api.Each(c.AccessibleBy, kind)}
		}),
	}
}

// kind reads a kind of environment, whose spelling the declaration has checked.
func kind(text string) environment.Kind {
	k, _ := environment.Parse(text)
	return k
}

func shown(services []tunnels.Spec) configuration {
	return configuration{Version: 1, Services: api.Each(services, func(s tunnels.Spec) service {
		return service{
			Name: s.Name, Endpoint: s.Endpoint,
			Configurations: api.Each(s.Configurations, func(c tunnels.Configuration) access {
				return access{Project: c.Project, AccessibleBy: api.Each(c.AccessibleBy, environment.Kind.Slug)}
			}),
		}
	})}
}
