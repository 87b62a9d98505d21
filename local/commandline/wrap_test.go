package commandline_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/commandline"
	"github.com/gatewright/gatewright/local/terminal/terminaltest"
)

// TestHelpFitsTheTerminal: no line is wider than it, but for those that are to be copied; and none is broken where there is no terminal.
func TestHelpFitsTheTerminal(t *testing.T) {
	const long = "Upload what is in a folder, and say where it is served once it is, which takes as long as its build does and not longer."
	root := func() *cobra.Command {
		c := &cobra.Command{Use: "gatewright"}
		deploy := &cobra.Command{
			Use: "deploy [FOLDER]", Short: "Upload a project", Long: long + "\n" + long + "\n\nSecond: " + long, Run: func(*cobra.Command, []string) {},
			Example: "  gatewright deploy shop --project shop --branch main --output json --and more --that is --copied",
		}
		deploy.Flags().String("branch", "", long)
		deploy.Flags().StringP("output", "o", "", "FILE that `FILE` "+long)
		c.AddCommand(deploy, &cobra.Command{Use: "rewrap-root-key", Short: long, Run: func(*cobra.Command, []string) {}})
		commandline.Prepare(c, "1")
		return c
	}
	for _, words := range [][]string{{"deploy", "--help"}, {"--help"}} {
		keyboard, tty := terminaltest.Open(t)
		shown := func(out *os.File) {
			c := root()
			c.SetArgs(words)
			c.SetOut(out)
			if _, err := commandline.Execute(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		file, err := os.Create(t.TempDir() + "/help")
		if err != nil {
			t.Fatal(err)
		}
		shown(file)
		plain, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan string)
		go func() {
			text, _ := io.ReadAll(io.LimitReader(keyboard, int64(1)<<20))
			read <- string(text)
		}()
		shown(tty)
		if err := tty.Close(); err != nil {
			t.Fatal(err)
		}
		broken := strings.ReplaceAll(<-read, "\r\n", "\n")
		if got, want := strings.Join(strings.Fields(broken), " "), strings.Join(strings.Fields(string(plain)), " "); got != want {
			t.Errorf("%v: a terminal is told\n%s\nand others\n%s", words, got, want)
		}
		if !strings.Contains(string(plain), long) {
			t.Errorf("%v: it is broken where there is no terminal:\n%s", words, plain)
		}
		for line := range strings.SplitSeq(broken, "\n") {
			if len(line) > terminaltest.Columns && !strings.HasPrefix(line, "  gatewright deploy") {
				t.Errorf("%v: a line has %d columns of %d: %s", words, len(line), terminaltest.Columns, line)
			}
		}
	}
}
