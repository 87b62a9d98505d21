package prompt_test

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/prompt"
)

// TestNobodyIsAskedWithoutATerminal asks where there is a pipe, and in a CI job.
func TestNobodyIsAskedWithoutATerminal(t *testing.T) {
	t.Parallel()
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	if _, err := io.WriteString(out, "prod\nprod\nprod\n"); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	for _, ci := range []string{"", "true"} {
		var asked bytes.Buffer
		p := prompt.Person{In: in, Out: &asked, Getenv: func(string) string { return ci }}
		_, first := p.Ask("The name", "--name")
		_, second := p.Secret("The key", "--name")
		for _, err := range []error{first, second, p.Confirm("It goes", "prod", "--name")} {
			if exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "--name") || asked.Len() > 0 {
				t.Errorf("with CI=%q it is answered with %v and asks %q", ci, err, &asked)
			}
		}
	}
}

func TestLineLeavesWhatComesAfterIt(t *testing.T) {
	t.Parallel()
	in := strings.NewReader(" first \r\nsecond")
	for _, want := range []string{"first", "second", ""} {
		if got, err := prompt.Line(in); err != nil || got != want {
			t.Errorf("a line is %q, %v, want %q", got, err, want)
		}
	}
	if _, err := prompt.Line(strings.NewReader(strings.Repeat("x", 1<<20))); err == nil {
		t.Error("a line without an end is read")
	}
}
