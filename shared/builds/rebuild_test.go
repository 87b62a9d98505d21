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

	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// newer is the format that a later release writes, older the one before.
const newer, older = project.ArtifactFormat, project.ArtifactFormat - 1

// reading is a project whose one route reads a variable when it is built.
var reading = strings.Replace(routes, "https://example.com", "$env(ADDRESS)", 1)

// changedVariables are others than those that projects were built with.
type changedVariables struct{}

func (changedVariables) Resolve(context.Context, string, string, string) (map[string]string, error) {
	return map[string]string{"ADDRESS": "https://changed.example.com"}, nil
}

// installed is an installation whose deployments were built by the release before.
type installed struct {
	table    *store.Table
	bucket   blobs
	compiler *project.Compiler
}

// blobs is a bucket.
type blobs interface {
	builds.Objects
	artifacts.Objects
}

func (i installed) artifacts() *artifacts.Store {
	return artifacts.New(i.bucket, seal.NewSealer(rootKey{}), seal.NewHasher(rootKey{}, "artifact"))
}

// builder is that of a release that writes a format.
func (i installed) builder(format int, also ...func(*builds.Options)) *builds.Builder {
	o := builds.Options{
		Table: i.table, Objects: i.bucket, Variables: changedVariables{}, Compiler: i.compiler, Catalogue: lenient{}, Verify: verify,
		Artifacts: i.artifacts().Writing(format),
	}
	for _, change := range also {
		change(&o)
	}
	return builds.New(o)
}

// build is one of a deployment: its sources, and what is otherwise with it.
type build struct {
	source  string
	untold  bool // its artifact does not tell what it was built with
	noFiles bool
}

// put makes a deployment with builds, the served one first.
func (i installed) put(ctx context.Context, name string, all ...build) error {
	r := deployments.Record{Name: name, AccountID: "a", Account: "demo", Project: "p", Branch: name, Kind: environment.Production, Latest: 9, Ended: 9}
	for n, b := range all {
		served := deployments.Served{Number: int64(9 - n), BuildID: fmt.Sprintf("%s-%d", name, n), Source: fmt.Sprintf("%s/source-%d", name, n)}
		good := b.source
		if !strings.HasPrefix(good, "{\n") {
			good = routes // it was good when it was built
		}
		made, result, err := i.compiler.Compile(ctx, project.Files{"config/routes.oas.json": []byte(good)}, project.Input{
			Identity:  project.Identity{AccountID: "a", Account: "demo", Project: "p", Branch: name, Environment: "production", Deployment: name, BuildID: served.BuildID},
			Variables: map[string]string{"ADDRESS": "https://then.example.com"}, Catalogue: lenient{}, Verify: verify,
		})
		if err != nil || made == nil {
			return fmt.Errorf("%v, %w", result, err)
		}
		made.Buckets = map[string]project.KeyBucket{"kept": {ID: "bckt_1", Name: "kept"}}
		if b.untold {
			made.Env = nil
		}
		if served.Artifact, err = i.artifacts().Writing(older).Put(ctx, name, made); err != nil {
			return err
		}
		if !b.noFiles {
			if err := i.bucket.Put(ctx, blob.SourceKey(served.Source), strings.NewReader(string(archive(files{"config/routes.oas.json": b.source})))); err != nil {
				return err
			}
		}
		if n == 0 {
			r.Served, r.Source = &served, served.Source
		} else {
			r.Before = append(r.Before, served)
		}
	}
	return i.table.Commit(ctx, store.Create(deployments.Key(name), r))
}

// fill makes one deployment of each kind.
func (i installed) fill(ctx context.Context) error {
	return errors.Join(
		i.put(ctx, "good-main-0000001", build{source: routes}, build{source: reading}, build{source: "broken"}),
		i.put(ctx, "broken-main-0000002", build{source: "broken"}, build{source: routes}),
		i.put(ctx, "gone-main-0000003", build{source: routes, noFiles: true}),
		i.put(ctx, "untold-main-0000004", build{source: routes, untold: true}),
		i.put(ctx, "changed-main-0000005", build{source: reading, untold: true}),
		i.put(ctx, "reading-main-0000006", build{source: reading}),
	)
}

