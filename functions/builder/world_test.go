package builder_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/serving"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// installation is all that stands between an upload and the gateway, over a
// table and a bucket in memory. It lives in a synctest bubble.
type installation struct {
	t         *testing.T
	table     *store.Table
	bucket    *blob.Memory
	service   *deployments.Service
	engine    *operation.Engine
	handler   *builder.Handler
	resolver  *serving.Resolver
	ids       *ids.Source
	variables variables
	owner     deployments.Owner
}

type rootKey struct{}

func (rootKey) Root(context.Context) ([]byte, error) { return root[:], nil }

//nolint:gochecknoglobals // a test's constant: its address is its identity
var root = [seal.KeyBytes]byte{7, 8, 9}

type variables map[string]string

func (v variables) Resolve(context.Context, string, string, string) (map[string]string, error) {
	return v, nil
}

const accountID = "a0000000-0000-4000-8000-000000000000"

func install(t *testing.T) *installation {
	t.Helper()
	i := &installation{t: t, variables: variables{}}
	i.table = storetest.New(t, storetest.Clock(time.Now))
	i.bucket = blob.NewMemory(time.Now)
	i.ids = ids.NewSource(rand.Reader, time.Now)
	i.owner = deployments.Owner{AccountID: accountID, Account: "demo", Viewer: auth.Principal{Permissions: auth.Full()}}
	sealer := seal.NewSealer(rootKey{})
	shelf := artifacts.New(i.bucket, sealer, seal.NewHasher(rootKey{}, "artifact"))
	i.service = deployments.New(deployments.Options{
		Table: i.table, Uploads: i.bucket, IDs: i.ids, Now: time.Now,
		Buckets: keys.New(keys.Options{Table: i.table, Sealer: sealer, Hasher: seal.NewHasher(rootKey{}, "consumer-key"), IDs: i.ids, Now: time.Now}),
		Origin:  func(name string) string { return "http://" + name + ".localhost:9001" },
	})
	engine, err := operation.New(i.table, builds.New(builds.Options{
		Table: i.table, Objects: i.bucket, Shelf: shelf, Variables: i.variables,
		Compiler: project.NewCompiler(), Catalogue: gateway.Catalogue{}, Verify: gateway.Verify, TempDir: t.TempDir(),
	}).Definitions(), operation.Options{Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	i.engine = engine
	i.handler = &builder.Handler{Claims: i.service, Engine: i.engine, Objects: i.bucket, Log: slog.New(slog.DiscardHandler)}
	i.resolver = serving.New(serving.Options{Table: i.table, Shelf: shelf, Domain: "localhost", Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	return i
}

func (i *installation) ctx() context.Context {
	return audit.With(i.t.Context(), &audit.Request{AccountID: accountID, RequestID: i.ids.UUID(), Time: time.Now()})
}

func (i *installation) issue(branch string) deployments.Upload {
	i.t.Helper()
	u, err := i.service.IssueUpload(i.ctx(), deployments.UploadAt{Owner: i.owner, Project: "hello", Branch: branch})
	if err != nil {
		i.t.Fatal(err)
	}
	return u
}

// upload puts an archive as a client does and sends S3's event of it.
func (i *installation) upload(statusID string, body []byte) {
	i.t.Helper()
	o := i.bucket.Upload(blob.UploadKey(statusID), body)
	i.tell(o)
}

func (i *installation) tell(o blob.Object) {
	i.t.Helper()
	if err := i.handler.Handle(i.t.Context(), eventOf(o)); err != nil {
		i.t.Fatal(err)
	}
}

func eventOf(o blob.Object) events.S3Event {
	return events.S3Event{Records: []events.S3EventRecord{{
		EventName: "ObjectCreated:Put", EventTime: time.Now(),
		S3: events.S3Entity{Object: events.S3Object{Key: url.QueryEscape(o.Key), ETag: o.ETag, Size: o.Size}},
	}}}
}

func (i *installation) status(statusID string) deployments.Status {
	i.t.Helper()
	s, err := i.service.ReadStatus(i.ctx(), deployments.StatusAt{Owner: i.owner, Project: "hello", StatusID: statusID})
	if err != nil {
		i.t.Fatal(err)
	}
	return s
}

// deploy uploads an archive and answers its status, which is final.
func (i *installation) deploy(branch string, body []byte) deployments.Status {
	i.t.Helper()
	u := i.issue(branch)
	i.upload(u.StatusID, body)
	s := i.status(u.StatusID)
	if s.Status == deployments.InProgress {
		i.t.Fatalf("the build has not ended: %+v", s)
	}
	return s
}

// served gives what the gateway serves at a deployment's address.
func (i *installation) served(address string) (*project.Artifact, error) {
	i.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		i.t.Fatal(err)
	}
	d, err := i.resolver.Resolve(i.t.Context(), u.Hostname())
	if err != nil {
		return nil, err
	}
	return d.Artifact, nil
}

func pack(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: "./" + name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// example is the project of the README.
func example(t *testing.T) map[string]string {
	t.Helper()
	root := os.DirFS("../../examples/hello")
	files := map[string]string{}
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// simple is a project with one route to an upstream.
func simple(upstream string) map[string]string {
	return map[string]string{"config/routes.oas.json": fmt.Sprintf(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/": {"get": {
		"responses": {"200": {"description": "d"}},
		"x-gateway-route": {"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": %q}}}
	}}}}`, upstream)}
}

func bubble(t *testing.T, f func(*installation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f(install(t))
	})
}
