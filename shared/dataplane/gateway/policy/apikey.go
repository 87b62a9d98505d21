package policy

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
)

// apiKeyOptions are the options of api-key-inbound (contract 4.5).
type apiKeyOptions struct {
	AllowUnauthenticated bool   `json:"allowUnauthenticatedRequests"`
	Header               string `json:"authHeader"`
	// Scheme precedes the key; "" means that the header contains only the key.
	Scheme          string `json:"authScheme"`
	BucketID        string `json:"bucketId"`
	BucketName      string `json:"bucketName"`
	CacheTTLSeconds int64  `json:"cacheTtlSeconds" minimum:"60" maximum:"86400"`
}

// defaultAPIKeyOptions returns the values of options that a project does not set.
func defaultAPIKeyOptions() apiKeyOptions {
	return apiKeyOptions{Header: "Authorization", Scheme: "Bearer", CacheTTLSeconds: 60}
}

// maxKeyBytes is longer than any valid key.
const maxKeyBytes = 1024

// apiKey lets a request through if the request has a valid key of the policy's bucket. If anonymous
// is set, it also lets requests without a valid key through, without a user.
type apiKey struct {
	header, scheme string
	challenge      string // the WWW-Authenticate field of refusals, "" for none
	anonymous      bool
	bucket         bucket
	ttl            time.Duration
	keys           *KeyCache
}

var _ pipeline.Inbound = (*apiKey)(nil)

// BucketOption returns the name or ID of the bucket in a policy's options, "" for the environment's own bucket. It also
// returns the pointer of the option within the policy's handler. ok is false for a policy that does not verify keys.
func BucketOption(p project.Policy) (bucket, pointer string, ok bool) {
	if p.Type != apiKeyType {
		return "", "", false
	}
	var o apiKeyOptions
	if problems := options.Read(p.Handler.Options, &o); len(problems) > 0 {
		return "", "", false // never occurs after a build, which refuses these problems
	}
	switch {
	case o.BucketID != "":
		return o.BucketID, "/options/bucketId", true
	case o.BucketName != "":
		return o.BucketName, "/options/bucketName", true
	}
	return "", "", true
}

const apiKeyType = "api-key-inbound"

func newAPIKey(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultAPIKeyOptions()
	problems := options.Read(raw, &o)
	if text := upstream.CheckFieldName(o.Header); text != "" {
		problems = append(problems, options.Problem("/authHeader", "%s", text))
	}
	if o.Scheme != "" && !httpguts.ValidHeaderFieldName(o.Scheme) {
		problems = append(problems, options.Problem("/authScheme",
			`Write one word such as "Bearer", or "" when the header holds the key alone.`))
	}
	if o.BucketID != "" && o.BucketName != "" {
		problems = append(problems, options.Problem("/bucketId", `Remove "bucketId" or "bucketName": one names the bucket.`))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	// Use the bucket that the build has looked up. An artifact of an early release has no buckets: then use the options.
	bucket := project.KeyBucket{ID: o.BucketID, Name: o.BucketName}
	if found, ok := s.Buckets[name]; ok {
		bucket = found
	}
	p := &apiKey{
		header: http.CanonicalHeaderKey(o.Header), scheme: o.Scheme, anonymous: o.AllowUnauthenticated,
		ttl: time.Duration(o.CacheTTLSeconds) * time.Second, keys: s.Keys,
		bucket: s.Keys.bucket(BucketRef{
			AccountID: s.Identity.AccountID, Project: s.Identity.Project, Environment: s.Identity.Environment,
			ID: bucket.ID, Name: bucket.Name,
		}),
	}
	if p.header == "Authorization" && o.Scheme != "" {
		p.challenge = o.Scheme
	}
	return Provisioned{Inbound: p}, nil
}

// Inbound checks the key. Clients recognize the details of its 401 responses (contract 3.4).
//
// A key is never sent upstream, except in a body: upstreams log headers, and anyone with access to the log could use
// the key for every route of the bucket. Package upstream removes texts with the form of our keys from every request
// (Credentials). Inbound also withholds the header and the text of an accepted key. It withholds the header if its
// value has the form of our keys, or is a list. No list is a key, but one of its members could be. Any other value is
// sent upstream: with allowUnauthenticatedRequests, the header can contain the upstream's own token. Later policies of
// the route still see the header. A project can send the consumer upstream with ${request.user.sub} in the address.
func (k *apiKey) Inbound(x *pipeline.Exchange) *http.Response {
	values := x.Field(k.header)
	// Keys are accepted only in the header. Do not send a trailer field of the same name upstream.
	delete(x.Trailer, k.header)
	if len(values) == 0 {
		return k.refuseUnlessAnonymous(x, "No Authorization Header")
	}
	// Several values are equivalent to one list (RFC 9110, section 5.3), and a list is not a key.
	if len(values) > 1 {
		x.Withhold(k.header)
	}
	key := strings.Join(values, ", ")
	if k.scheme != "" {
		scheme, rest, _ := strings.Cut(key, " ")
		if !strings.EqualFold(scheme, k.scheme) {
			return k.refuseUnlessAnonymous(x, "Invalid Authorization Scheme")
		}
		key = rest
	}
	if key = strings.TrimSpace(key); key == "" {
		return k.refuseUnlessAnonymous(x, "No key present")
	}
	isGatewayKey := credential.HasPrefix(credential.ConsumerKey, key) || credential.HasPrefix(credential.AccountKey, key)
	if isGatewayKey || strings.Contains(key, ",") {
		x.Withhold(k.header)
	}
	// Our keys have a checksum, so a mistyped key needs no lookup. Custom keys have none.
	if len(key) > maxKeyBytes || isGatewayKey && !credential.WellFormed(credential.ConsumerKey, key) {
		return k.refuseUnlessAnonymous(x, "Authorization Failed")
	}
	user, err := k.keys.check(x.Context, &k.bucket, key, k.ttl)
	if fault.Is(err, fault.Unauthenticated) {
		response := k.refuseUnlessAnonymous(x, "Authorization Failed")
		if response != nil {
			x.Cause = err
		}
		return response
	}
	if err != nil {
		x.Cause = err
		return x.Problem(http.StatusServiceUnavailable, "API keys can't be checked now. Repeat the request in a few seconds.")
	}
	if user == nil {
		return k.refuseUnlessAnonymous(x, "Authorization Failed")
	}
	x.User = user
	x.Withhold(k.header)
	if !isGatewayKey {
		x.WithholdText(key)
	}
	return nil
}

// refuseUnlessAnonymous returns a 401 response, or nil if the route also allows requests without a valid key.
func (k *apiKey) refuseUnlessAnonymous(x *pipeline.Exchange, detail string) *http.Response {
	if k.anonymous {
		return nil
	}
	response := x.Problem(http.StatusUnauthorized, detail)
	if k.challenge != "" {
		response.Header["Www-Authenticate"] = []string{k.challenge}
	}
	return response
}
