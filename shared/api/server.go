package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/awslabs/aws-lambda-go-api-proxy/core"
	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// Authenticator finds who bears an account key; package accounts has one.
type Authenticator interface {
	// Authenticate answers an Unauthenticated fault for a key that is unknown
	// or expired.
	Authenticate(ctx context.Context, key string) (auth.Principal, error)
}

// UseNoter is an Authenticator that notes when a key was last used.
type UseNoter interface {
	// NoteUse begins to note that the key or session of a caller who was let pass is
	// used, and gives what waits until that is done. Nothing depends on its success.
	NoteUse(ctx context.Context, by auth.Principal) (wait func())
}

// Server answers the operations of one or more groups. It is an http.Handler.
type Server struct {
	parts   installation.Parts
	callers Authenticator
	sealer  *seal.Sealer
	// requests hashes what was asked with an Idempotency-Key.
	requests *seal.Hasher
	// routing is shared by the servers of the same operations. answers are the functions of this server, in the order of its routes.
	*routing
	answers []any
	// limits and oftener are for what accounts may ask (accountLimited).
	limits  *counts.Counts
	oftener oftener
	// warm is set by the first request.
	warm atomic.Bool
}

// ServeHTTP is the way of every request: what it is called (request id), where
// it leads (route), and then the operation, from around to the handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	st := s.begin(r)
	ctx := context.WithValue(r.Context(), stateKey{}, st)
	ctx = store.WithMeter(ctx, &st.meter)
	ctx, st.span = s.parts.Telemetry.Tracer.Start(ctx, "unrouted", st.traced(r.Header))
	st.coldStart = !s.warm.Swap(true)
	r = r.WithContext(ctx)
	answer := &recorder{ResponseWriter: w}
	answer.Header().Set("X-Request-Id", st.requestID)
	defer func() {
		if cause := recover(); cause != nil {
			err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			if answer.status == 0 {
				writeProblem(ctx, answer, err)
			} else {
				st.problem = &Problem{Status: http.StatusInternalServerError, Detail: internalDetail, cause: err}
			}
		}
		s.recordRefusal(ctx, st)
		s.log(r, st, answer.status)
		st.endSpan(r.Method, answer.status)
	}()
	if len(r.URL.EscapedPath()) > maxPathBytes {
		sendProblem(ctx, answer, newProblem(ctx, http.StatusRequestURITooLong, longPathDetail))
		return
	}
	trimSlash(r.URL)
	if s.unrouted(answer, r) {
		return
	}
	s.mux.ServeHTTP(answer, r)
}

// maxPathBytes is the size of the longest path, and of a path in problems and records. Our listeners refuse a longer path
// before. API Gateway accepts 10,240 bytes for the request line and all fields.
const maxPathBytes = framing.MaxPathBytes

const longPathDetail = "The path is too long. Shorten it, and put long values into the query or the body."

// requestID is the platform's own where there is one.
func (s *Server) requestID(r *http.Request) string {
	if c, ok := core.GetAPIGatewayContextFromContext(r.Context()); ok && c.RequestID != "" {
		return c.RequestID
	}
	return s.parts.IDs.UUID()
}

// checkText refuses paths and queries that are no text, which no resource's
// name can be, and parameters without a value or with several.
func checkText(u *url.URL, in *input) error {
	if !isText(u.Path) {
		return errBadText("path")
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fault.InvalidField("query", "is not percent-encoded as a query has to be")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // the same answer each time
		if !isText(name) {
			return errBadText("query")
		}
		for _, v := range values[name] {
			if !isText(v) {
				return errBadText("query." + name)
			}
		}
	}
	return in.checkQuery(values)
}

// errBadText is the answer to a path or query that is no text.
func errBadText(where string) error {
	return fault.InvalidField(where, "has to be UTF-8 text without control characters")
}

func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// trimSlash lets every path end in a slash, as published examples do.
func trimSlash(u *url.URL) {
	if len(u.Path) > 1 && strings.HasSuffix(u.EscapedPath(), "/") {
		u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/")
		u.Path = strings.TrimSuffix(u.Path, "/")
	}
}

