// Package removals says what an installation would lose by a deployment: a domain name, a web ACL, a protection, the resources that hold data.
// CloudFormation removes whatever a template leaves out, and says nothing of what that means to those who use it.
//
// It compares the templates of two stacks, with those nested in them: Deployed reads the one that AWS has, Planned the one that the CDK has made, and Of
// tells the difference. What it is not: a list of all that changes (`make diff` is), or a guard against somebody who changes AWS by hand.
//
// Read removals.go first, then rules.go, which says what is told of each type of resource, serving.go, which says it of what serves deployments,
// stacks.go, where stacks are read, alarms.go, which says whether anybody hears of alarms, and check.go, about the synthetic check in another region.
package removals

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Removal is something that would be lost.
type Removal struct {
	// Name is by what its owner says that it may go: the word of the stage's file that has brought it, or else its logical id.
	Name string
	// Lost says in a few words what goes.
	Lost string
	// Final removals are none that AWS does: it refuses the update, or makes another thing beside the one that is there. Nobody can want them.
	Final bool
	// While says why it may not go yet, whoever wants it, and First is the word that is to be deployed before; both "" for what may.
	While, First string
}

// Stack is a stack with those that are nested in it.
type Stack struct {
	// Protected says whether it may not be deleted.
	Protected bool
	// Templates are its own, by "", and those of nested stacks, by their logical ids, with slashes between.
	Templates map[string]Template
	// Failed describes a stack whose creation failed, which has no templates here. It is nil for any other stack.
	Failed *Failed
}

// Failed is a stack whose creation failed. CloudFormation has rolled it back, and it has never been deployed: an update that fails leaves another status.
type Failed struct {
	// ID is the stack's ARN, which no later stack of the same name has.
	ID string
	// Status is ROLLBACK_COMPLETE, or ROLLBACK_FAILED if CloudFormation could not delete everything that it had created.
	Status string
	// Protected reports whether termination protection is on.
	Protected bool
}

// Template is what is read of a stack's.
type Template struct {
	Resources map[string]Resource `json:"Resources"`
	Outputs   map[string]Output   `json:"Outputs"`
	// Parameters are the template's inputs, and Rules are what CloudFormation asserts about them before it creates anything.
	Parameters map[string]Parameter `json:"Parameters"`
	Rules      map[string]Rule      `json:"Rules"`
	// Metadata is what the template says of itself.
	Metadata map[string]any `json:"Metadata"`
	// Transform is what makes another template of this one.
	Transform any `json:"Transform"`
}

// Output is one of a template.
type Output struct {
	Value any `json:"Value"`
}

// Parameter is an input of a template.
type Parameter struct {
	Type    string `json:"Type"`
	Default any    `json:"Default"`
}

// Rule is what CloudFormation asserts about the parameters of a template.
type Rule struct {
	Assertions []struct {
		Assert any `json:"Assert"`
	} `json:"Assertions"`
}

// adopted is the output of a stack that goes on with a table which is no resource of its own, by the ARN of the table's stream.
const adopted = "TableStream"

// Resource is one of a template.
type Resource struct {
	Type           string `json:"Type"`
	DeletionPolicy string `json:"DeletionPolicy"`
	// Condition is a name of the template's own by which there is such a resource, or none.
	Condition  string         `json:"Condition"`
	Properties map[string]any `json:"Properties"`
	Metadata   map[string]any `json:"Metadata"`
	// UpdatePolicy says how CloudFormation updates the resource, such as an alias through CodeDeploy.
	UpdatePolicy map[string]any `json:"UpdatePolicy,omitempty"`
}

// Of gives what an update of one stack to another would remove, each once, in the order of their names. Moving a resource to another nested
// stack removes it: CloudFormation makes another one.
func Of(before, after Stack) []Removal {
	var out []Removal
	var unprotected []string
	if before.Protected && !after.Protected {
		unprotected = append(unprotected, "the stack")
	}
	for _, path := range slices.Sorted(maps.Keys(before.Templates)) {
		for _, id := range slices.Sorted(maps.Keys(before.Templates[path].Resources)) {
			was := before.Templates[path].Resources[id]
			is, there := after.Templates[path].Resources[id]
			if there && (maybe(was, is) || after.nestsMaybe(before, path)) {
				there = false
			}
			if !there {
				is = Resource{} // of no type
			}
			out = append(out, removalsOf(path, id, was, is)...)
			if there && protects(was) && !protects(is) {
				unprotected = append(unprotected, id)
			}
		}
	}
	out = whatServes(before, after, append(out, unmapped(before, after)...))
	out = append(out, unchecked(before, after)...)
	if stream, is := before.Templates[""].Outputs[adopted]; is && !same(stream.Value, after.Templates[""].Outputs[adopted].Value) {
		out = append(out, Removal{Name: "tableStream", Lost: fmt.Sprintf("the restored table of %v, with all data,", stream.Value)})
	}
	if len(unprotected) > 0 {
		out = append(out, Removal{Name: "protected", Lost: "the protection against deletion of " + some(unprotected)})
	}
	slices.SortFunc(out, func(a, b Removal) int { return strings.Compare(a.Name+" "+a.Lost, b.Name+" "+b.Lost) })
	return slices.Compact(out)
}

// maybe reports whether a resource that there is for sure would be one by a condition, or by another one: what that comes to, AWS alone knows.
func maybe(was, is Resource) bool { return is.Condition != "" && is.Condition != was.Condition }

// nestsMaybe reports whether one of the stacks around the template at a path is one by a condition that it was not before.
func (s Stack) nestsMaybe(before Stack, path string) bool {
	around := ""
	for path != "" {
		id, rest, _ := strings.Cut(path, "/")
		if maybe(before.Templates[around].Resources[id], s.Templates[around].Resources[id]) {
			return true
		}
		around, path = below(around, id), rest
	}
	return false
}

// mostNamed is how many of many are named in a line.
const mostNamed = 4

// some names the first of many.
func some(names []string) string {
	if len(names) <= mostNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:mostNamed], ", "), len(names)-mostNamed)
}

// Refused gives a line for each removal that is not among the names of those that are wanted, and what to do about it. file is where the stage's words stand.
func Refused(all []Removal, wanted []string, file string) (lines []string) {
	for _, r := range all {
		switch {
		case r.Final:
			lines = append(lines, fmt.Sprintf("%s, which AWS does to no installation: say %s in %s as it was made, or make another stage and move there (docs/aws.md)", r.Lost, r.Name, file))
		case r.First != "":
			lines = append(lines, fmt.Sprintf("%s would be removed while %s: say %s in %s and deploy that first, and remove it when nobody calls it any more", r.Lost, r.While, r.First, file))
		case !slices.Contains(wanted, r.Name):
			lines = append(lines, fmt.Sprintf("%s would be removed: leave %s in %s as it was, or say REMOVE=%s to have it removed", r.Lost, r.Name, file, r.Name))
		}
	}
	return lines
}
