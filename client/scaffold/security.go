package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// policyMember is the member of a security scheme that names the policy that implements it.
const policyMember = "x-gateway-policy"

// maxNamedOperations is the maximum number of operations that a note names.
const maxNamedOperations = 10

// schemeSecurity maps the security schemes of a description to policies, and records which operations they protect.
type schemeSecurity struct {
	// required has the requirements that apply to operations without requirements of their own.
	required jsontext.Value
	// policies are the policies by the names of their schemes. used has the names of the schemes whose policies
	// operations need.
	policies map[string]schemePolicy
	used     map[string]bool
	// renamed are the security schemes whose x-gateway-policy was changed or removed.
	renamed []string
	// open are the operations that require no authentication, and unprotected those whose requirements no policy
	// implements.
	open, unprotected []string
	// kept are the operations that have a route already.
	kept []string
}

// schemePolicy is the policy for a security scheme.
type schemePolicy struct {
	name string
	text jsontext.Value
}

// readSchemeSecurity returns the security of a description.
func readSchemeSecurity(t *targets) *schemeSecurity {
	s := &schemeSecurity{
		required: memberValue(t.root, "security"), policies: map[string]schemePolicy{}, used: map[string]bool{},
	}
	schemes, err := readMembers(t.value("/components/securitySchemes"))
	if err != nil {
		return s
	}
	for _, m := range schemes {
		if policy, ok := policyOf(m); ok {
			s.policies[m.name] = policy
		}
	}
	return s
}

// policyOf returns the policy that implements a security scheme: api-key-inbound for an API key in a header and for a
// bearer token of no known format, and mtls-auth-inbound for mutual TLS. There is none for other schemes. The policy has
// the name of the scheme, so that no two schemes share a policy.
func policyOf(scheme member) (schemePolicy, bool) {
	all, err := readMembers(scheme.value)
	if err != nil {
		return schemePolicy{}, false
	}
	get := func(name string) string { return stringValue(memberValue(all, name)) }
	policyType, export, options := "api-key-inbound", "ApiKeyInboundPolicy", "{}"
	isHeader := get("type") == "apiKey" && get("in") == "header"
	switch {
	case isHeader && strings.EqualFold(get("name"), "Authorization"),
		get("type") == "http" && strings.EqualFold(get("scheme"), "bearer") && get("bearerFormat") == "":
		// The default options are those of a bearer token in the field Authorization.
	case isHeader:
		options = fmt.Sprintf(`{"authHeader":%s,"authScheme":""}`, quote(get("name")))
	case get("type") == "mutualTLS":
		policyType, export = "mtls-auth-inbound", "MtlsAuthInboundPolicy"
	default:
		return schemePolicy{}, false
	}
	return schemePolicy{scheme.name, jsontext.Value(fmt.Sprintf(
		`{"name":%s,"policyType":%q,"handler":{"export":%q,"module":"$import(@gatewright/runtime)","options":%s}}`,
		quote(scheme.name), policyType, export, options))}, true
}

// inbound returns the inbound policies that the route of an operation has to list, and records whether policies protect
// the operation. It returns nil if the operation has only one alternative of requirements, because the build adds the
// policies of this alternative. title is the method and path of the operation.
func (s *schemeSecurity) inbound(operation []member, title string) []string {
	required := s.required
	if own := memberValue(operation, "security"); own != nil {
		required = own
	}
	alternatives := readElements(required)
	if len(alternatives) == 0 {
		s.open = append(s.open, title)
		return nil
	}
	var best []string // the names of the schemes of the first alternative that is implemented
	for _, a := range alternatives {
		schemes, err := readMembers(a)
		if err != nil {
			continue // validation reports it
		}
		if len(schemes) == 0 {
			s.open = append(s.open, title)
			return nil
		}
		if names, ok := s.implemented(schemes); ok && best == nil {
			best = names
		}
	}
	if best == nil {
		s.unprotected = append(s.unprotected, title)
		return nil
	}
	var policies []string
	for _, name := range best {
		s.used[name] = true
		if policy := s.policies[name].name; !slices.Contains(policies, policy) {
			policies = append(policies, policy)
		}
	}
	if len(alternatives) == 1 {
		return nil
	}
	return policies
}

// implemented returns the names of an alternative's schemes, in their order, if there is a policy for each of them. No
// policy checks scopes.
func (s *schemeSecurity) implemented(schemes []member) (names []string, ok bool) {
	for _, m := range schemes {
		if _, mapped := s.policies[m.name]; !mapped || len(readElements(m.value)) > 0 {
			return nil, false
		}
		names = append(names, m.name)
	}
	return names, true
}

