package policy

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
)

const jwtType = "open-id-jwt-auth-inbound"

// jwtOptions are the options of open-id-jwt-auth-inbound.
type jwtOptions struct {
	Issuer string `json:"issuer"`
	// Audience is a text or a list of texts.
	Audience json.RawMessage `json:"audience"`
	JWKURL   string          `json:"jwkUrl"`
	// JWKS is a JSON Web Key Set, or a text with one: the value of a variable.
	JWKS   json.RawMessage `json:"jwks"`
	Secret string          `json:"secret"`

	Algs []string `json:"algorithms" enum:"RS256,RS384,RS512,PS256,PS384,PS512,ES256,ES384,ES512,EdDSA,HS256,HS384,HS512"`

	ClockSkewSeconds int64                      `json:"clockSkewSeconds" minimum:"0" maximum:"600"`
	Claims           map[string]json.RawMessage `json:"claims"`
	Subject          string                     `json:"subject"`
	RequiredScopes   []string                   `json:"requiredScopes"`
	Optional         bool                       `json:"optional"`
}

// defaultJWTOptions returns the values of options that a project does not set.
func defaultJWTOptions() jwtOptions { return jwtOptions{ClockSkewSeconds: 60, Subject: "sub"} }

// jwtAuth lets a request through if it has a valid token with the required scopes. If optional is set, it also lets
// requests without a token through, without a user.
type jwtAuth struct {
	verifier interface {
		Verify(ctx context.Context, token string) (*pipeline.User, error)
	}
	scopes   []string
	optional bool
}

var _ pipeline.Inbound = (*jwtAuth)(nil)

// newJWT reads the options of open-id-jwt-auth-inbound. Verified tokens belong to the account and all options together.
func newJWT(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultJWTOptions()
	problems := options.Read(raw, &o)
	if len(problems) > 0 {
		return Provisioned{}, problems
	}
	config, problems := o.config()
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	config.Account, config.Client, config.Now = s.Identity.AccountID, s.Upstream, s.Now
	return Provisioned{Inbound: &jwtAuth{
		verifier: s.Tokens.Verifier(config, raw), scopes: o.RequiredScopes, optional: o.Optional,
	}}, nil
}

// config returns the configuration of the verifier, and the problems of the options.
func (o *jwtOptions) config() (jwt.Config, []project.Problem) {
	c := jwt.Config{
		Issuer: o.Issuer, KeysURL: o.JWKURL, Subject: o.Subject, Skew: time.Duration(o.ClockSkewSeconds) * time.Second,
	}
	claims, problems := o.claimsConfig()
	c.Audiences, c.Claims = claims.Audiences, claims.Claims
	return c, slices.Concat(o.readKeys(&c), o.readAlgorithms(&c), problems)
}

// claimsConfig returns the part of the configuration that is about claims.
func (o *jwtOptions) claimsConfig() (jwt.Config, []project.Problem) {
	c := jwt.Config{Issuer: o.Issuer, Subject: o.Subject}
	problems := checkScopes("/requiredScopes", o.RequiredScopes)
	var more []project.Problem
	if c.Audiences, more = readAudiences(o.Audience); len(more) > 0 {
		problems = append(problems, more...)
	}
	if c.Claims, more = readClaimValues(o.Claims); len(more) > 0 {
		problems = append(problems, more...)
	}
	// A list or an object is empty if the variables in it are not set. Then it must not let everybody through.
	if o.RequiredScopes != nil && len(o.RequiredScopes) == 0 {
		problems = append(problems, options.Problem("/requiredScopes", "Add a scope, or remove the option."))
	}
	if o.Claims != nil && len(o.Claims) == 0 {
		problems = append(problems, options.Problem("/claims", "Add a claim, or remove the option."))
	}
	if o.Subject == "" {
		problems = append(problems, options.Problem("/subject", "Write the name of a claim, such as sub."))
	}
	return c, problems
}

