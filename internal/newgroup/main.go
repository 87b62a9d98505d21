// Command newgroup writes a new group of operations, as `make group` asks for
// it: two operations that work, with their service, their samples and their
// tests, and a line in functions/functions.go.
//
// It is a beginning to be changed, no framework: nothing reads the templates
// again once the files are there, and a group may look otherwise. What it asks
// of names is in name.go; write.go writes, and takes everything back when
// something is wrong; templates has one file for each that it writes.
//
// Why a program and not a list of files to write in CONTRIBUTING.md: nine files
// copied from another group keep words of that group in them. Why templates of
// its own and not a group that is there: those have grown rules of their own.
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
	name := flag.String("name", "", "what the things are called in paths: custom-domains")
	noun := flag.String("noun", "", "what one of them is called: custom-domain")
	scope := flag.String("scope", "projects", "what a key needs a scope for, of package auth")
	flag.Parse()
	// What stops in the middle is taken back.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g, err := add(ctx, ".", *name, *noun, *scope)
	if err != nil {
		fmt.Fprintln(os.Stderr, "make group:", err)
		stop()
		os.Exit(1)
	}
	fmt.Printf(`The group %[1]s answers POST %[2]s and GET %[2]s/{%[3]sName}.
It is the last one in functions/functions.go, and so in the documentation: move its line where readers look for it.
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
	if err := g.free(root); err != nil {
		return group{}, err
	}
	return g, g.write(ctx, root)
}
