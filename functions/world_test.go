package functions_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// varGroup names the one group that the tests of all groups look at, "" for
// all: `make test PKG=variables` sets it.
const varGroup = "GATEWRIGHT_TEST_GROUP"

// projects is the group whose world is the project that others are in.
const projects = "projects"

// groups are those of the product, made once for all tests.
var groups = sync.OnceValue(functions.Groups)

// routing is that of the worlds of all groups.
var routing = sync.OnceValue(func() *functionstest.Routing {
	var binds []functionstest.Bind
	for _, g := range groups() {
		binds = append(binds, g.Bind)
	}
	return functionstest.Routes(binds...)
})

// newWorld makes an empty world of all groups.
func newWorld(t *testing.T) *functionstest.World {
	t.Helper()
	for _, g := range groups() {
		if wrong := wrongBinding(g); wrong != "" {
			t.Fatal(wrong) // which every operation's failure would hide
		}
	}
	return routing().New(t)
}

// samples are those of all groups.
func samples(t *testing.T) *events.Book {
	t.Helper()
	book, err := events.Open(functions.Described())
	if err != nil {
		t.Fatal(err)
	}
	return book
}

// chosen are the names that no group has of its own.
func chosen(account string) events.Names {
	return events.Names{"accountName": account, "projectName": "shop", "branchName": "main"}
}

// populate makes the worlds of groups in an account, of all when none is named,
// by one of its keys, and gives what is called how.
func populate(w *functionstest.World, book *events.Book, key, account string, groups ...string) events.Names {
	w.Helper()
	n, err := book.Names(chosen(account))
	if err != nil {
		w.Fatal(err)
	}
	if err := book.Make(w.Client(key), n, groups...); err != nil {
		w.Fatal(err)
	}
	return n
}

// populated is a world whose account acme has one of everything. Building waits
// until every gateway has heard of it, so that it happens in a bubble, where
// time passes at once; tests take copies.
type populated struct {
	*functionstest.World
	book  *events.Book
	key   string
	names events.Names
}

func newPopulated(t *testing.T) (p populated) {
	t.Helper()
	p.book = samples(t)
	synctest.Test(t, func(t *testing.T) {
		p.World = newWorld(t)
		p.key = p.Account("acme")
		p.names = populate(p.World, p.book, p.key, "acme")
	})
	return p
}

// asker is who asks an operation in a copy of the world: the account's key, or a session of it where that alone may.
func (p populated) asker(w *functionstest.World, d api.Declaration) string {
	if d.SessionAlone {
		session := w.Session(p.key)
		w.Now = w.Now.Add(time.Second) // what it asks is the first request of its second
		return session
	}
	return p.key
}

// only gives the group that the tests are limited to, "" for none. A name that
// nothing has would let every test pass.
func only(t *testing.T) string {
	t.Helper()
	name := os.Getenv(varGroup)
	known := []string{""}
	for _, g := range groups() {
		known = append(known, g.Name)
	}
	for _, f := range functions.Triggered() {
		known = append(known, f.Name) // which no operation belongs to
	}
	if !slices.Contains(known, name) {
		t.Fatalf("%s=%s: there is no such group: %v", varGroup, name, known[1:])
	}
	return name
}

// together skips a test that plays all groups together, when the tests are limited to one group. make test has it.
func together(t *testing.T) {
	t.Helper()
	if only(t) != "" {
		t.Skip("make test plays all groups together")
	}
}

// each runs a test for every operation that match accepts, in a bubble.
func each(t *testing.T, match func(api.Declaration) bool, test func(t *testing.T, d api.Declaration)) {
	t.Helper()
	only := only(t)
	for _, g := range groups() {
		if only != "" && only != g.Name {
			continue
		}
		for _, d := range g.Declarations() {
			if match(d) && !d.SessionAlone { // which no key asks: its group's own tests do
				t.Run(d.ID, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, d) }) })
			}
		}
	}
}

// sampled accepts one in twelve of the operations under the race detector, for tests that
// make many calls, one after the other: what races in few of them is seen.
func sampled(match func(api.Declaration) bool) func(api.Declaration) bool {
	met := 0
	return func(d api.Declaration) bool {
		if !match(d) {
			return false
		}
		met++
		return !simulations.Racing || met%12 == 1
	}
}

func every(api.Declaration) bool        { return true }
func private(d api.Declaration) bool    { return !d.Public }
func changing(d api.Declaration) bool   { return d.Mutates() }
func inDocument(d api.Declaration) bool { return !d.Hidden }

