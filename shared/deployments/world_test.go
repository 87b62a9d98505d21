package deployments_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// world is a service over a table in memory, with a clock that the test moves.
type world struct {
	*deployments.Service
	t      *testing.T
	memory *memory.Backend
	table  *store.Table
	bucket *blob.Memory
	keys   *keys.Service
	ids    *ids.Source
	parts  installation.Parts

	mu    sync.Mutex
	clock time.Time
}

type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) { return root[:], nil }

// A test's constant: its address is its identity.
var root = [seal.KeyBytes]byte{1, 2, 3}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, memory: memory.New(), clock: storetest.Epoch}
	w.table = storetest.Over(t, w.memory, storetest.Clock(w.now))
	w.bucket = blob.NewMemory(w.now)
	w.ids = ids.NewSource(rand.Reader, w.now)
	w.parts = installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.example.com"},
		Table:  w.table, Bucket: w.bucket, Key: rootKey{}, IDs: w.ids, Now: w.now,
	}
	w.keys, w.Service = keys.Open(w.parts), deployments.Open(w.parts)
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) sleep(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// ctx is of one request, a decision: audit records are one each.
func (w *world) ctx() context.Context {
	return store.Decide(audit.With(w.t.Context(), &audit.Request{AccountID: account, Action: "source.create", RequestID: w.ids.UUID(), Time: w.now()}))
}

const account = "a0000000-0000-4000-8000-000000000000"

// viewer gives an owner with the permissions.
func viewer(p auth.Permissions) auth.Owner {
	return auth.Owner{AccountID: account, Account: "demo", Viewer: auth.Principal{AccountID: account, Permissions: p}}
}

func full() auth.Owner { return viewer(auth.Full()) }

// foreign is another account's owner.
func foreign() auth.Owner {
	o := full()
	o.AccountID, o.Account = "b0000000-0000-4000-8000-000000000000", "other"
	return o
}

func (w *world) issue(project, branch string) deployments.Upload {
	w.t.Helper()
	u, err := w.IssueUpload(w.ctx(), deployments.UploadAt{Owner: full(), Project: project, Branch: branch})
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

// put stores an archive as the client of an upload address does, and answers
// what S3 tells of it.
func (w *world) put(u deployments.Upload, body string) deployments.Arrival {
	w.t.Helper()
	address, err := url.Parse(u.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	key := blob.UploadKey(u.StatusID)
	if !strings.HasSuffix(address.Path, "/"+u.StatusID) {
		w.t.Fatalf("the path of the address does not end in the statusId: %s", address.Path)
	}
	o := w.bucket.Upload(key, []byte(body))
	return deployments.Arrival{StatusID: u.StatusID, ETag: o.ETag, On: w.now()}
}

// claim begins the build of a new upload and answers its input.
func (w *world) claim(project, branch, body string) deployments.BuildInput {
	w.t.Helper()
	return w.claimed(w.put(w.issue(project, branch), body))
}

func (w *world) claimed(a deployments.Arrival) deployments.BuildInput {
	w.t.Helper()
	id, err := w.Claim(w.t.Context(), a)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.input(id)
}

// commit makes the writes that a build's task answers.
func (w *world) commit(writes []store.Write, err error) {
	w.t.Helper()
	if err == nil {
		err = w.table.Commit(w.t.Context(), writes...)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// serve ends a build well.
func (w *world) serve(in deployments.BuildInput) {
	w.t.Helper()
	w.sleep(time.Millisecond)
	source := in.Source
	if source == "" {
		source = in.Deployment + "/source-" + in.StatusID
		w.commit(deployments.Accept(w.t.Context(), w.table, in, source))
	}
	writes, err := deployments.Serve(w.t.Context(), w.table, in, deployments.BuildData{Source: source, Artifact: in.Deployment + "/artifact-" + in.StatusID}, w.now())
	if err == nil && len(writes) == 0 {
		writes, err = deployments.Superseded(w.t.Context(), w.table, in, w.now())
	}
	w.commit(writes, err)
}

func (w *world) record(name string) deployments.Record {
	w.t.Helper()
	r, err := deployments.Read(w.t.Context(), w.table, name)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

func (w *world) input(operationID string) deployments.BuildInput {
	w.t.Helper()
	var r operation.Record
	if err := w.table.Get(w.t.Context(), operation.Key(operationID), &r); err != nil {
		w.t.Fatal(err)
	}
	var in deployments.BuildInput
	if err := r.DecodeInput(&in); err != nil {
		w.t.Fatal(err)
	}
	if r.Kind != deployments.Build || in.StatusID != operationID {
		w.t.Fatalf("operation %+v, input %+v", r, in)
	}
	return in
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("error %v, want kind %d", err, kind)
	}
}
