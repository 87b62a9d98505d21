package functionstest

import (
	"net/http"
	"sync"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Routing finds the group that serves a request. Fixtures with the same groups can share a Routing, so that the groups'
// operations are read only once.
type Routing struct {
	binds    []Bind
	loadOnce sync.Once
	// combined creates servers for all groups together. byGroup[i] creates servers for only the group of binds[i].
	combined *api.ServerFactory
	byGroup  []*api.ServerFactory
	// mux finds the pattern of a request's route. declarations maps a pattern to the declaration of its operation.
	// groupIndex maps a pattern to the index of its group in binds.
	mux          *http.ServeMux
	declarations map[string]api.Declaration
	groupIndex   map[string]int
}

// NewRouting creates a Routing for fixtures that serve the operations of some groups.
func NewRouting(binds ...Bind) *Routing { return &Routing{binds: binds} }

// load reads the groups' routes when it is called for the first time.
func (r *Routing) load(parts installation.Parts) {
	r.loadOnce.Do(func() { r.readRoutes(parts) })
}

func (r *Routing) readRoutes(parts installation.Parts) {
	r.combined, r.byGroup = new(api.ServerFactory), make([]*api.ServerFactory, len(r.binds))
	r.mux, r.declarations, r.groupIndex = http.NewServeMux(), map[string]api.Declaration{}, map[string]int{}
	var declared []api.Declaration
	for i, bind := range r.binds {
		r.byGroup[i] = new(api.ServerFactory)
		for _, route := range bind(parts) {
			declared = append(declared, route.Declaration)
			r.groupIndex[patternOf(route.Declaration)] = i
		}
	}
	for _, d := range api.AddReadUses(declared) {
		r.mux.Handle(patternOf(d), http.NotFoundHandler())
		r.declarations[patternOf(d)] = d
	}
}

func patternOf(d api.Declaration) string { return d.Method + " " + d.Path }

// handler returns a handler that passes each request to the server of its group, as if each group were a separate
// function. The server of a group is created at the group's first request: a test can have hundreds of copies of a
// fixture, and most copies use only a few groups. A server of all groups handles the requests that match no route. If
// single is true, this server handles all requests. The parts in binding are for the function Bind of each group, and
// the parts in serving are for the servers.
func (r *Routing) handler(
	binding, serving installation.Parts, authenticator api.Authenticator, single bool,
) http.Handler {
	combinedServer := sync.OnceValue(func() http.Handler {
		var routes []api.Route
		for _, bind := range r.binds {
			routes = append(routes, bind(binding)...)
		}
		return r.combined.Open(serving, authenticator, routes)
	})
	if single {
		return combinedServer()
	}
	servers := make([]func() http.Handler, len(r.binds))
	for i, bind := range r.binds {
		servers[i] = sync.OnceValue(func() http.Handler { return r.byGroup[i].Open(serving, authenticator, bind(binding)) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, pattern := r.mux.Handler(request)
		if i, ok := r.groupIndex[pattern]; ok {
			servers[i]().ServeHTTP(w, request)
			return
		}
		combinedServer().ServeHTTP(w, request)
	})
}
