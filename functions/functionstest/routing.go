package functionstest

import (
	"net/http"
	"sync"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
)

// Routing says which group a request is for. All worlds of the same groups may have the same one: what it knows of the
// groups' operations is made once.
type Routing struct {
	binds   []Bind
	learned sync.Once
	// all opens the servers of all groups, each those of the group at an index.
	all  *api.Operations
	each []*api.Operations
	// mux finds the pattern of a request's route, declared its declaration, group the index of its
	// group.
	mux      *http.ServeMux
	declared map[string]api.Declaration
	group    map[string]int
}

// Routes makes the Routing of worlds that answer the operations of some groups.
func Routes(binds ...Bind) *Routing { return &Routing{binds: binds} }

// learn reads the groups' routes, the first time that it is called.
func (r *Routing) learn(parts installation.Parts) {
	r.learned.Do(func() { r.read(parts) })
}

func (r *Routing) read(parts installation.Parts) {
	r.all, r.each = new(api.Operations), make([]*api.Operations, len(r.binds))
	r.mux, r.declared, r.group = http.NewServeMux(), map[string]api.Declaration{}, map[string]int{}
	var declared []api.Declaration
	for i, bind := range r.binds {
		r.each[i] = new(api.Operations)
		for _, route := range bind(parts) {
			declared = append(declared, route.Declaration)
			r.group[patternOf(route.Declaration)] = i
		}
	}
	for _, d := range api.Related(declared) {
		r.mux.Handle(patternOf(d), http.NotFoundHandler())
		r.declared[patternOf(d)] = d
	}
}

func patternOf(d api.Declaration) string { return d.Method + " " + d.Path }

// serve answers requests by the servers of their groups, as functions do, each made when it is
// first asked: hundreds of copies of a world ask few of them. What is no group's route is
// answered by a server of all of them. binding is what the groups are made of, serving what the
// servers are; whole has that one answer everything.
func (r *Routing) serve(binding, serving installation.Parts, callers api.Authenticator, whole bool) http.Handler {
	all := sync.OnceValue(func() http.Handler {
		var routes []api.Route
		for _, bind := range r.binds {
			routes = append(routes, bind(binding)...)
		}
		return r.all.Open(serving, callers, routes)
	})
	if whole {
		return all()
	}
	servers := make([]func() http.Handler, len(r.binds))
	for i, bind := range r.binds {
		servers[i] = sync.OnceValue(func() http.Handler { return r.each[i].Open(serving, callers, bind(binding)) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, pattern := r.mux.Handler(request)
		if i, known := r.group[pattern]; known {
			servers[i]().ServeHTTP(w, request)
			return
		}
		all().ServeHTTP(w, request)
	})
}
