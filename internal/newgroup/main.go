// Command newgroup writes a new group of operations for `make group`: two operations that work, with their service, their samples and
// their tests, and a line in functions/functions.go.
//
// The new group is a starting point, and not a framework: nothing reads the templates again after the files exist, and
// a group can deviate from them. Read main.go first. name.go checks names, write.go writes the files and removes all of
// them if an error occurs, and the folder templates has a template for each file.
//
// Instructions in CONTRIBUTING.md to copy the files of another group would not be enough, because nine copied files
// would keep words of that group. The templates are not made from an existing group, because existing groups have
// special rules.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	name := flag.String("name", "", "the plural name of the group's resources, in paths: custom-domains")
	noun := flag.String("noun", "", "the name of one resource: custom-domain")
	scope := flag.String("scope", "projects", "the resource of package auth for which a key needs a scope")
	flag.Parse()
	// After an interrupt, the files that were written so far are removed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g, err := add(ctx, ".", *name, *noun, *scope)
	if err != nil {
		fmt.Fprintln(os.Stderr, "make group:", err)
		stop()
		os.Exit(1)
	}
	fmt.Printf(`The group %[1]s serves POST %[2]s and GET %[2]s/{%[3]sName}.
It is the last group of resourceGroups in functions/functions.go. The documentation has the same order: move the line to
the place where readers look for the group.
Next: make goldens PKG=%[1]s, then make test PKG=%[1]s
`, g.Package, g.URL(), g.Var)
}

// add writes a group into the repository at root.
func add(ctx context.Context, root, name, noun, scope string) (group, error) {
	g, err := newGroup(name, noun)
	if err != nil {
		return group{}, err
	}
	if err := g.chooseScope(root, scope); err != nil {
		return group{}, err
	}
	if err := g.checkUnused(root); err != nil {
		return group{}, err
	}
	return g, g.write(ctx, root)
}
