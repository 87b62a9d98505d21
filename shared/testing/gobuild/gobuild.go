// Package gobuild builds the product's programs for tests and measurements with the flags of the Makefile, so that the
// go command compiles each package only once for all builds.
//
// Use it to test the program that users get. To run a program that may be built with the test's own flags, run the go
// command instead, which inherits the environment. This is the only file.
package gobuild

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Client is the package of the command line client, relative to the repository's root.
const Client = "./cmd/gatewright"

// CGO is the value of CGO_ENABLED. Without cgo, programs are static.
const CGO = "0"

// Flags returns the flags that the Makefile sets in GOFLAGS. They change the compiled packages, so a build with other
// flags compiles every package again.
func Flags() []string { return []string{"-trimpath", "-tags=lambda.norpc"} }

// Environ returns the environment of this process with the Makefile's flags and without cgo. It keeps other flags in
// GOFLAGS.
func Environ() []string {
	flags := strings.Fields(os.Getenv("GOFLAGS"))
	for _, flag := range Flags() {
		if !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	return append(os.Environ(), "CGO_ENABLED="+CGO, "GOFLAGS="+strings.Join(flags, " "))
}

// Build builds the program pkg for this machine, stripped like a release. root is the folder that pkg is relative to.
// out is the path of the new binary. A relative path is relative to the working directory.
func Build(ctx context.Context, root, pkg, out string) error {
	return BuildFor(ctx, "", "", root, pkg, out)
}

// BuildFor is like Build, for another operating system and architecture in Go's notation. "" means this machine's.
func BuildFor(ctx context.Context, system, architecture, root, pkg, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("find the path of a program: %w", err)
	}
	//nolint:gosec // G204: one of our programs
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = root
	cmd.Env = append(Environ(), "GOOS="+system, "GOARCH="+architecture)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, text)
	}
	return nil
}