// formats tells the formats of all builds, the served one of each deployment first, and where each leads.
func (i installed) formats(t testing.TB, names ...string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names {
		r, err := deployments.Read(t.Context(), i.table, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range r.Builds() {
			a, err := i.artifacts().Get(t.Context(), b.Artifact)
			if err != nil {
				t.Fatalf("%s: %v", b.BuildID, err)
			}
			if a.Identity.BuildID != b.BuildID || a.Buckets["kept"].ID != "bckt_1" {
				t.Errorf("%s is now %+v", b.BuildID, a)
			}
			text := fmt.Sprint(artifacts.FormatOf(b.Artifact))
			if strings.Contains(string(a.Routes[0].Handler.Options), "then") {
				text += " with the value of then"
			} else if strings.Contains(string(a.Routes[0].Handler.Options), "changed") {
				text += " with another value"
			}
			out[b.BuildID] = text
		}
	}
	return out
}

func everything() []string {
	return []string{"good-main-0000001", "broken-main-0000002", "gone-main-0000003", "untold-main-0000004", "changed-main-0000005", "reading-main-0000006"}
}

var rebuilt = map[string]string{
	"good-main-0000001-0": "2", "good-main-0000001-1": "2 with the value of then", "good-main-0000001-2": "1",
	"broken-main-0000002-0": "1", "broken-main-0000002-1": "2", "gone-main-0000003-0": "1", "untold-main-0000004-0": "2",
	"changed-main-0000005-0": "1 with the value of then", "reading-main-0000006-0": "2 with the value of then",
}

func newInstalled(t *testing.T) installed {
	t.Helper()
	i := installed{storetest.Over(t, memory.New(), storetest.Clock(time.Now)), blob.NewMemory(time.Now), project.NewCompiler()}
	if err := i.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func (i installed) engine(t testing.TB, b *builds.Builder) *operation.Engine {
	t.Helper()
	e, err := operation.New(i.table, b.Definitions(), operation.Options{Now: time.Now, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// finish runs an operation to its end, as sweeps do.
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
	t.Fatalf("%s has not ended: %s in %s", id, r.Message, r.State)
	return r
}

// TestRebuildKeepsWhatIsServed: the format is another, and neither what a deployment does nor what it can return to.
func TestRebuildKeepsWhatIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstalled(t)
		id, err := deployments.KeepFormat(t.Context(), i.table, newer, false, time.Now())
		if err != nil || id == "" {
			t.Fatal(id, err)
		}
		e := i.engine(t, i.builder(newer))
		if r, err := e.Run(t.Context(), id); err != nil || r.Steps > 0 {
			t.Fatalf("it does not wait until the update is over: %+v, %v", r, err)
		}
		time.Sleep(deployments.RebuildDelay)
		r := finish(t, e, id)
		if got := i.formats(t, everything()...); !reflect.DeepEqual(got, rebuilt) {
			t.Errorf("the builds are %v", got)
		}
		var d deployments.RebuildData
		if err := r.DecodeData(&d); err != nil || d.Seen != 6 || d.Rebuilt != 5 || d.AllKept != 4 || len(d.Kept) != 4 {
			t.Errorf("it tells of %+v, %v", d, err)
		}
		for _, want := range []string{"6 deployments looked at, 5 builds made anew, 4 left as they are", "changed-main-0000005: its variables are others by now", "gone-main-0000003: its sources are gone", "broken-main-0000002: its sources do not build any more"} {
			if !strings.Contains(r.Message, want) {
				t.Errorf("it says %q, want %q", r.Message, want)
			}
		}
		// What was displaced is removed a day later, and nothing else.
		for _, name := range everything() {
			if _, err := i.bucket.(*blob.Memory).Head(t.Context(), blob.ArtifactKey(name)); !errors.Is(err, blob.ErrNotFound) {
				t.Error(err)
			}
		}
		time.Sleep(25 * time.Hour)
		if err := e.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		left := 0
		for o, err := range i.bucket.List(t.Context(), blob.ArtifactKey("")) {
			if err != nil {
				t.Fatal(err)
			}
			left++
			_ = o
		}
		if left != len(rebuilt) {
			t.Errorf("%d artifacts are left of %d builds", left, len(rebuilt))
		}
		if again, err := deployments.KeepFormat(t.Context(), i.table, newer, false, time.Now()); again != "" || err != nil {
			t.Errorf("there is another: %q, %v", again, err)
		}
	})
}

// TestAPassBelongsToTheReleaseThatWritesItsFormat: the release before leaves it alone while both are there, and ends
// it once it is there alone again; the next rise has another.
func TestAPassBelongsToTheReleaseThatWritesItsFormat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstalled(t)
		keep := func(format int, asked bool) string {
			t.Helper()
			id, err := deployments.KeepFormat(t.Context(), i.table, format, asked, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		if id := keep(older, false); id != "" {
			t.Fatalf("%s is begun where nothing is older", id)
		}
		first := keep(newer, true)
		before := i.engine(t, i.builder(older))
		r, err := before.Run(t.Context(), first)
		if err != nil || r.Ended() {
			t.Fatalf("the release before has done %+v, %v", r, err)
		}
		if id := keep(older, false); id != "" {
			t.Fatalf("%s is begun by a rollback", id)
		}
		time.Sleep(20 * time.Minute)
		if r, err = before.Run(t.Context(), first); err != nil || r.Status != operation.Success || !strings.Contains(r.Message, "another release") {
			t.Fatalf("after a rollback it is %+v, %v", r, err)
		}
		for id, format := range i.formats(t, everything()...) {
			if !strings.HasPrefix(format, "1") {
				t.Errorf("%s has format %s", id, format)
			}
		}
		second := keep(newer, false)
		if second == "" || second == first {
			t.Fatalf("the next rise begins %q", second)
		}
		time.Sleep(deployments.RebuildDelay)
		finish(t, i.engine(t, i.builder(newer)), second)
		if got := i.formats(t, everything()...); !reflect.DeepEqual(got, rebuilt) {
			t.Errorf("the builds are %v", got)
		}
	})
}

