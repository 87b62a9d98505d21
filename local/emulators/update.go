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

	"github.com/gatewright/gatewright/local/released"
)

// The versions of an update, by the names of their folders.
const (
	lastRelease = "released"
	thisVersion = "next"
	// failing is this version with a resource beside it that AWS cannot make.
	failing = "failing"
	// repeated is this version once more, which changes nothing.
	repeated = "repeated"
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
		step{"a version that fails", s.breakVersion},
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
	return runVisibly(ctx, append(s.env(),
		"GATEWRIGHT_TEST_UPDATE="+self, "GATEWRIGHT_TEST_UPDATE_FOLDER="+s.dir,
		"GATEWRIGHT_SCENARIO_API="+s.address(s.out.API), "GATEWRIGHT_SCENARIO_GATEWAY="+s.address(s.out.Gateway), "GATEWRIGHT_SCENARIO_KEY="+s.key),
		"go", "test", "-count=1", "-timeout=15m", "-v", "-run=^TestUpdateUnderTraffic$", "./local/upgrade")
}

var errSuccess = errors.New("success")

// redeploy deploys one of the versions of an update that runs, and tells what became of the installation's resources: an error for
// each that is another one, or should be and is not.
func redeploy(ctx context.Context, folder, version string) error {
	s := newSuite(miniStack, os.Getenv("AWS_ENDPOINT_URL"))
	s.dir = folder
	if s.endpoint == "" || !slices.Contains([]string{lastRelease, thisVersion, failing, repeated}, version) {
		return errors.New("say deploy ministack FOLDER released|next|failing|repeated, in the environment of an update that runs: make test-update")
	}
	before, err := s.resources(ctx)
	if err != nil {
		return err
	}
	what, expect := version, compare
	switch version {
	case failing:
		expect = unchanged
	case repeated:
		what, expect = thisVersion, unchanged
	case thisVersion:
		if err := s.remember(before); err != nil {
			return err
		}
	case lastRelease:
		// What this version alone has goes with it: a queue, say, of what it gives up.
		if before, err = s.remembered(before); err != nil {
			return err
		}
	}
	err = s.deployApp(ctx, filepath.Join(folder, what))
	switch {
	case version == failing && (err == nil || !strings.Contains(err.Error(), refused)):
		return fmt.Errorf("%s is to be what the update fails at, which ends with %w", refused, cmp.Or(err, errSuccess))
	case version != failing && err != nil:
		return err
	}
	after, err := s.resources(ctx)
	if err != nil {
		return err
	}
	told, err := expect(before, after)
	fmt.Println(told)
	return err
}

// remember keeps the names of the last release's resources for the way back.
func (s *suite) remember(resources map[string]resource) error {
	text, err := json.Marshal(slices.Sorted(maps.Keys(resources)))
	if err != nil {
		return fmt.Errorf("write the names of the last release's resources: %w", err)
	}
	return os.WriteFile(s.names(), text, 0o600) //nolint:gosec // G703: a folder of ours
}

// remembered gives those of some resources that the last release has.
func (s *suite) remembered(resources map[string]resource) (map[string]resource, error) {
	text, err := os.ReadFile(s.names()) //nolint:gosec // G703: a folder of ours
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

func (s *suite) names() string { return filepath.Join(s.dir, "resources.json") }
