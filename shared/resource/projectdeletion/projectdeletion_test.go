package projectdeletion_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/projectdeletion"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

const account = "a"

// owner has full access.
var owner = auth.Owner{
	AccountID: account, Account: "demo",
	Viewer: auth.Principal{AccountID: account, Permissions: auth.Full()},
}

// testRootKey provides a constant root key.
type testRootKey struct{}

func (testRootKey) Root(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// services are the services that create and read the contents of a project.
type services struct {
	parts       installation.Parts
	deployments *deployments.Service
	variables   *variables.Service
	keys        *keys.Service
	tunnels     *tunnels.Service
}

func servicesOf(table *store.Table, source *ids.Source, now func() time.Time) services {
	parts := installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.example.com"},
		Table:  table, Bucket: blob.NewMemory(now), Key: testRootKey{}, IDs: source, Now: now,
	}
	return services{parts, deployments.Open(parts), variables.Open(parts), keys.Open(parts), tunnels.Open(parts)}
}

// request returns the context of one request, with the same audit record in each run.
func request(ctx context.Context, id string) context.Context {
	return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
		AccountID: account, Time: storetest.Epoch,
		RequestID: id,
	}))
}

func branch(name string) variables.Branch {
	return variables.Branch{Owner: owner, Project: "shop", Branch: name}
}

