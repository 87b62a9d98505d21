package pipeline

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/problem"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/router"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/openapi"
)

// Exchange is one request on a route. It belongs to one goroutine: a policy or
// handler that starts other goroutines passes copies of the values to them.
type Exchange struct {
	// Context ends when the client disconnects, and when the gateway or its listener ends the request.
	Context context.Context //nolint:containedctx // an exchange lives as long as its request
	Method  string
	// Path is the canonical path (package paths). The router has chosen the route for this path.
	Path string
	// RawPath is the path to send upstream instead of Path if the project preserves
	// paths, "" otherwise: the path as the client wrote it, with invalid bytes escaped.
	// The gateway refuses a path with dot segments.
	RawPath string
	// Query is the raw query, without "?". Policies can replace it with SetQuery.
	Query string
	// Scheme and Host are the origin that the client used. Host can have a port.
	Scheme, Host string
	// Header is the header to send upstream: the client's fields that upstream.Filter allows,
	// and the gateway's own fields, such as Via. Policies can change it.
	Header http.Header
	// Unsent has the client's header fields that are not sent upstream only because their names have "_" (upstream.Filter).
	// It is nil if there are none. Policies look up a header field of the client with Field. Do not modify Unsent.
	Unsent http.Header
	// Body is the request's body, http.NoBody if it has none. ContentLength is its length, -1 if that is unknown.
	Body          io.ReadCloser
	ContentLength int64
	// Trailer has the announced trailer fields to send upstream. Their
	// values are set after Body was read. It is nil if there are none.
	Trailer http.Header
	// Upgrade lists the protocols that the client wants to switch to, such as "websocket", as the client wrote them. It
	// is "" if the client wants no other protocol, or if the gateway can't take over the client's connection
	// (http.Hijacker).
	Upgrade string
	// Client is the client's address. If trusted proxies have forwarded the request, they report this address.
	Client netip.Addr
	// RequestID is a UUID. It is the same in the response, in problems and in logs.
	RequestID string
	// ClientChain has the certificates that the client has presented in the TLS handshake, its own first, nil for none.
	// The client has proved that it owns the key of the first one. The issuers are not verified. Do not modify it.
	ClientChain []*x509.Certificate
	Start       time.Time
	// Now is the clock for UpstreamLatency, and for the Start of inner exchanges. If it is nil, UpstreamLatency is not
	// measured.
	Now func() time.Time
	// UpstreamLatency is how long the handler took to return its response:
	// for an upstream, until the header of its response arrived.
	UpstreamLatency time.Duration
	// FromUpstream is set if the response comes from the upstream, or is the problem of a request to the upstream that
	// failed.
	FromUpstream bool
	// RefusedBy is the name of the policy that has responded instead of the handler, "" for none.
	RefusedBy string

	Route  *Route
	Params router.Match
	// User is the owner of the request's credential, nil without one.
	User *User

	// Admit is called after all policies have let the request through and before the
	// handler. It can be nil. If it returns a response, the handler is not called.
	Admit func() *http.Response
	// EnableStreaming is called before the handler. It can be nil. After the call, the body may be read while the response
	// is written.
	EnableStreaming func()
	// Informational sends a 1xx response to the client before the final one. It is nil if the client does not support that.
	Informational func(status int, header http.Header)
	// GraphQL is the body as GraphQL policies have read it, nil before that.
	GraphQL *GraphQL
	// GraphQLLimits replace the limits of policies. They are nil for all requests except those whose documents are the
	// gateway's own.
	GraphQLLimits *GraphQLLimits
	// Cause is the reason for a problem response, or the error of a policy that has let the request through
	// although the request could not be checked. It is for the log, and contains no secret. It is nil if there
	// was no error, and if the response itself says the reason.
	Cause error

	bodyFunc       func() ([]byte, *http.Response) // the argument write of SetBody, nil if Body has the body to send
	query          url.Values
	withheld       []string
	secrets        []string
	responseFields []field
	onResponse     []func(response *http.Response, handled bool)
	decisions      []decision
	onEnd          []func()
	holders        []any // the arguments of Hold, also those of the outer exchange
	// inline is the initial memory of withheld and responseFields, enough for a request with a key and a limit.
	inline struct {
		withheld       [1]string
		responseFields [2]field
	}
}

