package pipeline

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/gateway/problem"
	"github.com/gatewright/gatewright/shared/gateway/router"
)

// Exchange is one request on its way through a route. It belongs to one
// goroutine: stations that start others hand them copies of what they need.
type Exchange struct {
	// Context ends when the client goes away.
	Context context.Context //nolint:containedctx // an exchange is a request, and lives as long as it
	Method  string
	// Path is the canonical path (package paths), which was matched.
	Path string
	// Written is what goes upstream in its place, where the project has paths
	// preserved, "" elsewhere: the path as it was written, without dot segments.
	Written string
	// Query is the raw query, without "?". Policies may replace it through
	// SetQuery.
	Query string
	// Scheme and Host are the origin that the client used. Host may have a port.
	Scheme, Host string
	// Header is what goes upstream: the client's header without hop-by-hop and
	// forwarding fields. Policies may change it.
	Header http.Header
	// Body is the request's body, http.NoBody when it has none.
	Body          io.ReadCloser
	ContentLength int64
	// Trailer is what goes upstream of the trailer fields that are announced; their
	// values are there when Body has been read. It is nil when there are none.
	Trailer http.Header
	// Upgrade lists the protocols that the client wants to switch to, such as
	// "websocket", as it wrote them; "" for none, or where there is no connection
	// to give away.
	Upgrade string
	// Client is the address that the request came from, after trusted proxies.
	Client netip.Addr
	// RequestID is a UUID: the same in the response, in problems and logs.
	RequestID string
	// ClientChain is what the client has shown of certificates in the connection's
	// handshake, its own first, nil for nothing. It has proved that the first one's key is
	// its own, and nothing is known of who signed it. It is not to be changed.
	ClientChain []*x509.Certificate
	Start       time.Time
	// Now is the clock that Waited is measured with, nil for not at all.
	Now func() time.Time
	// Waited is how long the handler took to answer: the upstream's time, up to
	// the header of its response.
	Waited time.Duration
	// Theirs tells that what is answered is the upstream's, or is about what it failed at.
	Theirs bool
	// Refused is the name of the policy that has answered in the handler's place, "" for none.
	Refused string

	Route  *Route
	Params router.Match
	// User is who the request's credential belongs to, nil for nobody.
	User *User

	// Admit is asked before the handler is, once all policies have let the request pass, nil for nobody: a response
	// that is not nil is the answer, and the handler is not asked.
	Admit func() *http.Response
	// Streaming is called before the handler is, nil for nothing to do: from
	// here on the body may be read while the response is written.
	Streaming func()
	// Informational tells the client of a 1xx response before the final one, nil where
	// nobody can be told.
	Informational func(status int, header http.Header)
	// GraphQL is what GraphQL policies have read of the body, nil before.
	GraphQL *GraphQL
	// Cause is why a station answered a problem, for the log; it is nil when the
	// problem says it all. It holds no secret.
	Cause error

	write    func() ([]byte, *http.Response) // the body, nil where it is there
	query    url.Values
	withheld []string
	secrets  []string
	told     []field
	after    []func(response *http.Response, handled bool)
	// room is what a request with a key and a limit needs of withheld and told: they begin in it.
	room struct {
		withheld [1]string
		told     [2]field
	}
}

// field is a header field of the response.
type field struct{ name, value string }

// User is the consumer that a request came from (contract 4.5).
type User struct {
	// Sub is the consumer's name.
	Sub string
	// Data is the consumer's metadata, a JSON object, or nil.
	Data json.RawMessage
}

// Inner returns an exchange that is made inside the process on behalf of the one who made x: of the same
// client, user and request id, under the same origin, with a copy of the header and with what is withheld.
// It has no body, no query and no path yet, tells nobody of anything on its way, and what it is told
// does not show in x. Several may be made of one exchange at once, as long as nobody changes that one.
func (x *Exchange) Inner() *Exchange {
	inner := &Exchange{
		Context: x.Context, Scheme: x.Scheme, Host: x.Host, Header: x.Header.Clone(), Body: http.NoBody,
		Client: x.Client, RequestID: x.RequestID, ClientChain: x.ClientChain, Start: x.Start, Now: x.Now, User: x.User,
		withheld: slices.Clone(x.withheld), secrets: slices.Clone(x.secrets),
	}
	if inner.Header == nil {
		inner.Header = http.Header{}
	}
	if x.Now != nil {
		inner.Start = x.Now()
	}
	return inner
}

