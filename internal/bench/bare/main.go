// Command bare is a cobra program with one command that does nothing: it shows the cost of starting a command-line
// program. Command bench compares the client with this program. It is not installed. There is only this file.
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