// interrupting has something happen before an artifact is stored, once.
type interrupting struct {
	builds.Artifacts
	first func(name string)
}

func (i *interrupting) Put(ctx context.Context, name string, a *project.Artifact) (string, error) {
	if first := i.first; first != nil {
		i.first = nil
		first(name)
	}
	return i.Artifacts.Put(ctx, name, a)
}

// TestADeploymentInBetweenWins over what a pass has looked at before it.
func TestADeploymentInBetweenWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstalled(t)
		now := func(r deployments.Record) deployments.Served {
			s := *r.Served
			s.Number, s.BuildID, s.Artifact = 10, "newest", "good-main-0000001/newest.2"
			return s
		}
		b := i.builder(newer, func(o *builds.Options) {
			o.Artifacts = &interrupting{o.Artifacts, func(name string) {
				r, err := deployments.Read(t.Context(), i.table, name)
				if err != nil || name != "good-main-0000001" {
					t.Error(name, err)
				}
				served := now(r)
				if err := i.table.Commit(t.Context(), store.Update(deployments.Key(name),
					store.Set(store.At("served"), served), store.Set(store.At("before"), append([]deployments.Served{*r.Served}, r.Before...)))); err != nil {
					t.Error(err)
				}
			}}
		})
		for _, name := range everything()[1:] {
			if err := i.table.Commit(t.Context(), store.Delete(deployments.Key(name))); err != nil {
				t.Fatal(err)
			}
		}
		id, err := deployments.KeepFormat(t.Context(), i.table, newer, true, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		finish(t, i.engine(t, b), id)
		r, err := deployments.Read(t.Context(), i.table, "good-main-0000001")
		if err != nil || r.Served.BuildID != "newest" || r.Served.Artifact != "good-main-0000001/newest.2" || len(r.Before) != 3 {
			t.Fatalf("it serves %+v before %+v, %v", r.Served, r.Before, err)
		}
		if artifacts.FormatOf(r.Before[0].Artifact) != newer {
			t.Errorf("what was served before has %s", r.Before[0].Artifact)
		}
	})
}

// TestTwoPassesAtOnceMakeEachBuildOnce: one is done with everything between what the other looks at and commits.
func TestTwoPassesAtOnceMakeEachBuildOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstalled(t)
		var ids []string
		for range 2 {
			id, err := deployments.KeepFormat(t.Context(), i.table, newer, true, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, id)
		}
		var second operation.Record
		b := i.builder(newer, func(o *builds.Options) {
			o.Artifacts = &interrupting{o.Artifacts, func(string) { second = finish(t, i.engine(t, i.builder(newer)), ids[1]) }}
		})
		first := finish(t, i.engine(t, b), ids[0])
		if got := i.formats(t, everything()...); !reflect.DeepEqual(got, rebuilt) {
			t.Errorf("the builds are %v", got)
		}
		if !strings.Contains(second.Message, " 5 builds made anew") || !strings.Contains(first.Message, " 0 builds made anew") {
			t.Errorf("one says %s, the other %s", first.Message, second.Message)
		}
	})
}

// TestAProjectThatEndsItsWorkerIsLeftAsItIs, and the pass goes on.
func TestAProjectThatEndsItsWorkerIsLeftAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := newInstalled(t)
		b := i.builder(newer, func(o *builds.Options) {
			o.Artifacts = &interrupting{Artifacts: o.Artifacts}
			o.Verify = func(a *project.Artifact) []project.Problem {
				if a.Identity.Deployment == "good-main-0000001" {
					panic("it takes all the memory there is")
				}
				return nil
			}
		})
		id, err := deployments.KeepFormat(t.Context(), i.table, newer, true, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		r := finish(t, i.engine(t, b), id)
		got := i.formats(t, everything()...)
		if got["good-main-0000001-0"] != "1" || got["reading-main-0000006-0"] != "2 with the value of then" || !strings.Contains(r.Message, "does not come to an end") {
			t.Errorf("the builds are %v; it says %s", got, r.Message)
		}
	})
}

// TestRebuildsSurviveEverything has a pass end as an undisturbed one does, whatever happens to the workers,
// the table and the bucket.
func TestRebuildsSurviveEverything(t *testing.T) {
	compiler := project.NewCompiler()
	const passes = 40
	operationtest.Simulate(t, func() operationtest.Scenario {
		bucket := blob.NewMemory(time.Now)
		var table *store.Table
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				i := installed{w.Table, simulated{w, bucket}, compiler}
				return i.builder(newer).Definitions()
			},
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				table = w.Table
				err := installed{w.Table, bucket, compiler}.fill(ctx)
				_, begun := deployments.KeepFormat(ctx, w.Table, newer, true, time.Now())
				return errors.Join(err, begun)
			},
			Outside: func() any {
				var out []string
				for _, name := range everything() {
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