// unrouted answers what no operation is for: 405 with Allow where the path has
// other methods, else 404. ServeMux would answer in plain text, or redirect an
// unclean path.
func (s *Server) unrouted(w http.ResponseWriter, r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	if path.Clean(escaped) != escaped {
		writeProblem(r.Context(), w, noRoute())
		return true
	}
	handler, pattern := s.mux.Handler(r)
	if pattern != "" {
		return false
	}
	probe := httptest.NewRecorder()
	handler.ServeHTTP(probe, r)
	if allow := probe.Header().Get("Allow"); allow != "" {
		w.Header().Set("Allow", allow)
		sendProblem(r.Context(), w, newProblem(r.Context(), http.StatusMethodNotAllowed,
			"This path does not take "+r.Method+"; see Allow for what it takes."))
		return true
	}
	writeProblem(r.Context(), w, noRoute())
	return true
}

func noRoute() error {
	return fault.New(fault.NotFound, "There is no such operation. GET /openapi lists them all.")
}

// middleware is what happens before and after huma decodes the request of an
// operation: who asks, may they, and the record of a refusal.
func middleware(route Route) func(huma.Context, func(huma.Context)) {
	d := route.Declaration
	return func(hc huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(hc)
		ctx := hc.Context()
		st := stateOf(ctx)
		s := st.server
		if st.inner {
			route.in.normalise(r)
			next(huma.WithContext(hc, auth.With(ctx, *st.principal)))
			return
		}
		st.operation, st.route, st.declared = d.ID, d.Path, d.Errors
		st.span.Name(d.ID)
		if err := s.letIn(d.Origins, w, r); err != nil {
			writeProblem(ctx, w, err)
			return
		}
		if !d.Public {
			w.Header().Set("Cache-Control", "no-store") // answers hold keys
			p, err := Caller(ctx, s.callers, d, r)
			if err != nil {
				writeProblem(ctx, w, err)
				return
			}
			st.principal = &p
			if n, ok := s.callers.(UseNoter); ok && !(d.Mutates() && st.call.DryRun) {
				defer n.NoteUse(ctx, p)()
			}
			ctx = auth.With(ctx, p)
			// Before the change has a record: one for each refusal would be the writes that
			// the limit is there to keep away.
			if err := s.limited(ctx, w, d.Limit, p); err != nil {
				writeProblem(ctx, w, err)
				return
			}
			if err := s.accountLimited(ctx, p); err != nil {
				writeProblem(ctx, w, err)
				return
			}
			if d.Mutates() {
				st.change = auditRequest(r, st, d.Audit)
				ctx = store.Decide(audit.With(ctx, st.change))
			}
		}
		// Who asks is known first: a stranger learns nothing of what a path may be.
		if err := checkText(r.URL, route.in); err != nil {
			writeProblem(ctx, w, err)
			return
		}
		route.in.normalise(r)
		if !d.Public {
			if err := allowed(*st.principal, d, r); err != nil {
				writeProblem(ctx, w, err)
				return
			}
		}
		if d.TakesBody {
			if err := takeBody(r, route.in.form); err != nil {
				writeProblem(ctx, w, err)
				return
			}
		}
		if d.Mutates() {
			st.readAt = route.in.readAt(d, r)
		}
		ask := func(ctx context.Context, w http.ResponseWriter) {
			next(huma.WithContext(humago.NewContext(hc.Operation(), r, w), ctx))
		}
		switch {
		case d.Mutates() && st.call.DryRun:
			s.answerDryRun(ctx, w, r, d, ask)
		case d.Mutates():
			s.answerChange(ctx, w, r, d, ask)
		case st.call.Reveal && !d.Public:
			s.answerRevealed(ctx, w, r, d, ask)
		case d.Single:
			s.answerRead(ctx, w, r, ask)
		default:
			ask(ctx, w)
		}
	}
}

