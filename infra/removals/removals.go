// Package removals finds what a deployment would remove from an installation: a domain name, a web ACL, a protection,
// resources that hold data. CloudFormation removes everything that is not in the new template, and does not say what
// that means for users.
//
// It compares the templates of two stacks and of their nested stacks. Deployed reads the stack in AWS, Planned reads
// the stack that the CDK has synthesized, and Diff compares them. It does not list all changes (`make diff` does), and
// does not protect against manual changes in AWS.
//
// Read removals.go first, then rules.go, which has the rules for each type of resource, and serving.go, which has the
// rules for the function and the processes that serve deployments. stacks.go reads stacks, alarms.go counts alarms that
// notify somebody and reads the digest of the stage's file, and check.go is about the synthetic check in another
// region.
package removals

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Removal describes something that a deployment would remove.
type Removal struct {
	// Name identifies the removal when the operator allows it. It is the setting in the stage's file that has created
	// the resource, or else the resource's logical id.
	Name string
	// Loss describes in a few words what is lost.
	Loss string
	// Impossible says that AWS cannot make this change: it refuses the update, or creates a new resource next to the
	// existing one. The operator cannot allow the removal.
	Impossible bool
	// Blocker says why the removal is not possible yet, even if the operator allows it. Prerequisite is the setting to
	// deploy first. Both are "" if the removal is possible.
	Blocker, Prerequisite string
}

// Stack is a stack with its nested stacks.
type Stack struct {
	// Protected says whether termination protection is on.
	Protected bool
	// Templates has the stack's template under "", and the templates of nested stacks under the stacks' logical ids from
	// the outermost to the innermost, joined by slashes.
	Templates map[string]Template
	// Failed describes a stack whose creation failed. Then Templates is empty. Failed is nil for any other stack.
	Failed *Failed
}

// Failed is a stack whose creation failed. CloudFormation has rolled it back, and it has never been deployed. A stack
// whose update failed has another status.
type Failed struct {
	// ID is the stack's ARN, which no later stack of the same name has.
	ID string
	// Status is ROLLBACK_COMPLETE, or ROLLBACK_FAILED if CloudFormation could not delete everything that it had created.
	Status string
	// Protected reports whether termination protection is on.
	Protected bool
}

// Template has those members of a template that this package uses.
type Template struct {
	Resources map[string]Resource `json:"Resources"`
	Outputs   map[string]Output   `json:"Outputs"`
	// Parameters are the template's inputs. Rules are the assertions about them that CloudFormation checks before it
	// creates anything.
	Parameters map[string]Parameter `json:"Parameters"`
	Rules      map[string]Rule      `json:"Rules"`
	// Metadata is the metadata of the template.
	Metadata map[string]any `json:"Metadata"`
	// Transform names the macros that transform the template.
	Transform any `json:"Transform"`
}

// Output is an output of a template.
type Output struct {
	Value any `json:"Value"`
}

// Parameter is an input of a template.
type Parameter struct {
	Type    string `json:"Type"`
	Default any    `json:"Default"`
}

// Rule is a rule of CloudFormation that asserts something about the parameters of a template.
type Rule struct {
	Assertions []struct {
		Assert any `json:"Assert"`
	} `json:"Assertions"`
}

// restoredStreamOutput is the output of a stack that uses a restored table, which is
// not a resource of the stack. Its value is the ARN of the table's stream.
const restoredStreamOutput = "TableStream"

// Resource is a resource of a template.
type Resource struct {
	Type           string `json:"Type"`
	DeletionPolicy string `json:"DeletionPolicy"`
	// Condition is the name of the condition that decides whether the resource is created.
	Condition  string         `json:"Condition"`
	Properties map[string]any `json:"Properties"`
	Metadata   map[string]any `json:"Metadata"`
	// UpdatePolicy says how CloudFormation updates the resource, such as an alias through CodeDeploy.
	UpdatePolicy map[string]any `json:"UpdatePolicy,omitempty"`
}

