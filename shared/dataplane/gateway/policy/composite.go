package policy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// The types of the policies that contain others.
const (
	compositeInType  = "composite-inbound"
	compositeOutType = "composite-outbound"
	anyAuthType      = "any-auth-inbound"
)

// memberOptions are the options of policies that contain others.
type memberOptions struct {
	Policies []string `json:"policies" required:"true"`
}

// maxMembers is the maximum number of members of a policy.
const maxMembers = 20

// readMembers reads the options of a policy that contains others.
func readMembers(raw json.RawMessage) ([]string, []project.Problem) {
	var o memberOptions
	if problems := options.Read(raw, &o); len(problems) > 0 {
		return nil, problems
	}
	if len(o.Policies) == 0 || len(o.Policies) > maxMembers {
		return nil, []project.Problem{options.Problem("/policies", "Name 1 to %d policies.", maxMembers)}
	}
	for i, name := range o.Policies {
		if slices.Contains(o.Policies[:i], name) {
			return nil, []project.Problem{options.Problem(options.Member("/policies", itoa(i)),
				"This policy stands in the list already. Remove one of them.")}
		}
	}
	return o.Policies, nil
}

// Members returns the names of the policies that a policy contains, nil for a policy without members or with invalid
// options. If expands is set, a build writes the members in its place.
func Members(p project.Policy) (names []string, expands bool) {
	switch p.Type {
	case compositeInType, compositeOutType, anyAuthType:
		names, _ = readMembers(p.Handler.Options)
	}
	return names, p.Type != anyAuthType
}

// CheckMembers returns the problems of a policy with its members.
func CheckMembers(p project.Policy, members []project.Policy) (problems []project.Problem) {
	kinds := builtins()
	for i, member := range members {
		k, text := kinds[member.Type], ""
		switch {
		case k.direction != kinds[p.Type].direction:
			text = fmt.Sprintf("This policy is of the type %s, and %s can only contain policies that end with -%s.", member.Type,
				p.Type, kinds[p.Type].direction)
		case p.Type != anyAuthType:
		case k.implements == nil || member.Type == anyAuthType:
			text = fmt.Sprintf("This policy is of the type %s, which does not identify the user itself. Name policies of "+
				"other types.", member.Type)
		case member.When != "":
			text = "Remove when of this policy: requests that it skips would be admitted without a user."
		case admitsAnonymous(member):
			text = "This policy lets requests without a user through, so that the next ones never run. Change its options."
		}
		if text != "" {
			problems = append(problems, options.Problem(options.Member("/policies", itoa(i)), "%s", text))
		}
	}
	return problems
}

// newComposite reads the options of a composite policy. A build writes the members in its place, so a gateway never needs
// the policy itself.
func newComposite(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	_, problems := readMembers(raw)
	if s != nil && len(problems) == 0 {
		problems = append(problems, options.Problem("", "Deploy the project again: a route names this policy in place of "+
			"its members."))
	}
	return Provisioned{}, problems
}

// anyAuth admits a request that one of its members admits.
type anyAuth struct{ members []pipeline.Inbound }

var _ pipeline.Inbound = (*anyAuth)(nil)

func newAnyAuth(_ string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	names, problems := readMembers(raw)
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p := &anyAuth{}
	for _, name := range names {
		member := s.Member(name)
		if member.Inbound == nil { // its problems are reported at the member
			return Provisioned{}, []project.Problem{options.Problem("/policies", "Correct the policy %q.", name)}
		}
		p.members = append(p.members, member.Inbound)
	}
	return Provisioned{Inbound: p}, nil
}

// Inbound tries the members in their order until one admits the request. Otherwise it returns the response of the first
// member with the challenges of all. If a member could not check the request, its response takes precedence: the client
// should repeat the request. What members withhold from the upstream stays withheld.
func (a *anyAuth) Inbound(x *pipeline.Exchange) *http.Response {
	cause := x.Cause
	var refusal *http.Response
	var refusalCause error
	var challenges []string
	for _, member := range a.members {
		x.Cause = cause
		response := member.Inbound(x)
		if response == nil {
			return nil
		}
		challenges = append(challenges, response.Header["Www-Authenticate"]...)
		isOutage := response.StatusCode >= http.StatusInternalServerError
		if refusal == nil || isOutage && refusal.StatusCode < http.StatusInternalServerError {
			refusal, refusalCause = response, x.Cause
		}
	}
	x.Cause = refusalCause
	if refusal.StatusCode == http.StatusUnauthorized && len(challenges) > 0 {
		refusal.Header["Www-Authenticate"] = challenges
	}
	return refusal
}

// compositeBuiltins returns the types of the policies that contain others.
func compositeBuiltins() map[string]kind {
	const noCondition = "Remove this condition, and set it at the members: a build writes them in place of this policy."
	composite := kind{
		direction: Inbound, module: RuntimeModule, defaults: memberOptions{}, whenProblem: noCondition, unconditional: true,
		provision: newComposite,
	}
	outbound := composite
	outbound.direction = Outbound
	return map[string]kind{
		compositeInType: composite, compositeOutType: outbound,
		anyAuthType: {
			direction: Inbound, module: RuntimeModule, defaults: memberOptions{}, provision: newAnyAuth,
			// The build replaces the policy by its members before it looks at schemes.
			implements: func(project.SecurityScheme, project.Policy, []project.Policy) bool { return false },
		},
	}
}

// compositeDescriptions returns the descriptions of the types that contain others.
func compositeDescriptions() map[string]description {
	const members = "the names of 1 to 20 policies, in the order of their execution"
	return map[string]description{
		compositeInType:  {"Stands for a list of inbound policies.", map[string]string{"policies": members}},
		compositeOutType: {"Stands for a list of outbound policies.", map[string]string{"policies": members}},
		anyAuthType: {
			"Admits requests that one of several policies admits.", map[string]string{
				"policies": "the names of 1 to 20 policies that identify the user. They are tried in this order",
			},
		},
	}
}
