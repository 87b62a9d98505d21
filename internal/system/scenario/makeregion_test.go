package scenario_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeUsesTheGivenRegion checks that make also sets AWS_DEFAULT_REGION if AWS_REGION is set: version 1 of the AWS
// CLI reads only AWS_DEFAULT_REGION. Without it, the AWS CLI could call a function with the same name in another
// region.
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
		makeVariables string
		env           []string
		want          string
	}{
		{"AWS_REGION=eu-central-1", []string{"AWS_DEFAULT_REGION=us-east-1"}, "asked in eu-central-1 and eu-central-1"},
		{"", []string{"AWS_REGION=eu-central-1", "AWS_DEFAULT_REGION=us-east-1"}, "asked in eu-central-1 and eu-central-1"},
		{"", []string{"AWS_DEFAULT_REGION=us-east-1"}, "asked in us-east-1 and "},
		{"", nil, "asked in  and "},
	} {
		cmd := exec.CommandContext(t.Context(), "make", strings.Fields("account NAME=acme "+c.makeVariables)...)
		cmd.Dir = repository
		for _, v := range withoutMake(os.Environ()) {
			if !strings.HasPrefix(v, "AWS_") {
				cmd.Env = append(cmd.Env, v)
			}
		}
		cmd.Env = append(append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH")), c.env...)
		out, err := cmd.CombinedOutput()
		if line, _, _ := strings.Cut(string(out), "\n"); err != nil || line != c.want {
			t.Errorf("make account %s with the environment %v: error = %v, first line = %q, want no error and %q; output:\n%s",
				c.makeVariables, c.env, err, line, c.want, out)
		}
	}
}