// readKeys sets the keys of the configuration, if the options have them, and returns the problems of the options that say
// where the keys are.
func (o *jwtOptions) readKeys(c *jwt.Config) (problems []project.Problem) {
	var sources []string
	for _, source := range []struct {
		name  string
		isSet bool
	}{{"secret", o.Secret != ""}, {"jwks", o.JWKS != nil}, {"jwkUrl", o.JWKURL != ""}} {
		if source.isSet {
			sources = append(sources, source.name)
		}
	}
	switch {
	case len(sources) > 1:
		return []project.Problem{options.Problem("/"+sources[0], "Remove %s: one option says where the keys are.",
			strings.Join(sources[:len(sources)-1], " and "))}
	case o.Secret != "":
		c.Keys = jwt.Secret([]byte(o.Secret))
	case o.JWKS != nil:
		var text string
		document := []byte(o.JWKS)
		if json.Unmarshal(o.JWKS, &text) == nil {
			document = []byte(text)
		}
		var err error
		c.Keys, err = jwt.ParseKeys(document)
		switch {
		case errors.Is(err, jwt.ErrPrivate):
			problems = append(problems, options.Problem("/jwks", "Remove the private keys, and write their public keys: "+
				"the gateway only checks signatures. A shared secret belongs in the option secret."))
		case err != nil:
			problems = append(problems, options.Problem("/jwks", `Write a JSON Web Key Set with public keys, such as `+
				`{"keys": [{"kty": "EC", …}]}. RSA keys need 2048 to 8192 bits.`))
		}
	case o.JWKURL != "":
		if text := jwt.CheckURL(o.JWKURL); text != "" {
			problems = append(problems, options.Problem("/jwkUrl", "This is not an address of keys: %s.", text))
		}
	case o.Issuer == "":
		problems = append(problems, options.Problem("/issuer", `Add "issuer", or say where the keys are with "jwkUrl", `+
			`"jwks" or "secret".`))
	default:
		if text := jwt.CheckURL(o.Issuer); text != "" || strings.Contains(o.Issuer, "?") {
			problems = append(problems, options.Problem("/issuer", "The keys of this issuer can't be found: write an address "+
				"such as https://login.example.com, or say where the keys are with \"jwkUrl\", \"jwks\" or \"secret\". An "+
				"address with http is only for hosts of a private network."))
		}
	}
	return problems
}

// readAlgorithms sets the accepted algorithms. A public key must never be used as the secret of an algorithm such as
// HS256, because everybody knows it.
func (o *jwtOptions) readAlgorithms(c *jwt.Config) (problems []project.Problem) {
	algorithms := o.Algs
	switch {
	case algorithms == nil && o.Secret != "":
		algorithms = []string{"HS256"}
	case algorithms == nil:
		algorithms = jwt.Asymmetric()
	case len(algorithms) == 0:
		problems = append(problems, options.Problem("/algorithms", "Add an algorithm, or remove the option."))
	}
	for i, a := range algorithms {
		c.Algorithms = append(c.Algorithms, jose.SignatureAlgorithm(a))
		pointer := options.Member("/algorithms", itoa(i))
		switch isSymmetric := jwt.IsSymmetric(a); {
		case isSymmetric && o.Secret == "":
			problems = append(problems, options.Problem(pointer, "Remove %s: it needs the option secret, and anybody could "+
				"sign tokens with a public key as the secret.", a))
		case !isSymmetric && o.Secret != "":
			problems = append(problems, options.Problem(pointer, "Remove %s: with a secret, use HS256, HS384 or HS512.", a))
		case len(o.Secret) < jwt.SecretBytes(a):
			problems = append(problems, options.Problem("/secret", "Use a secret of at least %d bytes: %s requires it, and "+
				"shorter ones can be guessed from one token.", jwt.SecretBytes(a), a))
		}
	}
	return problems
}

// readAudiences returns the accepted audiences: a text, or the texts of a list.
func readAudiences(raw json.RawMessage) (out []string, problems []project.Problem) {
	if raw == nil {
		return nil, nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		out = []string{one}
	} else if more := options.ReadMember("/audience", raw, &out, ""); len(more) > 0 {
		return nil, []project.Problem{options.Problem("/audience", "Write a text, or a list of texts.")}
	}
	if len(out) == 0 || slices.Contains(out, "") {
		return nil, []project.Problem{options.Problem("/audience", "Write a text that is not empty.")}
	}
	return out, nil
}

