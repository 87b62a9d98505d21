package main

import (
	"slices"
	"testing"
)

// TestCommandsOfAWSAreFound in spans and in blocks, and ours are not.
func TestCommandsOfAWSAreFound(t *testing.T) {
	got := awsCommands("Ask `aws lambda get-account-settings --query A`, or `make diff`; `aws kms enable-key` and\n`aws configure export-credentials --format env`.\n\n" +
		"```sh\naws dynamodb delete-table --table-name \"$copy\"\nold=us-east-1\n```\n\n    aws sns create-topic --name x\nThe aws of before.\n")
	want := []string{
		"aws lambda get-account-settings --query A", "aws kms enable-key",
		`aws dynamodb delete-table --table-name "$copy"`, "aws sns create-topic --name x",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
