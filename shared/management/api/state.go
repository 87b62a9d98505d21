package api

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/awslabs/aws-lambda-go-api-proxy/core"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
)

// state is the state of the current request, for its problem, its audit record and its log line.
type state struct {
	server  *Server
	handler any // the function that carries the operation out: func(context.Context, *In) (*Out, error)

	requestID string
	path      string // of the URL, as RedactedPath returns it
	url       string // the URL to which the client sent the request, without the query
	agent     string // the client's User-Agent
	start     time.Time
	meter     store.Meter

	span           telemetry.Span
	coldStart      bool   // this is the first request of the process
	operation      string // the operation's id, or "" before a route has matched
	route          string // the declared path, or "" before a route has matched
	declaredErrors []int  // the status codes of the operation's errors
	principal      *auth.Principal
	change         *audit.Request // the description of a change for audit records, or nil for reads
	readPath       string         // the escaped path at which the object of a change is read (input.readPath)
	problem        *Problem       // the problem that was sent, or nil for a success
	internal       bool           // this is a read during a change or a dry run (readInternally)

	call    Call          // the zero Call for a request that a client sent
	outerID string        // the id of the outer request, or "" if there is none
	calls   *atomic.Int64 // the number of calls within the outermost request
}

type stateKey struct{}

func stateOf(ctx context.Context) *state {
	s, _ := ctx.Value(stateKey{}).(*state)
	return s
}

// RequestID returns the id of the current request, or "" outside of a request.
func RequestID(ctx context.Context) string {
	if s := stateOf(ctx); s != nil {
		return s.requestID
	}
	return ""
}

// RequestURL returns the URL to which the client sent the current request: absolute, without
// its query, and with at most 8 KiB of its path. Outside of a request it returns "".
func RequestURL(ctx context.Context) string {
	if s := stateOf(ctx); s != nil {
		return s.url
	}
	return ""
}

// urlOf returns the URL of a request, without its query. It uses the data of API Gateway if there is any:
// on a domain name of API Gateway, the client's path begins with the stage, and r.URL does not. Otherwise it
// uses Host. If a client sends a wrong Host, only this client gets a wrong URL.
func urlOf(r *http.Request) string {
	scheme, host, path := "https", r.Host, r.URL.EscapedPath()
	if c, ok := core.GetAPIGatewayContextFromContext(r.Context()); ok && c.DomainName != "" {
		host, path = c.DomainName, c.Path
	} else if r.TLS == nil {
		scheme = "http"
	}
	if r.Header.Get("X-Forwarded-Proto") == "http" {
		scheme = "http"
	}
	return scheme + "://" + host + telemetry.Truncate(path, maxPathBytes)
}

func setProblem(ctx context.Context, p *Problem) {
	if s := stateOf(ctx); s != nil {
		s.problem = p
	}
}

// asFault returns the fault in an error's chain, or nil if there is none.
func asFault(err error) *fault.Fault {
	f, _ := errors.AsType[*fault.Fault](err)
	return f
}
