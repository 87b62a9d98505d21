package handler

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/expression"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// forwardOptions are the options of urlForwardHandler.
type forwardOptions struct {
	// BaseURL is the address to which the request's path is appended.
	BaseURL         string       `json:"baseUrl" required:"true"`
	ForwardSearch   bool         `json:"forwardSearch"`
	FollowRedirects bool         `json:"followRedirects"`
	Upgrades        []string     `json:"upgrades"`
	UserHeaders     *userHeaders `json:"userHeaders"`
	// MTLSCertificate is the name of a certificate of the project, which the handler presents to the upstream.
	MTLSCertificate string `json:"mtlsCertificate"`
	// TimeoutSeconds limits the time from the end of the request to the beginning of the upstream's
	// response, separately for each redirect that is followed. 0 means the installation's limit.
	TimeoutSeconds float64 `json:"timeoutSeconds" minimum:"0.1" maximum:"600"`
}

// rewriteOptions are the options of urlRewriteHandler. The address has two options with
// the same meaning: rewritePattern, and baseUrl as in the specification (contract 4.4).
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

// proxy sends requests upstream. It implements urlForwardHandler and urlRewriteHandler. They differ in the options for
// the address, and only urlForwardHandler appends the request's path.
type proxy struct {
	address         *expression.Address
	client          *upstream.Account
	appendPath      bool
	forwardQuery    bool
	followRedirects bool
	upgrades        []string // in lower case
	userHeaders     *userHeaders
}

var _ pipeline.Handler = (*proxy)(nil)

func newForward(raw json.RawMessage, s *Setup) (pipeline.Handler, []project.Problem) {
	o := forwardOptions{ForwardSearch: true, Upgrades: []string{webSocket}}
	problems := options.Read(raw, &o)
	p := &proxy{appendPath: true, forwardQuery: o.ForwardSearch, followRedirects: o.FollowRedirects}
	problems = append(problems, p.allowUpgrades(o.Upgrades)...)
	problems = append(problems, p.setUserHeaders(o.UserHeaders)...)
	if o.BaseURL != "" {
		problems = append(problems, p.compile("/baseUrl", o.BaseURL, s)...)
	}
	problems = append(problems, p.presentCertificate(o.MTLSCertificate, s)...)
	problems = append(problems, p.checkRedirects()...)
	p.setTimeout(o.TimeoutSeconds)
	return p, problems
}

func newRewrite(raw json.RawMessage, s *Setup) (pipeline.Handler, []project.Problem) {
	o := rewriteOptions{ForwardSearch: true, Upgrades: []string{webSocket}}
	problems := options.Read(raw, &o)
	p := &proxy{forwardQuery: o.ForwardSearch, followRedirects: o.FollowRedirects}
	upgrades := p.allowUpgrades(o.Upgrades)
	switch {
	case len(problems) > 0 && o.RewritePattern == "" && o.BaseURL == "":
		// The address may be missing because it is one of the options with problems.
	case o.RewritePattern == "" && o.BaseURL == "":
		problems = append(problems, options.Problem("/rewritePattern",
			`Add "rewritePattern": the address that requests go to.`))
	case o.RewritePattern != "" && o.BaseURL != "":
		problems = append(problems,
			options.Problem("/baseUrl", `Remove "baseUrl" or "rewritePattern": they mean the same here.`))
	case o.BaseURL != "":
		problems = append(problems, p.compile("/baseUrl", o.BaseURL, s)...)
	default:
		problems = append(problems, p.compile("/rewritePattern", o.RewritePattern, s)...)
	}
	problems = append(problems, p.setUserHeaders(o.UserHeaders)...)
	problems = append(problems, upgrades...)
	problems = append(problems, p.presentCertificate(o.MTLSCertificate, s)...)
	problems = append(problems, p.checkRedirects()...)
	p.setTimeout(o.TimeoutSeconds)
	return p, problems
}

// compile parses the address and returns its problems. Without a Setup
// it returns the problems that do not depend on variables and the route.
func (p *proxy) compile(pointer, text string, s *Setup) []project.Problem {
	if s == nil {
		return problemsOf(pointer, expression.Check(text))
	}
	parsed, err := expression.Parse(text)
	if err != nil {
		return problemsOf(pointer, err)
	}
	var problems []project.Problem
	for _, name := range parsed.Params() {
		if !s.HasParam(name) {
			problems = append(problems, options.Problem(pointer, "Replace ${params.%s}: the route's path has no such parameter.",
				name))
		}
	}
	p.client = s.Upstream
	p.address, err = parsed.Compile(s.Variables)
	return append(problems, problemsOf(pointer, err)...)
}

