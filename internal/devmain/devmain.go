// Package devmain contains the main function of programs for developers, which measure, attack or kill the product. There is only this
// file.
//
// It is not for the product's own commands, whose exit codes users rely on (shared/runtime/commandline).
package devmain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Main calls do, and cancels the context of do on Ctrl-C or SIGTERM. If do returns an error, Main prints it on standard
// error with the program's name, and exits with the status 1. The caller parses the flags first.
func Main(ctx context.Context, name string, do func(context.Context) error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	err := do(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// InFolder calls do with a new folder for the data of the processes that do starts, and then removes the folder. The
// data can become large: the environment variable TMPDIR chooses the disk, because the folder is created in it.
func InFolder(name string, do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "gatewright-"+name+"-")
	if err != nil {
		return fmt.Errorf("create a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return do(dir)
}
