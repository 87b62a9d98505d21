// Package gobuild builds the product's programs for tests and measurements with the flags of the Makefile, so that the go
// command compiles each package once for all of them.
//
// It is not for a test whose child process may use whatever the test itself was compiled with: that runs the go command,
// which inherits the environment. Use it where the result has to be what users get. There is only this file.
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

// Client is the package of the command line client, from the repository's root.
const Client = "./cmd/gatewright"

// CGO is the value of CGO_ENABLED. Without cgo, programs are static.
const CGO = "0"

// Flags returns the flags in GOFLAGS that change what a compiled package contains. A program that is compiled with others
// compiles every package again.
func Flags() []string { return []string{"-trimpath", "-tags=lambda.norpc"} }

// Environ returns the environment of this process with the Makefile's flags. Other flags in GOFLAGS stay.
func Environ() []string {
	flags := strings.Fields(os.Getenv("GOFLAGS"))
	for _, flag := range Flags() {
		if !slices.Contains(flags, flag) {
			flags = append(flags, flag)
		}
	}
	return append(os.Environ(), "CGO_ENABLED="+CGO, "GOFLAGS="+strings.Join(flags, " "))
}

// Build builds the program pkg into the file out, for this machine and stripped as it is released. root is the folder in
// which pkg is looked up; a relative out is a path from the working directory.
func Build(ctx context.Context, root, pkg, out string) error {
	return BuildFor(ctx, "", "", root, pkg, out)
}

// BuildFor builds a program as Build does, for another system and architecture in Go's words. "" is this machine's.
func BuildFor(ctx context.Context, system, architecture, root, pkg, out string) error {
	out, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("find the path of a program: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg) //nolint:gosec // G204: one of our programs
	cmd.Dir = root
	cmd.Env = append(Environ(), "GOOS="+system, "GOARCH="+architecture)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, text)
	}
	return nil
}
