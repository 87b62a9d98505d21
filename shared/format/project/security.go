package project

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/spelling"
)

// policyExtension is the member of a security scheme that names the policy that implements the scheme.
const policyExtension = "x-gateway-policy"

// SecurityScheme is a security scheme of an OpenAPI document (OpenAPI 3.1, 4.8.27).
type SecurityScheme struct {
	Type string // apiKey, http, mutualTLS, oauth2 or openIdConnect
	// In and Name are the location (header, query or cookie) and the name of an API key.
	In, Name string
	// HTTPScheme is the scheme of the type http, in lower case, such as bearer. BearerFormat is its format, such as JWT.
	HTTPScheme, BearerFormat string
	// OpenIDConnectURL is the address of the configuration of the type openIdConnect.
	OpenIDConnectURL string
	// OAuthURLs are the addresses of the flows of the type oauth2, separated by spaces.
	OAuthURLs string
	// Policy is the name of the policy that implements the scheme, "" if the document names none. hasInvalidPolicy is set
	// if it names a policy that is not valid, which is reported at the scheme.
	Policy           string
	hasInvalidPolicy bool
}

// Description returns a text such as "an API key in the header X-Key".
func (s SecurityScheme) Description() string {
	switch s.Type {
	case "apiKey":
		place := map[string]string{"header": "the header", "query": "the query parameter", "cookie": "the cookie"}[s.In]
		return fmt.Sprintf("an API key in %s %s", place, printable(s.Name))
	case "http":
		if s.BearerFormat != "" {
			return fmt.Sprintf("HTTP %s with %s", printable(s.HTTPScheme), printable(s.BearerFormat))
		}
		return "HTTP " + printable(s.HTTPScheme)
	case "mutualTLS":
		return "mutual TLS"
	case "oauth2":
		return "OAuth 2"
	case "openIdConnect":
		return "OpenID Connect"
	default:
		return "of an unknown type"
	}
}

// discoveryPath is the end of the address of an OpenID Connect configuration. The issuer is the part before it.
const discoveryPath = "/.well-known/openid-configuration"

// Issuer returns the issuer of an OpenID Connect scheme, without a slash at its end. It returns "" for other schemes, and
// for an address that does not name an issuer.
func (s SecurityScheme) Issuer() string {
	issuer, isConfiguration := strings.CutSuffix(s.OpenIDConnectURL, discoveryPath)
	if s.Type != "openIdConnect" || !isConfiguration || OriginOf(issuer) == "" {
		return ""
	}
	return issuer
}

// OAuthOrigins returns the origins of the flows of an OAuth 2 scheme.
func (s SecurityScheme) OAuthOrigins() (out []string) {
	for _, address := range strings.Fields(s.OAuthURLs) {
		if origin := OriginOf(address); origin != "" {
			out = append(out, origin)
		}
	}
	return out
}

// OriginOf returns the scheme and the host of an address, in lower case, and "" for a text that is not an address.
func OriginOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// oauthURLs returns the addresses of the flows of an OAuth 2 scheme, separated by spaces, in the order of their names.
func oauthURLs(scheme map[string]any) string {
	var out []string
	flows, _ := scheme["flows"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		flow, _ := flows[name].(map[string]any)
		for _, member := range []string{"authorizationUrl", "tokenUrl"} {
			if address, ok := flow[member].(string); ok {
				out = append(out, strings.Fields(address)...)
			}
		}
	}
	return strings.Join(out, " ")
}

// security contains the security schemes and the security requirements of one document.
type security struct {
	schemes map[string]SecurityScheme
	// required are the alternatives that apply to operations without requirements of their own. nil requires nothing.
	required []alternative
}

// alternative contains security schemes that have to be satisfied together, with the required scopes of each. An empty
// alternative allows everybody.
type alternative map[string][]string

