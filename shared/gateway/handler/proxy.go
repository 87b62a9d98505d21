package handler

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/gateway/expression"
	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// forwardOptions are those of urlForwardHandler.
type forwardOptions struct {
	// BaseURL gets the request's path appended.
	BaseURL         string       `json:"baseUrl" required:"true"`
	ForwardSearch   bool         `json:"forwardSearch"`
	FollowRedirects bool         `json:"followRedirects"`
	Upgrades        []string     `json:"upgrades"`
	UserHeaders     *userHeaders `json:"userHeaders"`
	// MTLSCertificate names a certificate of the project, which is shown to the upstream.
	MTLSCertificate string `json:"mtlsCertificate"`
	// TimeoutSeconds bounds the time from the end of the request to the beginning of the
	// upstream's response, of each redirect that is followed for itself; 0 is the
	// installation's.
	TimeoutSeconds float64 `json:"timeoutSeconds" minimum:"0.1" maximum:"600"`
}

// rewriteOptions are those of urlRewriteHandler: one of the two addresses,
// which mean the same (contract 4.4: the specification calls it baseUrl).
type rewriteOptions struct {
	RewritePattern  string       `json:"rewritePattern"`
	BaseURL         string       `json:"baseUrl"`
	ForwardSearch   bool         `json:"forwardSearch"`
	FollowRedirects bool         `json:"followRedirects"`
	Upgrades        []string     `json:"upgrades"`
	UserHeaders     *userHeaders `json:"userHeaders"`
	MTLSCertificate string       `json:"mtlsCertificate"`
	TimeoutSeconds  float64      `json:"timeoutSeconds" minimum:"0.1" maximum:"600"`
}

// proxy sends requests upstream. It is both handlers: they differ in whether
// the request's path is appended.
type proxy struct {
	address    *expression.Address
	client     *upstream.Account
	appendPath bool
	withSearch bool
	follow     bool
	upgrades   []string // lower case
	user       *userHeaders
}

var _ pipeline.Handler = (*proxy)(nil)

func newForward(raw json.RawMessage, s *Setup) (pipeline.Handler, []project.Problem) {
	o := forwardOptions{ForwardSearch: true, Upgrades: []string{webSocket}}
	problems := options.Read(raw, &o)
	p := &proxy{appendPath: true, withSearch: o.ForwardSearch, follow: o.FollowRedirects}
	problems = append(problems, p.tunnel(o.Upgrades)...)
	problems = append(problems, p.tell(o.UserHeaders)...)
	if o.BaseURL != "" {
		problems = append(problems, p.compile("/baseUrl", o.BaseURL, s)...)
	}
	problems = append(problems, p.show(o.MTLSCertificate, s)...)
	problems = append(problems, p.stay()...)
	p.wait(o.TimeoutSeconds)
	return p, problems
}

func newRewrite(raw json.RawMessage, s *Setup) (pipeline.Handler, []project.Problem) {
	o := rewriteOptions{ForwardSearch: true, Upgrades: []string{webSocket}}
	problems := options.Read(raw, &o)
	p := &proxy{withSearch: o.ForwardSearch, follow: o.FollowRedirects}
	upgrades := p.tunnel(o.Upgrades)
	switch {
	case len(problems) > 0 && o.RewritePattern == "" && o.BaseURL == "":
		// It may be one of the two that could not be read.
	case o.RewritePattern == "" && o.BaseURL == "":
		problems = append(problems, options.Problem("/rewritePattern", `Add "rewritePattern": the address that requests go to.`))
	case o.RewritePattern != "" && o.BaseURL != "":
		problems = append(problems, options.Problem("/baseUrl", `Remove "baseUrl" or "rewritePattern": they mean the same here.`))
	case o.BaseURL != "":
		problems = append(problems, p.compile("/baseUrl", o.BaseURL, s)...)
	default:
		problems = append(problems, p.compile("/rewritePattern", o.RewritePattern, s)...)
	}
	problems = append(problems, p.tell(o.UserHeaders)...)
	problems = append(problems, upgrades...)
	problems = append(problems, p.show(o.MTLSCertificate, s)...)
	problems = append(problems, p.stay()...)
	p.wait(o.TimeoutSeconds)
	return p, problems
}

// compile reads the address. Without a Setup it says what is wrong whatever the
// variables and the route are.
func (p *proxy) compile(pointer, text string, s *Setup) []project.Problem {
	if s == nil {
		return explain(pointer, expression.Check(text))
	}
	parsed, err := expression.Parse(text)
	if err != nil {
		return explain(pointer, err)
	}
	var problems []project.Problem
	for _, name := range parsed.Params() {
		if !s.HasParam(name) {
			problems = append(problems, options.Problem(pointer, "Replace ${params.%s}: the route's path has no such parameter.", name))
		}
	}
	p.client = s.Upstream
	p.address, err = parsed.Compile(s.Variables)
	return append(problems, explain(pointer, err)...)
}

