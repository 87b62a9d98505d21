package policy

import (
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Unprotected returns "" if the inbound policies of a route implement a security scheme of an OpenAPI document:
// together, they refuse every request that does not satisfy the scheme. Otherwise it returns why they do not, or what
// to do, as the end of a sentence. inbound has the policies in their order of execution. scopes are the scopes that
// the operation requires.
func Unprotected(scheme project.SecurityScheme, scopes []string, inbound []project.Policy) string {
	kinds := builtins()
	for i, p := range inbound {
		k := kinds[p.Type]
		if k.implements == nil || p.When != "" || admitsAnonymous(p) ||
			p.Name != scheme.Policy && !k.implements(scheme, p, inbound[:i]) {
			continue
		}
		missing := uncheckedScopes(scopes, p, inbound[i+1:])
		switch {
		case len(missing) == 0:
			return ""
		case p.Type == jwtType, p.Type == introspectionAuthType:
			return fmt.Sprintf("because no policy checks the scopes %s: add a policy of the type %s after the policy %q",
				strings.Join(missing, ", "), jwtScopesType, p.Name)
		default:
			return fmt.Sprintf("because the policy %q checks no scopes", p.Name)
		}
	}
	return schemeAdvice(scheme)
}

// admitsAnonymous reports whether a policy lets requests without an identified user through. It reads the options in
// the same way as the policy: "true", the value of a variable, is true. It returns true for invalid options, and for a
// type that does not identify users.
func admitsAnonymous(p project.Policy) bool {
	switch p.Type {
	case apiKeyType:
		o := defaultAPIKeyOptions()
		return len(options.Read(p.Handler.Options, &o)) > 0 || o.AllowUnauthenticated
	case mtlsType:
		var o mtlsOptions
		return len(options.Read(p.Handler.Options, &o)) > 0 || o.AllowUnauthenticated
	case basicAuthType:
		o := defaultBasicAuthOptions()
		return len(options.Read(p.Handler.Options, &o)) > 0 || o.AllowUnauthenticated
	case jwtType:
		o := defaultJWTOptions()
		return len(options.Read(p.Handler.Options, &o)) > 0 || o.Optional
	case introspectionAuthType:
		o := defaultIntrospectionOptions()
		return len(options.Read(p.Handler.Options, &o)) > 0 || o.Optional
	default:
		return true
	}
}

// schemeAdvice returns what to do if no policy of a route implements the scheme.
func schemeAdvice(scheme project.SecurityScheme) string {
	const anonymous = " that lets no anonymous requests through"
	switch {
	case scheme.Type == "apiKey" && scheme.In == "header":
		return fmt.Sprintf(`so add one of the type %s with authHeader %q and authScheme ""`+anonymous, apiKeyType,
			scheme.Name)
	case scheme.Type == "apiKey" && scheme.In == "query":
		return fmt.Sprintf("so add one of the type %s for this parameter, and after it one of the type %s for the header%s",
			queryParamType, apiKeyType, anonymous)
	case scheme.Type == "http" && scheme.HTTPScheme == "bearer" && scheme.BearerFormat == "":
		return fmt.Sprintf("so add one of the type %s"+anonymous, apiKeyType)
	case scheme.Type == "http" && scheme.HTTPScheme == "basic":
		return fmt.Sprintf("so add one of the type %s"+anonymous, basicAuthType)
	case scheme.Type == "http" && scheme.HTTPScheme == "bearer" && strings.EqualFold(scheme.BearerFormat, "JWT"):
		return fmt.Sprintf("so add one of the type %s"+anonymous, jwtType)
	case scheme.Type == "openIdConnect" && scheme.Issuer() != "":
		return fmt.Sprintf("so add one of the type %s with the issuer %s"+anonymous, jwtType, scheme.Issuer())
	case scheme.Type == "mutualTLS":
		return fmt.Sprintf("so add one of the type %s"+anonymous, mtlsType)
	case scheme.Policy != "":
		return fmt.Sprintf("because the policy %q of its x-gateway-policy is not in the route, or does not refuse anonymous "+
			"requests", scheme.Policy)
	default:
		return "and no type of policy does: in x-gateway-policy of the scheme, name another policy that protects the " +
			"operation, or remove the requirement"
	}
}

// apiKeyImplements reports whether an api-key-inbound policy implements a scheme. earlier are the policies before it.
// One of these can move the key from a query parameter to the policy's header.
func apiKeyImplements(scheme project.SecurityScheme, p project.Policy, earlier []project.Policy) bool {
	o := defaultAPIKeyOptions()
	options.Read(p.Handler.Options, &o) // without problems, or admitsAnonymous would be true
	isAuthorization := strings.EqualFold(o.Header, "Authorization")
	switch {
	case scheme.Type == "http":
		return scheme.HTTPScheme == strings.ToLower(o.Scheme) && isAuthorization && scheme.BearerFormat == ""
	case scheme.Type == "apiKey" && scheme.In == "header":
		// Descriptions of keys in the field Authorization usually expect a scheme in front of the key.
		return strings.EqualFold(scheme.Name, o.Header) && (o.Scheme == "" || isAuthorization)
	case scheme.Type == "apiKey" && scheme.In == "query":
		for _, q := range earlier {
			var moved queryParamOptions
			if q.Type == queryParamType && len(options.Read(q.Handler.Options, &moved)) == 0 &&
				moved.QueryParam == scheme.Name && strings.EqualFold(moved.HeaderName, o.Header) &&
				strings.EqualFold(moved.HeaderValue, strings.TrimSpace(o.Scheme+" "+placeholder)) {
				return true
			}
		}
	}
	return false
}

// apiKeyHeader returns the name of the header from which an api-key-inbound policy reads the key.
func apiKeyHeader(p project.Policy) string {
	o := defaultAPIKeyOptions()
	if len(options.Read(p.Handler.Options, &o)) > 0 {
		return ""
	}
	return o.Header
}

// mtlsImplements reports whether an mtls-auth-inbound policy implements a scheme.
func mtlsImplements(scheme project.SecurityScheme, _ project.Policy, _ []project.Policy) bool {
	return scheme.Type == "mutualTLS"
}
