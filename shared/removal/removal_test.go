package removal_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/removal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnels"
	"github.com/gatewright/gatewright/shared/variables"
)

const account = "a"

// owner is who has everything.
var owner = auth.Owner{AccountID: account, Account: "demo", Viewer: auth.Principal{AccountID: account, Permissions: auth.Full()}}

// root is a root key that no installation has.
type root struct{}

func (root) Root(context.Context) ([]byte, error) {
	return []byte("0123456789abcdef0123456789abcdef"), nil
}

// services are what makes and reads what is in a project.
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
		Table:  table, Bucket: blob.NewMemory(now), Key: root{}, IDs: source, Now: now,
	}
	return services{parts, deployments.Open(parts), variables.Open(parts), keys.Open(parts), tunnels.Open(parts)}
}

// request is the context of one request, whose record is the same in each run.
func request(ctx context.Context, id string) context.Context {
	return store.Decide(audit.With(ctx, &audit.Request{AccountID: account, Time: storetest.Epoch, RequestID: id}))
}

func branch(name string) variables.Branch {
	return variables.Branch{Owner: owner, Project: "shop", Branch: name}
}

// fill makes the project shop with two environments, variables of three branches,
// of which one has no environment, a consumer with a key in a bucket of its own, and a
// tunnel whose service it may call, and another project too.
func (s services) fill(ctx context.Context) error {
	n := 0
	next := func() context.Context {
		n++
		return request(ctx, fmt.Sprint("fill-", n))
	}
	for _, b := range []string{"main", "feature/x"} {
		if _, err := s.deployments.IssueUpload(next(), deployments.UploadAt{Owner: owner, Project: "shop", Branch: b}); err != nil {
			return err
		}
	}
	for _, b := range []string{"main", "feature/x", "never deployed"} {
		for _, name := range []string{"A", "B"} {
			if _, err := s.variables.Create(next(), branch(b), variables.NewVariable{Name: name, Value: "1"}); err != nil {
				return err
			}
		}
	}
	if _, err := s.keys.CreateConsumer(next(), keys.BucketAt{Owner: owner, Bucket: "shop-production"}, keys.NewConsumer{Name: "ada", WithKey: true}); err != nil {
		return err
	}
	blog := store.Put(store.ProjectKey(account, "blog"), deployments.Project{ID: "p-blog", AccountID: account, Name: "blog"})
	if err := s.parts.Table.Commit(ctx, blog); err != nil {
		return err
	}
	made, err := s.tunnels.Create(next(), owner, "office")
	if err != nil {
		return err
	}
	begun, err := s.tunnels.Configure(next(), owner, made.ID, []tunnels.Spec{stock("shop", "blog")})
	if err != nil {
		return err
	}
	engine, err := operation.New(s.parts.Table, s.tunnels.Definitions(), operation.Options{Now: s.parts.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	_, err = engine.Run(ctx, begun.ID)
	return err
}

// stock is a service that the production of projects may call.
func stock(projects ...string) tunnels.Spec {
	s := tunnels.Spec{Name: "stock", Endpoint: "http://localhost"}
	for _, p := range projects {
		s.Configurations = append(s.Configurations, tunnels.Configuration{Project: p, AccessibleBy: environment.Kinds()})
	}
	return s
}

// callable lists what the project may call of the services of tunnels, as they are configured
// and as they are provisioned.
func (s services) callable(ctx context.Context) (out []string, err error) {
	all, err := s.tunnels.List(ctx, owner)
	if err != nil {
		return nil, err
	}
	specs, err := store.Collect[tunnels.Spec](ctx, s.parts.Table, store.Query{PK: "tunnel-service#" + account})
	for _, t := range all {
		configured, err := s.tunnels.Configured(ctx, owner, t.ID)
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

// found lists what of a project can be found.
func (s services) found(ctx context.Context) (out []string, err error) {
	if out, err = s.callable(ctx); err != nil {
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
		consumers, _, _, err := s.keys.ListConsumers(ctx, keys.BucketAt{Owner: owner, Bucket: b.Name}, keys.Filter{}, store.Page{Limit: 100}, keys.Include{})
		if err != nil {
			return nil, err
		}
		for _, c := range consumers {
			out = append(out, "consumer "+c.Name)
		}
	}
	return out, nil
}

// definitions are all that a deletion begins. What empties the bucket is package
// builds' to test.
func definitions(s services) []operation.Definition {
	nothing := func(context.Context, operation.Step) (operation.Result, error) { return operation.Result{}, nil }
	clean := operation.Definition{Kind: deployments.Clean, First: "x", States: map[string]operation.State{
		"x": {Task: nothing, Next: operation.Succeed, Must: true},
	}}
	return slices.Concat(removal.Open(s.parts).Definitions(), s.tunnels.Definitions(), keys.NewCascades(s.parts.Table).Definitions(), []operation.Definition{clean})
}

// runs is how many seeds `make test` plays.
const runs = 100

// TestDeletionSurvivesEverything has each run end as the undisturbed one does,
// whatever happens to the workers and the table. Once the name is free, nothing of
// the project is found.
func TestDeletionSurvivesEverything(t *testing.T) {
	t.Parallel()
	simulate(t, runs, func(context.Context, services) error { return nil }, func(ctx context.Context, s services) error {
		_, err := s.deployments.DeleteProject(request(ctx, "delete"), owner, "shop")
		return err
	})
}

// TestDeletionOvertakesAProvisioning of services that the project may call, which was begun before.
func TestDeletionOvertakesAProvisioning(t *testing.T) {
	t.Parallel()
	simulate(t, runs/5, func(ctx context.Context, s services) error {
		all, err := s.tunnels.List(ctx, owner)
		if err != nil {
			return err
		}
		moved, fresh := stock("blog", "shop"), stock("shop")
		moved.Endpoint, fresh.Name = "http://elsewhere", "fresh"
		if _, err := s.tunnels.Configure(request(ctx, "configure"), owner, all[0].ID, []tunnels.Spec{fresh, moved}); err != nil {
			return err
		}
		_, err = s.deployments.DeleteProject(request(ctx, "delete"), owner, "shop")
		return err
	}, nil)
}

// simulate plays the deletion of a project that was filled.
func simulate(t *testing.T, runs int, arrange, act func(context.Context, services) error) {
	t.Helper()
	operationtest.Simulate(t, func() operationtest.Scenario {
		source := ids.NewSource(storetest.Random(t), now)
		of := func(w *operationtest.Worker) services { return servicesOf(w.Table, source, w.Now) }
		out := operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition { return definitions(of(w)) },
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				if err := of(w).fill(ctx); err != nil {
					return err
				}
				return arrange(ctx, of(w))
			},
			OfTable: true,
			Always: func(ctx context.Context, table *store.Table) error {
				there := store.Want(store.ProjectKey(account, "shop"), nil)
				if err := table.Load(ctx, there); err != nil || there.Found {
					return err
				}
				if left, err := servicesOf(table, source, now).found(ctx); err != nil || len(left) > 0 {
					return fmt.Errorf("the name is free, and there is left: %q, %w", left, err)
				}
				return nil
			},
			Ignore: []string{"createdOn", "updatedOn", "deletedOn", "version", "token", "sealed", "timestamp", "ttl"},
		}
		if act != nil {
			out.Act = func(ctx context.Context, w *operationtest.Worker) error { return act(ctx, of(w)) }
		}
		return out
	}, runs)
}

// meddling has something happen before one of the commits, by its number from 1.
type meddling struct {
	store.Backend
	at, commits int
	do          func()
}

// Transact implements store.Backend.
func (m *meddling) Transact(ctx context.Context, token string, writes []store.Write) error {
	if m.commits++; m.commits == m.at {
		m.do()
	}
	return m.Backend.Transact(ctx, token, writes)
}

// way is a request that makes something in the project shop.
type way struct {
	ask func(ctx context.Context, s services) error
	// want is what there is when it was answered after the deletion, nil where it is
	// refused.
	want []string
}

func waysBack() map[string]way {
	whole := []string{"bucket shop-preview", "bucket shop-production", "bucket shop-working-copy"}
	return map[string]way{
		"a project": {func(ctx context.Context, s services) error {
			_, err := s.deployments.CreateProject(ctx, owner, "shop")
			return err
		}, whole},
		"an upload": {func(ctx context.Context, s services) error {
			_, err := s.deployments.IssueUpload(ctx, deployments.UploadAt{Owner: owner, Project: "shop", Branch: "main"})
			return err
		}, append([]string{"environment main"}, whole...)},
		"an upload of another branch": {func(ctx context.Context, s services) error {
			_, err := s.deployments.IssueUpload(ctx, deployments.UploadAt{Owner: owner, Project: "shop", Branch: "other"})
			return err
		}, append([]string{"environment other"}, whole...)},
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

// run carries a deletion out.
func (s services) run(t *testing.T, id string) {
	t.Helper()
	engine, err := operation.New(s.parts.Table, definitions(s), operation.Options{Now: s.parts.Now, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := engine.Run(t.Context(), id); err != nil || r.Status != operation.Success {
		t.Fatalf("the deletion: %+v, %v", r, err)
	}
}

// delete begins the deletion of the project and answers its id.
func (s services) delete(t *testing.T) string {
	t.Helper()
	d, err := s.deployments.DeleteProject(request(t.Context(), "delete"), owner, "shop")
	if err != nil || d.Status != operation.InProgress {
		t.Fatal(d, err)
	}
	return d.ID
}

func newServices(t *testing.T, b store.Backend, source *ids.Source) services {
	t.Helper()
	return servicesOf(storetest.Over(t, b, storetest.Clock(now)), source, now)
}

func now() time.Time { return storetest.Epoch }

// check compares what is found with what a request has come to.
func (w way) check(t *testing.T, s services, made bool) {
	t.Helper()
	want := w.want
	if !made {
		want = nil
	}
	if got, err := s.found(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("made: %v, and there is %q, %v", made, got, err)
	}
}

// TestProjectMadeAgainMeetsNothingOfTheOldOne asks for the project anew, by each of
// the ways to one, before each commit of its deletion and after the last: it is
// refused, or there is a whole new one, with nothing of the old.
func TestProjectMadeAgainMeetsNothingOfTheOldOne(t *testing.T) {
	for name, way := range waysBack() {
		t.Run(name, func(t *testing.T) {
			for at, last := 1, false; !last; at++ {
				m := &meddling{Backend: memory.New(), at: at}
				source := ids.NewSource(storetest.Random(t), now)
				s := newServices(t, m.Backend, source)
				if err := s.fill(t.Context()); err != nil {
					t.Fatal(err)
				}
				made := false
				m.do = func() {
					err := way.ask(request(t.Context(), "again"), s)
					if made = err == nil; !made && fault.KindOf(err) == fault.Internal {
						t.Errorf("before commit %d: %v", at, err)
					}
				}
				id := s.delete(t)
				newServices(t, m, source).run(t, id)
				if last = m.commits < at; last {
					m.do()
					if made != (way.want != nil) {
						t.Errorf("after the deletion: made %v", made)
					}
				}
				way.check(t, s, made)
			}
		})
	}
}

// TestProjectDeletedInTheMiddleOfARequest has the deletion begin, or be over,
// between what a request reads and what it commits.
func TestProjectDeletedInTheMiddleOfARequest(t *testing.T) {
	for name, way := range waysBack() {
		for _, over := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, over: %v", name, over), func(t *testing.T) {
				m := &meddling{Backend: memory.New(), at: 1}
				source := ids.NewSource(storetest.Random(t), now)
				s := newServices(t, m.Backend, source)
				if err := s.fill(t.Context()); err != nil {
					t.Fatal(err)
				}
				var id string
				m.do = func() {
					if id = s.delete(t); over {
						s.run(t, id)
					}
				}
				err := way.ask(request(t.Context(), "again"), newServices(t, m, source))
				if fault.KindOf(err) == fault.Internal && err != nil {
					t.Error(err)
				}
				if !over {
					s.run(t, id)
				}
				// What was answered before the end is gone with the project.
				way.check(t, s, over && err == nil)
			})
		}
	}
}

func TestDeletionIsReadAlsoAfterItsEndByWhoMaySeeAll(t *testing.T) {
	s := newServices(t, memory.New(), ids.NewSource(storetest.Random(t), now))
	if err := s.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	id := s.delete(t)
	s.run(t, id)
	if got, err := s.deployments.ReadDeletion(t.Context(), owner, "shop", id); err != nil || got.Status != operation.Success {
		t.Errorf("read %+v, %v", got, err)
	}
	foreign, previews := owner, owner
	foreign.AccountID = "b"
	previews.Viewer = auth.Principal{Permissions: auth.Permissions{Projects: []string{auth.AllProjects}, Environments: []environment.Kind{environment.Preview}}}
	for name, err := range map[string]error{
		"another project's": second(s.deployments.ReadDeletion(t.Context(), owner, "blog", id)),
		"another account's": second(s.deployments.ReadDeletion(t.Context(), foreign, "shop", id)),
		"a limited key's":   second(s.deployments.ReadDeletion(t.Context(), previews, "shop", id)),
		"another kind's":    second(s.deployments.ReadDeletion(t.Context(), owner, "shop", id+"-production")),
	} {
		if !fault.Is(err, fault.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second(_ deployments.Deletion, err error) error { return err }
