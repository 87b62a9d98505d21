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
	// policies are the policies in JSON, by the names of their schemes: a policy has the name of its scheme, so that no two
	// schemes share one. used has the names of the policies that operations need.
	policies map[string]jsontext.Value
	used     map[string]bool
	// schemes has the names of all security schemes, and tokens the schemes for JSON Web Tokens.
	schemes map[string]bool
	tokens  map[string]*tokenScheme
	// scopePolicies has the names of the policies that check scopes, by their schemes and options.
	scopePolicies map[string]string
	// required are the requirements that apply to operations without requirements of their own.
	required requirements
	// renamed are the security schemes whose x-gateway-policy was changed or removed.
	renamed []string
	// open are the operations that require no authentication, and unprotected those whose requirements no policy
	// implements.
	open, unprotected []string
	// kept are the operations that have a route already.
	kept []string
	// validationPolicy is the name of the policy that validates requests. It is "" until a route needs the policy.
	validationPolicy string
}

// requirements is what a member "security" requires.
type requirements struct {
	// isOpen reports whether requests without authentication are allowed.
	isOpen bool
	// policies are the policies that implement the first alternative that can be implemented, nil if there is none.
	policies []string
	// isSingle reports whether there is one alternative.
	isSingle bool
}

// readSchemeSecurity returns the security of a description.
func readSchemeSecurity(t *targets) *schemeSecurity {
	s := &schemeSecurity{
		policies: map[string]jsontext.Value{}, used: map[string]bool{}, schemes: map[string]bool{},
		tokens: map[string]*tokenScheme{}, scopePolicies: map[string]string{},
	}
	schemes, _ := readMembers(t.value("/components/securitySchemes")) // none if there is no such object
	for _, m := range schemes {
		s.schemes[m.name] = true
		if token := tokenSchemeOf(m); token != nil {
			s.tokens[m.name], s.policies[m.name] = token, token.policy(m.name)
		} else if policy := policyOf(m); policy != nil {
			s.policies[m.name] = policy
		}
	}
	s.required = s.read(memberValue(t.root, "security"))
	return s
}

// read returns the requirements of a member "security".
func (s *schemeSecurity) read(security jsontext.Value) requirements {
	alternatives := readElements(security)
	r := requirements{isOpen: len(alternatives) == 0, isSingle: len(alternatives) == 1}
	for _, a := range alternatives {
		schemes, err := readMembers(a)
		if err != nil {
			continue // validation reports it
		}
		r.isOpen = r.isOpen || len(schemes) == 0
		if r.policies == nil {
			r.policies = s.implemented(schemes)
		}
	}
	return r
}

// requirementsOf returns the requirements that apply to an operation.
func (s *schemeSecurity) requirementsOf(operation []member) requirements {
	if own := memberValue(operation, "security"); own != nil {
		return s.read(own)
	}
	return s.required
}

// policyOf returns the policy that implements a security scheme: api-key-inbound for an API key in a header and for a
// bearer token of no known format, and mtls-auth-inbound for mutual TLS. It returns nil for other schemes.
func policyOf(scheme member) jsontext.Value {
	all, err := readMembers(scheme.value)
	if err != nil {
		return nil
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
		return nil
	}
	return policyText(scheme.name, policyType, export, options)
}

// inbound returns the inbound policies that the route of an operation has to list, and records whether policies protect
// the operation. It returns none if the operation has only one alternative of requirements, because the build adds the
// policies of this alternative, except those that check scopes. title is the method and path of the operation.
func (s *schemeSecurity) inbound(operation []member, title string) []string {
	r := s.requirementsOf(operation)
	switch {
	case r.isOpen:
		s.open = append(s.open, title)
		return nil
	case r.policies == nil:
		s.unprotected = append(s.unprotected, title)
		return nil
	}
	for _, name := range r.policies {
		s.used[name] = true
	}
	if r.isSingle {
		// The build does not add the policies that check scopes.
		return slices.DeleteFunc(slices.Clone(r.policies), func(name string) bool { return s.schemes[name] })
	}
	return r.policies
}

// validation returns the name of the policy that validates requests. No policy of a security scheme has this name. The
// first call adds the policy to the file of policies.
func (s *schemeSecurity) validation() string {
	if s.validationPolicy != "" {
		return s.validationPolicy
	}
	const name = "validate-requests"
	s.validationPolicy = name
	for i := 2; s.policies[s.validationPolicy] != nil; i++ {
		s.validationPolicy = fmt.Sprintf("%s-%d", name, i)
	}
	return s.validationPolicy
}

// implemented returns the names of the policies for an alternative's schemes, in their order, if there is a policy for
// each of them, and nil otherwise. The policy that checks scopes follows the policy of its scheme. Only the scopes of tokens
// can be checked.
func (s *schemeSecurity) implemented(schemes []member) (names []string) {
	for _, m := range schemes {
		scopes := readElements(m.value)
		if s.policies[m.name] == nil || len(scopes) > 0 && s.tokens[m.name] == nil {
			return nil
		}
		names = append(names, m.name)
		if len(scopes) > 0 {
			names = append(names, s.scopesPolicy(m.name, scopes))
		}
	}
	return names
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

// policiesFile returns the content of the file of policies, nil if no route needs one.
func (s *schemeSecurity) policiesFile() ([]byte, error) {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(s.used)) {
		texts = append(texts, string(s.policies[name]))
	}
	if s.validationPolicy != "" {
		texts = append(texts, fmt.Sprintf(`{"name":%s,"policyType":"request-validation-inbound","handler":`+
			`{"export":"RequestValidationInboundPolicy","module":"$import(@gatewright/runtime)","options":{}}}`,
			quote(s.validationPolicy)))
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
	if s.requirementsOf(operation).isOpen {
		s.open = append(s.open, title)
	}
	return nil
}

// notes returns sentences about the operations that no policy protects, and about routes of the description. added is
// the number of operations that have become routes.
func (s *schemeSecurity) notes(added int) (out []string) {
	if len(s.unprotected) > 0 {
		out = append(out, fmt.Sprintf("no policy protects %s, although the description requires authentication: add a "+
			"policy, and name it in x-gateway-policy of the security scheme", nameOperations(s.unprotected)))
	}
	for _, name := range slices.Sorted(maps.Keys(s.tokens)) {
		if s.used[name] {
			out = append(out, s.tokens[name].note(name))
		}
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
