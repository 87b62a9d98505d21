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
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

const all = "/v1/projects"

func newWorld(t *testing.T) (w *functionstest.World, key string) {
	t.Helper()
	w = functionstest.New(t, projects.Bind, deployments.Bind)
	return w, w.Account("acme")
}

// judge is a testing.TB that remembers why it failed.
type judge struct {
	testing.TB
	said string
}

func (j *judge) Helper() {}

func (j *judge) Errorf(format string, args ...any) { j.said += fmt.Sprintf(format, args...) }

func (j *judge) Fatalf(format string, args ...any) {
	j.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure gives why what is done in a copy of a world fails its test, "" when it
// does not.
func failure(w *functionstest.World, t *testing.T, do func(w *functionstest.World)) string {
	t.Helper()
	j := &judge{TB: t}
	done := make(chan struct{})
	go func() { // which a failure ends
		defer close(done)
		do(w.Copy(j))
	}()
	<-done
	return j.said
}

func TestWantFailsOnWhatIsNotWanted(t *testing.T) {
	w, key := newWorld(t)
	w.Call(key, "POST", all, `{"name":"shop"}`).Want(200)
	for _, c := range []struct {
		name string
		call func(*functionstest.World) functionstest.Answer
		// status, texts and whether the answer has them.
		status int
		texts  []string
		want   string
	}{
		{"the status", asks(key, "GET", all), 200, nil, ""},
		{"another status", asks(key, "GET", all), 201, nil, "want 201"},
		{"nobody's status", asks("", "GET", all), 200, nil, "want 200"},
		{"texts", asks(key, "GET", all), 200, []string{`"name":"shop"`, `"total":1}`}, ""},
		{"a text that is not there", asks(key, "GET", all), 200, []string{`"name":"shop"`, `"total":2}`}, `want "total":2} in it`},
		{"an object in the body", asks(key, "GET", all), 200, []string{`{"limit":1000}`}, "want {"},
		{"the whole body", asks(key, "GET", all+"?offset=1"), 200, []string{`{"data":[],"limit":1000,"offset":1,"total":1}`}, ""},
		{"a problem's detail", asks(key, "GET", all+"?limit=0"), 400, []string{"query.limit"}, ""},
		{"a problem's path", asks(key, "GET", all+"?limit=0"), 400, []string{"/v1/projects"}, "want /v1/projects"},
		{"a problem's field", asks(key, "GET", all+"?limit=0&offset=-1"), 400, []string{"query.limit: ", "query.offset: "}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := failure(w, t, func(w *functionstest.World) { c.call(w).Want(c.status, c.texts...) })
			if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
				t.Errorf("it fails with %q, want %q", got, c.want)
			}
		})
	}
	for value, want := range map[string]string{"application/json": "", "text/plain": `want "text/plain"`} {
		got := failure(w, t, func(w *functionstest.World) { w.Call(key, "GET", all, "").WantHeader("Content-Type", value) })
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("content type %s: it fails with %q, want %q", value, got, want)
		}
	}
}

func asks(key, method, path string) func(*functionstest.World) functionstest.Answer {
	return func(w *functionstest.World) functionstest.Answer { return w.Call(key, method, path, "") }
}

// TestCallsHaveToBeAsDeclared: neither an answer nor a use is left out of a
// declaration.
func TestCallsHaveToBeAsDeclared(t *testing.T) {
	silent := api.Operation[struct{}, api.NoContent]{ID: "silent", Method: "GET", Path: "/silent", Public: true}
	for _, c := range []struct {
		name string
		do   func(ctx context.Context, p installation.Parts) error
		want string
	}{
		{"nothing", func(context.Context, installation.Parts) error { return nil }, ""},
		{"a failure", func(context.Context, installation.Parts) error { return errors.New("it fails") }, ""}, // a 500 is everybody's
		{"a refusal", func(context.Context, installation.Parts) error { return fault.Missing("thing") }, "silent answers 404"},
		{
			"a use", func(ctx context.Context, p installation.Parts) error {
				_, err := p.Table.Count(ctx, store.Query{PK: "a"})
				return err
			}, `silent does "table: query"`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := &judge{TB: t}
			w := functionstest.New(j, func(p installation.Parts) []api.Route {
				return []api.Route{silent.To(func(ctx context.Context, _ *struct{}) (*api.NoContent, error) { return nil, c.do(ctx, p) })}
			})
			w.Call("", "GET", "/silent", "")
			w.Call("", "GET", "/nothing", "") // which leads to no operation
			if (j.said == "") != (c.want == "") || !strings.Contains(j.said, c.want) {
				t.Errorf("it fails with %q, want %q", j.said, c.want)
			}
		})
	}
}

