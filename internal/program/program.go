// Package program is the main of a program for developers: one that measures, attacks or kills the product. There is
// only this file.
//
// What it is not: for the product's own commands, which have exit codes that users go by (local/commandline).
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main does what the program is for, until Ctrl-C or SIGTERM ends the context. An error is told on standard error with
// the program's name, and ends the process with the status 1. Flags are parsed before.
func Main(ctx context.Context, name string, do func(context.Context) error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	err := do(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// InFolder does something in a new folder for the data of what it starts, and removes that at the end. It may be
// large: TMPDIR says where it is.
func InFolder(name string, do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "gatewright-"+name+"-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}