// explain makes a problem of each of the errors that are joined in err.
func explain(pointer string, err error) []project.Problem {
	if err == nil {
		return nil
	}
	var problems []project.Problem
	for line := range strings.SplitSeq(err.Error(), "\n") {
		problems = append(problems, options.Problem(pointer, "%s", strings.ToUpper(line[:1])+line[1:]+"."))
	}
	return problems
}

// stay refuses to go after the redirects of a service behind a tunnel: what they name is seen from
// its own network.
func (p *proxy) stay() []project.Problem {
	if p.address == nil || !p.follow || !p.address.OfService() {
		return nil
	}
	return []project.Problem{options.Problem("/followRedirects", `Remove "followRedirects": where a service redirects to is an address of its own network, which is not reached from here. Its redirects are passed on.`)}
}

// wait has responses begin in a time of the route's own; 0 leaves them theirs.
func (p *proxy) wait(seconds float64) {
	if seconds > 0 && p.client != nil {
		p.client = p.client.Waiting(time.Duration(seconds * float64(time.Second)))
	}
}

// Handle sends the request upstream and answers what comes back, streaming.
func (p *proxy) Handle(x *pipeline.Exchange) *http.Response {
	suffix := ""
	if p.appendPath {
		suffix = x.UpstreamPath()
	}
	u, outside := p.address.Resolve(x, suffix, p.withSearch)
	if outside != nil {
		return x.Problem(http.StatusBadRequest, `The values of this request would lead out of the route's upstream path. Send all of them, and none that are empty, "." or "..", also not between slashes or before ";", and none with control characters.`)
	}
	keys := upstream.Credentials{Texts: x.WithheldTexts()}
	if keys.InPath(u) {
		return x.Problem(http.StatusBadRequest, "Take the API key out of the path: addresses are logged wherever they pass. Send it in a header.")
	}
	u.RawQuery = keys.Query(u.RawQuery)
	for _, name := range x.Withheld() {
		delete(x.Header, name)
		delete(x.Trailer, name)
	}
	p.user.write(x)
	keys.Header(x.Header)
	if _, named := x.Header["User-Agent"]; !named {
		// Otherwise net/http would name itself.
		x.Header["User-Agent"] = []string{""}
	}
	upgrade := p.upgradeOf(x)
	if upgrade != "" {
		x.Header["Connection"] = []string{"Upgrade"}
		x.Header["Upgrade"] = []string{upgrade}
	}

	request := (&http.Request{
		Method: x.Method, URL: u, Host: u.Host, Header: x.Header, Trailer: x.Trailer,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: x.ContentLength,
	}).WithContext(x.Context)
	var body *inboundBody
	if x.ContentLength != 0 {
		body = &inboundBody{ReadCloser: x.Body, keys: keys, trailer: x.Trailer}
		request.Body = body
	}
	var (
		response *http.Response
		err      error
	)
	if p.follow && upgrade == "" {
		response, err = p.client.Follow(request)
	} else {
		response, err = p.client.Send(request, x.Informational)
	}
	if err != nil {
		return failed(x, body, err)
	}
	x.Theirs = true
	upstream.CleanResponse(response)
	if response.StatusCode == http.StatusSwitchingProtocols {
		response.Header["Connection"] = []string{"Upgrade"}
		response.Header["Upgrade"] = []string{upgrade}
	}
	return response
}

// failed answers the problem that a failed round trip is.
func failed(x *pipeline.Exchange, body *inboundBody, err error) *http.Response {
	if body != nil {
		if response := x.RefuseBody(body.failure()); response != nil {
			return response
		}
	}
	failure := upstream.Explain(x.Context, err)
	x.Cause, x.Theirs = err, true
	if failure.Status == 0 {
		// The client went away: nobody reads this, but a pipeline has to go on.
		failure = upstream.Failure{Status: pipeline.StatusClientGone}
	}
	return x.Problem(failure.Status, failure.Detail)
}

// inboundBody remembers why reading the client's body failed: a round trip's
// error does not tell the client's faults from the upstream's. At its end it
// takes keys out of the trailer, which is there only then.
type inboundBody struct {
	io.ReadCloser
	keys    upstream.Credentials
	trailer http.Header
	err     atomic.Pointer[error]
}

func (b *inboundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.keys.Header(b.trailer)
	}
	// A body that was closed under the reader is no fault of the client.
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (b *inboundBody) failure() error {
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}
