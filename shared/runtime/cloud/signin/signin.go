// Package signin gets the credentials of the current user from the AWS command line, which knows profiles, single
// sign-on and roles. The credentials stay in the memory of the calling process: they are not in an environment or in
// command-line arguments.
//
// The package sends no requests to AWS itself. Functions and services
// have roles and do not use it. The package has this file only.
package signin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// The variables of the AWS command line and its SDKs.
const (
	VarRegion    = "AWS_REGION"
	AccessKeyID  = "AWS_ACCESS_KEY_ID"
	SecretKey    = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // G101: the variable's name
	SessionToken = "AWS_SESSION_TOKEN"     //nolint:gosec // G101: the variable's name

	defaultRegion = "AWS_DEFAULT_REGION"
)

// The errors of RegionOf and Environment if there is no region, and of Environment if the AWS command line returns no
// credentials. Each text is one line and says what to do.
var (
	ErrNoRegion      = errors.New("no region is set: say AWS_REGION=, the region of the installation")
	ErrNoCredentials = errors.New("the AWS command line has no credentials: sign in (aws sso login), or set AWS_PROFILE")
)

// Run runs the AWS command line with arguments, and returns its output.
type Run func(ctx context.Context, args ...string) (string, error)

// CommandLine is the Run that runs the command aws.
func CommandLine(ctx context.Context, args ...string) (string, error) {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "aws", args...) //nolint:gosec // G204: of a fixed list
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		message := strings.Join(strings.Fields(stderr.String()), " ")
		return "", fmt.Errorf("ask the AWS command line (aws %s): %w: %s", args[0], err, message)
	}
	return string(out), nil
}

// RegionOf returns the region of the environment. If the environment has none, it returns the region of the profile.
func RegionOf(ctx context.Context, getenv func(string) string, run Run) (string, error) {
	if region := cmp.Or(getenv(VarRegion), getenv(defaultRegion)); region != "" {
		return region, nil
	}
	out, err := run(ctx, "configure", "get", "region")
	if err != nil || strings.TrimSpace(out) == "" {
		return "", ErrNoRegion
	}
	return strings.TrimSpace(out), nil
}

// Environment returns a getenv function that also has a region and credentials. It takes them from getenv if they are
// set there, and otherwise from the AWS command line. run runs the AWS command line.
func Environment(ctx context.Context, getenv func(string) string, run Run) (func(string) string, error) {
	region, err := RegionOf(ctx, getenv, run)
	if err != nil {
		return nil, err
	}
	env := map[string]string{VarRegion: region}
	if getenv(AccessKeyID) == "" || getenv(SecretKey) == "" {
		out, err := run(ctx, "configure", "export-credentials", "--format", "process")
		if err != nil {
			return nil, err
		}
		var creds struct {
			ID      string `json:"AccessKeyId"`
			Secret  string `json:"SecretAccessKey"`
			Session string `json:"SessionToken"`
		}
		if err := json.Unmarshal([]byte(out), &creds); err != nil || creds.ID == "" || creds.Secret == "" {
			return nil, ErrNoCredentials // without the command's output, which can contain secrets
		}
		env[AccessKeyID], env[SecretKey], env[SessionToken] = creds.ID, creds.Secret, creds.Session
	}
	return func(name string) string {
		if value, ok := env[name]; ok {
			return value
		}
		return getenv(name)
	}, nil
}
