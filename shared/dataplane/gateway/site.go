package gateway

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/handler"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/mcp"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/router"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// site is an artifact that is ready to serve, or the reason why it can't be served.
type site struct {
	identity project.Identity
	// noRoute is the route of requests that match no route. It has only the Info of the deployment.
	noRoute pipeline.Route
	router  router.Router
	routes  []siteRoute
	// preservePaths sends paths upstream as the client wrote them, except that invalid bytes are escaped.
	preservePaths bool
	// problems are the reasons why the artifact can't be served, empty for a valid artifact.
	problems []project.Problem
	// builtByNewer is set if a newer release of the gateway has built the artifact. Then this release can't serve it.
	builtByNewer bool
}

// siteRoute is a route, with the CORS policy that the gateway applies to it.
type siteRoute struct {
	pipeline.Route
	cors *cors
}

// dependencies has what newSite needs in addition to the artifact.
type dependencies struct {
	handler handler.Setup
	policy  policy.Setup
	log     *slog.Logger
	// compileDescriptions is set to compile the descriptions of all routes, so that their problems are reported. Otherwise
	// each description is compiled for the first request of its route.
	compileDescriptions bool
	// done is closed when the site is not needed any more, so that newSite leaves out the remaining routes. It is nil if that
	// never happens.
	done <-chan struct{}
	// count counts a completed exchange that an MCP server has started inside the process; nil counts nothing.
	count func(x *pipeline.Exchange, status int)
}

// newSite prepares all parts of an artifact, and collects their problems. If this
// release can't read the artifact's format, newSite prepares nothing.
func newSite(a *project.Artifact, deps dependencies) *site {
	s := &site{
		identity: a.Identity, noRoute: pipeline.Route{Info: infoOf(a.Identity)},
		preservePaths: a.PathNormalization == project.PreservePaths,
	}
	if a.Format != project.ArtifactFormat {
		s.builtByNewer = (&project.FormatError{Format: a.Format}).IsNewer()
		s.problems = append(s.problems, project.Problem{Message: "Deploy the project again: it was built for another " +
			"version of the gateway."})
		return s
	}
	deps.handler.Variables, deps.handler.Certificates = a.Variables, a.Certificates
	deps.policy.Identity, deps.policy.Buckets, deps.policy.Variables = a.Identity, a.Buckets, a.Variables
	b := siteBuilder{
		artifact: a, deps: deps, policies: map[string]policy.Provisioned{}, cors: map[string]*cors{}, site: s,
		definitions: schema.NewDefinitions(a.Definitions),
	}
	s.routes = make([]siteRoute, len(a.Routes))
	for i := range a.Routes {
		if b.stopped() {
			return s
		}
		b.addRoute(i)
	}
	b.initMCPServers()
	return s
}

// siteBuilder creates a site. It creates each policy and CORS policy of the project
// once, even if several routes use it.
type siteBuilder struct {
	artifact       *project.Artifact
	deps           dependencies
	policies       map[string]policy.Provisioned
	cors           map[string]*cors
	site           *site
	servers        []mcpServer
	definitions    *schema.Definitions
	budgetReported bool // whether it was reported that all URL patterns together exceed the budget
}

// stopped reports whether the site is not needed any more.
func (b *siteBuilder) stopped() bool {
	select {
	case <-b.deps.done:
		return true
	default:
		return false
	}
}

// extensionPointer is the pointer to a route's settings, relative to the route's operation.
const extensionPointer = "/x-gateway-route"

// maxProblems limits the number of a site's problems, because no user reads more. Problems with the settings of
// policies are added without a limit.
const maxProblems = 1_000

// report adds a problem of a route. pointer is relative to the route's operation.
func (b *siteBuilder) report(r *project.Route, pointer, format string, args ...any) {
	if len(b.site.problems) >= maxProblems {
		return
	}
	b.site.problems = append(b.site.problems, project.Problem{
		File: r.Source.File, Path: r.Source.Pointer + pointer, Message: fmt.Sprintf(format, args...),
	})
}

// addRoute prepares the route with index i of the artifact.
func (b *siteBuilder) addRoute(i int) {
	r := &b.artifact.Routes[i]
	identity := b.artifact.Identity
	out := &b.site.routes[i]
	out.Info = infoOf(identity)
	out.Info.OperationID, out.Info.Method, out.Info.Path = r.OperationID, r.Method, r.Path
	if err := b.site.router.Add(r.Method, r.Path, r.PathMode, i); err != nil {
		if overBudget := errors.Is(err, router.ErrTotalBudget); !overBudget || !b.budgetReported {
			b.budgetReported = b.budgetReported || overBudget
			b.report(r, "", "Correct the path of this operation: %v.", err)
		}
	}

	setup := b.deps.handler
	setup.HasParam = router.ParamChecker(r.Path, r.PathMode)
	h, problems := handler.Provision(r.Handler, setup)
	for _, p := range problems {
		b.report(r, extensionPointer+"/handler"+p.Path, "%s", p.Message)
	}
	out.Handler = h
	if server, ok := h.(*mcp.Server); ok && len(problems) == 0 {
		b.servers = append(b.servers, mcpServer{server, i})
	}

	for n, name := range r.Inbound {
		p := b.policy(r, policy.Inbound, name, n)
		out.Inbound = append(out.Inbound, p.Inbound)
	}
	for n, name := range r.Outbound {
		p := b.policy(r, policy.Outbound, name, n)
		out.Outbound = append(out.Outbound, p.Outbound)
	}
	out.InboundNames, out.OutboundNames = r.Inbound, r.Outbound
	b.addDescription(r, out)
	out.cors = b.corsOf(r)
}

