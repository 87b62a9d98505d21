// Command modules makes the folder of modules that `make cli` builds the client with (internal/clientbuild):
//
//	go run ./internal/clientbuild/modules .bin/modules
//	go build -modfile=.bin/modules/go.mod ./cmd/gatewright
//
// It runs in the repository. There is only this file.
package main

import (
	"context"
	"errors"
	"flag"

	"github.com/gatewright/gatewright/internal/clientbuild"
	"github.com/gatewright/gatewright/internal/program"
)

func main() {
	flag.Parse()
	program.Main(context.Background(), "modules", func(ctx context.Context) error {
		if flag.NArg() != 1 {
			return errors.New("name the folder to make: go run ./internal/clientbuild/modules FOLDER")
		}
		_, err := clientbuild.Modules(ctx, ".", flag.Arg(0))
		return err
	})
}
