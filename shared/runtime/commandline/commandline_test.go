package commandline_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

func newRoot(args ...string) *cobra.Command {
	root := &cobra.Command{Use: "gatewright"}
	bucket := &cobra.Command{Use: "bucket", Short: "Buckets"}
	commandline.MakeGroup(bucket)
	list := &cobra.Command{Use: "list", Short: "List them", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}}
	list.Flags().String("url", "", "an address")
	list.Flags().String("output", "", "a format")
	bucket.AddCommand(list, &cobra.Command{Use: "create", Run: func(*cobra.Command, []string) {}})
	root.AddCommand(bucket)
	commandline.Prepare(root, "1")
	root.SetArgs(args)
	return root
}

// TestErrorSuggestsSimilarNames checks the suggestions for misspelled commands and flags. A short word may differ in
// only one letter, because otherwise too many names would match. An empty word gets no suggestion.
func TestErrorSuggestsSimilarNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"bucket", "lsit"}, "it has no such command: `gatewright bucket --help` lists them"},
		{[]string{"bucket", "lst"}, "it has no such command: did you mean list?"},
		{[]string{"bucket", "cre"}, "it has no such command: did you mean create?"},
		{[]string{"bucket", ""}, "name one of its commands: `gatewright bucket --help` lists them"},
		{[]string{""}, "name one of its commands: `gatewright --help` lists them"},
		{[]string{"bucket", "list", "--all"}, "unknown flag: --all: `gatewright bucket list --help` lists what it takes"},
		{[]string{"bucket", "list", "--uri"}, "unknown flag: --uri: did you mean --url?"},
		{[]string{"bucket", "list", "--outptu"}, "unknown flag: --outptu: did you mean --output?"},
	} {
		_, err := commandline.Execute(t.Context(), newRoot(c.args...))
		if !commandline.IsUsage(err) || err.Error() != c.want {
			t.Errorf("Execute(%q) = %v, want %s", c.args, err, c.want)
		}
	}
}

type fullWriter struct{}

var errFull = errors.New("no space left on device")

func (fullWriter) Write([]byte) (int, error) { return 0, errFull }

// TestFailedHelpWriteIsAnError checks that a failed write of help is an error.
// Otherwise a script that writes help to a file would not notice.
func TestFailedHelpWriteIsAnError(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"bucket", "--help"}, {"help", "bucket", "list"}} {
		root := newRoot(args...)
		root.SetOut(fullWriter{})
		if _, err := commandline.Execute(t.Context(), root); !errors.Is(err, errFull) {
			t.Errorf("Execute(%q) into a full disk = %v, want %v", args, err, errFull)
		}
		var out bytes.Buffer
		root = newRoot(args...)
		root.SetOut(&out)
		if _, err := commandline.Execute(t.Context(), root); err != nil || !strings.Contains(out.String(), "Usage:") {
			t.Errorf("Execute(%q) = %v with the output %s, want no error and the usage", args, err, &out)
		}
	}
}
