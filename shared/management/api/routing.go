package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
)

// ServerFactory opens servers that share the same operations. Work that does not depend on an
// installation, such as the schemas that huma reads from types, is done once for all of
// these servers. The zero value is ready to use. The first call of Open adds the operations.
type ServerFactory struct {
	once sync.Once
	routing
}

// routing has the routes and scopes of operations. All servers of one ServerFactory share them. The handlers of the
// operations are not in routing, because each server has its own handlers.
type routing struct {
	mux *http.ServeMux
	ids []string // the ids of the operations, in the order of the routes
	// readScopes maps the path of each operation that reads a single object to the scope of the operation.
	readScopes map[string]auth.Scope
	// paths are the paths of all routes, in segments. slashPaths are
	// the paths with a parameter whose values may contain slashes.
	paths      [][]string
	slashPaths []slashPath
}

// Open returns a Server of an installation for routes. It panics if a
// route declares a read (Operation.ReadPath) that is not in routes.
func Open(p installation.Parts, authenticator Authenticator, routes []Route) *Server {
	return new(ServerFactory).Open(p, authenticator, routes)
}

// Open is like the function Open. The routes of all calls must have
// the same operations in the same order: Open panics if they differ.
func (o *ServerFactory) Open(p installation.Parts, authenticator Authenticator, routes []Route) *Server {
	o.once.Do(func() { o.register(routes) })
	s := &Server{
		parts: p, authenticator: authenticator, sealer: p.Sealer(), requestHasher: p.Hasher("idempotent-request"),
		routing: &o.routing, limits: counts.Open(p),
	}
	for i, r := range routes {
		if len(routes) != len(o.ids) || r.ID != o.ids[i] {
			panic(fmt.Sprintf("api: %s is not among the operations %v at %d", r.ID, o.ids, i))
		}
		s.handlers = append(s.handlers, r.handler)
	}
	return s
}

func (ro *routing) register(routes []Route) {
	ro.mux, ro.readScopes = http.NewServeMux(), map[string]auth.Scope{}
	for i, r := range routes {
		r.handler = nil // each server has its own function
		ro.mux.Handle(r.Method+" "+r.Path, operationHandler(i, r))
		ro.ids = append(ro.ids, r.ID)
		segments := strings.Split(r.Path, "/")
		ro.paths = append(ro.paths, segments)
		if r.Single {
			ro.readScopes[r.Path] = r.Scope
		}
		if i := slices.Index(segments, r.SlashParameter); i >= 0 && r.SlashParameter != "" {
			ro.slashPaths = append(ro.slashPaths, slashPath{segments, i})
		}
	}
	for _, r := range routes {
		if _, ok := ro.readScopes[r.ReadPath]; !ok && r.ReadPath != r.Path {
			panic(fmt.Sprintf("api: %s is read at %s, and no read of one thing is there", r.ID, r.ReadPath))
		}
	}
}

// operationHandler returns an operation's HTTP handler. It calls handlers[i] of the server that received the request.
// The handler is created at the operation's first request, because huma takes longer to read the types of one
// operation than Open takes for everything else. A Lambda function that has just started has a request for only one
// operation. Each handler has a separate schema registry, because huma's registry is not safe for concurrent use.
func operationHandler(i int, r Route) http.Handler {
	registered := sync.OnceValue(func() http.Handler {
		mux := http.NewServeMux()
		r.register(humago.New(mux, humaConfig()), middleware(r))
		return mux
	})
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		st := stateOf(request.Context())
		st.handler = st.server.handlers[i]
		registered().ServeHTTP(w, request)
	})
}
