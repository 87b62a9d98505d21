package functionstest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/functions/deployments"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/projects"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const projectsPath = "/v1/projects"

func newFixture(t *testing.T) (fx *functionstest.Fixture, key string) {
	t.Helper()
	fx = functionstest.New(t, projects.Bind, deployments.Bind)
	return fx, fx.CreateAccount("acme")
}

// recordingTB is a testing.TB that records failures.
type recordingTB struct {
	testing.TB
	failure string
}

func (t *recordingTB) Helper() {}

func (t *recordingTB) Errorf(format string, args ...any) { t.failure += fmt.Sprintf(format, args...) }

func (t *recordingTB) Fatalf(format string, args ...any) {
	t.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failureOf returns the failure message of test, which runs with a copy of a fixture, or "" if it passes.
func failureOf(fx *functionstest.Fixture, t *testing.T, test func(fx *functionstest.Fixture)) string {
	t.Helper()
	j := &recordingTB{TB: t}
	done := make(chan struct{})
	go func() { // Fatal ends this goroutine
		defer close(done)
		test(fx.Copy(j))
	}()
	<-done
	return j.failure
}

func TestWantFailsOnMismatch(t *testing.T) {
	fx, key := newFixture(t)
	fx.Call(key, "POST", projectsPath, `{"name":"shop"}`).Want(200)
	for _, c := range []struct {
		name string
		call func(*functionstest.Fixture) functionstest.Response
		// status and texts are the arguments of Want. want is a part of the failure message, "" for no failure.
		status int
		texts  []string
		want   string
	}{
		{"expected status", caller(key, "GET", projectsPath), 200, nil, ""},
		{"another status", caller(key, "GET", projectsPath), 201, nil, "want status 201"},
		{"status of a request without a key", caller("", "GET", projectsPath), 200, nil, "want status 200"},
		{"texts", caller(key, "GET", projectsPath), 200, []string{`"name":"shop"`, `"total":1}`}, ""},
		{
			"missing text", caller(key, "GET", projectsPath), 200,
			[]string{`"name":"shop"`, `"total":2}`},
			`want it to contain "total":2}`,
		},
		{"an object that is not the whole body", caller(key, "GET", projectsPath), 200, []string{`{"limit":1000}`}, "want {"},
		{
			"the whole body", caller(key, "GET", projectsPath+"?offset=1"), 200,
			[]string{`{"data":[],"limit":1000,"offset":1,"total":1}`},
			"",
		},
		{"a problem's detail", caller(key, "GET", projectsPath+"?limit=0"), 400, []string{"query.limit"}, ""},
		{
			"a problem's path", caller(key, "GET", projectsPath+"?limit=0"), 400,
			[]string{"/v1/projects"},
			"want it to contain /v1/projects",
		},
		{
			"a problem's field", caller(key, "GET", projectsPath+"?limit=0&offset=-1"), 400,
			[]string{"query.limit: ", "query.offset: "},
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := failureOf(fx, t, func(fx *functionstest.Fixture) { c.call(fx).Want(c.status, c.texts...) })
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("failure of Want(%d, %q) = %q, want %q in it", c.status, c.texts, got, c.want)
			}
		})
	}
	for value, want := range map[string]string{"application/json": "", "text/plain": `want "text/plain"`} {
		got := failureOf(fx, t, func(fx *functionstest.Fixture) {
			fx.Call(key, "GET", projectsPath, "").WantHeader("Content-Type", value)
		})
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("failure of WantHeader(Content-Type, %s) = %q, want %q in it", value, got, want)
		}
	}
}

func caller(key, method, path string) func(*functionstest.Fixture) functionstest.Response {
	return func(fx *functionstest.Fixture) functionstest.Response { return fx.Call(key, method, path, "") }
}