// Param returns the unescaped value of a path parameter, "" for an unknown one.
func (x *Exchange) Param(name string) string { return x.Params.Value(name) }

// QueryValues returns the parsed query. It is not to be changed: SetQuery is.
// Malformed pairs are left out, as they are by net/url.
func (x *Exchange) QueryValues() url.Values {
	if x.query == nil {
		x.query, _ = url.ParseQuery(x.Query) // the well-formed pairs are what it is about
	}
	return x.query
}

// SetQuery replaces the raw query.
func (x *Exchange) SetQuery(raw string) {
	x.Query = raw
	x.query = nil
}

// UpstreamPath is the escaped path that goes upstream where the whole of it does.
func (x *Exchange) UpstreamPath() string {
	if x.Written != "" {
		return x.Written
	}
	return x.Path
}

// Withhold keeps a header of the client's request from going upstream, while
// policies that come later can still read it.
func (x *Exchange) Withhold(header string) {
	header = http.CanonicalHeaderKey(header)
	if x.withheld == nil {
		x.withheld = x.room.withheld[:0]
	}
	if !slices.Contains(x.withheld, header) {
		x.withheld = append(x.withheld, header)
	}
}

// Withheld returns the headers that Withhold was called for, in canonical form.
func (x *Exchange) Withheld() []string { return x.withheld }

// WithholdText keeps a text from going upstream in whatever field or query
// parameter holds it: a key that has no form of its own to be known by.
func (x *Exchange) WithholdText(text string) { x.secrets = append(x.secrets, text) }

// WithheldTexts returns the texts that WithholdText was called with.
func (x *Exchange) WithheldTexts() []string { return x.secrets }

// Redacted returns a path of this exchange as logs and problems may show it: with
// keys of ours replaced, and all of it if it holds a withheld text.
func (x *Exchange) Redacted(path string) string {
	for _, secret := range x.secrets {
		if decoded, err := url.PathUnescape(path); err != nil || strings.Contains(decoded, secret) {
			return "/withheld"
		}
	}
	return credential.Redact(path)
}

// Tell has the response carry a header field, beside those of its name that it has:
// whichever response that is, but for one that switches protocols. The name is in
// canonical form.
func (x *Exchange) Tell(name, value string) {
	if x.told == nil {
		x.told = x.room.told[:0]
	}
	x.told = append(x.told, field{name, value})
}

// Told is a response with the fields that Tell was called for: one that comes in the place of Run's.
func (x *Exchange) Told(response *http.Response) *http.Response {
	for _, f := range x.told {
		response.Header[f.name] = append(response.Header[f.name], f.value)
	}
	return response
}

// After has f called once with the exchange's response, before an outbound policy sees
// it: that of the handler, or, where handled is false, that of an inbound policy which came
// later and ended the exchange before the handler was asked. f may put another reader in
// place of the body, which has to close the one that was there, but not for a response that
// switches protocols. Everybody who gets a response closes its body in the end. f is
// not called for a response that the policy answers itself which calls After, and not after
// a panic.
func (x *Exchange) After(f func(response *http.Response, handled bool)) {
	x.after = append(x.after, f) //nolint:bodyclose // who gets the response closes it
}

func (x *Exchange) settle(response *http.Response, handled bool) {
	for _, f := range x.after {
		f(response, handled)
	}
}

// Problem returns a problem document about this exchange.
func (x *Exchange) Problem(status int, detail string) *http.Response {
	document := problem.New(status, detail)
	document.Instance = x.Redacted(x.Path)
	document.Trace = problem.Trace{Timestamp: problem.Timestamp(x.Start), RequestID: x.RequestID}
	if x.Route != nil {
		document.Trace.BuildID = x.Route.Info.BuildID
	}
	return document.Response()
}
