package commands

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/project"
)

// updateVerb is the name of the commands that change what is there.
const updateVerb = "update"

// changes refuses an update that has no member of the body: the API would answer as if something had been changed.
func (v verb) changes(arguments map[string]any) error {
	if v.name != updateVerb {
		return nil
	}
	t, err := call.Operation(v.operation)
	if err != nil {
		return err
	}
	// A member that the API does not know is one to tell of, as of any other request.
	elsewhere := func(name string) bool {
		return slices.ContainsFunc(t.Arguments, func(of project.Argument) bool { return of.Name == name && of.Place != project.InProperty })
	}
	for name := range arguments {
		if !elsewhere(name) {
			return nil
		}
	}
	var flags []string
	for _, g := range v.takes {
		switch {
		case elsewhere(g.argument):
		case g.emptied:
			return nil // it was typed, for none
		default:
			flags = append(flags, "--"+g.flag)
		}
	}
	if v.body {
		flags = append(flags, "--"+bodyFlag)
	}
	return exit.With(exit.Usage, fmt.Errorf("it has nothing to change: name what, with %s", strings.Join(flags, " or ")))
}

// optional is what an update changes in its example, of one of which no flag is needed.
func (v verb) optional() (g given, has bool) {
	if v.name != updateVerb {
		return given{}, false
	}
	at := slices.IndexFunc(v.takes, func(g given) bool { return g.word == "" && !g.required && g.sample != "" })
	if at < 0 {
		return given{}, false
	}
	return v.takes[at], true
}