// TestUndeclaredStatusOrUseFailsTest checks that a call fails the test if its status or one of its uses is not
// declared.
func TestUndeclaredStatusOrUseFailsTest(t *testing.T) {
	operation := api.Operation[struct{}, api.NoContent]{ID: "silent", Method: "GET", Path: "/silent", Public: true}
	for _, c := range []struct {
		name   string
		handle func(ctx context.Context, p installation.Parts) error
		want   string
	}{
		{"no effect", func(context.Context, installation.Parts) error { return nil }, ""},
		// every operation can respond with 500
		{"a failure", func(context.Context, installation.Parts) error { return errors.New("it fails") }, ""},
		{"an undeclared status", func(context.Context, installation.Parts) error {
			return fault.Missing("thing")
		}, "silent returns 404"},
		{
			"an undeclared use", func(ctx context.Context, p installation.Parts) error {
				_, err := p.Table.Count(ctx, store.Query{PK: "a"})
				return err
			}, `silent does "table: query"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &recordingTB{TB: t}
			fx := functionstest.New(j, func(p installation.Parts) []api.Route {
				return []api.Route{operation.HandledBy(func(ctx context.Context, _ *struct{}) (*api.NoContent, error) {
					return nil, c.handle(ctx, p)
				})}
			})
			fx.Call("", "GET", "/silent", "")
			fx.Call("", "GET", "/nothing", "") // no operation has this path
			if (j.failure == "") != (c.want == "") || !strings.Contains(j.failure, c.want) {
				t.Errorf("failure of Call() = %q, want %q in it", j.failure, c.want)
			}
		})
	}
}

// TestFailuresNameTheCall checks that a failure message names the call, so that it identifies the row of a table of
// cases.
func TestFailuresNameTheCall(t *testing.T) {
	fx, key := newFixture(t)
	got := failureOf(fx, t, func(fx *functionstest.Fixture) { fx.Call(key, "GET", projectsPath+"?limit=0", "").Want(200) })
	if !strings.HasPrefix(got, "GET "+projectsPath+"?limit=0: status = 400, body = {") ||
		!strings.HasSuffix(got, "want status 200") {
		t.Errorf("failure of Want(200) = %q, want it to name the call, 400 and 200", got)
	}
}

func TestCopyIsIndependent(t *testing.T) {
	fx, key := newFixture(t)
	fx.Call(key, "POST", projectsPath, `{"name":"shop"}`).Want(200)
	fx.Objects.Upload(blob.SourceKey("a"), []byte("a"))
	c := fx.Copy(t)
	c.Call(key, "GET", projectsPath, "").Want(200, `"name":"shop"`) // a copy has the data of the original
	if got := objects(c); !slices.Equal(got, []string{blob.SourceKey("a")}) {
		t.Errorf("objects of the copy = %q, want those of the original", got)
	}

	fx.Call(key, "POST", projectsPath, `{"name":"ours"}`).Want(200)
	c.Call(key, "POST", projectsPath, `{"name":"theirs"}`).Want(200)
	fx.Objects.Upload(blob.SourceKey("ours"), nil)
	c.Objects.Upload(blob.SourceKey("theirs"), nil)
	if err := c.Objects.Delete(t.Context(), blob.SourceKey("a")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name              string
		fx                *functionstest.Fixture
		projects, objects []string
	}{
		{"original", fx, []string{"ours", "shop"}, []string{blob.SourceKey("a"), blob.SourceKey("ours")}},
		{"copy", c, []string{"shop", "theirs"}, []string{blob.SourceKey("theirs")}},
	} {
		got := tt.fx.Call(key, "GET", projectsPath, "").Want(200).JSON().Texts("data", "name")
		if !slices.Equal(got, tt.projects) {
			t.Errorf("projects of the %s = %q, want %q", tt.name, got, tt.projects)
		}
		if got := objects(tt.fx); !slices.Equal(got, tt.objects) {
			t.Errorf("objects of the %s = %q, want %q", tt.name, got, tt.objects)
		}
	}
	before := fx.Now
	c.Now = c.Now.Add(time.Hour)
	if !fx.Now.Equal(before) {
		t.Errorf("Now of the original = %v after a change of the copy's, want %v", fx.Now, before)
	}
}

func objects(fx *functionstest.Fixture) (keys []string) {
	for o, err := range fx.Objects.List(context.WithoutCancel(fx.Context()), "") {
		if err != nil {
			fx.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// TestCopiesReturnIdenticalResponses checks that two copies of a fixture return the same bytes for the same calls.
// Tests depend on that: they compare a hidden resource in one copy with a missing resource in another.
func TestCopiesReturnIdenticalResponses(t *testing.T) {
	fx, key := newFixture(t)
	fx.Call(key, "GET", projectsPath, "").Want(200) // earlier requests must not affect later responses
	first, second := fx.Copy(t), fx.Copy(t)
	for _, call := range []struct{ method, path, body string }{
		{"POST", projectsPath, `{"name":"shop"}`}, {"POST", projectsPath, `{"name":"shop"}`}, {"GET", projectsPath, ""},
	} {
		firstResp, secondResp := first.Call(key, call.method, call.path, call.body),
			second.Call(key, call.method, call.path, call.body)
		if firstResp.Dump != secondResp.Dump {
			t.Errorf("%s %s on the second copy = %s, want %s", call.method, call.path, secondResp.Dump, firstResp.Dump)
		}
	}
}

func TestUsesRecordEffects(t *testing.T) {
	fx, key := newFixture(t)
	const sources = `{"accountName":"acme","projectName":"shop","branchName":"main"}`
	for _, c := range []struct {
		name string
		call func()
		want []api.Use
		// reads, queries and commits are the expected numbers of table calls.
		reads, queries, commits int
	}{
		{"no request", func() {}, nil, 0, 0, 0},
		{
			"list with a cached key", func() { fx.Call(key, "GET", projectsPath, "").Want(200) },
			[]api.Use{api.Query},
			0, 1, 0,
		},
		{
			"a refusal", func() { fx.Call(key, "POST", projectsPath, `{"name":"-"}`).Want(422) },
			[]api.Use{api.PutItem, "table: a separate audit record, which only a refused request may write"},
			0, 0, 1, // the audit record of the refusal
		},
		{
			"address of a first upload", func() { fx.Call(key, "POST", "/v1/deployments/sources", sources).Want(200) },
			[]api.Use{api.BatchGetItem, api.PresignUpload, api.PutItem, api.RootKey, api.Query, api.UpdateItem},
			1, 4, 1, // the first change of an account counts the existing objects of each limit
		},
		{
			"read of one item after a start",
			func() { fx.Restart(); fx.Call(key, "GET", "/v1/deployments/x", "").Want(404) },
			[]api.Use{api.GetItem},
			2, 0, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			fx.Call(key, "GET", "/v1/projects?limit=1", "").Want(200) // this request caches the caller
			fx.Uses.Clear()
			c.call()
			slices.Sort(c.want)
			u := fx.Uses
			if recorded := u.Recorded(); !slices.Equal(recorded, c.want) {
				t.Errorf("Recorded() = %q, want %q", recorded, c.want)
			}
			if u.Reads != c.reads || u.Queries != c.queries || u.Commits != c.commits {
				t.Errorf("%d reads, %d queries and %d commits, want %d, %d and %d", u.Reads, u.Queries, u.Commits, c.reads,
					c.queries, c.commits)
			}
		})
	}
}

// TestUsesDistinguishObjectKinds checks that each kind of object in the bucket has its own use, because each needs its
// own grant.
func TestUsesDistinguishObjectKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx, key := newFixture(t)
		address := fx.Call(key, "POST", "/v1/deployments/sources",
			`{"accountName":"acme","projectName":"shop","branchName":"main"}`).
			Want(200).JSON().Text("uploadUrl")
		archive, err := functionstest.Pack(functionstest.Project("http://upstream.test"))
		if err != nil {
			t.Fatal(err)
		}
		fx.Uses.Clear()
		fx.Upload(address, archive)
		recorded := fx.Uses.Recorded()
		for _, use := range []api.Use{api.ReadUpload, api.DeleteUpload, api.WriteSource, api.ReadSource, api.WriteArtifact} {
			if !slices.Contains(recorded, use) {
				t.Errorf("uses of a build = %q, want %s in them", recorded, use)
			}
		}
		if slices.Contains(recorded, api.ReadArtifact) || slices.Contains(recorded, api.PresignUpload) {
			t.Errorf("uses of a build = %q, want no ReadArtifact and PresignUpload", recorded)
		}
	})
}

func TestKeyAllowsOnlyItsPermissions(t *testing.T) {
	fx, fullKey := newFixture(t)
	limitedKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Read()} })
	fx.Run(t, []functionstest.Case{
		{"full-access key", fullKey, "POST", projectsPath, `{"name":"shop"}`, http.StatusOK, `"shop"`},
		{"repeated creation", fullKey, "POST", projectsPath, `{"name":"shop"}`, http.StatusOK, `"shop"`},
		{
			"key without limits", fx.CreateKey("acme", nil), "POST", projectsPath, `{"name":"shop"}`, http.StatusOK,
			`"shop"`,
		},
		{"allowed operation of a limited key", limitedKey, "GET", projectsPath, "", http.StatusOK, `"total":0}`},
		{
			"forbidden operation of a limited key", limitedKey, "POST", projectsPath, `{"name":"shop"}`, http.StatusForbidden,
			"projects:write",
		},
		{"no key", "", "GET", projectsPath, "", http.StatusUnauthorized, "Bearer"},
	})
}

func TestValuesAreFoundByPath(t *testing.T) {
	fx, key := newFixture(t)
	call := fx.CallAs(key)
	call("POST", projectsPath, `{"name":"shop"}`).Want(200)
	call("POST", projectsPath, `{"name":"blog"}`).Want(200)
	v := call("GET", projectsPath, "").Want(200).JSON()
	for _, c := range []struct {
		call      string
		got, want any
	}{
		{`Text("data.1.name")`, v.Text("data.1.name"), "shop"},
		{`Text("data.2.name")`, v.Text("data.2.name"), ""},
		{`Text("total")`, v.Text("total"), ""},
		{`Number("total")`, v.Number("total"), 2.0},
		{`Number("data")`, v.Number("data"), -1.0},
		{`Len("data")`, v.Len("data"), 2},
		{`At("data.0").Len("")`, v.At("data.0").Len(""), 7},
		{`Len("total")`, v.Len("total"), -1},
		{`IsNull("data.2")`, v.IsNull("data.2"), true},
		{`IsNull("data.1")`, v.IsNull("data.1"), false},
		{`At("offset").String()`, v.At("offset").String(), "0"},
		{`strings.Join(Texts("data", "name"), " ")`, strings.Join(v.Texts("data", "name"), " "), "blog shop"},
		{`len(Texts("none", "name"))`, len(v.Texts("none", "name")), 0},
	} {
		if c.got != c.want {
			t.Errorf("%s of %s = %v, want %v", c.call, v, c.got, c.want)
		}
	}
}
