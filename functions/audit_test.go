package functions_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/store"
)

// table is all items of a table.
type table = map[store.Key]store.Item

// recorded are the audit records that a world has and a state of its table
// before did not.
func recorded(w *functionstest.World, before table) (out []audit.Entry) {
	w.Helper()
	for key := range w.Items.Snapshot() {
		if _, was := before[key]; was || !audit.IsRecord(key) {
			continue
		}
		var e audit.Entry
		if err := w.Parts.Table.Get(w.Context(), key, &e); err != nil {
			w.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// unchanged fails unless two states of a table differ in audit records alone.
func unchanged(t *testing.T, before, after table) {
	t.Helper()
	for key, item := range after {
		was, ok := before[key]
		switch {
		case !ok && !audit.IsRecord(key):
			t.Errorf("it wrote %s %s", key.PK, key.SK)
		case ok && !reflect.DeepEqual(was, item):
			t.Errorf("it changed %s %s", key.PK, key.SK)
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			t.Errorf("it removed %s %s", key.PK, key.SK)
		}
	}
}

// refusedOnce fails unless exactly one record tells of a refused change, and
// none of a refused look.
func refusedOnce(w *functionstest.World, d api.Declaration, before table) {
	t := w.TB
	t.Helper()
	records := recorded(w, before)
	if !d.Mutates() {
		if len(records) > 0 {
			t.Errorf("a look is recorded: %+v", records)
		}
		return
	}
	if len(records) != 1 {
		t.Fatalf("a refused change left %d audit records, want 1", len(records))
	}
	if e := records[0]; *e.Success || e.Action != d.Audit || e.Error == nil || *e.Error == "" || e.Actor.Sub == "" || len(e.Resources) > 0 {
		t.Errorf("it is recorded as %+v", e)
	}
}

// TestEveryChangeLeavesItsOneRecord holds what a change records against its
// declaration.
func TestEveryChangeLeavesItsOneRecord(t *testing.T) {
	p := newPopulated(t)
	each(t, changing, func(t *testing.T, d api.Declaration) {
		if len(d.Resources) == 0 {
			t.Fatal("say in Resources what its audit record names")
		}
		named := map[string]bool{}
		for _, r := range variants(p.book, d) {
			if r.ChangesNothing {
				continue
			}
			w, a, n := p.good(t, d, r)
			if sameBut(p.Items.Snapshot(), w.Items.Snapshot(), len(r.After) > 0) {
				t.Error("it changes nothing but the audit log")
			}
			before := table{}
			for key, item := range w.Items.Snapshot() {
				if !audit.IsRecord(key) || !strings.Contains(key.SK, w.Now.UTC().Format("2006-01-02")) {
					before[key] = item
				}
			}
			records := recorded(w, before)
			if len(records) != 1 {
				t.Fatalf("it left %d audit records, want 1", len(records))
			}
			e := records[0]
			if !*e.Success || e.Action != d.Audit || e.Error != nil || !strings.HasPrefix(e.Actor.Sub, "akey_") ||
				e.RequestID != a.Header.Get("X-Request-Id") || *e.Route.Method != d.Method {
				t.Errorf("it is recorded as %+v", e)
			}
			made := false // something that was not there
			var text strings.Builder
			for _, of := range e.Resources {
				named[of.Type] = true
				text.WriteString(of.ID + " " + of.Metadata["name"] + " " + of.Metadata["project"] + "\n")
				was := isSomewhere(t, of.ID, p.Items.Snapshot())
				if of.ID == "" || !was && !isSomewhere(t, of.ID, w.Items.Snapshot()) {
					t.Errorf("it names the %s %q, which there is not", of.Type, of.ID)
				}
				made = made || !was
			}
			if !slices.ContainsFunc(e.Resources, func(of audit.Resource) bool { return of.Type == d.Resources[0] }) {
				t.Errorf("it names %+v and no %s", e.Resources, d.Resources[0])
			}
			if in := objects(d); len(in) > 0 {
				own := n[in[len(in)-1]]
				if other, ok := r.Names[in[len(in)-1]]; ok {
					own = n[strings.Trim(other, "{}")]
				}
				if !made && !strings.Contains(text.String(), own) {
					t.Errorf("it names %s and not %s, which was asked for", text.String(), own)
				}
			}
			_, body := target(t, d, r, n)
			p.tellsNames(t, e, body, w.Items.Snapshot())
			if strings.Contains(*e.Route.URL, "?") {
				t.Errorf("it holds a query string: %s", *e.Route.URL)
			}
		}
		if got, want := slices.Sorted(maps.Keys(named)), slices.Sorted(slices.Values(d.Resources)); !slices.Equal(got, want) {
			t.Errorf("its records name %v, declared are %v", got, want)
		}
	})
}

// auditMetadata are what records say of resources beside their ids: names, and
// of many keys at once how many and which; of CAs which certificate; of custom domains
// what they lead to; of plans and subscriptions the metering bucket they are in; of
// tunnels how many of their services.
func auditMetadata() []string {
	return []string{"name", "fingerprint", "project", "branch", "deployment", "bucket", "keys", "firstKeyId", "lastKeyId", "created", "updated", "deleted"}
}

// tellsNames fails where a record tells more of what its request's body held:
// no record holds a body. A text that the table has nowhere else was sealed or
// hashed, and so is a secret even where it is called a name.
func (p populated) tellsNames(t *testing.T, e audit.Entry, body string, in table) {
	t.Helper()
	for _, of := range e.Resources {
		for field := range of.Metadata {
			if !slices.Contains(auditMetadata(), field) {
				t.Errorf("it tells the %s of a %s: see auditMetadata", field, of.Type)
			}
		}
	}
	record, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	visit(decoded(t, body), func(name, text string) {
		if len(text) > 5 && strings.Contains(string(record), text) && !isSomewhere(t, text, in) {
			t.Errorf("it tells the %s, which the table has nowhere in clear", name)
		}
	})
}

// sameBut reports whether a table is as before, audit records apart. What other
// requests have done before hides it.
func sameBut(before, after table, others bool) bool {
	if others {
		return false
	}
	own := func(in table) table {
		in = maps.Clone(in)
		maps.DeleteFunc(in, func(k store.Key, _ store.Item) bool { return audit.IsRecord(k) })
		return in
	}
	return reflect.DeepEqual(own(before), own(after))
}

// TestActionsAreOfOneMethod: who looks for deletions in the audit log finds all
// of them, and nothing else.
func TestActionsAreOfOneMethod(t *testing.T) {
	methods := map[audit.Action]string{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if !d.Mutates() {
				continue
			}
			if other := methods[d.Audit]; other != "" && other != d.Method {
				t.Errorf("%s is recorded as %s, which is a %s elsewhere", d.ID, d.Audit, other)
			}
			methods[d.Audit] = d.Method
			if _, verb, _ := strings.Cut(string(d.Audit), "."); (verb == "delete") != (d.Method == http.MethodDelete) {
				t.Errorf("%s is a %s and recorded as %s", d.ID, d.Method, d.Audit)
			}
		}
	}
}

// TestWhatIsDeletedCanBeMadeAgain: nothing of it is left that stands in the way,
// and deleting it twice is told.
func TestWhatIsDeletedCanBeMadeAgain(t *testing.T) {
	p := newPopulated(t)
	deletes := func(d api.Declaration) bool { return d.Method == http.MethodDelete && d.Mutates() }
	each(t, deletes, func(t *testing.T, d api.Declaration) {
		w, _, n := p.good(t, d, p.book.Request(d))
		path, body := target(t, d, p.book.Request(d), n)
		w.Now = w.Now.Add(time.Second)
		w.Restart()
		w.Call(p.key, d.Method, path, body).Want(http.StatusNotFound)
		in := objects(d)
		if len(in) == 0 {
			return // a place is free when its operation has ended: its own test sees it made again
		}
		for _, g := range groups() {
			for _, other := range g.Declarations() {
				for _, r := range p.book.Making(other, in[len(in)-1]) {
					path, body := target(t, other, r, p.names)
					w.Now = w.Now.Add(time.Second)
					w.Call(p.key, other.Method, path, body).Want(other.Status)
				}
			}
		}
	})
}

// TestMakingAgainReplacesNothing: what asks for something that is there already
// makes another or is refused, and leaves the first one as it was made.
func TestMakingAgainReplacesNothing(t *testing.T) {
	p := newPopulated(t)
	each(t, changing, func(t *testing.T, d api.Declaration) {
		for _, r := range p.book.Making(d) {
			w := p.Copy(t) // an hour later
			path, body := target(t, d, r, p.names)
			w.Call(p.key, d.Method, path, body)
			after := w.Items.Snapshot()
			for key, item := range p.Items.Snapshot() {
				if !reflect.DeepEqual(item["createdOn"], after[key]["createdOn"]) {
					t.Errorf("it replaced %s %s", key.PK, key.SK)
				}
			}
		}
	})
}

// isSomewhere reports whether a text is in the keys or the records of a table,
// audit records apart.
func isSomewhere(t *testing.T, text string, in table) bool {
	t.Helper()
	for key, item := range in {
		if audit.IsRecord(key) {
			continue
		}
		record, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(record), text) {
			return true
		}
	}
	return false
}

// TestLooksAreNotRecorded: audit records are of changes, and what a sample says
// to change nothing is a look too.
func TestLooksAreNotRecorded(t *testing.T) {
	p := newPopulated(t)
	each(t, every, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			if d.Mutates() && !r.ChangesNothing || !d.Mutates() && len(r.After) > 0 {
				continue
			}
			w, _, _ := p.good(t, d, r)
			unchanged(t, p.Items.Snapshot(), w.Items.Snapshot())
			if n := len(recorded(w, p.Items.Snapshot())); n > 0 {
				t.Errorf("it left %d audit records", n)
			}
		}
	})
}
