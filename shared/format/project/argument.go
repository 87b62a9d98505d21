package project

import (
	"cmp"
	"slices"
	"strings"
)

// plannedArgument is an argument that has no name yet, and its schema.
type plannedArgument struct {
	Argument
	schema any
}

// addArgument adds an argument. nameArguments names it.
func (b *offerBuilder) addArgument(a Argument, schema any) {
	b.arguments = append(b.arguments, plannedArgument{a, schema})
}

// nameArguments names all arguments, and adds them and their schemas to the operation. The
// names do not depend on the order of the parameters in the document:
//
//   - An argument whose target is a valid name has this name. If several places of a request have the name, it belongs
//     to the first of them in the order of locationRank.
//   - Any other target is converted to a valid name ($filter becomes filter). If two targets become the same name, their
//     special characters are spelled instead (Date< becomes Date_lt).
//   - If the name is taken, the location is put in front of it (query_id). If that name is taken too, the
//     argument has the name without the location, and a digest behind it.
func (b *offerBuilder) nameArguments() {
	order, targets := make([]int, len(b.arguments)), map[string]int{}
	for i, a := range b.arguments {
		order[i] = i
		targets[cleanName(a.Target)]++
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, other := b.arguments[i], b.arguments[j]
		return cmp.Or(cmp.Compare(locationRank(a.Location), locationRank(other.Location)),
			cmp.Compare(a.Target, other.Target))
	})
	names, taken := make([]string, len(b.arguments)), map[string]bool{}
	for _, i := range order {
		if target := b.arguments[i].Target; validName().MatchString(target) && !taken[target] {
			names[i], taken[target] = target, true
		}
	}
	for _, i := range order {
		if names[i] != "" {
			continue
		}
		for _, name := range candidateNames(b.arguments[i].Argument, targets) {
			if !taken[name] {
				names[i], taken[name] = name, true
				break
			}
		}
	}
	for i, a := range b.arguments {
		b.finishArgument(names[i], a)
	}
}

// locationRank returns the precedence of a location if several locations have arguments of the same name.
func locationRank(location ArgumentLocation) int {
	return slices.Index([]ArgumentLocation{
		InPath, InQuery, InHeader, InProperty, InBody, InFileName, InMediaType,
	}, location)
}

// candidateNames returns the names that an argument can have, the best first. The last one has a digest, so that no
// other argument of the operation has it. targets counts the targets that become the same name.
func candidateNames(a Argument, targets map[string]int) []string {
	clean, spelled, location := cleanName(a.Target), cleanName(spell(a.Target)), string(a.Location)
	out := []string{
		spelled, cleanName(location + "_" + clean), cleanName(location + "_" + spelled),
		withDigest(clean, location+" "+a.Target, ""),
	}
	if targets[clean] == 1 {
		out = append([]string{clean}, out...)
	}
	return out
}

// finishArgument adds an argument and its schema to the operation.
func (b *offerBuilder) finishArgument(name string, planned plannedArgument) {
	a := planned.Argument
	a.Name = name
	b.properties[name] = planned.schema
	if a.Required {
		b.required = append(b.required, name)
	}
	if object, ok := planned.schema.(map[string]any); ok {
		a.Type, _ = object["type"].(string)
		if b.offer.Kind == MCPPrompt {
			a.Description, _ = object["description"].(string)
		}
	}
	if a.Target == name {
		a.Target = ""
	}
	b.offer.Arguments = append(b.offer.Arguments, a)
}

// cleanName converts any name to a name that clients accept. Clients reject names such as $filter and filter[name].
func cleanName(name string) string {
	if validName().MatchString(name) {
		return name
	}
	if name = replaceInvalidChars(name); name == "" {
		return "argument"
	}
	return name[:min(len(name), maxClientName)]
}

// spellings are words for special characters in the names of parameters.
var spellings = strings.NewReplacer(
	"<", "_lt_", ">", "_gt_", "=", "_eq_", "!", "_not_", "$", "_dollar_", "@", "_at_", "#", "_hash_", "%", "_percent_",
	"&", "_and_", "*", "_star_", "+", "_plus_", "~", "_tilde_", "|", "_pipe_", "^", "_caret_", "?", "_question_",
	":", "_colon_", ";", "_semicolon_", ",", "_comma_", "/", "_slash_", `\`, "_backslash_",
)

// spell replaces special characters of a name by words, with one underscore between them.
func spell(name string) string {
	words := strings.FieldsFunc(spellings.Replace(name), func(r rune) bool { return r == '_' })
	return strings.Join(words, "_")
}
