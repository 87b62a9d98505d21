package api

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// state is what is known of the running request, for its problem, its audit
// record and its line in the log.
type state struct {
	server *Server
	answer any // the function that carries the operation out: func(context.Context, *In) (*Out, error)

	requestID string
	path      string // as the client wrote it, without the query, up to maxPathBytes
	address   string // where the client found the operation, without the query
	agent     string // what asks, as it says itself
	start     time.Time
	meter     store.Meter

	span      telemetry.Span
	coldStart bool   // the first request of its process
	operation string // its id, "" until a route matched
	route     string // its path as declared, "" until then
	declared  []int  // the errors it may answer
	principal *auth.Principal
	change    *audit.Request // what a refusal is recorded as, nil for reads
	readAt    string         // where what a change is about is read (input.readAt), escaped
	problem   *Problem       // what was answered, nil for a success
	inner     bool           // a read that a change makes by itself (look)

	call   Call          // how it is made, the zero Call for one that came by itself
	within string        // the id of the request that it is made in, "" for none
	calls  *atomic.Int64 // how many were made within the outermost one
}

type stateKey struct{}

func stateOf(ctx context.Context) *state {
	s, _ := ctx.Value(stateKey{}).(*state)
	return s
}

// RequestID is the id of the running request, "" outside of one.
func RequestID(ctx context.Context) string {
	if s := stateOf(ctx); s != nil {
		return s.requestID
	}
	return ""
}

// Address is where the client found the operation that it asks: the address of
// the running request, absolute and without its query. Outside of one it is "".
func Address(ctx context.Context) string {
	if s := stateOf(ctx); s != nil {
		return s.address
	}
	return ""
}

// addressOf reads it from what the platform says of itself where there is one:
// its path has the stage in front, where the domain name is the platform's. A
// Host that a client makes up misleads nobody but that client.
func addressOf(r *http.Request) string {
	scheme, host, path := "https", r.Host, r.URL.EscapedPath()
	if c, ok := core.GetAPIGatewayContextFromContext(r.Context()); ok && c.DomainName != "" {
		host, path = c.DomainName, c.Path
	} else if r.TLS == nil {
		scheme = "http"
	}
	if r.Header.Get("X-Forwarded-Proto") == "http" {
		scheme = "http"
	}
	return scheme + "://" + host + telemetry.Clip(path, maxPathBytes)
}

func setProblem(ctx context.Context, p *Problem) {
	if s := stateOf(ctx); s != nil {
		s.problem = p
	}
}

// faultIn finds the fault in an error's chain, nil for none.
func faultIn(err error) *fault.Fault {
	f, _ := errors.AsType[*fault.Fault](err)
	return f
}