// fillProject creates the project shop with two environments and variables of three branches, one of them without an
// environment. It creates a consumer with a key in the project's production bucket, and a tunnel whose service the
// project may call. It also creates another project.
func (s services) fillProject(ctx context.Context) error {
	n := 0
	nextRequest := func() context.Context {
		n++
		return request(ctx, fmt.Sprint("fill-", n))
	}
	for _, b := range []string{"main", "feature/x"} {
		if _, err := s.deployments.IssueUpload(nextRequest(),
			deployments.UploadLocator{Owner: owner, Project: "shop", Branch: b}); err != nil {
			return err
		}
	}
	for _, b := range []string{"main", "feature/x", "never deployed"} {
		for _, name := range []string{"A", "B"} {
			if _, err := s.variables.Create(nextRequest(), branch(b),
				variables.NewVariable{Name: name, Value: "1"}); err != nil {
				return err
			}
		}
	}
	if _, err := s.keys.CreateConsumer(nextRequest(), keys.BucketLocator{Owner: owner, Bucket: "shop-production"},
		keys.NewConsumer{Name: "ada", WithKey: true}); err != nil {
		return err
	}
	blog := store.Put(store.ProjectKey(account, "blog"),
		deployments.Project{ID: "p-blog", AccountID: account, Name: "blog"})
	if err := s.parts.Table.Commit(ctx, blog); err != nil {
		return err
	}
	tunnelCreated, err := s.tunnels.Create(nextRequest(), owner, "office")
	if err != nil {
		return err
	}
	configureOp, err := s.tunnels.Configure(nextRequest(), owner, tunnelCreated.ID, []tunnels.Spec{stock("shop", "blog")})
	if err != nil {
		return err
	}
	engine, err := operation.New(s.parts.Table, s.tunnels.Definitions(),
		operation.Options{Now: s.parts.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = engine.Run(ctx, configureOp.ID)
	return err
}

// stock returns the service stock of a tunnel, which all environments of the projects may call.
func stock(projects ...string) tunnels.Spec {
	s := tunnels.Spec{Name: "stock", Endpoint: "http://localhost"}
	for _, p := range projects {
		s.Configurations = append(s.Configurations, tunnels.Configuration{Project: p, AccessibleBy: environment.Kinds()})
	}
	return s
}

// callableServices returns the services of tunnels that the project shop may call, as configured and as provisioned.
func (s services) callableServices(ctx context.Context) (out []string, err error) {
	all, err := s.tunnels.List(ctx, owner)
	if err != nil {
		return nil, err
	}
	specs, err := store.Collect[tunnels.Spec](ctx, s.parts.Table, store.Query{PK: "tunnel-service#" + account})
	for _, t := range all {
		configured, err := s.tunnels.ConfiguredServices(ctx, owner, t.ID)
		if err != nil {
			return nil, err
		}
		specs = append(specs, configured...)
	}
	for _, spec := range specs {
		if slices.ContainsFunc(spec.Configurations, func(c tunnels.Configuration) bool { return c.Project == "shop" }) {
			out = append(out, "a call of "+spec.Name)
		}
	}
	return out, err
}

// remainingContents returns the contents of the project shop that the services still find.
func (s services) remainingContents(ctx context.Context) (out []string, err error) {
	if out, err = s.callableServices(ctx); err != nil {
		return nil, err
	}
	list, err := s.deployments.ListEnvironments(ctx, owner, "shop")
	if err != nil && !fault.Is(err, fault.NotFound) {
		return nil, err
	}
	for _, e := range list {
		out = append(out, "environment "+e.Branch)
		if _, err := deployments.Read(ctx, s.parts.Table, e.Name); err != nil {
			out = append(out, "whose deployment is gone")
		}
	}
	for _, b := range []string{"main", "feature/x", "never deployed"} {
		values, err := s.variables.Resolve(ctx, account, "shop", b)
		if err != nil {
			return nil, err
		}
		for range values {
			out = append(out, "variable of "+b)
		}
	}
	buckets, _, err := s.keys.ListBuckets(ctx, owner, store.Page{Limit: 100})
	if err != nil {
		return nil, err
	}
	for _, b := range buckets {
		out = append(out, "bucket "+b.Name)
		consumers, _, _, err := s.keys.ListConsumers(ctx, keys.BucketLocator{Owner: owner, Bucket: b.Name}, keys.Filter{},
			store.Page{Limit: 100}, keys.Include{})
		if err != nil {
			return nil, err
		}
		for _, c := range consumers {
			out = append(out, "consumer "+c.Name)
		}
	}
	return out, nil
}

// definitions returns the deletion and the operations that it begins. deployments.Clean does nothing here: package
// builds tests it.
func definitions(s services) []operation.Definition {
	noop := func(context.Context, operation.Step) (operation.Result, error) { return operation.Result{}, nil }
	clean := operation.Definition{Kind: deployments.Clean, First: "x", States: map[string]operation.State{
		"x": {Task: noop, Next: operation.Succeed, MustSucceed: true},
	}}
	return slices.Concat(projectdeletion.Open(s.parts).Definitions(), s.tunnels.Definitions(),
		keys.NewCascades(s.parts.Table).Definitions(), []operation.Definition{clean})
}

// runs is the number of random runs in `make test`.
const runs = 100

// TestDeletionSurvivesFailures runs the deletion with failures of the workers and the table, and checks that it has the
// same result as without failures. When the name is free, no contents of the project can be found.
func TestDeletionSurvivesFailures(t *testing.T) {
	t.Parallel()
	simulate(t, runs, func(context.Context, services) error { return nil }, func(ctx context.Context, s services) error {
		_, err := s.deployments.DeleteProject(request(ctx, "delete"), owner, "shop")
		return err
	})
}

// TestDeletionDuringProvisioning deletes a project while an operation provisions services that the project may call.
// The result must be the same as without failures, and when the name is free, no contents can be found.
func TestDeletionDuringProvisioning(t *testing.T) {
	t.Parallel()
	simulate(t, runs/5, func(ctx context.Context, s services) error {
		all, err := s.tunnels.List(ctx, owner)
		if err != nil {
			return err
		}
		moved, added := stock("blog", "shop"), stock("shop")
		moved.Endpoint, added.Name = "http://elsewhere", "fresh"
		if _, err := s.tunnels.Configure(request(ctx, "configure"), owner, all[0].ID,
			[]tunnels.Spec{added, moved}); err != nil {
			return err
		}
		_, err = s.deployments.DeleteProject(request(ctx, "delete"), owner, "shop")
		return err
	}, nil)
}

// simulate runs the deletion of a project with contents in operationtest.Simulate. arrange runs before the workers
// start. act, if not nil, is a request that begins the deletion.
func simulate(t *testing.T, runs int, arrange, act func(context.Context, services) error) {
	t.Helper()
	operationtest.Simulate(t, func() operationtest.Scenario {
		source := ids.NewSource(storetest.Random(t), now)
		servicesFor := func(w *operationtest.Worker) services { return servicesOf(w.Table, source, w.Now) }
		out := operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition { return definitions(servicesFor(w)) },
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				if err := servicesFor(w).fillProject(ctx); err != nil {
					return err
				}
				return arrange(ctx, servicesFor(w))
			},
			TableOnly: true,
			Invariant: func(ctx context.Context, table *store.Table) error {
				project := store.Get(store.ProjectKey(account, "shop"), nil)
				if err := table.Load(ctx, project); err != nil || project.Found {
					return err
				}
				remaining, err := servicesOf(table, source, now).remainingContents(ctx)
				if err == nil && len(remaining) > 0 {
					err = fmt.Errorf("the name of the project is free, but %q remain, want no contents", remaining)
				}
				return err
			},
			Ignore: []string{"createdOn", "updatedOn", "deletedOn", "version", "token", "sealed", "timestamp", "ttl"},
		}
		if act != nil {
			out.Request = func(ctx context.Context, w *operationtest.Worker) error { return act(ctx, servicesFor(w)) }
		}
		return out
	}, runs)
}

