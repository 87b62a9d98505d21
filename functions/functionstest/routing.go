package functionstest

import (
	"net/http"
	"sync"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
)

// routing says which group a request is for. A world and all of its copies have the same one.
type routing struct {
	binds []Bind
	// mux finds the pattern of a request's route, declared its declaration, group the index of its
	// group.
	mux      *http.ServeMux
	declared map[string]api.Declaration
	group    map[string]int
}

// learn reads the groups' routes, the first time that it is called.
func (r *routing) learn(parts installation.Parts) {
	if r.mux != nil {
		return
	}
	r.mux, r.declared, r.group = http.NewServeMux(), map[string]api.Declaration{}, map[string]int{}
	var declared []api.Declaration
	for i, bind := range r.binds {
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
func (r *routing) serve(binding, serving installation.Parts, callers api.Authenticator, whole bool) http.Handler {
	all := sync.OnceValue(func() http.Handler {
		var routes []api.Route
		for _, bind := range r.binds {
			routes = append(routes, bind(binding)...)
		}
		return api.Open(serving, callers, routes)
	})
	if whole {
		return all()
	}
	servers := make([]func() http.Handler, len(r.binds))
	for i, bind := range r.binds {
		servers[i] = sync.OnceValue(func() http.Handler { return api.Open(serving, callers, bind(binding)) })
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
