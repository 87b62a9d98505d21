package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// versionText returns two lines: the release, and the toolchain with the platform. The format of the server's data is
// missing, because only the server knows it.
func versionText() string {
	return fmt.Sprintf("gatewright %s\n%s\n", release.Version(), release.Toolchain())
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Say what release this is",
		GroupID: clientGroup,
		Args:    commandline.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
}
