package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Call is how a request is made within another one, in the same process: that of a
// tool which stands for an operation. It goes the whole way of a request
// (Server.ServeHTTP), and is the outer one's in what is known of its origin: where
// it came from, at what address, with which agent. Its account key is its own
// Authorization header's.
type Call struct {
	// Source is what its audit record says in route.source, such as "mcp"; "" is
	// "api", as for a request that came by itself.
	Source string
	// DryRun has a change only tried, and answered with a DryRun in place of what it
	// would be answered. A read is answered as ever.
	DryRun bool
	// Reveal says that the answer is asked for with secrets which its reader is not
	// shown otherwise. That this was asked is recorded before anything is answered.
	Reveal bool
}

type callKey struct{}

// Within gives a context of which requests are calls; it is, or comes of, that of the
// request that they are made in.
//
// The first call has the id of the outer request; each further one has an id of its
// own, and its log line names the outer one as within. For audit records have the
// ids of their requests, and of two with one id one would be lost.
func Within(ctx context.Context, c Call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}

// ShownPath is an address's path as logs, audit records and problems repeat it: 8 KiB of it at most, and no credential,
// which who takes a key for its id sends there.
func ShownPath(u *url.URL) string {
	return credential.Redact(telemetry.Clip(u.EscapedPath(), maxPathBytes))
}

// begin gives the state of a request that has come.
func (s *Server) begin(r *http.Request) *state {
	path := ShownPath(r.URL)
	st := &state{path: path, agent: r.UserAgent(), start: s.parts.Now(), server: s}
	call, called := r.Context().Value(callKey{}).(Call)
	outer := stateOf(r.Context())
	if !called || outer == nil {
		st.call, st.calls = call, new(atomic.Int64)
		st.requestID, st.address = s.requestID(r), addressOf(r)
		return st
	}
	st.call, st.calls, st.within = call, outer.calls, outer.requestID
	st.address = strings.TrimSuffix(outer.address, outer.path) + st.path
	if st.calls.Add(1) == 1 && outer.change == nil {
		st.requestID = outer.requestID
	} else {
		st.requestID = s.parts.IDs.UUID()
	}
	st.agent = cmp.Or(st.agent, outer.agent)
	return st
}

// traced is where the trace of the request is read from: a call belongs to that of
// its outer one, whatever its headers say.
func (st *state) traced(header http.Header) http.Header {
	if st.within != "" {
		return nil
	}
	return header
}

// answerRevealed answers a read that is asked to show secrets, once that is recorded.
func (s *Server) answerRevealed(ctx context.Context, w http.ResponseWriter, r *http.Request, d Declaration, ask func(context.Context, http.ResponseWriter)) {
	out := newDraft()
	if d.Single {
		s.answerRead(ctx, out, r, ask)
	} else {
		ask(ctx, out)
	}
	if out.succeeded() {
		if err := s.revealed(ctx, r, d); err != nil {
			writeProblem(ctx, w, err)
			return
		}
	}
	out.send(w)
}

// revealed records that a request was asked to show secrets: which operation, and of
// what, by the parameters of its path.
func (s *Server) revealed(ctx context.Context, r *http.Request, d Declaration) error {
	request := auditRequest(r, stateOf(ctx), audit.Reveal)
	request.Reveals = false // it says nothing else
	of := audit.Resource{Type: "operation", ID: d.ID, Metadata: map[string]string{}}
	for segment := range strings.SplitSeq(d.Path, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			of.Metadata[name] = r.PathValue(name)
		}
	}
	ctx = audit.With(store.Undecided(ctx, "nothing is changed"), request)
	if err := s.parts.Table.Commit(ctx, audit.Record(ctx, of)); err != nil {
		return fmt.Errorf("record that secrets were asked for: %w", err)
	}
	return nil
}
