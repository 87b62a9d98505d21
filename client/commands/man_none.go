//go:build !man

package commands

import "github.com/spf13/cobra"

// addMan adds no command. To write the manual pages, run `go run -tags man ./cmd/gatewright man FOLDER`.
func (a *App) addMan(*cobra.Command) {}
