package builds_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// newer is the format that this release writes, and older the format of the previous release.
const newer, older = project.ArtifactFormat, project.ArtifactFormat - 1

// variableProject is a project whose only route has a variable, which is substituted in the build.
var variableProject = strings.Replace(routes, "https://example.com", "$env(ADDRESS)", 1)

// changedVariables returns a value that differs from the value in the builds.
type changedVariables struct{}

func (changedVariables) Resolve(context.Context, string, string, string) (map[string]string, error) {
	return map[string]string{"ADDRESS": "https://changed.example.com"}, nil
}

// buildFixture is an installation whose deployments were built by the previous release.
type buildFixture struct {
	table    *store.Table
	bucket   blobs
	compiler *project.Compiler
}

// blobs is a bucket for sources and artifacts.
type blobs interface {
	builds.Objects
	artifacts.Objects
}

func (fx buildFixture) artifacts() *artifacts.Store {
	return artifacts.New(fx.bucket, seal.NewSealer(rootKey{}), seal.NewHasher(rootKey{}, "artifact"))
}

// builder returns the builder of a release that writes a format.
func (fx buildFixture) builder(format int, changes ...func(*builds.Options)) *builds.Builder {
	o := builds.Options{
		Table: fx.table, Objects: fx.bucket, Variables: changedVariables{}, Compiler: fx.compiler, Catalog: lenientCatalog{},
		Verify:    verify,
		Artifacts: fx.artifacts().WithFormat(format),
	}
	for _, change := range changes {
		change(&o)
	}
	return builds.New(o)
}

// build describes a build of a deployment.
type build struct {
	source           string
	withoutVariables bool // the artifact does not contain the values of variables
	noFiles          bool // the sources are missing in the bucket
}

// put creates a deployment with builds. The first build is served.
func (fx buildFixture) put(ctx context.Context, name string, buildList ...build) error {
	r := deployments.Record{
		Name: name, AccountID: "a", Account: "demo", Project: "p", Branch: name,
		Kind: environment.Production, Latest: 9, LatestEnded: 9,
	}
	for n, b := range buildList {
		served := deployments.Served{
			Number: int64(9 - n), BuildID: fmt.Sprintf("%s-%d", name, n),
			Source: fmt.Sprintf("%s/source-%d", name, n),
		}
		validSource := b.source
		if !strings.HasPrefix(validSource, "{\n") {
			validSource = routes // the sources were valid when they were built
		}
		artifact, result, err := fx.compiler.Compile(ctx, project.Files{"config/routes.oas.json": []byte(validSource)},
			project.Input{
				Identity: project.Identity{
					AccountID: "a", Account: "demo", Project: "p", Branch: name, Environment: "production",
					Deployment: name, BuildID: served.BuildID,
				},
				Variables: map[string]string{"ADDRESS": "https://first.example.com"}, Catalog: lenientCatalog{}, Verify: verify,
			})
		if err != nil {
			return fmt.Errorf("compile build %s: %w", served.BuildID, err)
		}
		if artifact == nil {
			return fmt.Errorf("compile build %s: no artifact, errors %v", served.BuildID, result.Errors)
		}
		artifact.Buckets = map[string]project.KeyBucket{"kept": {ID: "bckt_1", Name: "kept"}}
		if b.withoutVariables {
			artifact.Env = nil
		}
		if served.Artifact, err = fx.artifacts().WithFormat(older).Put(ctx, name, artifact); err != nil {
			return err
		}
		if !b.noFiles {
			if err := fx.bucket.Put(ctx, blob.SourceKey(served.Source),
				strings.NewReader(string(archive(files{"config/routes.oas.json": b.source})))); err != nil {
				return err
			}
		}
		if n == 0 {
			r.Served, r.Source = &served, served.Source
		} else {
			r.Previous = append(r.Previous, served)
		}
	}
	return fx.table.Commit(ctx, store.Create(deployments.Key(name), r))
}

// fill creates a deployment for each outcome of a rebuild.
func (fx buildFixture) fill(ctx context.Context) error {
	return errors.Join(
		fx.put(ctx, "good-main-0000001", build{source: routes}, build{source: variableProject}, build{source: "broken"}),
		fx.put(ctx, "broken-main-0000002", build{source: "broken"}, build{source: routes}),
		fx.put(ctx, "gone-main-0000003", build{source: routes, noFiles: true}),
		fx.put(ctx, "novars-main-0000004", build{source: routes, withoutVariables: true}),
		fx.put(ctx, "changed-main-0000005", build{source: variableProject, withoutVariables: true}),
		fx.put(ctx, "variable-main-0000006", build{source: variableProject}),
	)
}

