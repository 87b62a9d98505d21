package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

const authRequestType = "auth-request-inbound"

// authRequestOptions are the options of auth-request-inbound.
type authRequestOptions struct {
	URL            string   `json:"url" required:"true"`
	SendHeaders    []string `json:"sendHeaders"`
	CopyHeaders    []string `json:"copyHeaders"`
	TimeoutSeconds float64  `json:"timeoutSeconds" minimum:"0.1" maximum:"30"`
}

// defaultAuthRequestOptions returns the values of options that a project does not set.
func defaultAuthRequestOptions() authRequestOptions {
	return authRequestOptions{SendHeaders: []string{"Authorization", "Cookie"}, TimeoutSeconds: 2}
}

// authRequest asks a service for each request whether to let it through.
type authRequest struct {
	url        string
	send, copy []string // in canonical form
	timeout    time.Duration
	client     http.RoundTripper
}

var _ pipeline.Inbound = (*authRequest)(nil)

func newAuthRequest(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultAuthRequestOptions()
	problems := options.Read(raw, &o)
	if text := jwt.CheckURL(o.URL); len(problems) == 0 && text != "" {
		problems = append(problems, options.Problem("/url", "This is not the address of a service: %s.", text))
	}
	for _, list := range []struct {
		pointer string
		names   []string
	}{{"/sendHeaders", o.SendHeaders}, {"/copyHeaders", o.CopyHeaders}} {
		if len(list.names) > maxChanges {
			problems = append(problems, options.Problem(list.pointer, "Write at most %d headers.", maxChanges))
			continue
		}
		for i, name := range list.names {
			if text := upstream.CheckFieldName(name); text != "" {
				problems = append(problems, options.Problem(options.Member(list.pointer, itoa(i)), "%s", text))
			}
			list.names[i] = http.CanonicalHeaderKey(name)
		}
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	return Provisioned{Inbound: &authRequest{
		url: o.URL, send: o.SendHeaders, copy: o.CopyHeaders, client: s.Upstream,
		timeout: time.Duration(o.TimeoutSeconds * float64(time.Second)),
	}}, nil
}

// forwardedFields are the fields that the gateway has added to the request, and that the service gets.
var forwardedFields = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// Inbound sends a GET request to the service. A response 2xx lets the request through. The responses 401 and 403 become
// those of the gateway, with WWW-Authenticate. If there is any other response or none, the response is 503, so that a
// service that is down opens nothing.
func (a *authRequest) Inbound(x *pipeline.Exchange) *http.Response {
	ctx, cancel := context.WithTimeout(x.Context, a.timeout)
	defer cancel()
	response, err := a.ask(ctx, x)
	if err != nil {
		x.Cause = fmt.Errorf("ask the service of %s: %w", authRequestType, err)
		return x.Problem(http.StatusServiceUnavailable, "The authorization of this request can't be checked now. Repeat the "+
			"request in a few seconds.")
	}
	_ = response.Body.Close()
	switch status := response.StatusCode; {
	case status >= http.StatusOK && status < http.StatusMultipleChoices:
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		refusal := x.Problem(status, "The API's authorization service refuses this request.")
		if challenge := response.Header["Www-Authenticate"]; challenge != nil {
			refusal.Header["Www-Authenticate"] = slices.Clone(challenge)
		}
		return refusal
	default:
		x.Cause = fmt.Errorf("the status of the service of %s is %d, want 2xx, 401 or 403", authRequestType, status)
		return x.Problem(http.StatusServiceUnavailable, "The authorization of this request can't be checked now. Repeat the "+
			"request in a few seconds.")
	}
	for _, name := range a.copy {
		// A client must not send the field itself if the service leaves it out.
		upstream.RemoveField(x.Header, name)
		upstream.RemoveField(x.Trailer, name)
		if values := response.Header[name]; len(values) > 0 {
			x.Header[name] = slices.Clone(values)
		}
	}
	return nil
}

// ask sends the request to the service. API keys are not sent: the service is an upstream.
func (a *authRequest) ask(ctx context.Context, x *pipeline.Exchange) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url, http.NoBody)
	if err != nil {
		return nil, errors.New("the address is malformed")
	}
	for _, name := range slices.Concat(forwardedFields, a.send) {
		if values := x.Field(name); len(values) > 0 && !slices.Contains(x.Withheld(), name) {
			request.Header[name] = slices.Clone(values)
		}
	}
	creds := upstream.Credentials{Texts: x.WithheldTexts()}
	target := x.Redacted(x.UpstreamPath())
	if query := creds.Query(x.Query); query != "" {
		target += "?" + query
	}
	request.Header["X-Forwarded-Method"] = []string{x.Method}
	request.Header["X-Forwarded-Uri"] = []string{target}
	request.Header["X-Request-Id"] = []string{x.RequestID}
	if _, exists := request.Header["User-Agent"]; !exists {
		request.Header["User-Agent"] = []string{"Gatewright"}
	}
	creds.Header(request.Header)
	return a.client.RoundTrip(request)
}

// authRequestBuiltins returns the type of the policy that asks a service.
func authRequestBuiltins() map[string]kind {
	return map[string]kind{authRequestType: {
		direction: Inbound, module: RuntimeModule, defaults: defaultAuthRequestOptions(), provision: newAuthRequest,
	}}
}

// authRequestDescriptions returns the description of the policy that asks a service.
func authRequestDescriptions() map[string]description {
	return map[string]description{authRequestType: {
		"Asks a service of yours for each request whether to let it through.", map[string]string{
			"url": "the address of the service. It gets a GET request",
			"sendHeaders": "the headers of the client that the service gets. `X-Forwarded-Method`, `X-Forwarded-Uri` and the " +
				"other `X-Forwarded-` headers are always sent",
			"copyHeaders":    "the headers of the service's response that the upstream gets. A client cannot send them itself",
			"timeoutSeconds": "how many seconds the gateway waits for the service",
		},
	}}
}
