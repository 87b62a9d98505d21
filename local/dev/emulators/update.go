package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/testing/released"
)

// The versions of an update, by the names of their folders.
const (
	lastRelease = "released"
	thisVersion = "next"
	// failing is this version with an additional resource that CloudFormation cannot create.
	failing = "failing"
	// repeated is this version again: its deployment must change nothing.
	repeated = "repeated"
)

// update deploys the last release. The test internal/system/upgrade then updates the installation to this version and
// back, under traffic. Both versions are built and synthesized before, so that an update consists only of the work of
// CloudFormation.
func (s *suite) update(ctx context.Context) error {
	return s.runSteps(ctx,
		step{"source of the last release", s.checkoutRelease},
		step{"build of the last release", func(ctx context.Context) error {
			return s.synthesize(ctx, lastRelease, s.releaseTree())
		}},
		// This build changes a variable of each function, so that all
		// functions are released even if nothing else has changed.
		step{"build of this version", func(ctx context.Context) error {
			return s.synthesize(ctx, thisVersion, ".", "origins=http://updated.example.com")
		}},
		step{"a version that fails", s.breakVersion},
		step{"cdk bootstrap", s.bootstrap},
		step{"cdk deploy", func(ctx context.Context) error { return s.deployApp(ctx, filepath.Join(s.dir, lastRelease)) }},
		step{"first account", s.createAccount},
		step{"update and back", s.updateUnderTraffic})
}

// releaseTree returns the folder of the last release's source.
func (s *suite) releaseTree() string { return filepath.Join(s.dir, "tree") }

func (s *suite) checkoutRelease(ctx context.Context) error {
	commit, err := released.Commit(".")
	if err != nil {
		return err
	}
	return released.WriteSource(ctx, ".", commit, s.releaseTree())
}

// synthesize builds the functions and the CDK app of a source tree, and writes
// the templates and all files for the upload into the folder of the version.
func (s *suite) synthesize(ctx context.Context, version, tree string, settings ...string) error {
	// MAKEFLAGS and MAKELEVEL are empty, so that the make of the
	// other tree does not inherit the arguments of this make.
	env := append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if err := runQuietly(ctx, tree, env, "make", "build", "GOARCH="+runtime.GOARCH); err != nil {
		return err
	}
	app := filepath.Join(s.dir, version+"-app")
	if err := runQuietly(ctx, tree, nil, "go", "build", "-o", app, "./infra"); err != nil {
		return err
	}
	args := []string{"synth", "--quiet", "--app", app, "--output", filepath.Join(s.dir, version)}
	return s.cdk(ctx, tree, append(args, contextArgs(append(s.settings(), settings...))...)...)
}

// updateUnderTraffic runs the test, which calls this program again to deploy a version.
func (s *suite) updateUnderTraffic(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find our own binary: %w", err)
	}
	return runWithOutput(ctx, append(s.env(),
		"GATEWRIGHT_TEST_UPDATE="+self, "GATEWRIGHT_TEST_UPDATE_FOLDER="+s.dir,
		"GATEWRIGHT_SCENARIO_API="+s.address(s.out.API), "GATEWRIGHT_SCENARIO_GATEWAY="+s.address(s.out.Gateway),
		"GATEWRIGHT_SCENARIO_KEY="+s.key),
		"go", "test", "-count=1", "-timeout=15m", "-v", "-run=^TestUpdateUnderTraffic$", "./internal/system/upgrade")
}

var errSuccess = errors.New("success")

// redeploy deploys a version during an update test, and prints how the installation's
// resources have changed. It returns an error for each wrong and for each missing change.
func redeploy(ctx context.Context, folder, version string) error {
	s := newSuite(miniStack, os.Getenv("AWS_ENDPOINT_URL"))
	s.dir = folder
	if s.endpoint == "" || !slices.Contains([]string{lastRelease, thisVersion, failing, repeated}, version) {
		return errors.New("deploy needs the arguments ministack FOLDER released|next|failing|repeated, and the " +
			"environment of a running update test: run make test-update, which calls it")
	}
	before, err := s.resources(ctx)
	if err != nil {
		return err
	}
	target, expect := version, compare
	switch version {
	case failing:
		expect = compareUnchanged
	case repeated:
		target, expect = thisVersion, compareUnchanged
	case thisVersion:
		if err := s.saveResourceNames(before); err != nil {
			return err
		}
	case lastRelease:
		// The update back to the last release may delete the resources
		// that only this version has. So compare only the others.
		if before, err = s.releasedResources(before); err != nil {
			return err
		}
	}
	err = s.deployApp(ctx, filepath.Join(folder, target))
	switch {
	case version == failing && (err == nil || !strings.Contains(err.Error(), failingResource)):
		return fmt.Errorf("the update to the failing version ends with %w, want an error that names %s",
			cmp.Or(err, errSuccess), failingResource)
	case version != failing && err != nil:
		return err
	}
	after, err := s.resources(ctx)
	if err != nil {
		return err
	}
	summary, err := expect(before, after)
	fmt.Println(summary)
	return err
}

// saveResourceNames stores the names of the last release's resources, for releasedResources.
func (s *suite) saveResourceNames(resources map[string]resource) error {
	text, err := json.Marshal(slices.Sorted(maps.Keys(resources)))
	if err != nil {
		return fmt.Errorf("write the names of the last release's resources: %w", err)
	}
	return os.WriteFile(s.resourceNamesFile(), text, 0o600) //nolint:gosec // G703: a folder of ours
}

// releasedResources returns the given resources without those that the last release does not have.
func (s *suite) releasedResources(resources map[string]resource) (map[string]resource, error) {
	text, err := os.ReadFile(s.resourceNamesFile()) //nolint:gosec // G703: a folder of ours
	if err != nil {
		return nil, fmt.Errorf("read the names of the last release's resources: %w", err)
	}
	var names []string
	if err := json.Unmarshal(text, &names); err != nil {
		return nil, fmt.Errorf("decode the names of the last release's resources: %w", err)
	}
	out := maps.Clone(resources)
	maps.DeleteFunc(out, func(id string, _ resource) bool { return !slices.Contains(names, id) })
	if len(out) == 0 {
		return nil, errors.New("nothing of the last release is there any more")
	}
	return out, nil
}

func (s *suite) resourceNamesFile() string { return filepath.Join(s.dir, "resources.json") }
