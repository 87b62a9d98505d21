package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"

	"github.com/gatewright/gatewright/infra/removals"
)

// checkRemovals compares the deployed stacks with the planned stacks, as make deploy does. The comparison must find no
// removals. After checkRemovals has deleted some resources from a planned template, the comparison must find exactly
// these. Then checkRemovals runs the command of make deploy: without a confirmation it deploys nothing, and with YES=1
// it deploys the same version again.
func (s *suite) checkRemovals(ctx context.Context) error {
	deployed, planned, err := s.stacks(ctx)
	if err != nil {
		return err
	}
	if all := removals.Diff(deployed, planned); len(all) > 0 {
		return fmt.Errorf("removals of the same deployment = %v, want none", all)
	}
	if len(deployed.Templates) != len(planned.Templates) || len(deployed.Templates) < 2 {
		return fmt.Errorf("%d stacks are deployed and %d are planned, want the same number, and at least 2",
			len(deployed.Templates), len(planned.Templates))
	}
	for _, id := range []string{"Table", "Bucket", "RootKey"} {
		delete(planned.Templates[""].Resources, id)
	}
	var names []string
	for _, r := range removals.Diff(deployed, planned) {
		names = append(names, r.Name)
	}
	if want := []string{"Bucket", "RootKey", "Table"}; !slices.Equal(names, want) {
		return fmt.Errorf("removals of a template without %v = %v, want all of them", want, names)
	}
	return s.redeployUnchanged(ctx)
}

// stacks returns the deployed and the planned stacks.
func (s *suite) stacks(ctx context.Context) (deployed, planned removals.Stack, err error) {
	config := s.awsConfig()
	config.BaseEndpoint = &s.endpoint
	deployed, err = removals.Deployed(ctx, cloudformation.NewFromConfig(config), "gatewright-"+stage)
	if err != nil {
		return deployed, planned, err
	}
	planned, err = removals.Planned(os.DirFS(s.synth()), "gatewright-"+stage)
	return deployed, planned, err
}

// redeployUnchanged runs the command of make deploy for the deployed version: first without a confirmation, which must
// fail, and then with YES=1.
func (s *suite) redeployUnchanged(ctx context.Context) error {
	command := filepath.Join(s.dir, "deploy")
	if err := runQuietly(ctx, ".", nil, "go", "build", "-o", command, "./infra/deploy"); err != nil {
		return err
	}
	cdk, err := filepath.Abs("infra/node_modules/.bin/cdk")
	if err != nil {
		return err
	}
	args := []string{"-cdk", cdk, "-app", s.app(), "-output", filepath.Join(s.dir, "again.out"), "-stage", stage}
	settings := append([]string{"--"}, s.cdkContext...)
	//nolint:gosec // G204: a command that this program has built
	unconfirmed := exec.CommandContext(ctx, command, slices.Concat(args, settings)...)
	unconfirmed.Env = s.env()
	out, err := unconfirmed.CombinedOutput()
	exit, isExitErr := errors.AsType[*exec.ExitError](err)
	if !isExitErr || exit.ExitCode() != 2 || strings.Count(string(out), "\n") != 1 ||
		!strings.Contains(string(out), "YES=1") {
		return fmt.Errorf("deploy without a confirmation: output %q, error %w, want one line with YES=1 and the exit code 2",
			out, err)
	}
	return runQuietly(ctx, ".", s.env(),
		append([]string{command}, slices.Concat(args, []string{"-yes", "1"}, settings)...)...)
}
