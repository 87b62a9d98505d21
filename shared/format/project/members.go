package project

import (
	"maps"
	"slices"
	"strconv"
)

// maxCompositeDepth is the maximum number of levels of policies that contain policies.
const maxCompositeDepth = 5

// readMembers reads which policies contain others, and reports members that do not exist or do not fit, and cycles.
func (c *compiler) readMembers() {
	names := slices.Sorted(maps.Keys(c.artifact.Policies))
	for _, name := range names {
		policy := c.artifact.Policies[name]
		members, expands := c.catalog.Members(policy)
		if len(members) == 0 {
			continue
		}
		var found []Policy
		for i, member := range members {
			p, valid := c.artifact.Policies[member]
			if valid {
				found = append(found, p)
			} else if c.policies[member] == nil {
				c.fail(policiesFile, policy.HandlerPointer()+pointer("options", "policies", strconv.Itoa(i)),
					"There is no policy of this name in this file, which has %s. Correct the name or add the policy.",
					c.knownPolicies())
			}
		}
		if len(found) == len(members) {
			c.reportProblems(policiesFile, policy.HandlerPointer(), resolution{}, c.catalog.CheckMembers(policy, found))
		}
		c.policies[name].members, c.policies[name].expands = members, expands
	}
	for _, name := range names {
		if c.policies[name].members != nil && c.levels(name, nil) > maxCompositeDepth {
			c.fail(policiesFile, c.artifact.Policies[name].HandlerPointer()+pointer("options", "policies"),
				"Policies can contain each other in at most %d levels, and not themselves. Name the members here directly.",
				maxCompositeDepth)
			c.policies[name].members = nil
		}
	}
}

// levels returns how many levels of policies a policy contains. It returns more than maxCompositeDepth for a policy that
// contains itself. outer are the policies that contain it.
func (c *compiler) levels(name string, outer []string) int {
	use := c.policies[name]
	if use == nil || use.members == nil {
		return 0
	}
	if len(outer) == maxCompositeDepth || slices.Contains(outer, name) {
		return maxCompositeDepth + 1
	}
	deepest := 0
	for _, member := range use.members {
		if deepest = max(deepest, 1+c.levels(member, append(outer, name))); deepest > maxCompositeDepth {
			break
		}
	}
	return deepest
}

// expand appends the policies to out that run for a policy: the members of a composite policy, and otherwise the policy
// itself. It marks them, and the members of others, as used. It stops after one policy more than maxInbound.
func (c *compiler) expand(out []string, name string) []string {
	use := c.policies[name]
	if use == nil || len(out) > maxInbound {
		return out
	}
	use.used = true
	for _, member := range use.members {
		if use.expands {
			out = c.expand(out, member)
		} else if m := c.policies[member]; m != nil {
			m.used = true
		}
	}
	if use.expands {
		return out
	}
	return append(out, name)
}

// withMembers returns policies with those that they contain in their places, and the index of each in the argument.
func (c *compiler) withMembers(names []string) (out []Policy, indexes []int) {
	for i, name := range names {
		members := []string{name}
		if use := c.policies[name]; use != nil && use.members != nil && c.artifact.Policies[name].When == "" {
			members = use.members
		}
		for _, member := range members {
			out, indexes = append(out, c.artifact.Policies[member]), append(indexes, i)
		}
	}
	return out, indexes
}

// maxVariants is the maximum number of variants of a route's policies.
const maxVariants = 100

// variants returns the lists of policies that can admit a request: a policy that admits what one of its members admits is
// replaced by each of them. If there are more than maxVariants, it returns the policies as they are: they then satisfy
// fewer requirements.
func (c *compiler) variants(inbound []Policy) [][]Policy {
	out := [][]Policy{nil}
	for _, policy := range inbound {
		alternatives := []Policy{policy}
		if use := c.policies[policy.Name]; use != nil && use.members != nil && policy.When == "" {
			alternatives = nil
			for _, member := range use.members {
				alternatives = append(alternatives, c.artifact.Policies[member])
			}
		}
		if len(out)*len(alternatives) > maxVariants {
			return [][]Policy{inbound}
		}
		var next [][]Policy
		for _, variant := range out {
			for _, alternative := range alternatives {
				next = append(next, append(slices.Clone(variant), alternative))
			}
		}
		out = next
	}
	return out
}