// readClaimValues returns the accepted values of required claims, in canonical form. The value of an option is the only
// accepted value, or a list of them.
func readClaimValues(claims map[string]json.RawMessage) (map[string][]jsontext.Value, []project.Problem) {
	var problems []project.Problem
	out := map[string][]jsontext.Value{}
	for name, raw := range claims {
		values := []json.RawMessage{raw}
		if jsontext.Value(raw).Kind() == '[' {
			values = nil
			_ = json.Unmarshal(raw, &values) // there is no error: raw is valid JSON
		}
		for _, value := range values {
			canonical := jsontext.Value(slices.Clone(value))
			kind := canonical.Kind()
			if kind == '{' || kind == '[' || kind == 'n' || canonical.Canonicalize() != nil {
				values = nil
				break
			}
			out[name] = append(out[name], canonical)
		}
		if len(values) == 0 {
			problems = append(problems, options.Problem(options.Member("/claims", name),
				"Write a text, a number, true or false, or a list of these: the claim needs one of the values."))
		}
	}
	slices.SortFunc(problems, func(a, b project.Problem) int { return strings.Compare(a.Path, b.Path) })
	return out, problems
}

// The texts of refusals. All bad tokens have the same text, so that nobody learns more about them from the gateway.
const (
	detailMissing = "This route is for requests with a token. Send it as \"Authorization: Bearer TOKEN\"."
	detailInvalid = "The token is not valid. Get a new one from its issuer."
	detailNoKeys  = "Tokens can't be checked now, because their issuer can't be reached. Repeat the request in " +
		"a few seconds."
	detailScopes = "The token has not the scopes that this route requires. Get one with the scopes in " +
		"WWW-Authenticate."
)

// Inbound checks the token of the field Authorization. The field is sent upstream: upstreams read the claims themselves,
// or call others with the token. Trailers of this name are not sent upstream.
func (j *jwtAuth) Inbound(x *pipeline.Exchange) *http.Response {
	values := x.Field("Authorization")
	delete(x.Trailer, "Authorization")
	if len(values) == 0 {
		if j.optional {
			return nil
		}
		return refuseToken(x, http.StatusUnauthorized, detailMissing, "Bearer")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Bearer") && len(values) == 1 {
		if j.optional {
			return nil
		}
		return refuseToken(x, http.StatusUnauthorized, detailMissing, "Bearer")
	}
	const challenge = `Bearer error="invalid_token"`
	if len(values) > 1 {
		return refuseToken(x, http.StatusUnauthorized, detailInvalid, challenge)
	}
	token = strings.TrimSpace(token)
	if credential.Contains(token) { // an API key: do not send it to an authorization server
		return refuseToken(x, http.StatusUnauthorized, detailInvalid, challenge)
	}
	user, err := j.verifier.Verify(x.Context, token)
	if errors.Is(err, jwt.ErrInvalid) {
		if errors.Is(err, jwt.ErrMismatch) {
			x.Cause = err // the options can be wrong
		}
		return refuseToken(x, http.StatusUnauthorized, detailInvalid, challenge)
	}
	if err != nil {
		x.Cause = err
		return x.Problem(http.StatusServiceUnavailable, detailNoKeys)
	}
	if response := requireScopes(x, user, j.scopes); response != nil {
		return response
	}
	x.User = user
	return nil
}

// refuseToken returns a problem response with a challenge.
func refuseToken(x *pipeline.Exchange, status int, detail, challenge string) *http.Response {
	response := x.Problem(status, detail)
	response.Header["Www-Authenticate"] = []string{challenge}
	return response
}

// requireScopes returns nil if a user has all scopes. Otherwise it returns the response 403 (RFC 6750, section 3.1).
func requireScopes(x *pipeline.Exchange, user *pipeline.User, required []string) *http.Response {
	for _, scope := range required {
		if !slices.Contains(user.Scopes, scope) {
			return refuseToken(x, http.StatusForbidden, detailScopes,
				`Bearer error="insufficient_scope", scope="`+strings.Join(required, " ")+`"`)
		}
	}
	return nil
}

// checkScopes returns the problems of a list of scopes.
func checkScopes(pointer string, all []string) (problems []project.Problem) {
	for i, scope := range all {
		if !isScope(scope) {
			problems = append(problems, options.Problem(options.Member(pointer, itoa(i)),
				`Write one scope in visible ASCII characters, without spaces, quotes and "\".`))
		}
	}
	return problems
}

// isScope reports whether a text is a scope (RFC 6749, section 3.3).
func isScope(text string) bool {
	return text != "" && httpguts.ValidHeaderFieldValue(text) && !strings.ContainsFunc(text, func(r rune) bool {
		return r <= ' ' || r == '"' || r == '\\' || r > '~'
	})
}
