// Package signin asks the AWS command line by whom it is signed in as: it knows profiles, single sign-on and roles. Credentials are in the process
// that asks alone, in no environment and no list of processes.
//
// What it is not: it opens nothing of AWS, and functions and services, which have roles, don't use it. This file is all of it.
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

// The variables of the AWS command line, and of its SDKs.
const (
	Region       = "AWS_REGION"
	AccessKeyID  = "AWS_ACCESS_KEY_ID"
	SecretKey    = "AWS_SECRET_ACCESS_KEY" //nolint:gosec // G101: the variable's name
	SessionToken = "AWS_SESSION_TOKEN"     //nolint:gosec // G101: the variable's name

	otherRegion = "AWS_DEFAULT_REGION"
)

// What Environment answers where nobody is signed in. Each says what to do, in one line.
var (
	ErrNoRegion = errors.New("no region is set: say AWS_REGION=, the region of the installation")
	ErrNobody   = errors.New("the AWS command line has no credentials: sign in (aws sso login), or set AWS_PROFILE")
)

// Ask runs the AWS command line with arguments, and gives what it prints.
type Ask func(ctx context.Context, args ...string) (string, error)

// CommandLine is the Ask of the command aws.
func CommandLine(ctx context.Context, args ...string) (string, error) {
	var wrong bytes.Buffer
	cmd := exec.CommandContext(ctx, "aws", args...) //nolint:gosec // G204: of a fixed list
	cmd.Stderr = &wrong
	out, err := cmd.Output()
	if err != nil {
		said := strings.Join(strings.Fields(wrong.String()), " ")
		return "", fmt.Errorf("ask the AWS command line (aws %s): %w: %s", args[0], err, said)
	}
	return string(out), nil
}

// RegionOf is that of the environment, or else of the profile.
func RegionOf(ctx context.Context, getenv func(string) string, ask Ask) (string, error) {
	if named := cmp.Or(getenv(Region), getenv(otherRegion)); named != "" {
		return named, nil
	}
	out, err := ask(ctx, "configure", "get", "region")
	if err != nil || strings.TrimSpace(out) == "" {
		return "", ErrNoRegion
	}
	return strings.TrimSpace(out), nil
}

// Environment is getenv with a region and credentials in it: its own, or else those of the AWS command line.
func Environment(ctx context.Context, getenv func(string) string, ask Ask) (func(string) string, error) {
	region, err := RegionOf(ctx, getenv, ask)
	if err != nil {
		return nil, err
	}
	its := map[string]string{Region: region}
	if getenv(AccessKeyID) == "" || getenv(SecretKey) == "" {
		out, err := ask(ctx, "configure", "export-credentials", "--format", "process")
		if err != nil {
			return nil, err
		}
		var signed struct {
			ID      string `json:"AccessKeyId"`
			Secret  string `json:"SecretAccessKey"`
			Session string `json:"SessionToken"`
		}
		if err := json.Unmarshal([]byte(out), &signed); err != nil || signed.ID == "" || signed.Secret == "" {
			return nil, ErrNobody // without what it has said
		}
		its[AccessKeyID], its[SecretKey], its[SessionToken] = signed.ID, signed.Secret, signed.Session
	}
	return func(name string) string {
		if value, ok := its[name]; ok {
			return value
		}
		return getenv(name)
	}, nil
}