// interruptedBackend calls beforeCommit before commit number target. The first commit has the number 1.
type interruptedBackend struct {
	store.Backend
	target, commits int
	beforeCommit    func()
}

// Transact implements store.Backend.
func (b *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.commits++; b.commits == b.target {
		b.beforeCommit()
	}
	return b.Backend.Transact(ctx, token, writes)
}

// recreation is a request that creates a resource in the project shop.
type recreation struct {
	request func(ctx context.Context, s services) error
	// want is the contents of the project after a request that succeeds after the deletion. It is nil if such a request
	// is refused.
	want []string
}

func recreations() map[string]recreation {
	projectBuckets := []string{"bucket shop-preview", "bucket shop-production", "bucket shop-working-copy"}
	return map[string]recreation{
		"a project": {func(ctx context.Context, s services) error {
			_, err := s.deployments.CreateProject(ctx, owner, "shop")
			return err
		}, projectBuckets},
		"an upload": {func(ctx context.Context, s services) error {
			_, err := s.deployments.IssueUpload(ctx, deployments.UploadLocator{Owner: owner, Project: "shop", Branch: "main"})
			return err
		}, append([]string{"environment main"}, projectBuckets...)},
		"an upload of another branch": {func(ctx context.Context, s services) error {
			_, err := s.deployments.IssueUpload(ctx, deployments.UploadLocator{Owner: owner, Project: "shop", Branch: "other"})
			return err
		}, append([]string{"environment other"}, projectBuckets...)},
		"an environment": {func(ctx context.Context, s services) error {
			_, err := s.deployments.CreateEnvironment(ctx, owner, "shop", "new", "preview")
			return err
		}, nil},
		"a tunnel's service": {func(ctx context.Context, s services) error {
			all, err := s.tunnels.List(ctx, owner)
			if err == nil {
				_, err = s.tunnels.Configure(ctx, owner, all[0].ID, []tunnels.Spec{stock("blog", "shop")})
			}
			return err
		}, nil},
		"a variable": {func(ctx context.Context, s services) error {
			_, err := s.variables.Create(ctx, branch("main"), variables.NewVariable{Name: "NEW"})
			return err
		}, nil},
	}
}