// formats returns a text for each build, by the build's ID. The text has the format of the build's artifact. If the
// artifact has a variable, the text also says whether the value is that of the first build or a changed one.
func (fx buildFixture) formats(t testing.TB, names ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names {
		r, err := deployments.Read(t.Context(), fx.table, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range r.Builds() {
			a, err := fx.artifacts().Get(t.Context(), b.Artifact)
			if err != nil {
				t.Fatalf("Get() of the artifact of build %s = %v, want success", b.BuildID, err)
			}
			if a.Identity.BuildID != b.BuildID || a.Buckets["kept"].ID != "bckt_1" {
				t.Errorf("artifact of build %s: identity = %+v, buckets = %+v, want this build's ID and bucket bckt_1",
					b.BuildID, a.Identity, a.Buckets)
			}
			text := fmt.Sprint(artifacts.FormatOf(b.Artifact))
			if strings.Contains(string(a.Routes[0].Handler.Options), "first") {
				text += " with the first value"
			} else if strings.Contains(string(a.Routes[0].Handler.Options), "changed") {
				text += " with the changed value"
			}
			out[b.BuildID] = text
		}
	}
	return out
}

func allDeployments() []string {
	return []string{
		"good-main-0000001", "broken-main-0000002", "gone-main-0000003", "novars-main-0000004",
		"changed-main-0000005", "variable-main-0000006",
	}
}

// rebuilt is the result of formats after a rebuild.
var rebuilt = map[string]string{
	"good-main-0000001-0": "2", "good-main-0000001-1": "2 with the first value", "good-main-0000001-2": "1",
	"broken-main-0000002-0": "1", "broken-main-0000002-1": "2", "gone-main-0000003-0": "1", "novars-main-0000004-0": "2",
	"changed-main-0000005-0": "1 with the first value", "variable-main-0000006-0": "2 with the first value",
}

func newBuildFixture(t *testing.T) buildFixture {
	t.Helper()
	fx := buildFixture{
		storetest.NewWithBackend(t, memory.New(), storetest.Clock(time.Now)), blob.NewMemory(time.Now),
		project.NewCompiler(),
	}
	if err := fx.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return fx
}

func (fx buildFixture) engine(t testing.TB, b *builds.Builder) *operation.Engine {
	t.Helper()
	e, err := operation.New(fx.table, b.Definitions(), operation.Options{
		Now: time.Now, Random: storetest.Random(t),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// finish runs an operation once a minute, as sweeps do, until it ends.
func finish(t testing.TB, e *operation.Engine, id string) (r operation.Record) {
	t.Helper()
	for range 200 {
		var err error
		if r, err = e.Run(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if r.Ended() {
			return r
		}
		time.Sleep(time.Minute)
	}
	t.Fatalf("operation %s is in state %s (%s), want it ended", id, r.State, r.Message)
	return r
}

// TestRebuildChangesOnlyTheFormat checks that a rebuild changes only the
// format, and not what a deployment serves or which builds it can restore.
func TestRebuildChangesOnlyTheFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newBuildFixture(t)
		id, err := deployments.EnsureFormat(t.Context(), fx.table, newer, false, time.Now())
		if err != nil || id == "" {
			t.Fatalf("EnsureFormat(newer) = %q, %v, want an operation", id, err)
		}
		e := fx.engine(t, fx.builder(newer))
		if r, err := e.Run(t.Context(), id); err != nil || r.Steps > 0 {
			t.Fatalf("Run() before the update is over: steps = %d, error = %v, want 0 and none", r.Steps, err)
		}
		time.Sleep(deployments.RebuildDelay)
		r := finish(t, e, id)
		if got := fx.formats(t, allDeployments()...); !reflect.DeepEqual(got, rebuilt) {
			t.Errorf("formats after the rebuild = %v, want %v", got, rebuilt)
		}
		var d deployments.RebuildData
		if err := r.DecodeData(&d); err != nil {
			t.Errorf("DecodeData() error = %v, want none", err)
		}
		if d.Checked != 6 || d.Rebuilt != 5 || d.UnchangedTotal != 4 || len(d.Unchanged) != 4 {
			t.Errorf("rebuild data = %+v, want 6 checked, 5 rebuilt, and 4 unchanged", d)
		}
		for _, want := range []string{
			"6 deployments looked at, 5 builds made anew, 4 left as they are",
			"changed-main-0000005: its variables are others by now", "gone-main-0000003: its sources are gone",
			"broken-main-0000002: its sources do not build any more",
		} {
			if !strings.Contains(r.Message, want) {
				t.Errorf("message of the rebuild = %q, want %q", r.Message, want)
			}
		}
		// A day later, the replaced artifacts are removed, and no other artifacts.
		time.Sleep(25 * time.Hour)
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		remaining := 0
		for _, err := range fx.bucket.List(t.Context(), blob.ArtifactKey("")) {
			if err != nil {
				t.Fatal(err)
			}
			remaining++
		}
		if remaining != len(rebuilt) {
			t.Errorf("%d artifacts remain, want %d, one for each build", remaining, len(rebuilt))
		}
		if got := fx.formats(t, allDeployments()...); !reflect.DeepEqual(got, rebuilt) {
			t.Errorf("formats after the removal of the replaced artifacts = %v, want %v", got, rebuilt)
		}
		if second, err := deployments.EnsureFormat(t.Context(), fx.table, newer, false, time.Now()); second != "" ||
			err != nil {
			t.Errorf("EnsureFormat(newer) after the rebuild = %q, %v, want no operation and no error", second, err)
		}
	})
}

// TestRebuildRunsOnlyInTheReleaseOfItsFormat checks that the previous release does not change a rebuild while
// both releases run. It ends the rebuild when it runs alone again, and the next upgrade starts another rebuild.
func TestRebuildRunsOnlyInTheReleaseOfItsFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newBuildFixture(t)
		startRebuild := func(format int, forced bool) string {
			t.Helper()
			id, err := deployments.EnsureFormat(t.Context(), fx.table, format, forced, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		if id := startRebuild(older, false); id != "" {
			t.Fatalf("startRebuild(older) without newer builds = %q, want none", id)
		}
		first := startRebuild(newer, true)
		before := fx.engine(t, fx.builder(older))
		r, err := before.Run(t.Context(), first)
		if err != nil || r.Ended() {
			t.Fatalf("Run() by the older release: status = %s, ended: %t, error = %v, want false and none",
				r.Status, r.Ended(), err)
		}
		if id := startRebuild(older, false); id != "" {
			t.Fatalf("startRebuild(older) after a rollback = %q, want none", id)
		}
		time.Sleep(20 * time.Minute)
		if r, err = before.Run(t.Context(), first); err != nil || r.Status != operation.Success ||
			!strings.Contains(r.Message, "another release") {
			t.Fatalf("Run() by the older release after a rollback: status = %s, message = %q, error = %v, want success and a "+
				"message about another release", r.Status, r.Message, err)
		}
		for id, format := range fx.formats(t, allDeployments()...) {
			if !strings.HasPrefix(format, "1") {
				t.Errorf("format of %s = %q, want 1", id, format)
			}
		}
		second := startRebuild(newer, false)
		if second == "" || second == first {
			t.Fatalf("startRebuild(newer) after the next upgrade = %q, want an operation other than %q", second, first)
		}
		time.Sleep(deployments.RebuildDelay)
		finish(t, fx.engine(t, fx.builder(newer)), second)
		if got := fx.formats(t, allDeployments()...); !reflect.DeepEqual(got, rebuilt) {
			t.Errorf("formats after the second rebuild = %v, want %v", got, rebuilt)
		}
	})
}

// interruptingStore calls beforePut before the first artifact is stored.
type interruptingStore struct {
	builds.Artifacts
	beforePut func(name string)
}

func (s *interruptingStore) Put(ctx context.Context, name string, a *project.Artifact) (string, error) {
	if beforePut := s.beforePut; beforePut != nil {
		s.beforePut = nil
		beforePut(name)
	}
	return s.Artifacts.Put(ctx, name, a)
}

// TestConcurrentDeploymentWinsOverRebuild deploys a new build between
// the check and the commit of a rebuild. The new build must stay served.
func TestConcurrentDeploymentWinsOverRebuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newBuildFixture(t)
		newest := func(r deployments.Record) deployments.Served {
			s := *r.Served
			s.Number, s.BuildID, s.Artifact = 10, "newest", "good-main-0000001/newest.2"
			return s
		}
		b := fx.builder(newer, func(o *builds.Options) {
			o.Artifacts = &interruptingStore{o.Artifacts, func(name string) {
				r, err := deployments.Read(t.Context(), fx.table, name)
				if err != nil || name != "good-main-0000001" {
					t.Errorf("Read(%s) before the first Put() = %v, want the deployment good-main-0000001", name, err)
				}
				served := newest(r)
				if err := fx.table.Commit(t.Context(), store.Update(deployments.Key(name),
					store.Set(store.At("served"), served),
					store.Set(store.At("before"), append([]deployments.Served{*r.Served}, r.Previous...)))); err != nil {
					t.Errorf("Commit() of the newest build = %v, want success", err)
				}
			}}
		})
		for _, name := range allDeployments()[1:] {
			if err := fx.table.Commit(t.Context(), store.Delete(deployments.Key(name))); err != nil {
				t.Fatal(err)
			}
		}
		id, err := deployments.EnsureFormat(t.Context(), fx.table, newer, true, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		finish(t, fx.engine(t, b), id)
		r, err := deployments.Read(t.Context(), fx.table, "good-main-0000001")
		if err != nil || r.Served.BuildID != "newest" || r.Served.Artifact != "good-main-0000001/newest.2" ||
			len(r.Previous) != 3 {
			t.Fatalf("Read() = served %+v, previous %+v, %v, want build newest and 3 previous builds", r.Served, r.Previous, err)
		}
		if got := artifacts.FormatOf(r.Previous[0].Artifact); got != newer {
			t.Errorf("format of the previously served artifact %s = %d, want %d", r.Previous[0].Artifact, got, newer)
		}
	})
}

