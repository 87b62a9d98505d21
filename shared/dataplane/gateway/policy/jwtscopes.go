package policy

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

const jwtScopesType = "jwt-scopes-inbound"

// jwtScopesOptions are the options of jwt-scopes-inbound.
type jwtScopesOptions struct {
	Scopes []string `json:"scopes" required:"true"`
}

// jwtScopes refuses requests whose token has not all scopes.
type jwtScopes struct{ scopes []string }

var _ pipeline.Inbound = (*jwtScopes)(nil)

func newJWTScopes(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	var o jwtScopesOptions
	problems := options.Read(raw, &o)
	if len(problems) == 0 && len(o.Scopes) == 0 {
		problems = append(problems, options.Problem("/scopes", "Add a scope, or remove the policy."))
	}
	problems = append(problems, checkScopes("/scopes", o.Scopes)...)
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	return Provisioned{Inbound: &jwtScopes{scopes: o.Scopes}}, nil
}

// Inbound checks the scopes of the token that an earlier policy has verified.
func (j *jwtScopes) Inbound(x *pipeline.Exchange) *http.Response {
	if x.User == nil {
		return refuseToken(x, http.StatusUnauthorized, detailMissing, "Bearer")
	}
	return requireScopes(x, x.User, j.scopes)
}

// jwtBuiltins returns the types of policies for tokens.
func jwtBuiltins() map[string]kind {
	return map[string]kind{
		jwtType: {
			direction: Inbound, module: RuntimeModule, defaults: defaultJWTOptions(), implements: jwtImplements,
			credentialHeader: func(project.Policy) string { return "Authorization" }, provision: newJWT,
		},
		jwtScopesType: {
			direction: Inbound, module: RuntimeModule, defaults: jwtScopesOptions{}, provision: newJWTScopes,
		},
	}
}

// jwtDescriptions returns the descriptions of the types for tokens.
func jwtDescriptions() map[string]description {
	return map[string]description{
		jwtType: {
			"Admits requests with a JSON Web Token of an issuer, such as an OpenID Connect provider.", map[string]string{
				"issuer": "the issuer: the claim `iss` must be equal. Without the three options below, its keys are found with " +
					"`/.well-known/openid-configuration`",
				"audience": "the audience of the tokens, or a list: the claim `aud` needs one of them",
				"jwkUrl":   "the address of the issuer's keys (JWKS)",
				"jwks":     "the keys themselves, a JSON Web Key Set or a text with one",
				"secret":   "the shared secret, for the algorithms that begin with HS. Write `$env(NAME)` of a secret variable",
				"algorithms": "the accepted algorithms. The default is `HS256` with a secret, and all others without one. " +
					"`none` is never accepted",
				"clockSkewSeconds": "how far the clocks of the issuer and the gateway can differ",
				"claims": "required claims with their values: `{\"tenant\": \"acme\"}`. A list admits each of its values. A " +
					"claim that is a list needs one of the values",
				"subject": "the name of the claim that becomes `request.user.sub`",
				"requiredScopes": "scopes that the token needs, in its claim `scope` or `scp`. Without one of them, the " +
					"status is 403",
				"optional": "lets requests without a token through, without a user. A token that is not valid is still " +
					"refused",
			},
		},
		jwtScopesType: {
			"Refuses requests whose token lacks one of the scopes (403).", map[string]string{
				"scopes": "the scopes that the token needs. A policy `" + jwtType + "` or " +
					"`" + introspectionAuthType + "` before this one verifies the token",
			},
		},
	}
}

// warnJWT returns a warning about a policy for tokens, or "". earlier are the inbound policies of the route before p.
func warnJWT(p project.Policy, earlier []project.Policy) string {
	switch p.Type {
	case jwtType:
		o := defaultJWTOptions()
		if len(options.Read(p.Handler.Options, &o)) > 0 {
			return ""
		}
		if o.Audience == nil {
			return "This accepts the tokens that the issuer makes for any application. Set audience to the name of this API " +
				"at the issuer."
		}
		if o.Issuer == "" && o.JWKURL != "" {
			return "This accepts the tokens of every issuer that uses these keys. Set issuer to the value of iss."
		}
	case jwtScopesType:
		isJWT := func(p project.Policy) bool { return p.Type == jwtType || p.Type == introspectionAuthType }
		if !slices.ContainsFunc(earlier, isJWT) {
			return "No policy before this one verifies a token, so that each request is refused. Put a policy of the type " +
				jwtType + " before it."
		}
	}
	return ""
}

// jwtImplements reports whether an open-id-jwt-auth-inbound policy implements a scheme: a bearer token, the issuer of an
// OpenID Connect scheme, or an OAuth 2 scheme with an address at the issuer.
func jwtImplements(scheme project.SecurityScheme, p project.Policy, _ []project.Policy) bool {
	o := defaultJWTOptions()
	options.Read(p.Handler.Options, &o) // without problems, or admitsAnonymous would be true
	switch scheme.Type {
	case "http":
		return scheme.HTTPScheme == "bearer" && (scheme.BearerFormat == "" || strings.EqualFold(scheme.BearerFormat, "JWT"))
	case "openIdConnect":
		return o.Issuer != "" && scheme.Issuer() == strings.TrimSuffix(o.Issuer, "/")
	case "oauth2":
		origin := project.OriginOf(o.Issuer)
		return origin != "" && slices.Contains(scheme.OAuthOrigins(), origin)
	}
	return false
}

// uncheckedScopes returns the scopes that neither a policy nor a later policy of the route checks.
func uncheckedScopes(scopes []string, p project.Policy, later []project.Policy) (missing []string) {
	var checked []string
	if p.Type == jwtType || p.Type == introspectionAuthType {
		var o struct {
			RequiredScopes []string `json:"requiredScopes"`
		}
		options.Read(p.Handler.Options, &o) // the other options are unknown here
		checked = o.RequiredScopes
		for _, q := range later {
			var required jwtScopesOptions
			if q.Type == jwtScopesType && len(options.Read(q.Handler.Options, &required)) == 0 {
				checked = append(checked, required.Scopes...)
			}
		}
	}
	for _, scope := range scopes {
		if !slices.Contains(checked, scope) {
			missing = append(missing, scope)
		}
	}
	return missing
}

func itoa(i int) string { return strconv.Itoa(i) }