// runDeletion runs an operation, and fails the test unless it succeeds. id is the id of the operation.
func (s services) runDeletion(t *testing.T, id string) {
	t.Helper()
	engine, err := operation.New(s.parts.Table, definitions(s),
		operation.Options{Now: s.parts.Now, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := engine.Run(t.Context(), id); err != nil || r.Status != operation.Success {
		t.Fatalf("Run(deletion) = %+v, %v, want %s", r, err, operation.Success)
	}
}

// startDeletion begins the deletion of the project and returns its id.
func (s services) startDeletion(t *testing.T) string {
	t.Helper()
	d, err := s.deployments.DeleteProject(request(t.Context(), "delete"), owner, "shop")
	if err != nil || d.Status != operation.InProgress {
		t.Fatalf("DeleteProject() = %+v, %v, want %s and no error", d, err, operation.InProgress)
	}
	return d.ID
}

func newServices(t *testing.T, b store.Backend, source *ids.Source) services {
	t.Helper()
	return servicesOf(storetest.NewWithBackend(t, b, storetest.Clock(now)), source, now)
}

func now() time.Time { return storetest.Epoch }

// check compares the contents of the project with the expected contents after the request.
func (r recreation) check(t *testing.T, s services, created bool) {
	t.Helper()
	want := r.want
	if !created {
		want = nil
	}
	if got, err := s.remainingContents(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("created %t: remaining contents = %q, %v, want %q", created, got, err, want)
	}
}

// TestRecreatedProjectHasNoOldContents creates the project again, with each kind of request, before each commit of its
// deletion's operation and after the last one: the request is refused, or it creates a complete new project without
// contents of the old one.
func TestRecreatedProjectHasNoOldContents(t *testing.T) {
	for name, r := range recreations() {
		t.Run(name, func(t *testing.T) {
			for commit, last := 1, false; !last; commit++ {
				backend := &interruptedBackend{Backend: memory.New(), target: commit}
				source := ids.NewSource(storetest.Random(t), now)
				s := newServices(t, backend.Backend, source)
				if err := s.fillProject(t.Context()); err != nil {
					t.Fatal(err)
				}
				created := false
				backend.beforeCommit = func() {
					err := r.request(request(t.Context(), "again"), s)
					if created = err == nil; !created && fault.KindOf(err) == fault.Internal {
						t.Errorf("request before commit %d: error = %v, want success or an expected error", commit, err)
					}
				}
				id := s.startDeletion(t)
				newServices(t, backend, source).runDeletion(t, id)
				if last = backend.commits < commit; last {
					backend.beforeCommit()
					if created != (r.want != nil) {
						t.Errorf("request after the deletion creates: %t, want %t", created, r.want != nil)
					}
				}
				r.check(t, s, created)
			}
		})
	}
}

// TestProjectDeletedDuringRequest deletes the project between the read and the commit of a request. The deletion is
// only begun, or also finished.
func TestProjectDeletedDuringRequest(t *testing.T) {
	for name, r := range recreations() {
		for _, finished := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, finished=%t", name, finished), func(t *testing.T) {
				backend := &interruptedBackend{Backend: memory.New(), target: 1}
				source := ids.NewSource(storetest.Random(t), now)
				s := newServices(t, backend.Backend, source)
				if err := s.fillProject(t.Context()); err != nil {
					t.Fatal(err)
				}
				var id string
				backend.beforeCommit = func() {
					if id = s.startDeletion(t); finished {
						s.runDeletion(t, id)
					}
				}
				err := r.request(request(t.Context(), "again"), newServices(t, backend, source))
				if fault.KindOf(err) == fault.Internal && err != nil {
					t.Errorf("request during the deletion: error = %v, want success or an expected error", err)
				}
				if !finished {
					s.runDeletion(t, id)
				}
				// Resources that were created before the end of the deletion are deleted with the project.
				r.check(t, s, finished && err == nil)
			})
		}
	}
}

func TestDeletionIsReadableAfterItsEnd(t *testing.T) {
	s := newServices(t, memory.New(), ids.NewSource(storetest.Random(t), now))
	if err := s.fillProject(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := s.startDeletion(t)
	s.runDeletion(t, id)
	if got, err := s.deployments.ReadDeletion(t.Context(), owner, "shop", id); err != nil ||
		got.Status != operation.Success {
		t.Errorf("ReadDeletion() = %+v, %v, want %s", got, err, operation.Success)
	}
	otherAccount, restricted := owner, owner
	otherAccount.AccountID = "b"
	restricted.Viewer = auth.Principal{Permissions: auth.Permissions{
		Projects:     []string{auth.AllProjects},
		Environments: []environment.Kind{environment.Preview},
	}}
	for name, err := range map[string]error{
		"another project's": errorOf(s.deployments.ReadDeletion(t.Context(), owner, "blog", id)),
		"another account's": errorOf(s.deployments.ReadDeletion(t.Context(), otherAccount, "shop", id)),
		"a limited key's":   errorOf(s.deployments.ReadDeletion(t.Context(), restricted, "shop", id)),
		"another kind's":    errorOf(s.deployments.ReadDeletion(t.Context(), owner, "shop", id+"-production")),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("ReadDeletion(%s) error = %v, want %v", name, err, fault.NotFound)
		}
	}
}

func errorOf(_ deployments.Deletion, err error) error { return err }
