//go:build man

package commands

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/base/disk"
)

// addMan adds the command that writes the manual pages, for packagers of the client. The command needs the build tag
// man, because its library would add half a millisecond to each start.
func (a *App) addMan(root *cobra.Command) {
	root.AddCommand(&cobra.Command{
		Use: manCommandName + " FOLDER", Short: "Write the manual's pages into a folder", GroupID: groupProfiles,
		Hidden:  true,
		Example: "  gatewright man /usr/local/share/man/man1", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // G301: all users read manual pages
				return exit.WithCode(exit.Usage, fmt.Errorf("make the folder: %w", disk.Cause(err)))
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			day := time.Unix(0, 0).UTC() // a constant date, so that the pages are reproducible
			return doc.GenManTree(root, &doc.GenManHeader{
				Title: "GATEWRIGHT", Section: "1", Source: "Gatewright",
				Manual: "Gatewright", Date: &day,
			}, args[0])
		},
	})
}
