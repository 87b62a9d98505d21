package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/shared/release"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// versionText says in three lines what release this is, what form of data it has, and what it was built by and for.
func versionText() string {
	return fmt.Sprintf("gatewright-server %s\ndata format %d\n%s\n", release.Version(), embedded.Format, release.Built())
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say what release this is, and the format of the data that it reads and writes",
		Args:  commandline.NoWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
