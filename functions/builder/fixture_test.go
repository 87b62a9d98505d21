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
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	sharedinstallation "github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/dataplane/serving"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/resource/variables"
	"github.com/gatewright/gatewright/shared/runtime/durable"
)

// fixture has all parts from the upload to the gateway, with a table and a bucket in memory. Use it in a synctest
// bubble.
type fixture struct {
	*functionstest.Fixture
	service  *deployments.Service
	engine   *operation.Engine
	handle   func(context.Context, events.S3Event) error
	resolver *serving.Resolver
	owner    auth.Owner
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return newFixtureWith(t, nil)
}

// newFixtureWith returns a fixture that compiles projects in sandbox.
func newFixtureWith(t *testing.T, sandbox sharedinstallation.Sandbox) *fixture {
	t.Helper()
	fx := &fixture{Fixture: functionstest.New(t).UseLiveClock()}
	fx.Parts.Sandbox = sandbox
	account, _, err := accounts.Open(fx.Parts).Create(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	fx.owner = auth.Owner{AccountID: account.ID, Account: account.Name, Viewer: auth.Principal{Permissions: auth.Full()}}
	fx.service = deployments.Open(fx.Parts)
	if fx.engine, err = durable.Engine(fx.Parts); err != nil {
		t.Fatal(err)
	}
	handler, err := builder.New(fx.Parts)
	if err != nil {
		t.Fatal(err)
	}
	fx.handle = handler.Handle
	fx.resolver = serving.New(serving.Options{
		Table: fx.Parts.Table, Artifacts: artifacts.Open(fx.Parts), Domain: "gateway.test", Now: fx.Parts.Now,
		Log: fx.Parts.Log,
	})
	return fx
}

// ctx returns the context of a new audited request to the fixture's account.
func (fx *fixture) ctx() context.Context {
	return audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: fx.owner.AccountID, RequestID: fx.Parts.IDs.UUID(),
		Time: time.Now(),
	})
}

func (fx *fixture) issueUpload(branch string) deployments.Upload {
	fx.Helper()
	u, err := fx.service.IssueUpload(fx.ctx(), deployments.UploadLocator{
		Owner: fx.owner, Project: "hello", Branch: branch,
	})
	if err != nil {
		fx.Fatal(err)
	}
	return u
}

// upload stores an archive as a client does, and calls the handler with S3's event for it.
func (fx *fixture) upload(statusID string, body []byte) {
	fx.Helper()
	fx.notify(fx.Objects.Upload(blob.UploadKey(statusID), body))
}

func (fx *fixture) notify(o blob.Object) {
	fx.Helper()
	if err := fx.handle(fx.Context(), eventOf(o)); err != nil {
		fx.Fatal(err)
	}
}

func eventOf(o blob.Object) events.S3Event {
	return events.S3Event{Records: []events.S3EventRecord{{
		EventName: "ObjectCreated:Put", EventTime: time.Now(),
		S3: events.S3Entity{Object: events.S3Object{Key: url.QueryEscape(o.Key), ETag: o.ETag, Size: o.Size}},
	}}}
}

func (fx *fixture) status(statusID string) deployments.Status {
	fx.Helper()
	s, err := fx.service.ReadStatus(fx.ctx(), deployments.StatusLocator{
		Owner: fx.owner, Project: "hello", StatusID: statusID,
	})
	if err != nil {
		fx.Fatal(err)
	}
	return s
}

// deploy uploads an archive and returns the final status of its build.
func (fx *fixture) deploy(branch string, body []byte) deployments.Status {
	fx.Helper()
	u := fx.issueUpload(branch)
	fx.upload(u.StatusID, body)
	s := fx.status(u.StatusID)
	if s.Status == deployments.InProgress {
		fx.Fatalf("status of %s = %+v, want an ended build", u.StatusID, s)
	}
	return s
}

// served returns the artifact that the gateway serves at a deployment's URL.
func (fx *fixture) served(address string) (*project.Artifact, error) {
	fx.Helper()
	u, err := url.Parse(address)
	if err != nil {
		fx.Fatal(err)
	}
	d, err := fx.resolver.Resolve(fx.Context(), u.Hostname())
	if err != nil {
		return nil, err
	}
	return d.Artifact, nil
}

// setVariable creates or updates a variable of the branch main.
func (fx *fixture) setVariable(name, value string) {
	fx.Helper()
	branch := variables.Branch{Owner: fx.owner, Project: "hello", Branch: "main"}
	service := variables.Open(fx.Parts)
	_, err := service.Update(fx.ctx(), branch, name, &value)
	if fault.Is(err, fault.NotFound) {
		_, err = service.Create(fx.ctx(), branch, variables.NewVariable{Name: name, Value: value})
	}
	if err != nil {
		fx.Fatal(err)
	}
}

// createBucket creates the key bucket that the example project names.
func (fx *fixture) createBucket() {
	fx.Helper()
	if _, err := keys.Open(fx.Parts).CreateBucket(fx.ctx(), fx.owner,
		keys.NewBucket{Name: "hello-consumers"}); err != nil {
		fx.Fatal(err)
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

// exampleProject returns the project of the README.
func exampleProject(t testing.TB) map[string]string {
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

// simpleProject returns a project with one route to an upstream.
func simpleProject(upstream string) map[string]string {
	return map[string]string{
		"config/routes.oas.json": fmt.Sprintf(
			`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/": {"get": {
		"responses": {"200": {"description": "d"}},
		"x-gateway-route": {"handler": {"export": "urlForwardHandler",
			"module": "$import(@gatewright/runtime)", "options": {"baseUrl": %q}}}
	}}}}`, upstream),
	}
}

func inBubble(t *testing.T, f func(*fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f(newFixture(t))
	})
}