// TestFailuresNameTheCall: a table's row is found by it.
func TestFailuresNameTheCall(t *testing.T) {
	w, key := newWorld(t)
	got := failure(w, t, func(w *functionstest.World) { w.Call(key, "GET", all+"?limit=0", "").Want(200) })
	if !strings.HasPrefix(got, "GET "+all+"?limit=0: got 400 {") || !strings.HasSuffix(got, "want 200") {
		t.Errorf("it fails with %q", got)
	}
}

func TestCopyIsIndependentBothWays(t *testing.T) {
	w, key := newWorld(t)
	w.Call(key, "POST", all, `{"name":"shop"}`).Want(200)
	w.Objects.Upload(blob.SourceKey("a"), []byte("a"))
	c := w.Copy(t)
	c.Call(key, "GET", all, "").Want(200, `"name":"shop"`) // what was there is there
	if got := objects(c); !slices.Equal(got, []string{blob.SourceKey("a")}) {
		t.Errorf("the copy has %q", got)
	}

	w.Call(key, "POST", all, `{"name":"ours"}`).Want(200)
	c.Call(key, "POST", all, `{"name":"theirs"}`).Want(200)
	w.Objects.Upload(blob.SourceKey("ours"), nil)
	c.Objects.Upload(blob.SourceKey("theirs"), nil)
	if err := c.Objects.Delete(t.Context(), blob.SourceKey("a")); err != nil {
		t.Fatal(err)
	}
	for _, side := range []struct {
		w              *functionstest.World
		names, objects []string
	}{
		{w, []string{"ours", "shop"}, []string{blob.SourceKey("a"), blob.SourceKey("ours")}},
		{c, []string{"shop", "theirs"}, []string{blob.SourceKey("theirs")}},
	} {
		if got := side.w.Call(key, "GET", all, "").Want(200).JSON().Texts("data", "name"); !slices.Equal(got, side.names) {
			t.Errorf("projects %q, want %q", got, side.names)
		}
		if got := objects(side.w); !slices.Equal(got, side.objects) {
			t.Errorf("objects %q, want %q", got, side.objects)
		}
	}
	was := w.Now
	c.Now = c.Now.Add(time.Hour)
	if !w.Now.Equal(was) {
		t.Error("the copy's clock moves the world's")
	}
}

