// Command bare is a program of cobra with one command that does nothing: what a command line costs before it has
// anything to do. Command bench compares the client with it; nobody installs it.
package main

import (
	"os"

	"github.com/spf13/cobra"
)

func main() {
	root := &cobra.Command{Use: "bare", Short: "Nothing"}
	root.AddCommand(&cobra.Command{Use: "nothing", Short: "Do nothing", Run: func(*cobra.Command, []string) {}})
	if root.Execute() != nil {
		os.Exit(1)
	}
}