// Diff returns what an update from before to after would remove, sorted by name and without duplicates. Moving a
// resource to another nested stack removes it: CloudFormation creates another one.
func Diff(before, after Stack) []Removal {
	var out []Removal
	var unprotected []string
	if before.Protected && !after.Protected {
		unprotected = append(unprotected, "the stack")
	}
	for _, path := range slices.Sorted(maps.Keys(before.Templates)) {
		for _, id := range slices.Sorted(maps.Keys(before.Templates[path].Resources)) {
			old := before.Templates[path].Resources[id]
			current, exists := after.Templates[path].Resources[id]
			if exists && (becomesConditional(old, current) || after.nestedBecomesConditional(before, path)) {
				exists = false
			}
			if !exists {
				current = Resource{} // the zero Resource has no type
			}
			out = append(out, removalsOf(path, id, old, current)...)
			if exists && isProtected(old) && !isProtected(current) {
				unprotected = append(unprotected, id)
			}
		}
	}
	out = servingRemovals(before, after, append(out, unmappedDomains(before, after)...))
	out = append(out, checkRemovals(before, after)...)
	if stream, isRestored := before.Templates[""].Outputs[restoredStreamOutput]; isRestored &&
		!sameValue(stream.Value, after.Templates[""].Outputs[restoredStreamOutput].Value) {
		out = append(out, Removal{Name: "tableStream", Loss: fmt.Sprintf("the restored table of %v, with all data,",
			stream.Value)})
	}
	if len(unprotected) > 0 {
		out = append(out, Removal{Name: "protected", Loss: "the protection against deletion of " + joinFirst(unprotected)})
	}
	slices.SortFunc(out, func(a, b Removal) int { return strings.Compare(a.Name+" "+a.Loss, b.Name+" "+b.Loss) })
	return slices.Compact(out)
}

// becomesConditional reports whether a resource has a condition that it did not have before. Only AWS knows whether
// such a resource would exist.
func becomesConditional(old, current Resource) bool {
	return current.Condition != "" && current.Condition != old.Condition
}

// nestedBecomesConditional reports whether a nested stack on the way to the template at path has a condition that it
// did not have before.
func (s Stack) nestedBecomesConditional(before Stack, path string) bool {
	outer := ""
	for path != "" {
		id, tail, _ := strings.Cut(path, "/")
		if becomesConditional(before.Templates[outer].Resources[id], s.Templates[outer].Resources[id]) {
			return true
		}
		outer, path = joinPath(outer, id), tail
	}
	return false
}

// maxNames is the maximum number of names in a line.
const maxNames = 4

// joinFirst joins the first maxNames names of a list, and the number of the others.
func joinFirst(names []string) string {
	if len(names) <= maxNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), len(names)-maxNames)
}

// Refusals returns a line for each removal that is not allowed, and for each that is not possible even if it is
// allowed. The line says what to do about it. allowed has the names of the allowed removals, and file is the stage's
// file.
func Refusals(found []Removal, allowed []string, file string) (lines []string) {
	for _, r := range found {
		switch {
		case r.Impossible:
			lines = append(lines, fmt.Sprintf("%s, which AWS does to no installation: say %s in %s as it was made, or make "+
				"another stage and move there (docs/aws.md)", r.Loss, r.Name, file))
		case r.Prerequisite != "":
			lines = append(lines, fmt.Sprintf("%s would be removed while %s: say %s in %s and deploy that first, and remove "+
				"it when nobody calls it any more", r.Loss, r.Blocker, r.Prerequisite, file))
		case !slices.Contains(allowed, r.Name):
			lines = append(lines, fmt.Sprintf("%s would be removed: leave %s in %s as it was, or say REMOVE=%s to "+
				"have it removed", r.Loss, r.Name, file, r.Name))
		}
	}
	return lines
}
