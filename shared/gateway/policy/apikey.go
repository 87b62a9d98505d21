package policy

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// apiKeyOptions are those of api-key-inbound (contract 4.5).
type apiKeyOptions struct {
	AllowUnauthenticated bool   `json:"allowUnauthenticatedRequests"`
	Header               string `json:"authHeader"`
	// Scheme stands before the key; "" means that the header is the key.
	Scheme          string `json:"authScheme"`
	BucketID        string `json:"bucketId"`
	BucketName      string `json:"bucketName"`
	CacheTTLSeconds int64  `json:"cacheTtlSeconds" minimum:"60" maximum:"86400"`
}

// maxKeyBytes is longer than any key may be.
const maxKeyBytes = 1024

// apiKey lets requests through that carry a key of its bucket.
type apiKey struct {
	header, scheme string
	challenge      string
	anonymous      bool
	bucket         bucket
	ttl            time.Duration
	keys           *KeyCache
}

var _ pipeline.Inbound = (*apiKey)(nil)

// WantedBucket returns the bucket that a policy's options name, by its name or its
// id, "" for the environment's own one, and where they do, below the policy's
// handler. ok is false for a policy that verifies no keys.
func WantedBucket(p project.Policy) (bucket, pointer string, ok bool) {
	if p.Type != apiKeyType {
		return "", "", false
	}
	var o apiKeyOptions
	if problems := options.Read(p.Handler.Options, &o); len(problems) > 0 {
		return "", "", false // the build has failed for them
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
	o := apiKeyOptions{Header: "Authorization", Scheme: "Bearer", CacheTTLSeconds: 60}
	problems := options.Read(raw, &o)
	if text := upstream.RefuseField(o.Header); text != "" {
		problems = append(problems, options.Problem("/authHeader", "%s", text))
	}
	if o.Scheme != "" && !httpguts.ValidHeaderFieldName(o.Scheme) {
		problems = append(problems, options.Problem("/authScheme", `Write one word such as "Bearer", or "" when the header holds the key alone.`))
	}
	if o.BucketID != "" && o.BucketName != "" {
		problems = append(problems, options.Problem("/bucketId", `Remove "bucketId" or "bucketName": one names the bucket.`))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	// What the build has found counts; by its options a bucket is looked for only
	// where the build was of an earlier release.
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

// Inbound checks the key. The details of its 401 are those that clients know
// (contract 3.4).
//
// A key goes no further than the gateway: upstreams log headers, and who reads
// the log could use it against every route of the bucket. What has the form of
// one of ours is kept back from every request, whoever reads it (package
// upstream, Credentials). What only this policy knows is added here: the header
// of a key that was accepted and the key's text wherever else it stands, and a
// header that claims to hold a key or a list, which no key is. What remains stays:
// with allowUnauthenticatedRequests it may be the upstream's own token. Later
// policies of the route still see the header. An upstream that wants to know the
// consumer gets ${request.user.sub} in its address.
func (p *apiKey) Inbound(x *pipeline.Exchange) *http.Response {
	values := x.Header[p.header]
	// It is read before the body: in the trailer it is nobody's.
	delete(x.Trailer, p.header)
	if len(values) == 0 {
		return p.refuse(x, "No Authorization Header")
	}
	// Several values are one list (RFC 9110, section 5.3), and no list is a key.
	if len(values) > 1 {
		x.Withhold(p.header)
	}
	key := strings.Join(values, ", ")
	if p.scheme != "" {
		scheme, rest, _ := strings.Cut(key, " ")
		if !strings.EqualFold(scheme, p.scheme) {
			return p.refuse(x, "Invalid Authorization Scheme")
		}
		key = rest
	}
	if key = strings.TrimSpace(key); key == "" {
		return p.refuse(x, "No key present")
	}
	ours := credential.HasPrefix(credential.ConsumerKey, key) || credential.HasPrefix(credential.AccountKey, key)
	if ours || strings.Contains(key, ",") {
		x.Withhold(p.header)
	}
	// A typo in a key of ours costs no look-up; a custom key has no checksum.
	if len(key) > maxKeyBytes || ours && !credential.WellFormed(credential.ConsumerKey, key) {
		return p.refuse(x, "Authorization Failed")
	}
	user, err := p.keys.check(x.Context, &p.bucket, key, p.ttl)
	if fault.Is(err, fault.Unauthenticated) {
		response := p.refuse(x, "Authorization Failed")
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
		return p.refuse(x, "Authorization Failed")
	}
	x.User = user
	x.Withhold(p.header)
	if !ours {
		x.WithholdText(key)
	}
	return nil
}

func (p *apiKey) refuse(x *pipeline.Exchange, detail string) *http.Response {
	if p.anonymous {
		return nil
	}
	response := x.Problem(http.StatusUnauthorized, detail)
	if p.challenge != "" {
		response.Header["Www-Authenticate"] = []string{p.challenge}
	}
	return response
}
