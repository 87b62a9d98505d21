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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// Authenticator finds the caller with an account key. Package accounts implements it.
type Authenticator interface {
	// Authenticate returns an Unauthenticated fault for a key that is unknown or expired.
	Authenticate(ctx context.Context, key string) (auth.Principal, error)
}

// UseRecorder is an Authenticator that records when a key was last used.
type UseRecorder interface {
	// RecordUse begins to record that an authenticated caller has used a key or session. The
	// returned function waits until the use is recorded. If recording fails, the request continues.
	RecordUse(ctx context.Context, principal auth.Principal) (wait func())
}

// Server serves the operations of one or more groups. It is an http.Handler.
type Server struct {
	parts         installation.Parts
	authenticator Authenticator
	// sealer encrypts the responses that are stored for an Idempotency-Key.
	sealer *seal.Sealer
	// requestHasher hashes the requests with an Idempotency-Key.
	requestHasher *seal.Hasher
	// Servers of the same operations share routing. handlers are
	// the functions of this server, in the order of its routes.
	*routing
	handlers []any
	// limits and accountCounter are for the limits of accounts (checkAccountLimit).
	limits         *counts.Counts
	accountCounter accountCounter
	// warm is true after the first request.
	warm atomic.Bool
}

// ServeHTTP serves a request: it assigns the request id, finds the route and calls the operation, from the
// middleware to the handler. It also logs the request. A panic becomes a 500, unless the response has begun.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	st := s.newState(r)
	ctx := context.WithValue(r.Context(), stateKey{}, st)
	ctx = store.WithMeter(ctx, &st.meter)
	ctx, st.span = s.parts.Telemetry.Tracer.Start(ctx, "unrouted", st.traceHeader(r.Header))
	st.coldStart = !s.warm.Swap(true)
	r = r.WithContext(ctx)
	rec := &recorder{ResponseWriter: w}
	rec.Header().Set("X-Request-Id", st.requestID)
	defer func() {
		if cause := recover(); cause != nil {
			err := fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
			if rec.status == 0 {
				writeProblem(ctx, rec, err)
			} else {
				st.problem = &Problem{Status: http.StatusInternalServerError, Detail: internalDetail, cause: err}
			}
		}
		s.recordRefusal(ctx, st)
		s.log(r, st, rec.status)
		st.endSpan(r.Method, rec.status)
	}()
	if len(r.URL.EscapedPath()) > maxPathBytes {
		sendProblem(ctx, rec, newProblem(ctx, http.StatusRequestURITooLong, longPathDetail))
		return
	}
	trimSlash(r.URL)
	if s.serveUnrouted(rec, r) {
		return
	}
	s.mux.ServeHTTP(rec, r)
}

// maxPathBytes is the maximum length of a path, in requests, problems and records. The product's own listeners
// already refuse longer paths. API Gateway accepts up to 10,240 bytes for the request line and all header fields.
const maxPathBytes = framing.DefaultMaxPathBytes

const longPathDetail = "The path is too long. Shorten it, and put long values into the query or the body."

// requestID returns the platform's request id, or a new one if there is none.
func (s *Server) requestID(r *http.Request) string {
	if c, ok := core.GetAPIGatewayContextFromContext(r.Context()); ok && c.RequestID != "" {
		return c.RequestID
	}
	return s.parts.IDs.UUID()
}

