package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestMovePageHasStepsInOrder checks the steps of the page without running
// them. `make test-ministack` would find an error only after minutes.
func TestMovePageHasStepsInOrder(t *testing.T) {
	steps, err := readme.ReadSteps(filepath.Join("..", "..", "..", "docs", "aws.md"), moveHeading, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := [moveSteps][]string{
		{"make cli", "named()"},
		{"make stop-aws STAGE=frankfurt AWS_REGION=$new", "make stop-aws STAGE=production AWS_REGION=$old"},
		{
			"AWS_REGION=$old dist/gatewright-server export-data /elsewhere/move.data", "$old production TableName",
			"$old production BucketName", "$old production RootKeyId",
		},
		{
			"AWS_REGION=$new dist/gatewright-server import-data /elsewhere/move.data", "$new frankfurt TableName",
			"$new frankfurt BucketName", "$new frankfurt RootKeyId",
		},
		{"make start-aws STAGE=frankfurt AWS_REGION=$new"},
		{
			"--domain-name api.example.com", "--domain-name '*.apis.example.com'", `--connect-to "api.example.com:443:$api:443"`,
			`--connect-to "$deployment.apis.example.com:443:$gateway:443"`,
		},
		{"restore-table-to-point-in-time --region $new", `--table "$copy"`, "delete-table --region $new"},
	}
	if len(steps) != len(want) {
		t.Fatalf("the page has %d steps, want %d", len(steps), len(want))
	}
	for i, s := range steps {
		remaining := s.Commands
		for _, text := range want[i] {
			_, after, found := strings.Cut(remaining, text)
			if !found {
				t.Errorf("docs/aws.md:%d: want %q here, in this order:\n%s", s.Line, text, s.Commands)
			}
			remaining = after
		}
		if out, err := exec.CommandContext(t.Context(), "bash", "-n", "-c", s.Commands).CombinedOutput(); err != nil {
			t.Errorf("docs/aws.md:%d: bash -n = %v, want valid commands: %s", s.Line, err, out)
		}
	}
}
