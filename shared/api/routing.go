package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits/counts"
)

// Operations opens servers of the same operations. What does not depend on an installation, such as the schemas
// that huma reads from types, is made once for all of these servers. The zero Operations knows no operations;
// the first Open reads them.
type Operations struct {
	once sync.Once
	routing
}

// routing contains what servers of the same operations share: everything except the functions that carry the operations out.
type routing struct {
	mux *http.ServeMux
	ids []string
	// reads are the paths, as declared, of which there is a single read, with the
	// scopes of those.
	reads map[string]auth.Scope
	// paths are those of all routes, in segments; deep those of them with a
	// parameter that holds slashes.
	paths [][]string
	deep  []deepPath
}

// Open returns a Server of an installation for some routes. It panics if a route declares a read (Operation.ReadAt) that is not among them.
func Open(p installation.Parts, callers Authenticator, routes []Route) *Server {
	return new(Operations).Open(p, callers, routes)
}

// Open is the function Open for routes whose operations are the same, in the same order, at each call. It panics if they differ.
func (o *Operations) Open(p installation.Parts, callers Authenticator, routes []Route) *Server {
	o.once.Do(func() { o.read(routes) })
	s := &Server{parts: p, callers: callers, sealer: p.Sealer(), requests: p.Hasher("idempotent-request"), routing: &o.routing, limits: counts.Open(p)}
	for i, r := range routes {
		if len(routes) != len(o.ids) || r.ID != o.ids[i] {
			panic(fmt.Sprintf("api: %s is not among the operations %v at %d", r.ID, o.ids, i))
		}
		s.answers = append(s.answers, r.answer)
	}
	return s
}

func (o *routing) read(routes []Route) {
	o.mux, o.reads = http.NewServeMux(), map[string]auth.Scope{}
	for i, r := range routes {
		r.answer = nil // each server has its own
		o.mux.Handle(r.Method+" "+r.Path, operation(i, r))
		o.ids = append(o.ids, r.ID)
		segments := strings.Split(r.Path, "/")
		o.paths = append(o.paths, segments)
		if r.Single {
			o.reads[r.Path] = r.Scope
		}
		if i := slices.Index(segments, r.Slashed); i >= 0 && r.Slashed != "" {
			o.deep = append(o.deep, deepPath{segments, i})
		}
	}
	for _, r := range routes {
		if _, ok := o.reads[r.ReadAt]; !ok && r.ReadAt != r.Path {
			panic(fmt.Sprintf("api: %s is read at %s, and no read of one thing is there", r.ID, r.ReadAt))
		}
	}
}

// operation returns the handler of an operation, which calls the answer number i of the server that the request is for. The handler is made
// at the first request, because huma needs longer to read the types of an operation than everything else that Open does, and a function that
// has just started is asked for one operation. Each has a schema registry of its own: huma's registry is not safe for concurrent use.
func operation(i int, r Route) http.Handler {
	registered := sync.OnceValue(func() http.Handler {
		mux := http.NewServeMux()
		r.register(humago.New(mux, humaConfig()), middleware(r))
		return mux
	})
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		st := stateOf(request.Context())
		st.answer = st.server.answers[i]
		registered().ServeHTTP(w, request)
	})
}