// TestConcurrentRebuildsReplaceOnce checks that two concurrent rebuilds replace each artifact
// once. The second rebuild runs between the check and the commit of the first one.
func TestConcurrentRebuildsReplaceOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newBuildFixture(t)
		var ids []string
		for range 2 {
			id, err := deployments.EnsureFormat(t.Context(), fx.table, newer, true, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		var second operation.Record
		b := fx.builder(newer, func(o *builds.Options) {
			o.Artifacts = &interruptingStore{o.Artifacts, func(string) {
				second = finish(t, fx.engine(t, fx.builder(newer)), ids[1])
			}}
		})
		first := finish(t, fx.engine(t, b), ids[0])
		if got := fx.formats(t, allDeployments()...); !reflect.DeepEqual(got, rebuilt) {
			t.Errorf("formats after two concurrent rebuilds = %v, want %v", got, rebuilt)
		}
		if !strings.Contains(second.Message, " 5 builds made anew") ||
			!strings.Contains(first.Message, " 0 builds made anew") {
			t.Errorf("messages of the two rebuilds = %q and %q, want 0 and 5 builds", first.Message, second.Message)
		}
	})
}

// TestProjectThatCrashesItsWorkerKeepsItsArtifact checks that a project whose build panics in
// each attempt keeps its artifact, and that the rebuild continues with the other projects.
func TestProjectThatCrashesItsWorkerKeepsItsArtifact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newBuildFixture(t)
		b := fx.builder(newer, func(o *builds.Options) {
			o.Verify = func(_ context.Context, a *project.Artifact) []project.Problem {
				if a.Identity.Deployment == "good-main-0000001" {
					panic("it takes all the memory there is")
				}
				return nil
			}
		})
		id, err := deployments.EnsureFormat(t.Context(), fx.table, newer, true, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r := finish(t, fx.engine(t, b), id)
		got := fx.formats(t, allDeployments()...)
		if got["good-main-0000001-0"] != "1" || got["variable-main-0000006-0"] != "2 with the first value" ||
			!strings.Contains(r.Message, "does not come to an end") {
			t.Errorf("formats after a crash of the worker = %v with message %q, want the crashing project in format 1, the "+
				"other in 2, and a message about no end",
				got, r.Message)
		}
	})
}

// TestRebuildsWithFaults checks that a rebuild has the same result as
// without faults, for any failures of the workers, the table and the bucket.
func TestRebuildsWithFaults(t *testing.T) {
	compiler := project.NewCompiler()
	const passes = 40
	operationtest.Simulate(t, func() operationtest.Scenario {
		bucket := blob.NewMemory(time.Now)
		var table *store.Table
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				fx := buildFixture{w.Table, simulatedBucket{w, bucket}, compiler}
				return fx.builder(newer).Definitions()
			},
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				table = w.Table
				err := buildFixture{w.Table, bucket, compiler}.fill(ctx)
				_, startErr := deployments.EnsureFormat(ctx, w.Table, newer, true, time.Now())
				return errors.Join(err, startErr)
			},
			External: func() any {
				var out []string
				for _, name := range allDeployments() {
					r, err := deployments.Read(context.Background(), table, name)
					out = append(out, fmt.Sprint(name, err))
					for _, b := range r.Builds() {
						out = append(out, b.BuildID+" "+b.Artifact)
					}
				}
				return out
			},
			Ignore: []string{"updatedOn", "createdOn"},
		}
	}, passes)
}
