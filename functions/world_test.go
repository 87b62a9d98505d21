package functions_test

import (
	"maps"
	"os"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
)

// varGroup names the one group that the tests of all groups look at, "" for
// all: `make test PKG=variables` sets it.
const varGroup = "GATEWRIGHT_TEST_GROUP"

// projects is the group whose world is the project that others are in.
const projects = "projects"

// newWorld makes an empty world of all groups.
func newWorld(t *testing.T) *functionstest.World {
	t.Helper()
	var binds []functionstest.Bind
	for _, g := range functions.Groups() {
		binds = append(binds, g.Bind)
	}
	return functionstest.New(t, binds...)
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

// each runs a test for every operation that match accepts, in a bubble.
func each(t *testing.T, match func(api.Declaration) bool, test func(t *testing.T, d api.Declaration)) {
	t.Helper()
	for _, g := range functions.Groups() {
		if only := os.Getenv(varGroup); only != "" && only != g.Name {
			continue
		}
		for _, d := range g.Declarations() {
			if match(d) {
				t.Run(d.ID, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { test(t, d) }) })
			}
		}
	}
}

func every(api.Declaration) bool      { return true }
func private(d api.Declaration) bool  { return !d.Public }
func changing(d api.Declaration) bool { return d.Mutates() }

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
func (p populated) good(t *testing.T, d api.Declaration, r events.Request) (*functionstest.World, functionstest.Answer, events.Names) {
	t.Helper()
	w, n := p.Copy(t), maps.Clone(p.names)
	if err := p.book.Steps(w.Client(p.key), n, r.After); err != nil {
		t.Fatal(err)
	}
	path, body := target(t, d, r, n)
	w.Now = w.Now.AddDate(0, 0, 1) // its audit record has a day of its own
	w.Restart()
	w.Uses.Clear()
	a := w.Call(p.key, d.Method, path, body)
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

// TestEveryObjectIsInTheWorld: a parameter that no step of the world has made
// would be as absent in the one world as in the other, and the sweep would
// compare nothing with nothing.
func TestEveryObjectIsInTheWorld(t *testing.T) {
	p := newPopulated(t)
	items := p.Items.Items()
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, name := range objects(d) {
			if !isSomewhere(t, p.names[name], items) {
				t.Errorf("{%s} is called %q, and there is no such thing in the table: make it in the world of the group's samples.json", name, p.names[name])
			}
		}
	})
}

// objects are the path parameters of an operation that name something which has
// to exist: all but those that say where it is.
func objects(d api.Declaration) []string {
	var out []string
	for _, name := range events.Parameters(d) {
		switch name {
		case "accountName", "projectName", "branchName":
		default:
			out = append(out, name)
		}
	}
	return out
}