// setPolicyNames returns the members of a description after it has changed the security schemes. Each scheme in used
// names its policy in x-gateway-policy, and all other schemes lose this member. setPolicyNames records the schemes
// whose member it has replaced or removed.
func (s *schemeSecurity) setPolicyNames(root []member) []member {
	return changeMember(root, "components", func(components []member) []member {
		return changeMember(components, "securitySchemes", func(schemes []member) []member {
			for i, m := range schemes {
				all, err := readMembers(m.value)
				if err != nil {
					continue // validation reports it
				}
				before := memberValue(all, policyMember)
				all = slices.DeleteFunc(all, func(m member) bool { return m.name == policyMember })
				if s.used[m.name] {
					all = append(all, member{policyMember, quote(m.name)})
				}
				if before != nil && (!s.used[m.name] || stringValue(before) != m.name) {
					s.renamed = append(s.renamed, m.name)
				}
				schemes[i].value = writeObject(all)
			}
			return schemes
		})
	})
}

// changeMember replaces the object that is the value of the member name of all: change gets the members of this object,
// and returns the new ones. changeMember does nothing if there is no such object.
func changeMember(all []member, name string, change func([]member) []member) []member {
	for i, m := range all {
		if m.name != name {
			continue
		}
		if members, err := readMembers(m.value); err == nil {
			all[i].value = writeObject(change(members))
		}
	}
	return all
}

// policiesFile returns the content of the file of policies, nil if no operation needs one.
func (s *schemeSecurity) policiesFile() ([]byte, error) {
	var texts []string
	names := map[string]bool{}
	for _, scheme := range slices.Sorted(maps.Keys(s.used)) {
		policy := s.policies[scheme]
		if names[policy.name] {
			continue
		}
		names[policy.name] = true
		texts = append(texts, string(policy.text))
	}
	if len(texts) == 0 {
		return nil, nil
	}
	out := jsontext.Value(`{"policies":[` + strings.Join(texts, ",") + `]}`)
	if err := out.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, fmt.Errorf("write the policies: %w", err)
	}
	return append(out, '\n'), nil
}

// keep records an operation that has a route already. It returns an error if the route reads variables of the
// environment: the description could send them to any host.
func (s *schemeSecurity) keep(operation []member, title string) error {
	d := jsontext.NewDecoder(bytes.NewReader(memberValue(operation, routeMember)))
	for token, err := d.ReadToken(); err == nil; token, err = d.ReadToken() {
		if token.Kind() != jsontext.KindString {
			continue
		}
		text := token.String()
		if strings.Contains(text, "$env(") || strings.Contains(text, "${") && strings.Contains(text, "env.") {
			return errors.New("its x-gateway-route reads variables of the environment: remove the route from the description, " +
				"and add it to the project after init")
		}
	}
	s.kept = append(s.kept, title)
	required := s.required
	if own := memberValue(operation, "security"); own != nil {
		required = own
	}
	if alternatives := readElements(required); len(alternatives) == 0 || slices.ContainsFunc(alternatives, isEmptyObject) {
		s.open = append(s.open, title)
	}
	return nil
}

// isEmptyObject reports whether a value is an object without members.
func isEmptyObject(value jsontext.Value) bool {
	all, err := readMembers(value)
	return err == nil && len(all) == 0
}

// notes returns sentences about the operations that no policy protects, and about routes of the description. added is
// the number of operations that have become routes.
func (s *schemeSecurity) notes(added int) (out []string) {
	if len(s.unprotected) > 0 {
		out = append(out, fmt.Sprintf("no policy protects %s, although the description requires authentication: add a "+
			"policy, and name it in x-gateway-policy of the security scheme", nameOperations(s.unprotected)))
	}
	if len(s.renamed) > 0 {
		out = append(out, "x-gateway-policy of the description is replaced, or removed, because the new project has its own "+
			"policies. The security schemes are: "+strings.Join(s.renamed, ", "))
	}
	if len(s.kept) > 0 {
		out = append(out, "the description's own x-gateway-route is kept, so check its address, handler and policies: "+
			nameOperations(s.kept))
	}
	switch {
	case len(s.open) == added+len(s.kept):
		out = append(out, "the description requires no authentication: everybody may call each operation")
	case len(s.open) > 0:
		out = append(out, fmt.Sprintf("everybody may call %s: the description requires no authentication there",
			nameOperations(s.open)))
	}
	return out
}

// nameOperations returns a text with the operations, or with the first of them if there are many.
func nameOperations(titles []string) string {
	text := strings.Join(titles[:min(len(titles), maxNamedOperations)], ", ")
	if more := len(titles) - maxNamedOperations; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