// problemsOf returns a problem for each line of err, which joins one error per line.
func problemsOf(pointer string, err error) []project.Problem {
	if err == nil {
		return nil
	}
	var problems []project.Problem
	for line := range strings.SplitSeq(err.Error(), "\n") {
		problems = append(problems, options.Problem(pointer, "%s", strings.ToUpper(line[:1])+line[1:]+"."))
	}
	return problems
}

// checkRedirects returns a problem if the handler follows redirects of a service behind a
// tunnel, because such redirects name addresses in the service's own network.
func (p *proxy) checkRedirects() []project.Problem {
	if p.address == nil || !p.followRedirects || !p.address.IsService() {
		return nil
	}
	return []project.Problem{options.Problem("/followRedirects",
		`Remove "followRedirects": where a service redirects to is an address of its own network, which is not reached `+
			`from here. Its redirects are passed on.`)}
}

// setTimeout sets the route's own limit for the beginning of responses; 0 keeps the default.
func (p *proxy) setTimeout(seconds float64) {
	if seconds > 0 && p.client != nil {
		p.client = p.client.WithTimeout(time.Duration(seconds * float64(time.Second)))
	}
}

// Handle sends the request upstream and returns the response. It streams both bodies.
func (p *proxy) Handle(x *pipeline.Exchange) *http.Response {
	suffix := ""
	if p.appendPath {
		suffix = x.UpstreamPath()
	}
	u, pathErr := p.address.Resolve(x, suffix, p.forwardQuery)
	if pathErr != nil {
		return x.Problem(http.StatusBadRequest,
			`The values of this request would lead out of the route's upstream path. Send all of them, and none that are `+
				`empty, "." or "..", also not between slashes or before ";", and none with control characters.`)
	}
	creds := upstream.Credentials{Texts: x.WithheldTexts()}
	if creds.InPath(u) {
		return x.Problem(http.StatusBadRequest, "Take the API key out of the path: addresses are logged wherever they "+
			"pass. Send it in a header.")
	}
	u.RawQuery = creds.Query(u.RawQuery)
	for _, name := range x.Withheld() {
		delete(x.Header, name)
		delete(x.Trailer, name)
	}
	p.userHeaders.write(x)
	creds.Header(x.Header)
	if _, hasUserAgent := x.Header["User-Agent"]; !hasUserAgent {
		// Otherwise net/http would send its own User-Agent.
		x.Header["User-Agent"] = []string{""}
	}
	upgrade := p.chooseUpgrade(x)
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
		body = &inboundBody{ReadCloser: x.Body, creds: creds, trailer: x.Trailer}
		request.Body = body
	}
	var (
		response *http.Response
		err      error
	)
	if p.followRedirects && upgrade == "" {
		response, err = p.client.Follow(request)
	} else {
		response, err = p.client.Send(request, x.Informational)
	}
	if err != nil {
		return roundTripProblem(x, body, err)
	}
	x.FromUpstream = true
	upstream.CleanResponse(response)
	if response.StatusCode == http.StatusSwitchingProtocols {
		response.Header["Connection"] = []string{"Upgrade"}
		response.Header["Upgrade"] = []string{upgrade}
	}
	return response
}

// roundTripProblem returns the problem for a failed round trip.
func roundTripProblem(x *pipeline.Exchange, body *inboundBody, err error) *http.Response {
	if body != nil {
		if response := x.RefuseBody(body.readError()); response != nil {
			return response
		}
	}
	failure := upstream.Explain(x.Context, err)
	x.Cause, x.FromUpstream = err, true
	if failure.Status == 0 {
		// The client has disconnected: it does not see this response, but the pipeline needs one.
		failure = upstream.Failure{Status: pipeline.StatusClientGone}
	}
	return x.Problem(failure.Status, failure.Detail)
}

// inboundBody records the error of reading the client's body, because the error of a round trip does not show whether
// the client or the upstream has failed. The client's trailer is known only at the end of the body. inboundBody then
// removes the withheld API keys from it.
type inboundBody struct {
	io.ReadCloser
	creds   upstream.Credentials
	trailer http.Header
	err     atomic.Pointer[error]
}

func (b *inboundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.creds.Header(b.trailer)
	}
	// A body that was closed while it was read is not the client's fault.
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.err.CompareAndSwap(nil, &err)
	}
	return n, err
}

func (b *inboundBody) readError() error {
	if err := b.err.Load(); err != nil {
		return *err
	}
	return nil
}
