package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/format/project"
)

// updateVerb is the name of the commands that change an object.
const updateVerb = "update"

// requireChange returns an error for an update that changes nothing. The API would respond as if it had changed
// something.
func (v verb) requireChange(arguments map[string]any) error {
	if v.name != updateVerb {
		return nil
	}
	t, err := call.Operation(v.operation)
	if err != nil {
		return err
	}
	// inBody reports whether an argument is a member of the body. An unknown argument counts as a member: the API reports
	// it.
	inBody := func(name string) bool {
		return !slices.ContainsFunc(t.Arguments, func(arg project.Argument) bool {
			return arg.Name == name && arg.Location != project.InProperty
		})
	}
	for name := range arguments {
		if inBody(name) {
			return nil
		}
	}
	var flags []string
	for _, p := range v.params {
		switch {
		case !inBody(p.argument):
		case p.allowEmpty:
			return nil // an explicit empty value removes the member
		default:
			flags = append(flags, "--"+p.flag)
		}
	}
	if v.hasBodyFlag {
		flags = append(flags, "--"+bodyFlag)
	}
	return exit.WithCode(exit.Usage, fmt.Errorf("it has nothing to change: name what, with %s",
		strings.Join(flags, " or ")))
}

// exampleFlag returns the optional flag that the example of an update has. ok is false for other verbs, and if no
// optional flag has an example value.
func (v verb) exampleFlag() (p parameter, ok bool) {
	if v.name != updateVerb {
		return parameter{}, false
	}
	i := slices.IndexFunc(v.params, func(p parameter) bool {
		return p.placeholder == "" && !p.required && p.example != ""
	})
	if i < 0 {
		return parameter{}, false
	}
	return v.params[i], true
}
