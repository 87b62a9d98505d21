package deployments_test

import (
	"context"
	"crypto/rand"
	"net/url"
	"strings"
	"sync"
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
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// fixture is a deployments.Service with a table in memory and a clock that the test controls.
type fixture struct {
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

// root is the root key. It is a package variable, because keys with different addresses are different keys.
var root = [seal.KeyBytes]byte{1, 2, 3}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{t: t, memory: memory.New(), clock: storetest.Epoch}
	fx.table = storetest.NewWithBackend(t, fx.memory, storetest.Clock(fx.now))
	fx.bucket = blob.NewMemory(fx.now)
	fx.ids = ids.NewSource(rand.Reader, fx.now)
	fx.parts = installation.Parts{
		Config: config.Config{DeploymentURL: "https://{deployment}.example.com"},
		Table:  fx.table, Bucket: fx.bucket, Key: rootKey{}, IDs: fx.ids, Now: fx.now,
	}
	fx.keys, fx.Service = keys.Open(fx.parts), deployments.Open(fx.parts)
	return fx
}

func (fx *fixture) now() time.Time {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return fx.clock
}

// advance advances the clock.
func (fx *fixture) advance(d time.Duration) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.clock = fx.clock.Add(d)
}

// requestContext returns the context of a new request, with its own audit record and its own read set. Use it for only
// one change.
func (fx *fixture) requestContext() context.Context {
	return store.WithReadSet(audit.WithRequest(fx.t.Context(), &audit.Request{
		AccountID: account, Action: "source.create",
		RequestID: fx.ids.UUID(), Time: fx.now(),
	}))
}

const account = "a0000000-0000-4000-8000-000000000000"

// ownerWith returns the owner of the account with these permissions.
func ownerWith(p auth.Permissions) auth.Owner {
	return auth.Owner{AccountID: account, Account: "demo", Viewer: auth.Principal{AccountID: account, Permissions: p}}
}

func fullOwner() auth.Owner { return ownerWith(auth.Full()) }

// otherOwner returns the owner of another account.
func otherOwner() auth.Owner {
	o := fullOwner()
	o.AccountID, o.Account = "b0000000-0000-4000-8000-000000000000", "other"
	return o
}

func (fx *fixture) issueUpload(project, branch string) deployments.Upload {
	fx.t.Helper()
	u, err := fx.IssueUpload(fx.requestContext(), deployments.UploadLocator{
		Owner: fullOwner(), Project: project,
		Branch: branch,
	})
	if err != nil {
		fx.t.Fatal(err)
	}
	return u
}

// uploadArchive stores an archive as a client does that PUTs it to an upload address, and returns the arrival that S3
// would report.
func (fx *fixture) uploadArchive(u deployments.Upload, body string) deployments.Arrival {
	fx.t.Helper()
	address, err := url.Parse(u.URL)
	if err != nil {
		fx.t.Fatal(err)
	}
	key := blob.UploadKey(u.StatusID)
	if !strings.HasSuffix(address.Path, "/"+u.StatusID) {
		fx.t.Fatalf("path of the upload address = %s, want suffix /%s", address.Path, u.StatusID)
	}
	o := fx.bucket.Upload(key, []byte(body))
	return deployments.Arrival{StatusID: u.StatusID, ETag: o.ETag, UploadedOn: fx.now()}
}

// claimNew uploads an archive, begins its build and returns the input of the build.
func (fx *fixture) claimNew(project, branch, body string) deployments.BuildInput {
	fx.t.Helper()
	return fx.claimArrival(fx.uploadArchive(fx.issueUpload(project, branch), body))
}

// claimArrival begins the build of an archive that has arrived, and returns the input of the build.
func (fx *fixture) claimArrival(a deployments.Arrival) deployments.BuildInput {
	fx.t.Helper()
	id, err := fx.Claim(fx.t.Context(), a)
	if err != nil {
		fx.t.Fatal(err)
	}
	return fx.input(id)
}

// commit commits the writes that a function for a build's task has returned.
func (fx *fixture) commit(writes []store.Write, err error) {
	fx.t.Helper()
	if err == nil {
		err = fx.table.Commit(fx.t.Context(), writes...)
	}
	if err != nil {
		fx.t.Fatal(err)
	}
}

// serve accepts the archive of a build, unless the build is a redeploy, and then ends the build successfully. A newer
// decision can supersede the build.
func (fx *fixture) serve(in deployments.BuildInput) {
	fx.t.Helper()
	fx.advance(time.Millisecond)
	source := in.Source
	if source == "" {
		source = in.Deployment + "/source-" + in.StatusID
		fx.commit(deployments.Accept(fx.t.Context(), fx.table, in, source))
	}
	writes, err := deployments.Serve(fx.t.Context(), fx.table, in,
		deployments.BuildData{Source: source, Artifact: in.Deployment + "/artifact-" + in.StatusID}, fx.now())
	if err == nil && len(writes) == 0 {
		writes, err = deployments.Superseded(fx.t.Context(), fx.table, in, fx.now())
	}
	fx.commit(writes, err)
}

func (fx *fixture) record(name string) deployments.Record {
	fx.t.Helper()
	r, err := deployments.Read(fx.t.Context(), fx.table, name)
	if err != nil {
		fx.t.Fatal(err)
	}
	return r
}

// input returns the input of the build operation with this id.
func (fx *fixture) input(operationID string) deployments.BuildInput {
	fx.t.Helper()
	var r operation.Record
	if err := fx.table.Get(fx.t.Context(), operation.Key(operationID), &r); err != nil {
		fx.t.Fatal(err)
	}
	var in deployments.BuildInput
	if err := r.DecodeInput(&in); err != nil {
		fx.t.Fatal(err)
	}
	if r.Kind != deployments.Build || in.StatusID != operationID {
		fx.t.Fatalf("operation = %+v with input %+v, want kind %s and status ID %s", r, in, deployments.Build, operationID)
	}
	return in
}

func wantKind(t *testing.T, err error, kind fault.Kind) {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Errorf("error = %v, want %v", err, kind)
	}
}