func objects(w *functionstest.World) (keys []string) {
	for o, err := range w.Objects.List(context.WithoutCancel(w.Context()), "") {
		if err != nil {
			w.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// TestTwoCopiesAnswerWithTheSameBytes: tests compare the unseen in one with the
// absent in the other.
func TestTwoCopiesAnswerWithTheSameBytes(t *testing.T) {
	w, key := newWorld(t)
	w.Call(key, "GET", all, "").Want(200) // the past of a world is not told
	first, second := w.Copy(t), w.Copy(t)
	for _, call := range []struct{ method, path, body string }{
		{"POST", all, `{"name":"shop"}`}, {"POST", all, `{"name":"shop"}`}, {"GET", all, ""},
	} {
		one, other := first.Call(key, call.method, call.path, call.body), second.Call(key, call.method, call.path, call.body)
		if one.Whole != other.Whole {
			t.Errorf("%s %s: %s\n%s", call.method, call.path, one.Whole, other.Whole)
		}
	}
}

func TestUsesRecordWhatWasDone(t *testing.T) {
	w, key := newWorld(t)
	const sources = `{"accountName":"acme","projectName":"shop","branchName":"main"}`
	for _, c := range []struct {
		name string
		do   func()
		want []api.Use
		// reads, queries, commits are calls of the table.
		reads, queries, commits int
	}{
		{"nothing", func() {}, nil, 0, 0, 0},
		{
			"a list by a key that is known", func() { w.Call(key, "GET", all, "").Want(200) },
			[]api.Use{api.Query},
			0, 1, 0,
		},
		{
			"a refusal", func() { w.Call(key, "POST", all, `{"name":"-"}`).Want(422) },
			[]api.Use{api.PutItem, "table: an audit record apart from its change, which only a refused one is"},
			0, 0, 1, // its audit record
		},
		{
			"a first upload's address", func() { w.Call(key, "POST", "/v1/deployments/sources", sources).Want(200) },
			[]api.Use{api.BatchGetItem, api.PresignUpload, api.PutItem, api.RootKey, api.Query, api.UpdateItem},
			1, 4, 1, // the first of an account counts what there is of each limit
		},
		{
			"a read of one item, by a process that has just begun",
			func() { w.Restart(); w.Call(key, "GET", "/v1/deployments/x", "").Want(404) },
			[]api.Use{api.GetItem},
			2, 0, 0,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.Call(key, "GET", "/v1/projects?limit=1", "").Want(200) // the caller is known from now on
			w.Uses.Clear()
			c.do()
			slices.Sort(c.want)
			u := w.Uses
			if done := u.Done(); !slices.Equal(done, c.want) {
				t.Errorf("recorded are %q, want %q", done, c.want)
			}
			if u.Reads != c.reads || u.Queries != c.queries || u.Commits != c.commits {
				t.Errorf("%d reads, %d queries and %d commits, want %d, %d and %d", u.Reads, u.Queries, u.Commits, c.reads, c.queries, c.commits)
			}
		})
	}
}

// TestUsesTellTheKindsOfObjectsApart: functions are granted each by itself.
func TestUsesTellTheKindsOfObjectsApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, key := newWorld(t)
		address := w.Call(key, "POST", "/v1/deployments/sources", `{"accountName":"acme","projectName":"shop","branchName":"main"}`).
			Want(200).JSON().Text("uploadUrl")
		archive, err := functionstest.Pack(functionstest.Project("http://upstream.test"))
		if err != nil {
			t.Fatal(err)
		}
		w.Uses.Clear()
		w.Upload(address, archive)
		done := w.Uses.Done()
		for _, use := range []api.Use{api.ReadUpload, api.DeleteUpload, api.WriteSource, api.ReadSource, api.WriteArtifact} {
			if !slices.Contains(done, use) {
				t.Errorf("a build records %q and no %s", done, use)
			}
		}
		if slices.Contains(done, api.ReadArtifact) || slices.Contains(done, api.PresignUpload) {
			t.Errorf("a build records %q", done)
		}
	})
}

func TestKeysAllowWhatTheyAreLimitedTo(t *testing.T) {
	w, full := newWorld(t)
	limited := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.Projects.Read()} })
	w.Run(t, []functionstest.Case{
		{"the account's key allows everything", full, "POST", all, `{"name":"shop"}`, http.StatusOK, `"shop"`},
		{"rows do not see one another", full, "POST", all, `{"name":"shop"}`, http.StatusOK, `"shop"`},
		{"a key without limits is as good", w.Key("acme", nil), "POST", all, `{"name":"shop"}`, http.StatusOK, `"shop"`},
		{"a limited one allows the rest", limited, "GET", all, "", http.StatusOK, `"total":0}`},
		{"and nothing else", limited, "POST", all, `{"name":"shop"}`, http.StatusForbidden, "projects:write"},
		{"nobody is nobody", "", "GET", all, "", http.StatusUnauthorized, "Bearer"},
	})
}

func TestValuesAreFoundByTheirPaths(t *testing.T) {
	w, key := newWorld(t)
	call := w.As(key)
	call("POST", all, `{"name":"shop"}`).Want(200)
	call("POST", all, `{"name":"blog"}`).Want(200)
	v := call("GET", all, "").Want(200).JSON()
	for _, c := range []struct{ got, want any }{
		{v.Text("data.1.name"), "shop"},
		{v.Text("data.2.name"), ""},
		{v.Text("total"), ""},
		{v.Number("total"), 2.0},
		{v.Number("data"), -1.0},
		{v.Len("data"), 2},
		{v.At("data.0").Len(""), 7},
		{v.Len("total"), -1},
		{v.Null("data.2"), true},
		{v.Null("data.1"), false},
		{v.At("offset").String(), "0"},
		{strings.Join(v.Texts("data", "name"), " "), "blog shop"},
		{len(v.Texts("none", "name")), 0},
	} {
		if c.got != c.want {
			t.Errorf("got %v, want %v in %s", c.got, c.want, v)
		}
	}
}
