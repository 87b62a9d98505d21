package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeAccountLimitsAsksTheFunctionForWhatWasTyped has an aws that tells what it is asked: what was typed comes to it as it
// was meant, or not at all, with one line that says what to type. No character of it means anything to a shell or in JSON.
func TestMakeAccountLimitsAsksTheFunctionForWhatWasTyped(t *testing.T) {
	bin := t.TempDir()
	const aws = `#!/bin/sh
case "$1" in
sts) exit 0;;
lambda) echo "asked: $* $(cat)" >&2; echo None;;
esac
`
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte(aws), 0o700); err != nil {
		t.Fatal(err)
	}
	const (
		values = "make account-limits LIMIT= needs VALUE=, a number from 1 on, or default for the installation's"
		names  = "make account-limits takes NAME= and LIMIT= of lower-case letters, digits, hyphens and underscores"
	)
	trap := filepath.Join(bin, "trap")
	for _, c := range []struct {
		words string // with commas between
		want  string // the payload, or the line
	}{
		{"NAME=acme", `{"do":"list-limits","name":"acme","limit":""}`},
		{"NAME=acme,LIMIT=projects,VALUE=20", `{"do":"set-limit","value":20,"name":"acme","limit":"projects"}`},
		{"NAME=acme,LIMIT=consumers,VALUE=1000000000", `{"do":"set-limit","value":1000000000,"name":"acme","limit":"consumers"}`},
		{"NAME=acme,LIMIT=projects,VALUE=default", `{"do":"reset-limit","name":"acme","limit":"projects"}`},
		{"", "make account-limits needs NAME=, the account's name"},
		{"NAME=acme,LIMIT=projects", values},
		{"NAME=acme,LIMIT=projects,VALUE=0", values},
		{"NAME=acme,LIMIT=projects,VALUE=007", values},
		{"NAME=acme,LIMIT=projects,VALUE=-1", values},
		{"NAME=acme,LIMIT=projects,VALUE=1.5", values},
		{"NAME=acme,LIMIT=projects,VALUE=1e3", values},
		{"NAME=acme,LIMIT=projects,VALUE=٣", values},
		{"NAME=acme,LIMIT=projects,VALUE=5default", values},
		{"NAME=acme,LIMIT=projects,VALUE=5 6", values},
		{"NAME=acme,LIMIT=projects,VALUE=99999999999999999999", values},
		{`NAME=acme,LIMIT=projects,VALUE=";touch TRAP;"`, values},
		{"NAME=acme,LIMIT=projects,VALUE=`touch TRAP`", values},
		{"NAME=acme,VALUE=5", "make account-limits VALUE= needs LIMIT=, a limit's name: make account-limits NAME=acme lists them"},
		{`NAME=a"}`, names},
		{`NAME=acme,LIMIT=x"y,VALUE=5`, names},
		{"NAME=ácme", names},
	} {
		words := []string{"account-limits"}
		if c.words != "" {
			words = append(words, strings.Split(strings.ReplaceAll(c.words, "TRAP", trap), ",")...)
		}
		cmd := exec.CommandContext(t.Context(), "make", words...)
		cmd.Dir = repository
		cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		line, _, _ := strings.Cut(string(out), "\n")
		if ok := strings.HasPrefix(c.want, "{"); ok {
			if _, payload, _ := strings.Cut(line, "/dev/stdout "); err != nil || payload != c.want || !strings.Contains(line, "--function-name gatewright-dev-accounts:live ") {
				t.Errorf("make %q: %v\n%s", words, err, out)
			}
		} else if err == nil || line != c.want || strings.Contains(string(out), "asked") {
			t.Errorf("make %q: %v, want %q\n%s", words, err, c.want, out)
		}
		if _, err := os.Stat(trap); err == nil {
			t.Fatalf("make %q has run what was typed", words)
		}
	}
}