// addDescription adds the description of a route whose policies validate requests or responses. It also reports policies
// that read bodies before the user is identified.
func (b *siteBuilder) addDescription(r *project.Route, out *siteRoute) {
	inbound, validates := make([]project.Policy, len(r.Inbound)), false
	for i, name := range r.Inbound {
		inbound[i] = b.artifact.Policies[name]
		request, _ := policy.Validates(inbound[i].Type)
		validates = validates || request
	}
	for _, name := range r.Outbound {
		_, responses := policy.Validates(b.artifact.Policies[name].Type)
		validates = validates || responses
	}
	if i := policy.Misplaced(inbound); i >= 0 {
		b.report(r, extensionPointer+"/policies/inbound", "Move %q behind the policies that identify the user: the gateway "+
			"must not keep and check bodies of requests that these policies refuse.", inbound[i].Name)
	}
	if !validates {
		return
	}
	out.Description = pipeline.NewDescription(b.definitions, r)
	if b.deps.compileDescriptions {
		if err := out.Description.Compile(); err != nil {
			b.report(r, "", "Correct the description of this operation: %v.", err)
		}
	}
}

// infoOf returns the information about a deployment that all its requests share, with or without a route.
func infoOf(identity project.Identity) pipeline.Info {
	return pipeline.Info{
		Account: identity.AccountID, Project: identity.Project, Environment: identity.Environment,
		Deployment: identity.Deployment, BuildID: identity.BuildID,
	}
}

// policy returns the policy with a name, which is the element index of the inbound or outbound policies of the route
// r. It creates each policy only once. If the policy does not exist or belongs to the other direction, the problem
// points to this element. A problem with the policy's own settings points to policiesFile.
func (b *siteBuilder) policy(r *project.Route, direction policy.Direction, name string, index int) policy.Provisioned {
	pointer := extensionPointer + "/policies/" + string(direction) + "/" + strconv.Itoa(index)
	declared, ok := b.artifact.Policies[name]
	if !ok {
		b.report(r, pointer, "Name a policy of config/policies.json: there is none of this name.")
		return policy.Provisioned{}
	}
	if actual := policy.DirectionOf(declared.Type); actual != direction && actual != "" {
		b.report(r, pointer, "Move this policy to %q: it is of the type %s.", actual, declared.Type)
	}
	if provisioned, exists := b.policies[name]; exists {
		return provisioned
	}
	b.policies[name] = policy.Provisioned{} // for a policy that contains itself
	setup := b.deps.policy
	setup.Member = func(member string) policy.Provisioned { return b.policy(r, direction, member, index) }
	provisioned, problems := policy.Provision(declared, setup)
	for _, p := range problems {
		b.site.problems = append(b.site.problems, project.Problem{
			File: policiesFile, Message: fmt.Sprintf("Correct %s of the policy %q: %s", p.Path, name, p.Message),
		})
	}
	b.policies[name] = provisioned
	return provisioned
}

const policiesFile = "config/policies.json"

// corsOf returns the CORS policy of a route, nil for none. It creates each policy of the project only once.
func (b *siteBuilder) corsOf(r *project.Route) *cors {
	switch r.CORSPolicy {
	case "", corsNone:
		return nil
	case corsAnythingGoes:
		return anythingGoes()
	}
	if corsPolicy, exists := b.cors[r.CORSPolicy]; exists {
		return corsPolicy
	}
	declared, ok := b.artifact.CORSPolicies[r.CORSPolicy]
	if !ok {
		b.report(r, extensionPointer+"/corsPolicy",
			"Name a CORS policy of config/policies.json, or %q or %q: there is none of this name.", corsNone, corsAnythingGoes)
		return nil
	}
	corsPolicy := newCORS(declared)
	b.cors[r.CORSPolicy] = corsPolicy
	return corsPolicy
}

// find returns the route of a request and sets the exchange's Params. It returns nil if no route matches.
func (s *site) find(x *pipeline.Exchange) *siteRoute {
	i, ok := s.router.Find(x.Method, x.Path, &x.Params)
	if !ok {
		return nil
	}
	return &s.routes[i]
}

// corsAt returns the CORS policy of the route with this path and method, nil for none.
func (s *site) corsAt(path, method string) *cors {
	route := s.find(&pipeline.Exchange{Method: method, Path: path})
	if route == nil {
		return nil
	}
	return route.cors
}

// isMCPServer reports whether a path has only one route, for POST, and its handler is an MCP server. allowed has the
// methods of the path's routes.
func (s *site) isMCPServer(path string, allowed []string) bool {
	if len(allowed) != 1 || allowed[0] != http.MethodPost {
		return false
	}
	_, ok := s.find(&pipeline.Exchange{Method: http.MethodPost, Path: path}).Handler.(*mcp.Server)
	return ok
}
