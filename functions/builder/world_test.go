package builder_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions/builder"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/fault"
	sharedinstallation "github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/serving"
	"github.com/gatewright/gatewright/shared/variables"
)

// installation is all that stands between an upload and the gateway, over a
// table and a bucket in memory. It lives in a synctest bubble.
type installation struct {
	*functionstest.World
	service  *deployments.Service
	engine   *operation.Engine
	handle   func(context.Context, events.S3Event) error
	resolver *serving.Resolver
	owner    auth.Owner
}

func install(t *testing.T) *installation {
	t.Helper()
	return installWith(t, nil)
}

// installWith has projects compiled in a sandbox.
func installWith(t *testing.T, sandbox sharedinstallation.Sandbox) *installation {
	t.Helper()
	i := &installation{World: functionstest.New(t).Live()}
	i.Parts.Sandbox = sandbox
	account, _, err := accounts.Open(i.Parts).Create(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	i.owner = auth.Owner{AccountID: account.ID, Account: account.Name, Viewer: auth.Principal{Permissions: auth.Full()}}
	i.service = deployments.Open(i.Parts)
	if i.engine, err = durable.Engine(i.Parts); err != nil {
		t.Fatal(err)
	}
	handler, err := builder.New(i.Parts)
	if err != nil {
		t.Fatal(err)
	}
	i.handle = handler.Handle
	i.resolver = serving.New(serving.Options{
		Table: i.Parts.Table, Artifacts: artifacts.Open(i.Parts), Domain: "gateway.test", Now: i.Parts.Now, Log: i.Parts.Log,
	})
	return i
}

func (i *installation) ctx() context.Context {
	return audit.With(i.Context(), &audit.Request{AccountID: i.owner.AccountID, RequestID: i.Parts.IDs.UUID(), Time: time.Now()})
}

func (i *installation) issue(branch string) deployments.Upload {
	i.Helper()
	u, err := i.service.IssueUpload(i.ctx(), deployments.UploadAt{Owner: i.owner, Project: "hello", Branch: branch})
	if err != nil {
		i.Fatal(err)
	}
	return u
}

// upload puts an archive as a client does and sends S3's event of it.
func (i *installation) upload(statusID string, body []byte) {
	i.Helper()
	i.tell(i.Objects.Upload(blob.UploadKey(statusID), body))
}

func (i *installation) tell(o blob.Object) {
	i.Helper()
	if err := i.handle(i.Context(), eventOf(o)); err != nil {
		i.Fatal(err)
	}
}

func eventOf(o blob.Object) events.S3Event {
	return events.S3Event{Records: []events.S3EventRecord{{
		EventName: "ObjectCreated:Put", EventTime: time.Now(),
		S3: events.S3Entity{Object: events.S3Object{Key: url.QueryEscape(o.Key), ETag: o.ETag, Size: o.Size}},
	}}}
}

func (i *installation) status(statusID string) deployments.Status {
	i.Helper()
	s, err := i.service.ReadStatus(i.ctx(), deployments.StatusAt{Owner: i.owner, Project: "hello", StatusID: statusID})
	if err != nil {
		i.Fatal(err)
	}
	return s
}

// deploy uploads an archive and answers its status, which is final.
func (i *installation) deploy(branch string, body []byte) deployments.Status {
	i.Helper()
	u := i.issue(branch)
	i.upload(u.StatusID, body)
	s := i.status(u.StatusID)
	if s.Status == deployments.InProgress {
		i.Fatalf("the build has not ended: %+v", s)
	}
	return s
}

// served gives what the gateway serves at a deployment's address.
func (i *installation) served(address string) (*project.Artifact, error) {
	i.Helper()
	u, err := url.Parse(address)
	if err != nil {
		i.Fatal(err)
	}
	d, err := i.resolver.Resolve(i.Context(), u.Hostname())
	if err != nil {
		return nil, err
	}
	return d.Artifact, nil
}

// set gives the branch main a variable, new or not.
func (i *installation) set(name, value string) {
	i.Helper()
	at := variables.Branch{Owner: i.owner, Project: "hello", Branch: "main"}
	service := variables.Open(i.Parts)
	_, err := service.Update(i.ctx(), at, name, &value)
	if fault.Is(err, fault.NotFound) {
		_, err = service.Create(i.ctx(), at, variables.NewVariable{Name: name, Value: value})
	}
	if err != nil {
		i.Fatal(err)
	}
}

// bucket makes the key bucket that the example names.
func (i *installation) bucket() {
	i.Helper()
	if _, err := keys.Open(i.Parts).CreateBucket(i.ctx(), i.owner, keys.NewBucket{Name: "hello-consumers"}); err != nil {
		i.Fatal(err)
	}
}

func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	archive, err := functionstest.Pack(files)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}

// example is the project of the README.
func example(t testing.TB) map[string]string {
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
