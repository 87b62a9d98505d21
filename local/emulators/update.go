package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/gatewright/gatewright/local/released"
)

// The versions of an update, by the names of their folders.
const (
	lastRelease = "released"
	thisVersion = "next"
)

// update deploys the last release, and has local/upgrade update the installation to this version and back, under traffic.
// What it is updated from and to is built and synthesised before: an update is then what CloudFormation does, and no more.
func (s *suite) update(ctx context.Context) error {
	return s.does(ctx,
		step{"source of the last release", s.source},
		step{"build of the last release", func(ctx context.Context) error { return s.synthesise(ctx, lastRelease, s.tree()) }},
		// Each function has another variable, so that all are released, whatever has changed between the two.
		step{"build of this version", func(ctx context.Context) error {
			return s.synthesise(ctx, thisVersion, ".", "origins=http://updated.example.com")
		}},
		step{"cdk bootstrap", s.bootstrap},
		step{"cdk deploy", func(ctx context.Context) error { return s.deployApp(ctx, filepath.Join(s.dir, lastRelease)) }},
		step{"first account", s.account},
		step{"update and back", s.underTraffic})
}

// tree is the folder of the last release's source.
func (s *suite) tree() string { return filepath.Join(s.dir, "tree") }

func (s *suite) source(ctx context.Context) error {
	commit, err := released.Commit(".")
	if err != nil {
		return err
	}
	return released.Source(ctx, ".", commit, s.tree())
}

// synthesise builds the functions and the CDK app of a source tree, and writes the templates with all that is uploaded
// into the folder of that version.
func (s *suite) synthesise(ctx context.Context, version, tree string, more ...string) error {
	// Neither what make was asked here, nor where its output goes, is for the make of another tree.
	env := append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if err := runQuietly(ctx, tree, env, "make", "build", "GOARCH="+runtime.GOARCH); err != nil {
		return err
	}
	app := filepath.Join(s.dir, version+"-app")
	if err := runQuietly(ctx, tree, nil, "go", "build", "-o", app, "./infra"); err != nil {
		return err
	}
	args := []string{"synth", "--quiet", "--app", app, "--output", filepath.Join(s.dir, version)}
	return s.cdk(ctx, tree, append(args, inContext(append(s.settings(), more...))...)...)
}

// underTraffic runs the test, which calls this program again to deploy a version.
func (s *suite) underTraffic(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own binary: %w", err)
	}
	return runVisibly(ctx, append(emulated(s.endpoint),
		"GATEWRIGHT_TEST_UPDATE="+self, "GATEWRIGHT_TEST_UPDATE_FOLDER="+s.dir,
		"GATEWRIGHT_SCENARIO_API="+s.address(s.out.API), "GATEWRIGHT_SCENARIO_GATEWAY="+s.address(s.out.Gateway), "GATEWRIGHT_SCENARIO_KEY="+s.key),
		"go", "test", "-count=1", "-timeout=15m", "-v", "-run=^TestUpdateUnderTraffic$", "./local/upgrade")
}

// redeploy deploys one of the versions of an update that runs, and tells what became of the installation's resources: which
// were made anew, and which should not have been.
func redeploy(ctx context.Context, folder, version string) error {
	s := newSuite(miniStack, os.Getenv("AWS_ENDPOINT_URL"))
	s.dir = folder
	if s.endpoint == "" || (version != lastRelease && version != thisVersion) {
		return errors.New("say deploy ministack FOLDER released|next, in the environment of an update that runs: make test-update")
	}
	before, err := s.resources(ctx)
	if err != nil {
		return err
	}
	if err := s.deployApp(ctx, filepath.Join(folder, version)); err != nil {
		return err
	}
	after, err := s.resources(ctx)
	if err != nil {
		return err
	}
	told, err := compare(before, after)
	fmt.Println(told)
	return err
}