// checkURL refuses paths and queries with invalid text, which no name
// of a resource contains. It also refuses invalid query parameters.
func checkURL(u *url.URL, in *input) error {
	if !isText(u.Path) {
		return errBadText("path")
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fault.InvalidField("query", "is not percent-encoded as a query has to be")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) { // for the same error each time
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

// errBadText returns the fault for a path or query with invalid text.
func errBadText(where string) error {
	return fault.InvalidField(where, "has to be UTF-8 text without control characters")
}

// isText reports whether s is UTF-8 without control characters.
func isText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// trimSlash removes a slash at the end of a path. Clients may add a slash to any path, as published examples do.
func trimSlash(u *url.URL) {
	if len(u.Path) > 1 && strings.HasSuffix(u.EscapedPath(), "/") {
		u.RawPath = strings.TrimSuffix(u.EscapedPath(), "/")
		u.Path = strings.TrimSuffix(u.Path, "/")
	}
}

// serveUnrouted responds if no operation matches the request: with 405 and Allow if
// operations with other methods have the path, otherwise with 404. It reports whether it
// has responded. ServeMux would respond with plain text, or redirect an unclean path.
func (s *Server) serveUnrouted(w http.ResponseWriter, r *http.Request) bool {
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

// middleware returns the huma middleware of an operation, which runs before huma decodes the request. It finds the
// caller and prepares the audit record of a change (identify), and checks the request and the caller's permission
// (check). Then it serves the request as a dry run, a change or a read. It skips most of these steps for a read
// during a change (state.internal).
func middleware(route Route) func(huma.Context, func(huma.Context)) {
	d := route.Declaration
	return func(hc huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(hc)
		ctx := hc.Context()
		st := stateOf(ctx)
		s := st.server
		if st.internal {
			route.in.normalize(r)
			next(huma.WithContext(hc, auth.WithPrincipal(ctx, *st.principal)))
			return
		}
		st.operation, st.route, st.declaredErrors = d.ID, d.Path, d.Errors
		st.span.Name(d.ID)
		if err := s.checkOrigin(d.Origins, w, r); err != nil {
			writeProblem(ctx, w, err)
			return
		}
		ctx, waitRecorded, err := s.identify(ctx, w, r, d, st)
		defer waitRecorded()
		if err == nil {
			err = check(r, route, st)
		}
		if err != nil {
			writeProblem(ctx, w, err)
			return
		}
		if d.Mutates() {
			st.readPath = route.in.readPath(d, r)
		}
		serve := func(ctx context.Context, w http.ResponseWriter) {
			next(huma.WithContext(humago.NewContext(hc.Operation(), r, w), ctx))
		}
		switch {
		case d.Mutates() && st.call.DryRun:
			s.serveDryRun(ctx, w, r, d, serve)
		case d.Mutates():
			s.serveChange(ctx, w, r, d, serve)
		case st.call.Reveal && !d.Public:
			s.serveRevealed(ctx, w, r, d, serve)
		case d.Single:
			s.serveRead(ctx, w, r, serve)
		default:
			serve(ctx, w)
		}
	}
}

// identify finds the caller of an operation, unless the operation is public, and checks the
// limits of the caller's key and account. It returns a context with the caller and, for a change, with a
// read set and the data for the change's audit record. waitRecorded waits until the use of the caller's
// key or session is recorded.
func (s *Server) identify(
	ctx context.Context, w http.ResponseWriter, r *http.Request, d Declaration, st *state,
) (_ context.Context, waitRecorded func(), err error) {
	waitRecorded = func() {}
	if d.Public {
		return ctx, waitRecorded, nil
	}
	w.Header().Set("Cache-Control", "no-store") // responses can contain keys
	p, err := Caller(ctx, s.authenticator, d, r)
	if err != nil {
		return ctx, waitRecorded, err
	}
	st.principal = &p
	if useRecorder, ok := s.authenticator.(UseRecorder); ok && !(d.Mutates() && st.call.DryRun) {
		waitRecorded = useRecorder.RecordUse(ctx, p)
	}
	ctx = auth.WithPrincipal(ctx, p)
	// Check the limits before preparing the audit record of the change: a record
	// of each refusal would cause the writes that the limits are to prevent.
	if err := s.checkKeyLimit(ctx, w, d.Limit, p); err != nil {
		return ctx, waitRecorded, err
	}
	if err := s.checkAccountLimit(ctx, p); err != nil {
		return ctx, waitRecorded, err
	}
	if d.Mutates() {
		st.change = auditRequest(r, st, d.Audit)
		ctx = store.WithReadSet(audit.WithRequest(ctx, st.change))
	}
	return ctx, waitRecorded, nil
}

// check checks the path, query and body of a request, and whether the caller may send it.
// It runs after identify, so that unknown callers do not learn which paths are valid.
func check(r *http.Request, route Route, st *state) error {
	if err := checkURL(r.URL, route.in); err != nil {
		return err
	}
	route.in.normalize(r)
	if !route.Public {
		if err := authorize(*st.principal, route.Declaration, r); err != nil {
			return err
		}
	}
	if route.TakesBody {
		return readRequestBody(r, route.in.shape)
	}
	return nil
}

// Caller finds the caller of an operation. It refuses a request with two Authorization
// fields, because a proxy that checks keys may have checked the other field. A session
// is used if there is no Authorization field. Fault: Unauthenticated.
func Caller(ctx context.Context, authenticator Authenticator, d Declaration, r *http.Request) (auth.Principal, error) {
	fields := r.Header.Values("Authorization")
	if len(fields) == 0 {
		if p, ok, err := callerBySession(ctx, authenticator, d, r); ok {
			return p, err
		}
	}
	switch {
	case len(fields) > 1:
		return auth.Principal{}, fault.New(fault.Unauthenticated,
			"There is more than one Authorization header. Send one, as Authorization: Bearer gwa_….")
	case len(fields) == 0, fields[0] == "":
		return auth.Principal{}, fault.New(fault.Unauthenticated,
			"No account key. Send one as Authorization: Bearer gwa_….")
	}
	scheme, key, ok := strings.Cut(fields[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return auth.Principal{}, fault.New(fault.Unauthenticated,
			"The Authorization header is not understood. Send Authorization: Bearer gwa_….")
	}
	return authenticator.Authenticate(ctx, strings.TrimSpace(key))
}

// authorize checks the account and project in the path, then whether the operation needs a session, and then the
// scope. An account or project that the key cannot see gets the fault of a missing object, whether or not the key has
// the scope.
func authorize(p auth.Principal, d Declaration, r *http.Request) error {
	if strings.Contains(d.Path, "{accountName}") && r.PathValue("accountName") != p.AccountName {
		return fault.Missing("account")
	}
	if strings.Contains(d.Path, "{projectName}") && !p.CanSeeProject(r.PathValue("projectName")) {
		return fault.Missing("project")
	}
	if d.SessionOnly && p.Session == nil {
		return errNoSession
	}
	if d.Scope != "" && !p.Allows(d.Scope) {
		return fault.New(fault.Forbidden, "This account key lacks the scope %s. Use a key that has it; keys themselves "+
			"cannot be changed.", d.Scope)
	}
	return nil
}

// maxAgentBytes is the maximum length of a User-Agent in an audit record.
const maxAgentBytes = 256

// auditRequest returns the description of a request for its audit record.
func auditRequest(r *http.Request, st *state, action audit.Action) *audit.Request {
	source, method, path := cmp.Or(st.call.Source, "api"), r.Method, st.path
	request := &audit.Request{
		AccountID:      st.principal.AccountID,
		Action:         action,
		Actor:          audit.Actor{Sub: st.principal.KeyID, Type: "service"},
		Route:          audit.Route{Source: &source, URL: &path, Method: &method},
		RequestID:      st.requestID,
		Time:           st.start,
		RevealsSecrets: st.call.Reveal,
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

// sourceIP returns the address that connected to the platform, or "" if there is no platform. It ignores headers,
// which can contain anything.
func sourceIP(r *http.Request) string {
	if c, ok := core.GetAPIGatewayContextFromContext(r.Context()); ok {
		return c.Identity.SourceIP
	}
	return ""
}

// recordRefusal writes the audit record of a change that was refused or failed. It runs after the response is sent and
// cannot change it, so its failure is only logged.
func (s *Server) recordRefusal(ctx context.Context, st *state) {
	if st.problem == nil || st.change == nil || st.call.DryRun {
		return // a refused dry run is not a refused change
	}
	ctx = audit.WithRequest(ctx, st.change)
	// Write the record even if the client has closed the connection.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refusalTimeout)
	defer cancel()
	if err := s.parts.Table.Commit(ctx, audit.RecordFailure(ctx, st.problem.Detail)); err != nil &&
		!errors.Is(err, store.ErrCondition) {
		s.parts.Log.ErrorContext(ctx, "a refused change was not recorded", "requestId", st.requestID, "error", err)
	}
}

// refusalTimeout is the maximum time for writing the audit record of a refusal.
const refusalTimeout = 3 * time.Second

// recorder is a ResponseWriter that records the status code.
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

// Unwrap returns the real writer, for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