// Caller finds who sends a request to an operation. Of two Authorization fields none counts: a proxy that checks keys may
// have looked at the other. A session counts where there is none. Fault: Unauthenticated.
func Caller(ctx context.Context, callers Authenticator, d Declaration, r *http.Request) (auth.Principal, error) {
	sent := r.Header.Values("Authorization")
	if len(sent) == 0 {
		if p, ok, err := callerBySession(ctx, callers, d, r); ok {
			return p, err
		}
	}
	switch {
	case len(sent) > 1:
		return auth.Principal{}, fault.New(fault.Unauthenticated,
			"There is more than one Authorization header. Send one, as Authorization: Bearer gwa_….")
	case len(sent) == 0, sent[0] == "":
		return auth.Principal{}, fault.New(fault.Unauthenticated,
			"No account key. Send one as Authorization: Bearer gwa_….")
	}
	scheme, key, ok := strings.Cut(sent[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return auth.Principal{}, fault.New(fault.Unauthenticated,
			"The Authorization header is not understood. Send Authorization: Bearer gwa_….")
	}
	return callers.Authenticate(ctx, strings.TrimSpace(key))
}

// allowed checks what a declaration alone can tell: the account and project of
// the path, then the scope. Whatever the key cannot see is absent, whether or
// not the scope would do.
func allowed(p auth.Principal, d Declaration, r *http.Request) error {
	if strings.Contains(d.Path, "{accountName}") && r.PathValue("accountName") != p.AccountName {
		return fault.Missing("account")
	}
	if strings.Contains(d.Path, "{projectName}") && !p.SeesProject(r.PathValue("projectName")) {
		return fault.Missing("project")
	}
	if d.SessionAlone && p.Session == nil {
		return errNoSession
	}
	if d.Scope != "" && !p.Allows(d.Scope) {
		return fault.New(fault.Forbidden, "This account key lacks the scope %s. Use a key that has it; keys themselves cannot be changed.", d.Scope)
	}
	return nil
}

// maxAgentBytes is how much of a User-Agent is recorded.
const maxAgentBytes = 256

// auditRequest describes the request for its audit record.
func auditRequest(r *http.Request, st *state, action audit.Action) *audit.Request {
	source, method, path := cmp.Or(st.call.Source, "api"), r.Method, st.path
	request := &audit.Request{
		AccountID: st.principal.AccountID,
		Action:    action,
		Actor:     audit.Actor{Sub: st.principal.KeyID, Type: "service"},
		Route:     audit.Route{Source: &source, URL: &path, Method: &method},
		RequestID: st.requestID,
		Time:      st.start,
		Reveals:   st.call.Reveal,
	}
	if ip := sourceIP(r); ip != "" {
		request.Context.IPAddress = &ip
	}
	agent := st.agent
	if agent = credential.Redact(strings.ToValidUTF8(agent[:min(len(agent), maxAgentBytes)], "")); agent != "" {
		request.Context.UserAgent = &agent
	}
	return request
}

// sourceIP is who connected to the platform; headers can say anything.
func sourceIP(r *http.Request) string {
	if c, ok := core.GetAPIGatewayContextFromContext(r.Context()); ok {
		return c.Identity.SourceIP
	}
	return ""
}

// recordRefusal writes the audit record of a change that did not come about.
// It happens after the answer and cannot change it, so its failure is logged.
func (s *Server) recordRefusal(ctx context.Context, st *state) {
	if st.problem == nil || st.change == nil || st.call.DryRun {
		return // what was only tried is no change that was refused
	}
	ctx = audit.With(ctx, st.change)
	// The caller may be gone; the record is for those who look later.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusalTimeout)
	defer cancel()
	if err := s.parts.Table.Commit(ctx, audit.Refused(ctx, st.problem.Detail)); err != nil && !errors.Is(err, store.ErrCondition) {
		s.parts.Log.ErrorContext(ctx, "a refused change was not recorded", "requestId", st.requestID, "error", err)
	}
}

const refusalTimeout = 3 * time.Second

// recorder remembers the status that was sent.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the real writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
