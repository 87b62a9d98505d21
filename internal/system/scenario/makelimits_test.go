package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeAccountLimitsPassesItsOptions runs make with an aws that prints its arguments. The function must receive the
// typed values unchanged. If a value is invalid, it must receive no request, and one line must say what to type. No
// character may have a special meaning for a shell or in JSON.
func TestMakeAccountLimitsPassesItsOptions(t *testing.T) {
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
		invalidValue = "make account-limits LIMIT= needs VALUE=, a number from 1 on, or default for the installation's"
		invalidName  = "make account-limits takes NAME= and LIMIT= of lower-case letters, digits, hyphens and underscores"
	)
	trap := filepath.Join(bin, "trap")
	for _, c := range []struct {
		args string // separated by commas
		want string // the payload of the request, or the error line
	}{
		{"NAME=acme", `{"do":"list-limits","name":"acme","limit":""}`},
		{"NAME=acme,LIMIT=projects,VALUE=20", `{"do":"set-limit","value":20,"name":"acme","limit":"projects"}`},
		{
			"NAME=acme,LIMIT=consumers,VALUE=1000000000",
			`{"do":"set-limit","value":1000000000,"name":"acme","limit":"consumers"}`,
		},
		{"NAME=acme,LIMIT=projects,VALUE=default", `{"do":"reset-limit","name":"acme","limit":"projects"}`},
		{"", "make account-limits needs NAME=, the account's name"},
		{"NAME=acme,LIMIT=projects", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=0", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=007", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=-1", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=1.5", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=1e3", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=٣", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=5default", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=5 6", invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=99999999999999999999", invalidValue},
		{`NAME=acme,LIMIT=projects,VALUE=";touch TRAP;"`, invalidValue},
		{"NAME=acme,LIMIT=projects,VALUE=`touch TRAP`", invalidValue},
		{"NAME=acme,VALUE=5", "make account-limits VALUE= needs LIMIT=, a limit's name: make account-limits " +
			"NAME=acme lists them"},
		{`NAME=a"}`, invalidName},
		{`NAME=acme,LIMIT=x"y,VALUE=5`, invalidName},
		{"NAME=ácme", invalidName},
	} {
		args := []string{"account-limits"}
		if c.args != "" {
			args = append(args, strings.Split(strings.ReplaceAll(c.args, "TRAP", trap), ",")...)
		}
		cmd := exec.CommandContext(t.Context(), "make", args...)
		cmd.Dir = repository
		cmd.Env = append(withoutMake(os.Environ()), "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		line, _, _ := strings.Cut(string(out), "\n")
		if ok := strings.HasPrefix(c.want, "{"); ok {
			if _, payload, _ := strings.Cut(line, "/dev/stdout "); err != nil || payload != c.want ||
				!strings.Contains(line, "--function-name gatewright-dev-accounts:live ") {
				t.Errorf("make %q: error %v, payload %q, want %q for the function gatewright-dev-accounts:live\n%s", args, err,
					payload, c.want, out)
			}
		} else if err == nil || line != c.want || strings.Contains(string(out), "asked") {
			t.Errorf("make %q: error = %v, want the first line %q\n%s", args, err, c.want, out)
		}
		if _, err := os.Stat(trap); err == nil {
			t.Fatalf("make %q has executed its argument as a command, want it passed as text", args)
		}
	}
}
