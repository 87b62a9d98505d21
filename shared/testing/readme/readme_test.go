package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const document = "# Product\n\n```sh\nnot this\n```\n\n## Five minutes\n\nFirst:\n\n```sh\nname=world\nsay() { " +
	"echo \"hello $1\"; }\n```\n\n" +
	"Then:\n\n```sh\nsay \"$name\"\n```\n\n```text\nhello …\n```\n\n### More\n\n```json\n{}\n```\n\n```sh\necho one; " +
	"echo two\n```\n\nIt prints something.\n\n```text\nnot its output\n```\n\n## After\n\n```sh\nnor this\n```\n"

func TestStepsAreTheShellBlocksUnderOneHeading(t *testing.T) {
	got, err := Steps(document, "Five minutes")
	want := []Step{
		{12, "name=world\nsay() { echo \"hello $1\"; }", ""},
		{19, `say "$name"`, "hello …"},
		{33, "echo one; echo two", ""},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("Steps() = %+v, %v\nwant %+v and no error", got, err, want)
	}
}

func TestPageReplacesTextsAndErrorsNameTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		commands, want string
		replacer       *strings.Replacer
	}{
		{"name=world", "hello …", nil},
		{"name=here", "here: hello …", strings.NewReplacer("world", "here", "hello …", "here: hello …")},
	} {
		if got, err := ReadSteps(path, "Five minutes", c.replacer); err != nil || len(got) != 3 ||
			!strings.HasPrefix(got[0].Commands, c.commands) || got[1].Want != c.want {
			t.Errorf("ReadSteps() = %+v, %v, want 3 steps, the first beginning with %s, the second with the output %s, "+
				"and no error",
				got, err, c.commands, c.want)
		}
	}
	for _, p := range []string{path, path + "-not"} { // a page without the heading, and a missing page
		if _, err := ReadSteps(p, "No such heading", nil); err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("ReadSteps(%s, \"No such heading\") = %v, want an error with %s", p, err, p)
		}
	}
}

func TestDocumentWithoutStepsIsAnError(t *testing.T) {
	for name, document := range map[string]string{
		"no heading":                    "```sh\nx\n```\n",
		"no step":                       "# Five minutes\n\n```text\nx\n```\n",
		"block without a closing fence": "# Five minutes\n\n```sh\nx\n",
		"heading inside a block":        "```text\n# Five minutes\n```\n\n```sh\nx\n```\n",
	} {
		if steps, err := Steps(document, "Five minutes"); err == nil {
			t.Errorf("%s: Steps() = %v, want an error", name, steps)
		}
	}
}

func TestEllipsisMatchesTextAndLines(t *testing.T) {
	for _, c := range []struct {
		want, got string
		matches   bool
	}{
		{"a", "a\n", true},
		{"a", "b\n", false},
		{"a", "a\nb\n", false},
		{"a\nb", "a\nb\n", true},
		{`{"id": "…"}`, `{"id": "bckt_1"}`, true},
		{`{"id": "…"}`, `{"name": "bckt_1"}`, false},
		{"a.c", "abc", false},
		{"a…", "a\nb", false},
		{"a\n…\nd", "a\nb\nc\nd\n", true},
		{"a\n…\nd", "a\nd\n", true},
		{"a\n…\nd", "a\nb\nc\n", false},
		{"a\n…", "a\nb\nc\n", true},
		{"…\nc", "a\nb\nc\n", true},
		{"a", "a  \r\n", true},
	} {
		if matches(c.want, c.got) != c.matches {
			t.Errorf("matches(want %q, got %q) = %v, want %v", c.want, c.got, !c.matches, c.matches)
		}
	}
}

func TestStepsRunInOneShellAndStopAtTheFirstFailure(t *testing.T) {
	steps, err := Steps(document, "Five minutes")
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := Run(t.Context(), t.TempDir(), nil, steps)
	if err != nil || !slices.Equal(outputs, []string{"", "hello world\n", "one\ntwo\n"}) {
		t.Errorf("Run() = %q, %v, want the outputs \"\", \"hello world\\n\" and \"one\\ntwo\\n\"", outputs, err)
	}

	for _, c := range []struct {
		name, wantError string
		steps           []Step
		outputCount     int
	}{
		{"a failing command", "line 7: exit status 3", []Step{
			{Line: 2, Commands: "true"},
			{Line: 7, Commands: "(exit 3)"},
			{Line: 9, Commands: "echo x"},
		}, 2},
		{"a failing part of a pipe", "line 2:", []Step{{Line: 2, Commands: "false | true"}}, 1},
		{"an unset variable", "line 2:", []Step{{Line: 2, Commands: "echo $not_set_anywhere"}}, 1},
		{"unexpected output", "line 2: printed\ny\nwant\nx", []Step{{Line: 2, Commands: "echo y", Want: "x"}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			outputs, err := Run(t.Context(), t.TempDir(), nil, c.steps)
			if err == nil || !strings.Contains(err.Error(), c.wantError) || len(outputs) != c.outputCount {
				t.Errorf("Run() = %q, %v, want %d outputs and %q", outputs, err, c.outputCount, c.wantError)
			}
		})
	}
}

func TestBackgroundJobsEndWithTheSteps(t *testing.T) {
	// The background job keeps the shell's standard error open, so Run returns only after the job has ended.
	for _, last := range []string{"true", "false"} {
		out, err := Run(t.Context(), t.TempDir(), nil, []Step{
			{Line: 1, Commands: "sleep 600 >/dev/null &\necho $!"},
			{Line: 2, Commands: last},
		})
		if (err == nil) != (last == "true") {
			t.Errorf("Run(a background job, then %s) = %q, %v, want success: %v", last, out, err, last == "true")
		}
	}
}

func TestReadmeCommandsParseAsShell(t *testing.T) {
	document, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, heading := range []string{"Five minutes", "A service that only your machine sees"} {
		steps, err := Steps(string(document), heading)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range steps {
			if out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", s.Commands).CombinedOutput(); err != nil {
				t.Errorf("README.md:%d: bash -n = %v, want valid commands: %s", s.Line, err, out)
			}
		}
	}
}
