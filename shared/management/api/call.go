package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// Call describes a request that is made inside another request, in the same process: a tool of the MCP server makes
// such a request for an operation. The call passes through all steps of a request (Server.ServeHTTP). It has the
// client's address and the base URL of the outer request, and its user agent unless the call has its own. Its account
// key is the key in its own Authorization header.
type Call struct {
	// Source is route.source of its audit record, such as "mcp". "" means "api", as for a request that a client sent.
	Source string
	// DryRun is true if a change is only tried. The response is then a DryRunResult
	// instead of the operation's own response. DryRun has no effect on a read.
	DryRun bool
	// Reveal is true if the response must include secrets that are otherwise masked.
	// The server records the request for secrets before it sends the response.
	Reveal bool
}

type callKey struct{}

// WithCall returns a context with c. A request with this context is a call. ctx is the context of the outer request, or
// is derived from it.
//
// The first call has the id of the outer request, unless the outer request is a change. Each further call has a new
// id. The log line of each call has the id of the outer request in the attribute "within". Audit records are stored
// under the id of their request, so one of two records with the same id would be lost.
func WithCall(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// RedactedPath returns the path of u for logs, audit records and problems: at most 8 KiB, without
// credentials. Clients send credentials in a path when they mistake a key for the key's id.
func RedactedPath(u *url.URL) string {
	return credential.Redact(telemetry.Truncate(u.EscapedPath(), maxPathBytes))
}

// newState returns the state of a request that has just arrived.
func (s *Server) newState(r *http.Request) *state {
	path := RedactedPath(r.URL)
	st := &state{path: path, agent: r.UserAgent(), start: s.parts.Now(), server: s}
	call, isCall := r.Context().Value(callKey{}).(Call)
	outer := stateOf(r.Context())
	if !isCall || outer == nil {
		st.call, st.calls = call, new(atomic.Int64)
		st.requestID, st.url = s.requestID(r), urlOf(r)
		return st
	}
	st.call, st.calls, st.outerID = call, outer.calls, outer.requestID
	st.url = strings.TrimSuffix(outer.url, outer.path) + st.path
	if st.calls.Add(1) == 1 && outer.change == nil {
		st.requestID = outer.requestID
	} else {
		st.requestID = s.parts.IDs.UUID()
	}
	st.agent = cmp.Or(st.agent, outer.agent)
	return st
}

// traceHeader returns the headers from which the trace of the request is read. It returns nil for a call: a call
// belongs to the trace of its outer request, even if its own headers name another trace.
func (st *state) traceHeader(header http.Header) http.Header {
	if st.outerID != "" {
		return nil
	}
	return header
}

// serveRevealed serves a read that shows secrets. If the read succeeds, it records that they were requested, and then
// sends the response.
func (s *Server) serveRevealed(
	ctx context.Context, w http.ResponseWriter, r *http.Request, d Declaration,
	serve func(context.Context, http.ResponseWriter),
) {
	out := newBufferedResponse()
	if d.Single {
		s.serveRead(ctx, out, r, serve)
	} else {
		serve(ctx, out)
	}
	if out.succeeded() {
		if err := s.recordReveal(ctx, r, d); err != nil {
			writeProblem(ctx, w, err)
			return
		}
	}
	out.send(w)
}

// recordReveal records that a request asked for secrets. The audit record has the operation's id, and the parameters of
// the path, which identify the object.
func (s *Server) recordReveal(ctx context.Context, r *http.Request, d Declaration) error {
	request := auditRequest(r, stateOf(ctx), audit.Reveal)
	request.RevealsSecrets = false // the action Reveal already shows it
	resource := audit.Resource{Type: "operation", ID: d.ID, Metadata: map[string]string{}}
	for segment := range strings.SplitSeq(d.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			resource.Metadata[name] = r.PathValue(name)
		}
	}
	ctx = audit.WithRequest(store.WithoutReadSet(ctx, "nothing is changed"), request)
	if err := s.parts.Table.Commit(ctx, audit.Record(ctx, resource)); err != nil {
		return fmt.Errorf("record that secrets were asked for: %w", err)
	}
	return nil
}