// readSecurity returns the security of a document whose shape is valid. It reports policies that do not exist.
func (c *compiler) readSecurity(doc *document) *security {
	root, _ := doc.root.(map[string]any)
	s := &security{schemes: map[string]SecurityScheme{}, required: alternatives(root["security"])}
	components, _ := root["components"].(map[string]any)
	schemes, _ := components["securitySchemes"].(map[string]any)
	for name, value := range schemes {
		found, ok := place{doc, pointer("components", "securitySchemes", name), value}.deref()
		if !ok {
			continue // already reported
		}
		object := found.object()
		scheme := SecurityScheme{}
		for member, field := range map[string]*string{
			"type": &scheme.Type, "in": &scheme.In, "name": &scheme.Name,
			"scheme": &scheme.HTTPScheme, "bearerFormat": &scheme.BearerFormat,
			"openIdConnectUrl": &scheme.OpenIDConnectURL,
		} {
			*field, _ = object[member].(string)
		}
		scheme.OAuthURLs = oauthURLs(object)
		scheme.HTTPScheme = strings.ToLower(scheme.HTTPScheme)
		var valid bool
		scheme.Policy, valid = c.schemePolicy(found.doc.file, found.at, object)
		scheme.hasInvalidPolicy = !valid
		s.schemes[name] = scheme
	}
	return s
}

// schemePolicy returns the name of the policy that a security scheme names, "" for none. If no inbound policy has the
// name, schemePolicy reports that and returns false.
func (c *compiler) schemePolicy(file, at string, scheme map[string]any) (name string, valid bool) {
	value, has := scheme[policyExtension]
	if !has {
		return "", true
	}
	at += pointer(policyExtension)
	name, ok := value.(string)
	switch policy := c.policies[name]; {
	case !ok:
		c.fail(file, at, "Write the name of a policy of %s.", policiesFile)
	case policy != nil && strings.HasSuffix(policy.policyType, "-outbound"):
		c.fail(file, at, "A policy of the type %s protects no operation, because it runs after the upstream. Name an "+
			"inbound policy.", quote(policy.policyType))
	case policy != nil && policy.members != nil:
		c.fail(file, at, "The policy %s contains others. Name one that identifies the user itself.", quote(name))
	case policy != nil:
		return name, true
	case !c.unreadable[policiesFile]:
		c.fail(file, at, "There is no policy of this name in %s, which has %s. Correct the name or add the policy.",
			policiesFile, c.knownPolicies())
	}
	return "", false
}

// alternatives returns the alternatives of a member "security". It returns nil if the member does not exist. A list
// without entries requires nothing, like a list with an empty alternative.
func alternatives(value any) []alternative {
	list, ok := value.([]any)
	if !ok {
		return nil
	}
	out := make([]alternative, 0, len(list))
	for _, entry := range list {
		object, _ := entry.(map[string]any)
		a := alternative{}
		for name, value := range object {
			a[name] = nil
			scopes, _ := value.([]any)
			for _, scope := range scopes {
				if text, ok := scope.(string); ok {
					a[name] = append(a[name], text)
				}
			}
		}
		out = append(out, a)
	}
	return out
}