// decision is whether a policy applies to an exchange.
type decision struct {
	policy  any
	applies bool
}

// Decide remembers whether a policy applies to the exchange. policy identifies the policy, and is comparable.
func (e *Exchange) Decide(policy any, applies bool) {
	e.decisions = append(e.decisions, decision{policy, applies})
}

// Decision returns what Decide has remembered about a policy. decided is false if there is nothing.
func (e *Exchange) Decision(policy any) (applies, decided bool) {
	for _, d := range e.decisions {
		if d.policy == policy {
			return d.applies, true
		}
	}
	return false, false
}

// field is a header field of the response.
type field struct{ name, value string }

// User is the sender of a request: the consumer of an API key, the owner of a client certificate (contract 4.5), or the
// subject of a token.
type User struct {
	// Sub is the consumer's name, or the subject of the certificate or the token.
	Sub string
	// Data is a JSON object with the consumer's metadata, the certificate's properties or the token's claims, or nil.
	Data json.RawMessage
	// Scopes are the scopes of the user's token.
	Scopes []string
}

// Inner returns a new exchange on behalf of the client of e, for a request that starts inside the process. It has the
// same client, user, request ID and origin, a copy of the header, and the same withheld headers and texts. It has no
// route, method, path, query or body yet, and no callbacks. Its Start is the current time if e.Now is set. Response
// fields that are added to it do not appear in e. Several inner exchanges of one exchange can be created concurrently
// if e does not change.
func (e *Exchange) Inner() *Exchange {
	inner := &Exchange{
		Context: e.Context, Scheme: e.Scheme, Host: e.Host, Header: e.Header.Clone(), Unsent: e.Unsent, Body: http.NoBody,
		Client: e.Client, RequestID: e.RequestID, ClientChain: e.ClientChain, Start: e.Start, Now: e.Now, User: e.User,
		withheld: slices.Clone(e.withheld), secrets: slices.Clone(e.secrets), holders: slices.Clone(e.holders),
	}
	if inner.Header == nil {
		inner.Header = http.Header{}
	}
	if e.Now != nil {
		inner.Start = e.Now()
	}
	return inner
}

// Field returns the values of a header field by its canonical name, even if the field is not sent upstream. It returns nil
// for a missing field.
func (e *Exchange) Field(name string) []string {
	if values, exists := e.Header[name]; exists {
		return values
	}
	return e.Unsent[name]
}

// HasBody reports whether the request can have a body. A body of unknown length can be empty.
func (e *Exchange) HasBody() bool {
	return e.bodyFunc != nil || e.Body != nil && e.Body != http.NoBody && e.ContentLength != 0
}

// Param returns the unescaped value of a path parameter, "" for an unknown one.
func (e *Exchange) Param(name string) string { return e.Params.Value(name) }

// QueryValues returns the parsed query. Do not modify it: use SetQuery. Like net/url, it leaves out malformed pairs.
func (e *Exchange) QueryValues() url.Values {
	if e.query == nil {
		e.query, _ = url.ParseQuery(e.Query) // ParseQuery returns the well-formed pairs even with an error
	}
	return e.query
}

// SetQuery replaces the raw query.
func (e *Exchange) SetQuery(raw string) {
	e.Query = raw
	e.query = nil
}

// UpstreamPath returns the escaped path to send upstream, for a handler that sends the whole path.
func (e *Exchange) UpstreamPath() string {
	if e.RawPath != "" {
		return e.RawPath
	}
	return e.Path
}

