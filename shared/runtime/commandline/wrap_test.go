package commandline_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/base/terminal/terminaltest"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// TestHelpFitsTheTerminal checks that no line of help is wider than the terminal,
// except examples for copying. Help that is written to a file is not wrapped.
func TestHelpFitsTheTerminal(t *testing.T) {
	const long = "Upload what is in a folder, and say where it is served once it is, which takes as long as its build " +
		"does and not longer."
	root := func() *cobra.Command {
		c := &cobra.Command{Use: "gatewright"}
		deploy := &cobra.Command{
			Use: "deploy [FOLDER]", Short: "Upload a project", Long: long + "\n" + long + "\n\nSecond: " + long,
			Run:     func(*cobra.Command, []string) {},
			Example: "  gatewright deploy shop --project shop --branch main --output json --and more --that is --copied",
		}
		deploy.Flags().String("branch", "", long)
		deploy.Flags().StringP("output", "o", "", "FILE that `FILE` "+long)
		c.AddCommand(deploy, &cobra.Command{Use: "rewrap-root-key", Short: long, Run: func(*cobra.Command, []string) {}})
		commandline.Prepare(c, "1")
		return c
	}
	for _, args := range [][]string{{"deploy", "--help"}, {"--help"}} {
		pty, tty := terminaltest.Open(t)
		showHelp := func(out *os.File) {
			c := root()
			c.SetArgs(args)
			c.SetOut(out)
			if _, err := commandline.Execute(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.Create(t.TempDir() + "/help")
		if err != nil {
			t.Fatal(err)
		}
		showHelp(file)
		plain, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		output := make(chan string)
		go func() {
			text, _ := io.ReadAll(io.LimitReader(pty, int64(1)<<20))
			output <- string(text)
		}()
		showHelp(tty)
		if err := tty.Close(); err != nil {
			t.Fatal(err)
		}
		wrappedHelp := strings.ReplaceAll(<-output, "\r\n", "\n")
		if got, want := strings.Join(strings.Fields(wrappedHelp), " "),
			strings.Join(strings.Fields(string(plain)), " "); got != want {
			t.Errorf("%v: help of a terminal =\n%s\nwant the words of\n%s", args, got, want)
		}
		if !strings.Contains(string(plain), long) {
			t.Errorf("%v: help without a terminal is wrapped, want %q in one line:\n%s", args, long, plain)
		}
		for line := range strings.SplitSeq(wrappedHelp, "\n") {
			if len(line) > terminaltest.Columns && !strings.HasPrefix(line, "  gatewright deploy") {
				t.Errorf("%v: a line has %d columns, want at most %d: %s", args, len(line), terminaltest.Columns, line)
			}
		}
	}
}
