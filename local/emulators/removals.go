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

// removals asks the emulator for what is deployed, as make deploy does, and compares it with what was to be: nothing may be missing, and what
// a template leaves out has to be noticed. It runs the command of make deploy then: where nobody says yes it deploys nothing, and where
// YES=1 does it deploys the same once more.
func (s *suite) removals(ctx context.Context) error {
	deployed, planned, err := s.stacks(ctx)
	if err != nil {
		return err
	}
	if all := removals.Of(deployed, planned); len(all) > 0 {
		return fmt.Errorf("deploying the same again would remove %v", all)
	}
	if len(deployed.Templates) != len(planned.Templates) || len(deployed.Templates) < 2 {
		return fmt.Errorf("%d stacks are deployed, and %d were to be", len(deployed.Templates), len(planned.Templates))
	}
	for _, id := range []string{"Table", "Bucket", "RootKey"} {
		delete(planned.Templates[""].Resources, id)
	}
	var names []string
	for _, r := range removals.Of(deployed, planned) {
		names = append(names, r.Name)
	}
	if want := []string{"Bucket", "RootKey", "Table"}; !slices.Equal(names, want) {
		return fmt.Errorf("a template without %v would remove %v", want, names)
	}
	return s.deploysAgain(ctx)
}

// stacks are what is deployed, and what was to be.
func (s *suite) stacks(ctx context.Context) (deployed, planned removals.Stack, err error) {
	config := s.sdk()
	config.BaseEndpoint = &s.endpoint
	deployed, err = removals.Deployed(ctx, cloudformation.NewFromConfig(config), "gatewright-"+stage)
	if err != nil {
		return deployed, planned, err
	}
	planned, err = removals.Planned(os.DirFS(s.synth()), "gatewright-"+stage)
	return deployed, planned, err
}

// deploysAgain runs the command of make deploy.
func (s *suite) deploysAgain(ctx context.Context) error {
	command := filepath.Join(s.dir, "deploy")
	if err := runQuietly(ctx, ".", nil, "go", "build", "-o", command, "./infra/deploy"); err != nil {
		return err
	}
	cdk, err := filepath.Abs("infra/node_modules/.bin/cdk")
	if err != nil {
		return err
	}
	args := []string{"-cdk", cdk, "-app", s.app(), "-output", filepath.Join(s.dir, "again.out"), "-stage", stage}
	settings := append([]string{"--"}, s.context...)
	refused := exec.CommandContext(ctx, command, slices.Concat(args, settings)...) //nolint:gosec // G204: a command of this program
	refused.Env = s.env()
	out, err := refused.CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	if !failed || exit.ExitCode() != 2 || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "YES=1") {
		return fmt.Errorf("with nobody to ask it says %q, error %w", out, err)
	}
	return runQuietly(ctx, ".", s.env(), append([]string{command}, slices.Concat(args, []string{"-yes", "1"}, settings)...)...)
}