// Withhold keeps a header of the client's request from being sent upstream. Later policies can still read it.
func (e *Exchange) Withhold(header string) {
	header = http.CanonicalHeaderKey(header)
	if e.withheld == nil {
		e.withheld = e.inline.withheld[:0]
	}
	if !slices.Contains(e.withheld, header) {
		e.withheld = append(e.withheld, header)
	}
}

// Withheld returns the headers that were passed to Withhold, in canonical form.
func (e *Exchange) Withheld() []string { return e.withheld }

// WithholdText keeps a text from being sent upstream, in any field
// or query parameter. It is for a key that has no recognizable form.
func (e *Exchange) WithholdText(text string) { e.secrets = append(e.secrets, text) }

// WithheldTexts returns the texts that were passed to WithholdText.
func (e *Exchange) WithheldTexts() []string { return e.secrets }

// Redacted returns a path of this exchange for logs and problems. It replaces Gatewright's API keys in the path. If a
// text is withheld, and the path contains the text or can't be unescaped to search for it, Redacted replaces the whole
// path.
func (e *Exchange) Redacted(path string) string {
	for _, secret := range e.secrets {
		if decoded, err := url.PathUnescape(path); err != nil || strings.Contains(decoded, secret) {
			return "/withheld"
		}
	}
	return credential.Redact(path)
}

// AddResponseField adds a header field to the response of Run, in addition to fields of the same name,
// unless the response switches protocols. A problem that replaces the response of Run has the field only
// after ApplyResponseFields. The name is in canonical form.
func (e *Exchange) AddResponseField(name, value string) {
	if e.responseFields == nil {
		e.responseFields = e.inline.responseFields[:0]
	}
	e.responseFields = append(e.responseFields, field{name, value})
}

// ApplyResponseFields adds the fields of AddResponseField to a response that replaces the response of Run, and returns it.
func (e *Exchange) ApplyResponseFields(response *http.Response) *http.Response {
	for _, f := range e.responseFields {
		response.Header[f.name] = append(response.Header[f.name], f.value)
	}
	return response
}

// OnResponse registers f, which is called once with the exchange's response, before the outbound policies. If handled
// is true, the response is the handler's. If handled is false, a policy or Admit has ended the exchange before the
// handler. f can replace the response's body, except in a response that switches protocols. The Close of the new body
// must close the old body. f is not called after a panic.
func (e *Exchange) OnResponse(f func(response *http.Response, handled bool)) {
	e.onResponse = append(e.onResponse, f) //nolint:bodyclose // the recipient of the response closes it
}

func (e *Exchange) callOnResponse(response *http.Response, handled bool) {
	for _, f := range e.onResponse {
		f(response, handled)
	}
}

// Problem returns a problem response for this exchange.
func (e *Exchange) Problem(status int, detail string) *http.Response {
	return e.respond(problem.New(status, detail))
}

// Invalid returns the response to a request that does not match the description of its route.
func (e *Exchange) Invalid(r openapi.Report) *http.Response {
	detail := "The request does not match the description of the API. Correct what errors lists, and send it again."
	if r.More {
		detail = fmt.Sprintf("The request does not match the description of the API. Correct what errors lists. There are "+
			"more errors than these %d.", len(r.Violations))
	}
	document := problem.New(http.StatusBadRequest, detail)
	for _, v := range r.Violations {
		document.Errors = append(document.Errors, problem.Violation{In: v.In, Pointer: v.Pointer, Detail: v.Detail})
	}
	return e.respond(document)
}

// respond completes a problem document and returns its response.
func (e *Exchange) respond(document problem.Document) *http.Response {
	document.Instance = e.Redacted(e.Path)
	document.Trace = problem.Trace{Timestamp: problem.Timestamp(e.Start), RequestID: e.RequestID}
	if e.Route != nil {
		document.Trace.BuildID = e.Route.Info.BuildID
	}
	return document.Response()
}
