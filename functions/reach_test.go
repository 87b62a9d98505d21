package functions_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/store"
)

// seldom are spaces that a group reads in what none of its good requests shows, each with when it does.
var seldom = map[string]map[store.Space]string{
	"variables":        {"projects": "a list of nothing tells a project without any from one that is not there"},
	"mtlscertificates": {"projects": "a list of nothing tells a project without any from one that is not there"},
}

// contended is read by any group where another process takes of the same limit at the same time.
const contended store.Space = "allowance"

// TestEveryGroupReachesWhatItDeclares compares, both ways, the spaces of the table that good requests ask for with those that
// the group's role will be held to. One that is missing fails in AWS, and in every test that asks for it; one that is never
// asked for opens what nobody needs.
func TestEveryGroupReachesWhatItDeclares(t *testing.T) {
	p := newPopulated(t)
	only := only(t)
	for _, g := range groups() {
		if only != "" && only != g.Name || slices.ContainsFunc(g.Declarations(), func(d api.Declaration) bool { return d.Carries }) {
			continue // what carries others reaches what they do: TestWhatCarriesOthersReachesWhatTheyDo
		}
		t.Run(g.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				done, tried := p.asides(t, g.Declarations()), store.Reach{}
				for _, d := range g.Declarations() {
					for _, r := range variants(p.book, d) {
						if d.Mutates() {
							tried = tried.And(p.dryRun(t, d, r))
						}
						for _, headers := range [][]string{nil, {"Idempotency-Key", "a", "If-Match", "*"}} {
							w, _, _ := p.good(t, d, r, headers...)
							done = done.And(w.Uses.Reached())
						}
					}
				}
				declared := g.Reached()
				if slices.ContainsFunc(g.Declarations(), private) {
					done.Reads = append(done.Reads, contended)
				}
				compareSpaces(t, "reads", done.Reads, declared.Reads, seldom[g.Name])
				compareSpaces(t, "writes", done.Writes, declared.Writes, nil)
				besides := slices.DeleteFunc(tried.Reads, func(s store.Space) bool {
					return slices.Contains(declared.Reads, s) || slices.Contains(declared.Writes, s)
				})
				compareSpaces(t, "reads in a dry run", besides, declared.Tries, nil)
			})
		})
	}
}

// TestWhatCarriesOthersReachesWhatTheyDo in their requests and their dry runs, and nothing else.
func TestWhatCarriesOthersReachesWhatTheyDo(t *testing.T) {
	var all store.Reach
	for _, g := range groups() {
		if g.Name != "mcp" {
			all = all.And(g.Reached().Tried())
		}
	}
	mcp := functions.MCP().Reached()
	if !slices.Equal(mcp.Reads, all.Reads) || !slices.Equal(mcp.Writes, all.Writes) || mcp.Scans {
		t.Errorf("it reaches %+v, all others together %+v", mcp, all)
	}
	for _, space := range all.Writes {
		if space == "audit" || space == "audit-head" || space == "account" || space == "account-name" {
			t.Errorf("an operation may write %s: who may call it could change what it is to prove, or whose the account is", space)
		}
	}
}

// TestReachesAreOfSpacesThatThereAre, those of triggered functions and of services too, and each scans that uses a scan.
func TestReachesAreOfSpacesThatThereAre(t *testing.T) {
	stored, err := os.ReadFile("../internal/house/testdata/stored.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(stored), "\n")
	check := func(name string, r store.Reach, uses []api.Use) {
		for _, space := range slices.Concat(r.Reads, r.Writes, r.Tries) {
			if !slices.Contains(lines, "space "+string(space)) {
				t.Errorf("%s reaches the space %q, which no package declares", name, space)
			}
		}
		if slices.Contains(uses, api.ScanTable) != r.Scans {
			t.Errorf("%s reaches all of the table: %v, which its uses do not say, or it does not and they do", name, r.Scans)
		}
	}
	for _, g := range groups() {
		var uses []api.Use
		for _, d := range g.Declarations() {
			uses = append(uses, d.Uses...)
		}
		check(g.Name, g.Reached(), uses)
	}
	for _, f := range functions.Triggered() {
		check(f.Name, f.Reach, f.Uses)
	}
	for _, s := range functions.Services() {
		check(s.Name, s.Reach, s.Uses)
	}
}

// TestBindHoldsItsTable: what a group asks for beyond its reach fails in its own tests, and not in AWS first. In a template it is the same.
func TestBindHoldsItsTable(t *testing.T) {
	for _, g := range groups() {
		files, err := filepath.Glob(g.Name + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", g.Name, err)
		}
		held := regexp.MustCompile(`(?m)^func Bind(With)?\(p installation\.Parts.*\) \[\]api\.Route \{\n\tp = Group\.Held\(p\)\n|bind\(group\.Held\(p\)\)`)
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && held.Match(text)
		}) {
			t.Errorf("Bind of %s does not begin with p = Group.Held(p)", g.Name)
		}
	}
}

// asides are the spaces that are asked for beside the first operation of a group that needs a key: by a request on a day of its own,
// by another in the same second, which counts against the account's limit, and by one of a session that was made before.
func (p populated) asides(t *testing.T, all []api.Declaration) store.Reach {
	t.Helper()
	i := slices.IndexFunc(all, private)
	if i < 0 {
		return store.Reach{}
	}
	w, n := p.Copy(t), maps.Clone(p.names)
	path, body := target(t, all[i], p.book.Request(all[i]), n)
	w.Now = w.Now.AddDate(0, 0, 1)
	session := w.Session(p.key)
	w.Now = w.Now.Add(2 * time.Minute)
	w.Asides()
	w.Uses.Clear()
	for range 2 {
		w.Call(p.key, all[i].Method, path, body)
		synctest.Wait()
	}
	if i := slices.IndexFunc(all, api.Declaration.TakesSession); i >= 0 {
		path, body := target(t, all[i], p.book.Request(all[i]), n)
		w.Call(session, all[i].Method, path, body)
		synctest.Wait()
	}
	return w.Uses.Reached()
}

// dryRun gives what is asked for by the dry run of a request.
func (p populated) dryRun(t *testing.T, d api.Declaration, r events.Request) store.Reach {
	t.Helper()
	w, n := p.Copy(t), maps.Clone(p.names)
	if err := p.book.Steps(w.Client(p.key), n, r.After); err != nil {
		t.Fatal(err)
	}
	path, body := target(t, d, r, n)
	w.Restart()
	asker := p.asker(w, d)
	w.Uses.Clear()
	w.Within(dry(w.Context()), asker, d.Method, path, body)
	return w.Uses.Reached()
}

func compareSpaces(t *testing.T, does string, done, declared []store.Space, seldom map[store.Space]string) {
	t.Helper()
	for _, s := range done {
		if !slices.Contains(declared, s) {
			t.Errorf("it %s %q, which it does not declare: add it to the group's Reach", does, s)
		}
	}
	for _, s := range declared {
		if !slices.Contains(done, s) && seldom[s] == "" {
			t.Errorf("it declares that it %s %q, and none of its good requests does so: take it out of the group's Reach, or add such a request to samples.json", does, s)
		}
	}
	for _, s := range slices.Sorted(maps.Keys(seldom)) {
		if !slices.Contains(declared, s) {
			t.Errorf("it is said to do %q seldom, and does not declare it: take it out of seldom", s)
		}
	}
}
