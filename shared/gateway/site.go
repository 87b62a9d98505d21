package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/gatewright/gatewright/shared/gateway/handler"
	"github.com/gatewright/gatewright/shared/gateway/mcp"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/router"
	"github.com/gatewright/gatewright/shared/project"
)

// site is an artifact that is ready to serve, or the reason why it is not.
type site struct {
	identity project.Identity
	// none stands for the route of requests that have none: it says which deployment they are of.
	none   pipeline.Route
	router router.Router
	routes []siteRoute
	// preserve has paths go upstream as they were written.
	preserve bool
	// problems say why nothing can be served, empty for a good artifact.
	problems []project.Problem
	// newer says that a newer release has built it, and serves it.
	newer bool
}

// siteRoute is a route with what the gateway itself does for it.
type siteRoute struct {
	pipeline.Route
	cors *cors
}

// installation is what sites are made with.
type installation struct {
	handler handler.Setup
	policy  policy.Setup
	log     *slog.Logger
	// count counts an answered exchange that no client has asked for itself, nil for not at all.
	count func(x *pipeline.Exchange, status int)
}

// newSite makes everything of an artifact ready, and collects all that is wrong.
func newSite(a *project.Artifact, with installation) *site {
	s := &site{identity: a.Identity, none: pipeline.Route{Info: infoOf(a.Identity)}, preserve: a.PathNormalisation == project.PreservePaths}
	if a.Format != project.ArtifactFormat {
		s.newer = (&project.FormatError{Format: a.Format}).Newer()
		s.problems = append(s.problems, project.Problem{Message: "Deploy the project again: it was built for another version of the gateway."})
		return s
	}
	with.handler.Variables, with.handler.Certificates = a.Variables, a.Certificates
	with.policy.Identity, with.policy.Buckets = a.Identity, a.Buckets
	m := maker{artifact: a, with: with, policies: map[string]policy.Provisioned{}, cors: map[string]*cors{}, site: s}
	s.routes = make([]siteRoute, len(a.Routes))
	for i := range a.Routes {
		m.route(i)
	}
	m.serve()
	return s
}

// maker makes a site. Policies and CORS policies are made once and shared by
// the routes that name them.
type maker struct {
	artifact *project.Artifact
	with     installation
	policies map[string]policy.Provisioned
	cors     map[string]*cors
	site     *site
	servers  []mcpServer
	full     bool // it is told that the URL patterns are over a budget together
}

// extension is where a route's own settings are, within its operation.
const extension = "/x-gateway-route"

// maxProblems bounds what is collected: more is not told anyway.
const maxProblems = 1_000

func (m *maker) report(r *project.Route, pointer, format string, args ...any) {
	if len(m.site.problems) >= maxProblems {
		return
	}
	m.site.problems = append(m.site.problems, project.Problem{
		File: r.Source.File, Path: r.Source.Pointer + pointer, Message: fmt.Sprintf(format, args...),
	})
}

func (m *maker) route(i int) {
	r := &m.artifact.Routes[i]
	identity := m.artifact.Identity
	out := &m.site.routes[i]
	out.Info = infoOf(identity)
	out.Info.OperationID, out.Info.Method, out.Info.Path = r.OperationID, r.Method, r.Path
	if err := m.site.router.Add(r.Method, r.Path, r.PathMode, i); err != nil {
		if full := errors.Is(err, router.ErrFull); !full || !m.full {
			m.full = m.full || full
			m.report(r, "", "Correct the path of this operation: %v.", err)
		}
	}

	setup := m.with.handler
	setup.HasParam = router.ParamsOf(r.Path, r.PathMode)
	h, problems := handler.Provision(r.Handler, setup)
	for _, p := range problems {
		m.report(r, extension+"/handler"+p.Path, "%s", p.Message)
	}
	out.Handler = h
	if server, ok := h.(*mcp.Server); ok && len(problems) == 0 {
		m.servers = append(m.servers, mcpServer{server, i})
	}

	for n, name := range r.Inbound {
		p := m.policy(r, policy.Inbound, name, n)
		out.Inbound = append(out.Inbound, p.Inbound)
	}
	for n, name := range r.Outbound {
		p := m.policy(r, policy.Outbound, name, n)
		out.Outbound = append(out.Outbound, p.Outbound)
	}
	out.InboundNames, out.OutboundNames = r.Inbound, r.Outbound
	out.cors = m.corsOf(r)
}

// infoOf says which deployment a request is of that has no route.
func infoOf(identity project.Identity) pipeline.Info {
	return pipeline.Info{
		Account: identity.AccountID, Project: identity.Project, Environment: identity.Environment,
		Deployment: identity.Deployment, BuildID: identity.BuildID,
	}
}

// policy makes the policy that a route names in a direction.
func (m *maker) policy(r *project.Route, direction policy.Direction, name string, at int) policy.Provisioned {
	pointer := extension + "/policies/" + string(direction) + "/" + strconv.Itoa(at)
	declared, ok := m.artifact.Policies[name]
	if !ok {
		m.report(r, pointer, "Name a policy of config/policies.json: there is none of this name.")
		return policy.Provisioned{}
	}
	if actual := policy.DirectionOf(declared.Type); actual != direction && actual != "" {
		m.report(r, pointer, "Move this policy to %q: it is of the type %s.", actual, declared.Type)
	}
	if made, done := m.policies[name]; done {
		return made
	}
	made, problems := policy.Provision(declared, m.with.policy)
	for _, p := range problems {
		m.site.problems = append(m.site.problems, project.Problem{
			File: policiesFile, Message: fmt.Sprintf("Correct %s of the policy %q: %s", p.Path, name, p.Message),
		})
	}
	m.policies[name] = made
	return made
}

const policiesFile = "config/policies.json"

func (m *maker) corsOf(r *project.Route) *cors {
	switch r.CORSPolicy {
	case "", corsNone:
		return nil
	case corsAnythingGoes:
		return anythingGoes()
	}
	if made, done := m.cors[r.CORSPolicy]; done {
		return made
	}
	declared, ok := m.artifact.CORSPolicies[r.CORSPolicy]
	if !ok {
		m.report(r, extension+"/corsPolicy", "Name a CORS policy of config/policies.json, or %q or %q: there is none of this name.", corsNone, corsAnythingGoes)
		return nil
	}
	made := newCORS(declared)
	m.cors[r.CORSPolicy] = made
	return made
}
