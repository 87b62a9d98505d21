package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/gatewright/gatewright/infra/removals"
)

// connect asks AWS by whom the AWS command line is signed in as: it knows profiles, single sign-on and roles, and the credentials are in
// this process alone, neither in an environment nor in a list of processes.
func connect(ctx context.Context) (removals.CloudFormation, error) {
	at, err := region(ctx)
	if err != nil {
		return nil, err
	}
	signed, err := signIn(ctx)
	if err != nil {
		return nil, err
	}
	config := aws.Config{Region: at, Credentials: signed}
	if endpoint := os.Getenv("AWS_ENDPOINT_URL"); endpoint != "" {
		config.BaseEndpoint = &endpoint
	}
	return cloudformation.NewFromConfig(config), nil
}

// region is that of the environment, or else of the profile.
func region(ctx context.Context) (string, error) {
	if named := cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION")); named != "" {
		return named, nil
	}
	out, err := ask(ctx, "configure", "get", "region")
	if err != nil || strings.TrimSpace(out) == "" {
		return "", refuse("no region is set: say AWS_REGION=, the region of the installation")
	}
	return strings.TrimSpace(out), nil
}

func signIn(ctx context.Context) (aws.CredentialsProvider, error) {
	if id, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"); id != "" && secret != "" {
		return credentials.NewStaticCredentialsProvider(id, secret, os.Getenv("AWS_SESSION_TOKEN")), nil
	}
	out, err := ask(ctx, "configure", "export-credentials", "--format", "process")
	if err != nil {
		return nil, err
	}
	var signed struct {
		ID      string `json:"AccessKeyId"`
		Secret  string `json:"SecretAccessKey"`
		Session string `json:"SessionToken"`
	}
	if err := json.Unmarshal([]byte(out), &signed); err != nil || signed.ID == "" {
		return nil, refuse("the AWS command line has no credentials: sign in (aws sso login), or set AWS_PROFILE") // without what it has said
	}
	return credentials.NewStaticCredentialsProvider(signed.ID, signed.Secret, signed.Session), nil
}

// ask runs the AWS command line.
func ask(ctx context.Context, args ...string) (string, error) {
	var wrong bytes.Buffer
	cmd := exec.CommandContext(ctx, "aws", args...) //nolint:gosec // G204: of a fixed list
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("ask the AWS command line (aws %s): %w: %s", args[0], err, strings.TrimSpace(wrong.String()))
	}
	return string(out), nil
}
