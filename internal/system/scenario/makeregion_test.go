package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeUsesTheGivenRegion checks that make also sets AWS_DEFAULT_REGION, because version 1 of the AWS CLI reads only
// this variable. Otherwise it would call a function in another region, which may have the same name.
func TestMakeUsesTheGivenRegion(t *testing.T) {
	bin := t.TempDir()
	const aws = `#!/bin/sh
case "$1" in
sts) exit 0;;
lambda) echo "asked in $AWS_DEFAULT_REGION and $AWS_REGION" >&2; echo None;;
esac
`
	if err := os.WriteFile(filepath.Join(bin, "aws"), []byte(aws), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		typed string
		env   []string
		want  string
	}{
		{"AWS_REGION=eu-central-1", []string{"AWS_DEFAULT_REGION=us-east-1"}, "asked in eu-central-1 and eu-central-1"},
		{"", []string{"AWS_REGION=eu-central-1", "AWS_DEFAULT_REGION=us-east-1"}, "asked in eu-central-1 and eu-central-1"},
		{"", []string{"AWS_DEFAULT_REGION=us-east-1"}, "asked in us-east-1 and "},
		{"", nil, "asked in  and "},
	} {
		cmd := exec.CommandContext(t.Context(), "make", strings.Fields("account NAME=acme "+c.typed)...)
		cmd.Dir = repository
		for _, v := range withoutMake(os.Environ()) {
			if !strings.HasPrefix(v, "AWS_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH")), c.env...)
		out, err := cmd.CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); err != nil || line != c.want {
			t.Errorf("make %s with %v: error = %v, want the first line %q\n%s", c.typed, c.env, err, c.want, out)
		}
	}
}
