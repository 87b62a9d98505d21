package scaffold

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// discoveryPath is the end of openIdConnectUrl. The issuer is the part before it.
const discoveryPath = "/.well-known/openid-configuration"

// tokenScheme is a security scheme for JSON Web Tokens.
type tokenScheme struct {
	// issuer is the issuer, "" if the description does not name it.
	issuer string
	// variable is the beginning of the names of the variables with the issuer and the audience.
	variable string
}

// tokenSchemeOf returns the token scheme for a security scheme, nil for a scheme of another type.
func tokenSchemeOf(scheme member) *tokenScheme {
	all, err := readMembers(scheme.value)
	if err != nil {
		return nil
	}
	get := func(name string) string { return stringValue(memberValue(all, name)) }
	switch {
	case get("type") == "openIdConnect":
	case get("type") == "http" && strings.EqualFold(get("scheme"), "bearer") &&
		strings.EqualFold(get("bearerFormat"), "JWT"):
	default:
		return nil
	}
	out := &tokenScheme{variable: variablePrefix(scheme.name)}
	issuer, isConfiguration := strings.CutSuffix(get("openIdConnectUrl"), discoveryPath)
	if isConfiguration && strings.HasPrefix(issuer, "https://") && !strings.ContainsAny(issuer, "$?#@ ") {
		out.issuer = issuer
	}
	return out
}

// policy returns the policy that implements the scheme called name.
func (t *tokenScheme) policy(name string) jsontext.Value {
	issuer := t.issuer
	if issuer == "" {
		issuer = "$env(" + t.variable + "_ISSUER)"
	}
	options := fmt.Sprintf(`{"issuer":%s,"audience":%s}`, quote(issuer), quote("$env("+t.variable+"_AUDIENCE)"))
	return policyText(name, "open-id-jwt-auth-inbound", "OpenIdJwtInboundPolicy", options)
}

// note returns a sentence about what the user has to set for the scheme called name.
func (t *tokenScheme) note(name string) string {
	if t.issuer == "" {
		return fmt.Sprintf("the description does not name the issuer of the tokens for %q: set the variables %s_ISSUER (the "+
			"claim iss) and %[2]s_AUDIENCE (the claim aud) of each environment", name, t.variable)
	}
	return fmt.Sprintf("the policy %q accepts tokens of %s: set the variable %s_AUDIENCE (the claim aud) of each "+
		"environment, or tokens for other applications are accepted. If iss of the tokens ends with a slash, add it to the "+
		"option issuer", name, t.issuer, t.variable)
}

// policyText returns a policy in JSON.
func policyText(name, policyType, export, options string) jsontext.Value {
	return jsontext.Value(fmt.Sprintf(
		`{"name":%s,"policyType":%q,"handler":{"export":%q,"module":"$import(@gatewright/runtime)","options":%s}}`,
		quote(name), policyType, export, options))
}

// variablePrefix returns the name of a security scheme in the form of variables, such as BEARER_AUTH.
func variablePrefix(name string) string {
	var out strings.Builder
	wasLower := false
	for _, r := range name {
		isLetter := r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !isLetter || wasLower && unicode.IsUpper(r) {
			out.WriteByte('_')
		}
		if isLetter {
			out.WriteRune(unicode.ToUpper(r))
		}
		wasLower = isLetter && !unicode.IsUpper(r)
	}
	prefix := strings.Trim(out.String(), "_")
	if prefix == "" || unicode.IsDigit(rune(prefix[0])) {
		return strings.TrimSuffix("JWT_"+prefix, "_")
	}
	return prefix
}

// scopesPolicy returns the name of the policy that checks scopes of a token scheme. The first call for a set of scopes adds
// the policy.
func (s *schemeSecurity) scopesPolicy(scheme string, scopes []jsontext.Value) string {
	texts := make([]string, len(scopes))
	for i, scope := range scopes {
		texts[i] = string(quote(stringValue(scope)))
	}
	slices.Sort(texts)
	options := `{"scopes":[` + strings.Join(slices.Compact(texts), ",") + "]}"
	id := scheme + " " + options
	if name, known := s.scopePolicies[id]; known {
		return name
	}
	name := scheme + "-scopes"
	for i := 2; s.policies[name] != nil || s.schemes[name]; i++ {
		name = fmt.Sprintf("%s-scopes-%d", scheme, i)
	}
	s.scopePolicies[id] = name
	s.policies[name] = policyText(name, "jwt-scopes-inbound", "JwtScopesInboundPolicy", options)
	return name
}
