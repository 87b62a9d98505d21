package builds_test

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// simulatedBucket is the bucket with the faults that the simulation injects into a worker's calls.
type simulatedBucket struct {
	w     *operationtest.Worker
	inner *blob.Memory
}

var _ builds.Objects = simulatedBucket{}

func (s simulatedBucket) Get(
	ctx context.Context, key, etag string, limit int64,
) (r io.ReadCloser, o blob.Object, err error) {
	err = s.w.Call(ctx, "get "+key, func() (err error) {
		r, o, err = s.inner.Get(ctx, key, etag, limit)
		return err
	})
	return r, o, err
}

func (s simulatedBucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return s.w.Call(ctx, "put "+key, func() error { return s.inner.Put(ctx, key, body) })
}

func (s simulatedBucket) Delete(ctx context.Context, key string) error {
	return s.w.Call(ctx, "delete "+key, func() error { return s.inner.Delete(ctx, key) })
}

func (s simulatedBucket) List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error] {
	return func(yield func(blob.Object, error) bool) {
		var all []blob.Object
		err := s.w.Call(ctx, "list "+prefix, func() error {
			for o, err := range s.inner.List(ctx, prefix) {
				if err != nil {
					return err
				}
				all = append(all, o)
			}
			return nil
		})
		if err != nil {
			yield(blob.Object{}, err)
			return
		}
		for _, o := range all {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// scenario returns a scenario with the builds of arrange, and the removal of a deleted deployment's objects.
func scenario(compiler *project.Compiler, archives archiveSet, temporary string) operationtest.Scenario {
	bucket := blob.NewMemory(time.Now)
	var table *store.Table
	var names []string
	return operationtest.Scenario{
		Definitions: func(w *operationtest.Worker) []operation.Definition {
			objects := simulatedBucket{w, bucket}
			return builds.New(builds.Options{
				TempDir: temporary, Table: w.Table, Objects: objects, Variables: noVariables{}, Compiler: compiler,
				Catalog: lenientCatalog{}, Verify: verify,
				Artifacts: artifacts.New(objects, seal.NewSealer(rootKey{}), seal.NewHasher(rootKey{}, "artifact")),
			}).Definitions()
		},
		Setup: func(ctx context.Context, w *operationtest.Worker) error {
			table = w.Table
			var err error
			names, err = arrange(ctx, w.Table, bucket, archives)
			return err
		},
		External: func() any {
			// Compare the records without their times, and the keys in the bucket.
			out := []string{}
			for _, name := range names {
				r, err := deployments.Read(context.Background(), table, name)
				if err != nil {
					out = append(out, name+" "+err.Error())
					continue
				}
				served := "nothing"
				if r.Served != nil {
					served = fmt.Sprint(r.Served.Number, r.Served.BuildID, r.Served.Artifact, r.Served.Source)
				}
				out = append(out, fmt.Sprint(name, r.Latest, r.LatestEnded, r.Source, served, len(r.Previous)))
			}
			for o, err := range bucket.List(context.Background(), "") {
				out = append(out, fmt.Sprint(o.Key, err))
			}
			return out
		},
		Ignore: []string{"updatedOn", "served", "deletedOn"},
	}
}

// archiveSet has packed archives, which are created once for all runs.
type archiveSet struct{ valid, invalid []byte }

// simulationInputs returns what all runs share: a compiler, the archives, and a folder for temporary files.
func simulationInputs(t *testing.T) (compiler *project.Compiler, packed archiveSet, temporary string) {
	t.Helper()
	return project.NewCompiler(), archiveSet{
		valid:   archive(files{"config/routes.oas.json": routes}),
		invalid: archive(files{"config/routes.oas.json": "{}"}),
	}, inMemory(t)
}

// inMemory returns a folder for temporary files. If possible, the
// folder is in memory, because each run creates about twenty files.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gatewright-builds-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// simulationRuns is the number of seeds that the simulation runs in `make test`; `make simulations` runs eight times as
// many. TestSimulationDetectsUnguardedDeployment does not depend on this number.
const simulationRuns = 500

// noBuckets creates no key buckets, because their tokens would differ between runs.
type noBuckets struct{}

func (noBuckets) DefaultBuckets(auth.Owner, string) *keys.DefaultBuckets {
	return &keys.DefaultBuckets{}
}

// arrange uploads archives, starts their builds, which succeed or fail for different
// reasons, and deletes one of the deployments. Each call has the same results.
func arrange(
	ctx context.Context, table *store.Table, bucket *blob.Memory, archives archiveSet,
) (names []string, err error) {
	source := ids.NewSource(rand.NewChaCha8([32]byte{7}), time.Now)
	service := deployments.New(installation.Parts{Table: table, Bucket: bucket, IDs: source, Now: time.Now}, noBuckets{})
	owner := auth.Owner{AccountID: "a", Account: "demo", Viewer: auth.Principal{Permissions: auth.Full()}}
	request := func() context.Context {
		return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
			AccountID: "a", RequestID: source.UUID(),
			Time: time.Now(),
		}))
	}
	for _, c := range []struct {
		branch string
		after  func(key string) // changes the uploaded object after the build was started; nil for no change
		body   []byte
	}{
		{branch: "good", body: archives.valid},
		{branch: "bad", body: archives.invalid},
		{branch: "cut", body: archives.valid[:50]},
		{branch: "replaced", body: archives.valid, after: func(key string) { bucket.Upload(key, []byte("another")) }},
		{branch: "vanished", body: []byte("x"), after: func(key string) { _ = bucket.Delete(ctx, key) }},
		{branch: "deleted", body: archives.valid},
	} {
		u, err := service.IssueUpload(request(), deployments.UploadLocator{Owner: owner, Project: "p", Branch: c.branch})
		if err != nil {
			return nil, err
		}
		o := bucket.Upload(blob.UploadKey(u.StatusID), c.body)
		if _, err := service.Claim(ctx, deployments.Arrival{
			StatusID: u.StatusID, ETag: o.ETag,
			UploadedOn: time.Now(),
		}); err != nil {
			return nil, err
		}
		if c.after != nil {
			c.after(o.Key)
		}
	}
	list, err := service.ListDeployments(request(), owner, "p")
	if err != nil {
		return nil, err
	}
	for _, d := range list {
		if d.Branch == "deleted" {
			for i := range 5 {
				bucket.Upload(blob.SourceKey(fmt.Sprintf("%s/old-%d", d.Name, i)), []byte("x"))
				bucket.Upload(blob.ArtifactKey(fmt.Sprintf("%s/old-%d", d.Name, i)), []byte("x"))
			}
			if err := service.DeleteDeployment(request(), deployments.DeploymentLocator{
				Owner:      owner,
				Deployment: d.Name,
			}); err != nil {
				return nil, err
			}
		}
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names, nil
}

// TestBuildsWithFaults checks that each run has the same result as a run
// without faults, for any failures of the workers, the table and the bucket.
func TestBuildsWithFaults(t *testing.T) {
	compiler, archives, temporary := simulationInputs(t)
	operationtest.Simulate(t, func() operationtest.Scenario {
		return scenario(compiler, archives, temporary)
	}, simulationRuns)
}

// TestSimulationDetectsUnguardedDeployment commits the writes of the state
// deploy outside of its step, and checks that the simulation fails.
func TestSimulationDetectsUnguardedDeployment(t *testing.T) {
	simulations.SkipUnderRace(t)
	compiler, archives, temporary := simulationInputs(t)
	broken := func() operationtest.Scenario {
		s := scenario(compiler, archives, temporary)
		original := s.Definitions
		s.Definitions = func(w *operationtest.Worker) []operation.Definition {
			definitions := original(w)
			deploy := definitions[0].States[deployments.Deploy]
			task := deploy.Task
			deploy.Task = func(ctx context.Context, step operation.Step) (operation.Result, error) {
				result, err := task(ctx, step)
				if err != nil || len(result.Writes) == 0 {
					return result, err
				}
				err = w.Table.Commit(ctx,
					append(result.Writes, store.Upsert(store.KeyPrefix("x").Key(), store.Add(store.At("times"), 1)))...)
				result.Writes = nil
				return result, err
			}
			definitions[0].States[deployments.Deploy] = deploy
			return definitions
		}
		return s
	}
	failure := operationtest.Explore(t, broken, 200)
	if failure == nil {
		t.Fatal("Explore(unguarded deployment) = nil, want a failure")
	}
	t.Logf("found by -seed=%s", failure.Seed)
}

// noVariables is an environment without variables.
type noVariables struct{}

func (noVariables) Resolve(context.Context, string, string, string) (map[string]string, error) {
	return map[string]string{}, nil
}
