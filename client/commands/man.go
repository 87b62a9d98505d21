//go:build man

package commands

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/disk"
)

// addMan adds the command that writes the manual's pages, for whoever packs the client: what writes them takes half a millisecond of each
// start of a program that has it linked.
func (a *App) addMan(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use: manName + " FOLDER", Short: "Write the manual's pages into a folder", GroupID: groupProfiles, Hidden: true,
		Example: "  gatewright man /usr/local/share/man/man1", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // G301: pages are for all
				return exit.With(exit.Usage, fmt.Errorf("make the folder: %w", disk.Cause(err)))
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			day := time.Unix(0, 0).UTC() // the same pages each time
			return doc.GenManTree(root, &doc.GenManHeader{Title: "GATEWRIGHT", Section: "1", Source: "Gatewright", Manual: "Gatewright", Date: &day}, args[0])
		},
	})
}
