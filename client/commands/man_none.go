//go:build !man

package commands

import "github.com/spf13/cobra"

// addMan adds nothing: `go run -tags man ./cmd/gatewright man FOLDER` writes the manual's pages.
func (a *App) addMan(*cobra.Command) {}
