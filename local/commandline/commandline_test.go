package commandline_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/local/commandline"
)

func rootOf(words ...string) *cobra.Command {
	root := &cobra.Command{Use: "gatewright"}
	bucket := &cobra.Command{Use: "bucket", Short: "Buckets"}
	commandline.Group(bucket)
	list := &cobra.Command{Use: "list", Short: "List them", Args: cobra.NoArgs, Run: func(*cobra.Command, []string) {}}
	list.Flags().String("url", "", "an address")
	list.Flags().String("output", "", "a format")
	bucket.AddCommand(list, &cobra.Command{Use: "create", Run: func(*cobra.Command, []string) {}})
	root.AddCommand(bucket)
	commandline.Prepare(root, "1")
	root.SetArgs(words)
	return root
}

// TestSuggestionsAreOfWhatIsNear: of a short word or flag every other one is near, and an empty one is the beginning of each.
func TestSuggestionsAreOfWhatIsNear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words []string
		want  string
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
		_, err := commandline.Execute(t.Context(), rootOf(c.words...))
		if !commandline.IsUsage(err) || err.Error() != c.want {
			t.Errorf("%q is told %v, want %s", c.words, err, c.want)
		}
	}
}

type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestHelpThatIsNotWrittenIsAnError: a script that keeps it in a file has none.
func TestHelpThatIsNotWrittenIsAnError(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"--help"}, {"bucket", "--help"}, {"help", "bucket", "list"}} {
		root := rootOf(words...)
		root.SetOut(full{})
		if _, err := commandline.Execute(t.Context(), root); !errors.Is(err, errFull) {
			t.Errorf("%q ends with %v", words, err)
		}
		var out bytes.Buffer
		root = rootOf(words...)
		root.SetOut(&out)
		if _, err := commandline.Execute(t.Context(), root); err != nil || !strings.Contains(out.String(), "Usage:") {
			t.Errorf("%q ends with %v: %s", words, err, &out)
		}
	}
}
