package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// versionText returns three lines: the release, the format of the server's data, and the toolchain with the platform.
func versionText() string {
	return fmt.Sprintf("gatewright-server %s\ndata format %d\n%s\n", release.Version(), embedded.Format,
		release.Toolchain())
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say what release this is, and the format of the data that it reads and writes",
		Args:  commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
