package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/shared/release"
)

// versionText says in two lines what release this is, and what it was built by and for. The format of a server's data
// is the server's to tell.
func versionText() string {
	return fmt.Sprintf("gatewright %s\n%s\n", release.Version(), release.Built())
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say what release this is",
		GroupID: ownGroup,
		Args:    commandline.NoWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
