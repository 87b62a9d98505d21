package policy

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/jwt"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/format/project"
)

const introspectionAuthType = "oauth-introspection-inbound"

// introspectionAuthOptions are the options of oauth-introspection-inbound.
type introspectionAuthOptions struct {
	URL            string                     `json:"url" required:"true"`
	ClientID       string                     `json:"clientId" required:"true"`
	ClientSecret   string                     `json:"clientSecret" required:"true"`
	Issuer         string                     `json:"issuer"`
	Audience       json.RawMessage            `json:"audience"`
	Claims         map[string]json.RawMessage `json:"claims"`
	Subject        string                     `json:"subject"`
	RequiredScopes []string                   `json:"requiredScopes"`
	CacheSeconds   int64                      `json:"cacheSeconds" minimum:"1" maximum:"60"`
	TimeoutSeconds float64                    `json:"timeoutSeconds" minimum:"0.1" maximum:"30"`
	Optional       bool                       `json:"optional"`
}

// defaultIntrospectionOptions returns the values of options that a project does not set.
func defaultIntrospectionOptions() introspectionAuthOptions {
	return introspectionAuthOptions{Subject: "sub", CacheSeconds: 60, TimeoutSeconds: 2}
}

func newIntrospectionAuth(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultIntrospectionOptions()
	problems := options.Read(raw, &o)
	if len(problems) > 0 {
		return Provisioned{}, problems
	}
	if text := jwt.CheckURL(o.URL); text != "" {
		problems = append(problems, options.Problem("/url", "This is not the address of a server: %s.", text))
	}
	claims := jwtOptions{
		Issuer: o.Issuer, Audience: o.Audience, Claims: o.Claims, Subject: o.Subject, RequiredScopes: o.RequiredScopes,
	}
	config, more := claims.claimsConfig()
	problems = append(problems, more...)
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	config.Account, config.Client, config.Now = s.Identity.AccountID, s.Upstream, s.Now
	return Provisioned{Inbound: &jwtAuth{
		verifier: s.Tokens.Introspector(config, jwt.Introspection{
			Address: o.URL, ClientID: o.ClientID, Secret: o.ClientSecret, TTL: time.Duration(o.CacheSeconds) * time.Second,
			Timeout: time.Duration(o.TimeoutSeconds * float64(time.Second)),
		}, raw), scopes: o.RequiredScopes, optional: o.Optional,
	}}, nil
}

// introspectionBuiltins returns the type of the policy that asks the issuer about tokens.
func introspectionBuiltins() map[string]kind {
	return map[string]kind{introspectionAuthType: {
		direction: Inbound, module: RuntimeModule, defaults: defaultIntrospectionOptions(),
		implements:       introspectionImplements,
		credentialHeader: func(project.Policy) string { return "Authorization" }, provision: newIntrospectionAuth,
	}}
}

// introspectionImplements reports whether an oauth-introspection-inbound policy implements a scheme: a bearer token, or an
// OAuth 2 scheme at the host of the server.
func introspectionImplements(scheme project.SecurityScheme, p project.Policy, _ []project.Policy) bool {
	var o introspectionAuthOptions
	options.Read(p.Handler.Options, &o) // without problems, or admitsAnonymous would be true
	switch scheme.Type {
	case "http":
		return scheme.HTTPScheme == "bearer"
	case "oauth2":
		origin := project.OriginOf(o.URL)
		return origin != "" && slices.Contains(scheme.OAuthOrigins(), origin)
	}
	return false
}

// introspectionDescriptions returns the description of the policy that asks the issuer about tokens.
func introspectionDescriptions() map[string]description {
	jwtTexts := jwtDescriptions()[jwtType].options
	return map[string]description{introspectionAuthType: {
		"Admits requests with an access token that its authorization server calls active.", map[string]string{
			"url":      "the address of the server's introspection (RFC 7662)",
			"clientId": "the name of the gateway at the server", "clientSecret": "its password there. Write `$env(NAME)` of a " +
				"secret variable",
			"issuer": "the required `iss` of the response", "audience": jwtTexts["audience"], "claims": jwtTexts["claims"],
			"subject": jwtTexts["subject"], "requiredScopes": jwtTexts["requiredScopes"], "optional": jwtTexts["optional"],
			"cacheSeconds": "how many seconds a response is used: a revoked token works at most so long. It is never used " +
				"after the token has expired",
			"timeoutSeconds": "how many seconds the gateway waits for the server",
		},
	}}
}