// applySecurity adds the policies that the security schemes of an operation name to the route. Then it reports an
// operation whose route does not implement all schemes of at least one alternative: as an error if the setting
// "security" is "enforced", and otherwise as a warning.
func (c *compiler) applySecurity(operation map[string]any, route *Route) {
	s := c.docs[route.file].security
	at, required := route.Source.Pointer, s.required
	if own := alternatives(operation["security"]); own != nil {
		at, required = at+"/security", own
	}
	if c.securityChecks > maxSecurityChecks {
		return // already reported
	}
	if len(required) == 0 || slices.ContainsFunc(required, func(a alternative) bool { return len(a) == 0 }) {
		return
	}
	for _, a := range required {
		c.securityChecks += len(a)
	}
	if c.securityChecks > maxSecurityChecks {
		c.failBudget(route.Source.File, at, "security", int64(c.securityChecks), "Shorten the requirements.")
		return
	}
	// If there are several alternatives, a request needs only one of them, so none of their policies can be added.
	if len(required) == 1 && !c.addSchemePolicies(s, required[0], route) {
		return
	}
	inbound := make([]Policy, len(route.Inbound))
	for i, name := range route.Inbound {
		policy, valid := c.artifact.Policies[name]
		if !valid {
			return // already reported
		}
		inbound[i] = policy
	}
	var missing []string
	for _, variant := range c.variants(inbound) {
		if missing = c.lacking(s, required, variant); missing != nil {
			break
		}
	}
	if missing == nil {
		return
	}
	if more := len(missing) - maxNamedSchemes; more > 0 {
		missing = append(slices.Clone(missing[:maxNamedSchemes]),
			fmt.Sprintf("and the same is true of %d more schemes", more))
	}
	message := "The security of this operation is not enforced: " + strings.Join(missing, "; ") + "."
	if len(required) > 1 {
		message += fmt.Sprintf(" This is the nearest of %d alternatives.", len(required))
	}
	if c.settings.enforceSecurity {
		c.fail(route.Source.File, at, "%s", message)
		return
	}
	c.warn(route.Source.File, at, "%s", message)
}

// lacking returns nil if policies implement all schemes of one of the alternatives. Otherwise it returns the texts of
// unimplemented about the alternative that lacks least.
func (c *compiler) lacking(s *security, required []alternative, inbound []Policy) (least []string) {
	for i, a := range required {
		texts := c.unimplemented(s, a, inbound)
		if len(texts) == 0 {
			return nil
		}
		if i == 0 || len(texts) < len(least) {
			least = texts
		}
	}
	return least
}

// maxNamedSchemes is the maximum number of schemes that a message about an operation names.
const maxNamedSchemes = 3

// addSchemePolicies adds the policies that the schemes name to the beginning of the route's inbound policies, in the
// order of the names of the schemes. It skips policies that the route has already. If the route would have more than
// maxInbound policies, addSchemePolicies reports that and returns false.
func (c *compiler) addSchemePolicies(s *security, a alternative, route *Route) bool {
	var added []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		policy := s.schemes[name].Policy
		if policy == "" || slices.Contains(route.Inbound, policy) || slices.Contains(added, policy) {
			continue
		}
		if len(added)+len(route.Inbound) == maxInbound {
			c.fail(route.Source.File, route.Source.Pointer, "With the policies that its security schemes name, this route has "+
				"more than %d inbound policies. Require fewer schemes.", maxInbound)
			return false
		}
		c.policies[policy].used = true
		added = append(added, policy)
	}
	route.Inbound = append(added, route.Inbound...)
	c.addedPolicies[route.key()] = len(added)
	return true
}

// maxSuggestedSchemes is the maximum number of security schemes that are compared with a misspelled name. It bounds the
// cost of documents with many names.
const maxSuggestedSchemes = 20

// suggestion returns the part of a message that names the scheme that the author of a misspelled name probably meant.
func (s *security) suggestion(name string) string {
	if len(s.schemes) > maxSuggestedSchemes {
		return ""
	}
	if nearest := nearestName(name, slices.Sorted(maps.Keys(s.schemes))); nearest != "" {
		return ": " + spelling.DidYouMean(nearest)
	}
	return ""
}

// unimplemented returns a text for each scheme of an alternative that the policies of a route do not implement, in the
// order of the names of the schemes.
func (c *compiler) unimplemented(s *security, a alternative, inbound []Policy) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(a)) {
		scheme, known := s.schemes[name]
		if !known {
			out = append(out, fmt.Sprintf("there is no security scheme %s in components.securitySchemes%s", quote(name),
				s.suggestion(name)))
			continue
		}
		if scheme.hasInvalidPolicy {
			continue
		}
		if advice := c.catalog.Unprotected(scheme, a[name], inbound); advice != "" {
			out = append(out, fmt.Sprintf("no policy of the route implements %s (%s), %s", quote(name), scheme.Description(),
				advice))
		}
	}
	return out
}
