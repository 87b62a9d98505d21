package tunnels

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{tunnels.Open(p)}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create), read.HandledBy(h.read), remove.HandledBy(h.remove),
		rotate.HandledBy(h.rotate),
		teardown.HandledBy(h.teardown), provisioning.HandledBy(h.provisioning),
		readConfiguration.HandledBy(h.readConfiguration), configure.HandledBy(h.configure),
	}
}

type handlers struct{ service *tunnels.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.RespondSlice(in.Page, viewListed)(h.service.List(ctx, auth.OwnerFrom(ctx)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*tunnelOut, error) {
	return api.Respond(view)(h.service.Create(ctx, auth.OwnerFrom(ctx), in.Body.Name))
}

func (h handlers) read(ctx context.Context, in *tunnelIn) (*tunnelOut, error) {
	return api.Respond(view)(h.service.Read(ctx, auth.OwnerFrom(ctx), in.TunnelID))
}

func (h handlers) remove(ctx context.Context, in *tunnelIn) (*operationOut, error) {
	return api.Respond(viewOperation)(h.service.Delete(ctx, auth.OwnerFrom(ctx), in.TunnelID))
}

func (h handlers) rotate(ctx context.Context, in *tunnelIn) (*tunnelOut, error) {
	return api.Respond(view)(h.service.Rotate(ctx, auth.OwnerFrom(ctx), in.TunnelID))
}

func (h handlers) teardown(ctx context.Context, in *operationIn) (*operationOut, error) {
	return api.Respond(viewOperation)(h.service.Teardown(ctx, auth.OwnerFrom(ctx), in.TunnelID, in.OperationID))
}

func (h handlers) provisioning(ctx context.Context, in *operationIn) (*operationOut, error) {
	return api.Respond(viewOperation)(h.service.Provisioning(ctx, auth.OwnerFrom(ctx), in.TunnelID, in.OperationID))
}

func (h handlers) readConfiguration(ctx context.Context, in *tunnelIn) (*configurationOut, error) {
	return api.Respond(viewConfiguration)(h.service.ConfiguredServices(ctx, auth.OwnerFrom(ctx), in.TunnelID))
}

func (h handlers) configure(ctx context.Context, in *configureIn) (*operationOut, error) {
	return api.Respond(viewOperation)(h.service.Configure(ctx, auth.OwnerFrom(ctx), in.TunnelID,
		api.Map(in.Body.Services, serviceSpec)))
}

func viewListed(t tunnels.Tunnel) listed { return listed{ID: t.ID, Name: t.Name} }

func view(t tunnels.Tunnel) tunnel { return tunnel{TunnelID: t.ID, Name: t.Name, Token: t.Token} }

func viewOperation(o tunnels.Operation) operation {
	return operation{ID: o.ID, Status: string(o.Status), Message: o.Message, Details: o.Details}
}

func serviceSpec(s putService) tunnels.Spec {
	return tunnels.Spec{
		Name: s.Name, Endpoint: s.Endpoint,
		Configurations: api.Map(s.Configurations, func(c putAccess) tunnels.Configuration {
			return tunnels.Configuration{Project: c.Project, AccessibleBy: api.Map(c.AccessibleBy, kind)}
		}),
	}
}

// kind returns the kind of environment with this name. Package api has already checked the name against the enum in the
// declaration.
func kind(text string) environment.Kind {
	k, _ := environment.Parse(text)
	return k
}

func viewConfiguration(services []tunnels.Spec) configuration {
	return configuration{Version: 1, Services: api.Map(services, func(s tunnels.Spec) service {
		return service{
			Name: s.Name, Endpoint: s.Endpoint,
			Configurations: api.Map(s.Configurations, func(c tunnels.Configuration) access {
				return access{Project: c.Project, AccessibleBy: api.Map(c.AccessibleBy, environment.Kind.Slug)}
			}),
		}
	})}
}