// target fills in a request's path, query and body.
func target(t *testing.T, d api.Declaration, r events.Request, n events.Names) (path, body string) {
	t.Helper()
	path, body, err := r.Target(d, n)
	if err != nil {
		t.Fatal(err)
	}
	return path, body
}

// variants are the good requests of an operation, the first of them the plain
// one.
func variants(book *events.Book, d api.Declaration) []events.Request {
	r := book.Request(d)
	return append([]events.Request{r}, r.Also...)
}

// good makes one of an operation's good requests in a copy of the world. It
// gives the copy, which has recorded the uses of this request alone, and what
// the request is called.
func (p populated) good(t *testing.T, d api.Declaration, r events.Request, headers ...string) (*functionstest.World, functionstest.Answer, events.Names) {
	t.Helper()
	w, n := p.Copy(t), maps.Clone(p.names)
	if err := p.book.Steps(w.Client(p.key), n, r.After); err != nil {
		t.Fatal(err)
	}
	path, body := target(t, d, r, n)
	w.Now = w.Now.AddDate(0, 0, 1) // its audit record has a day of its own
	w.Restart()
	asker := p.asker(w, d)
	w.Uses.Clear()
	a := w.Call(asker, d.Method, path, body, headers...)
	if a.Status != d.Status {
		t.Fatalf("its good request %s %s is answered %d %s, want %d: mend it in the group's samples.json", path, body, a.Status, a.Body, d.Status)
	}
	return w, a, n
}

// TestEveryGoodRequestSucceeds keeps the sweep honest: what it compares does
// exist, and its owner can do everything with it.
func TestEveryGoodRequestSucceeds(t *testing.T) {
	p := newPopulated(t)
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			p.good(t, d, r)
		}
	})
}

// TestEveryObjectIsMadeByItsWorld: a parameter that no step of the world has
// made would be as absent in the one world as in the other, and the sweep would
// compare nothing with nothing. What is there before a group makes its own
// things is none of them: a note called as its project is would be found.
func TestEveryObjectIsMadeByItsWorld(t *testing.T) {
	book := samples(t)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		key := w.Account("acme")
		n, err := book.Names(chosen("acme"))
		if err != nil {
			t.Fatal(err)
		}
		made := map[string]bool{}
		for _, g := range groups() {
			before := w.Items.Snapshot()
			if err := book.Make(w.Client(key), n, g.Name); err != nil {
				t.Fatal(err)
			}
			for _, d := range g.Declarations() {
				for _, name := range objects(d) {
					if made[name] {
						continue // by this group or one before
					}
					made[name] = true
					if n[name] == "" || hasText(t, before, n[name]) || !hasText(t, w.Items.Snapshot(), n[name]) {
						t.Errorf("%s: {%s} is called %q, and the world of events/%s/samples.json makes nothing of that name: make it there, under a name of its own",
							d.ID, name, n[name], g.Name)
					}
				}
			}
		}
	})
}

// hasText reports whether a text is a part of a key or a whole value in a table,
// audit records apart.
func hasText(t *testing.T, in table, text string) bool {
	t.Helper()
	for key, item := range in {
		if audit.IsRecord(key) {
			continue
		}
		for _, part := range strings.Split(key.PK+"#"+key.SK, "#") {
			if part == text {
				return true
			}
		}
		raw, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		var record any
		if err := json.Unmarshal(raw, &record); err != nil {
			t.Fatal(err)
		}
		if holds(record, text) {
			return true
		}
	}
	return false
}

// holds reports whether a text is a whole value, or a name of one, in a record
// that was encoded as JSON.
func holds(record any, text string) bool {
	within := func(v any) bool { return holds(v, text) }
	switch v := record.(type) {
	case string:
		return v == text
	case []any:
		return slices.ContainsFunc(v, within)
	case map[string]any:
		_, named := v[text]
		return named || slices.ContainsFunc(slices.Collect(maps.Values(v)), within)
	}
	return false
}

// objects are the path parameters of an operation that name something which has
// to exist: all but those that say where it is. A hidden operation has none: its pages
// are in the program, and not in anybody's account.
func objects(d api.Declaration) []string {
	if d.Hidden {
		return nil
	}
	return slices.DeleteFunc(events.Parameters(d), isPlace)
}

// isPlace reports whether a parameter says where something is.
func isPlace(parameter string) bool {
	return parameter == "accountName" || parameter == "projectName" || parameter == "branchName"
}
