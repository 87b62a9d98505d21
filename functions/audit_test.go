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
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// table contains all items of a table.
type table = map[store.Key]store.Item

// newAuditRecords returns the audit records of a fixture that are not in known, such as an earlier state of its table.
func newAuditRecords(fx *functionstest.Fixture, known table) (out []audit.Entry) {
	fx.Helper()
	for key := range fx.Items.Snapshot() {
		if _, isKnown := known[key]; isKnown || !audit.IsRecord(key) {
			continue
		}
		var e audit.Entry
		if err := fx.Parts.Table.Get(fx.Context(), key, &e); err != nil {
			fx.Fatal(err)
		}
		out = append(out, e)
	}
	return out
}

// assertUnchanged fails the test if two states of a table differ in anything but added audit records.
func assertUnchanged(t *testing.T, before, after table) {
	t.Helper()
	for key, item := range after {
		earlier, ok := before[key]
		switch {
		case !ok && !audit.IsRecord(key):
			t.Errorf("the call added the item %s %s, want no change", key.PK, key.SK)
		case ok && !reflect.DeepEqual(earlier, item):
			t.Errorf("the call changed the item %s %s, want no change", key.PK, key.SK)
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			t.Errorf("the call removed the item %s %s, want no change", key.PK, key.SK)
		}
	}
}

// assertRefusalRecorded fails the test unless there is exactly one new audit record for a refused change, or none for a
// refused read.
func assertRefusalRecorded(fx *functionstest.Fixture, d api.Declaration, before table) {
	t := fx.TB
	t.Helper()
	records := newAuditRecords(fx, before)
	if !d.Mutates() {
		if len(records) > 0 {
			t.Errorf("%s: a refused read left the audit records %+v, want none", d.ID, records)
		}
		return
	}
	if len(records) != 1 {
		t.Fatalf("a refused change left %d audit records, want 1", len(records))
	}
	e := records[0]
	if *e.Success || e.Error == nil || *e.Error == "" {
		t.Errorf("record of the refused %s = %+v, want success = false and an error", d.ID, e)
	}
	if e.Action != d.Audit || e.Actor.Sub == "" || len(e.Resources) > 0 {
		t.Errorf("record of the refused %s = %+v, want action %s, an actor and no resources", d.ID, e, d.Audit)
	}
}

// TestEveryChangeWritesOneAuditRecord makes each change and compares its audit record with its declaration.
func TestEveryChangeWritesOneAuditRecord(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, mutates, func(t *testing.T, d api.Declaration) {
		if len(d.Resources) == 0 {
			t.Fatalf("Resources of %s = none, want the types of the resources in its audit record", d.ID)
		}
		recordedTypes := map[string]bool{}
		for _, r := range variants(p.sampleSet, d) {
			if r.ChangesNothing {
				continue
			}
			fx, resp, n := p.sendValid(t, d, r)
			if equalExceptAudit(p.Items.Snapshot(), fx.Items.Snapshot(), len(r.Prerequisites) > 0) {
				t.Errorf("%s changes only the audit log, want another change too", d.ID)
			}
			otherItems := table{} // without the audit records of the request's day: earlier requests are of another day
			for key, item := range fx.Items.Snapshot() {
				if !audit.IsRecord(key) || !strings.Contains(key.SK, fx.Now.UTC().Format("2006-01-02")) {
					otherItems[key] = item
				}
			}
			records := newAuditRecords(fx, otherItems)
			if len(records) != 1 {
				t.Fatalf("%s left %d audit records, want 1", d.ID, len(records))
			}
			e := records[0]
			if !*e.Success || e.Error != nil || !strings.HasPrefix(e.Actor.Sub, "akey_") {
				t.Errorf("record of %s = %+v, want success = true, no error and an actor akey_", d.ID, e)
			}
			if e.Action != d.Audit || *e.Route.Method != d.Method || e.RequestID != resp.Header.Get("X-Request-Id") {
				t.Errorf("record of %s = %+v, want action %s, method %s and the request's id", d.ID, e, d.Audit, d.Method)
			}
			created := false // whether an object was created
			var resourceTexts strings.Builder
			for _, resource := range e.Resources {
				recordedTypes[resource.Type] = true
				resourceTexts.WriteString(resource.ID + " " + resource.Metadata["name"] + " " + resource.Metadata["project"] + "\n")
				existed := containsText(t, resource.ID, p.Items.Snapshot())
				if resource.ID == "" || !existed && !containsText(t, resource.ID, fx.Items.Snapshot()) {
					t.Errorf("record of %s names the %s %q, want an id that the table has", d.ID, resource.Type, resource.ID)
				}
				created = created || !existed
			}
			if !slices.ContainsFunc(e.Resources, func(resource audit.Resource) bool { return resource.Type == d.Resources[0] }) {
				t.Errorf("resources in the record of %s = %+v, want a %s", d.ID, e.Resources, d.Resources[0])
			}
			if parameters := objectParameters(d); len(parameters) > 0 {
				objectName := n[parameters[len(parameters)-1]]
				if placeholder, ok := r.Values[parameters[len(parameters)-1]]; ok {
					objectName = n[strings.Trim(placeholder, "{}")]
				}
				if !created && !strings.Contains(resourceTexts.String(), objectName) {
					t.Errorf("resources in the record of %s = %q, want %s", d.ID, resourceTexts.String(), objectName)
				}
			}
			_, body := requestTarget(t, d, r, n)
			p.assertNoBodyTexts(t, e, body, fx.Items.Snapshot())
			if strings.Contains(*e.Route.URL, "?") {
				t.Errorf("route.url in the record of %s = %s, want no query string", d.ID, *e.Route.URL)
			}
		}
		got, want := slices.Sorted(maps.Keys(recordedTypes)), slices.Sorted(slices.Values(d.Resources))
		if !slices.Equal(got, want) {
			t.Errorf("types in the records of %s = %v, want %v as in Resources", d.ID, got, want)
		}
	})
}

// auditMetadata returns the names of the metadata that audit records may have about resources, in addition to the
// resources' ids. Examples are names, the number of keys in a bulk change, the certificate of a CA, the target of a
// custom domain, and the metering bucket of a plan.
func auditMetadata() []string {
	return []string{
		"name", "fingerprint", "project", "branch", "deployment", "bucket", "keys", "firstKeyId", "lastKeyId",
		"created", "updated", "deleted",
	}
}

// assertNoBodyTexts fails the test if an audit record has metadata that is not in auditMetadata, or if it contains a
// text of the request's body that is nowhere else in the table. Such a text was sealed or hashed, so it is a secret.
func (p populatedFixture) assertNoBodyTexts(t *testing.T, e audit.Entry, body string, items table) {
	t.Helper()
	for _, resource := range e.Resources {
		for field := range resource.Metadata {
			if !slices.Contains(auditMetadata(), field) {
				t.Errorf("metadata of a %s has the field %s, want only those of auditMetadata", resource.Type, field)
			}
		}
	}
	record, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	visitTexts(decodeJSON(t, body), func(name, text string) {
		if len(text) > 5 && strings.Contains(string(record), text) && !containsText(t, text, items) {
			t.Errorf("the record contains the %s of the body, want no text that the table does not have in clear", name)
		}
	})
}

// equalExceptAudit reports whether a table is unchanged, apart from audit records. If otherChanges is true, earlier
// requests have changed the table too. The comparison would then prove nothing, so equalExceptAudit returns false.
func equalExceptAudit(before, after table, otherChanges bool) bool {
	if otherChanges {
		return false
	}
	withoutAudit := func(items table) table {
		items = maps.Clone(items)
		maps.DeleteFunc(items, func(k store.Key, _ store.Item) bool { return audit.IsRecord(k) })
		return items
	}
	return reflect.DeepEqual(withoutAudit(before), withoutAudit(after))
}

// TestAuditActionHasOneMethod checks that all operations with the same audit action have the same method, and that
// exactly the deletions have an action with the verb delete. So a search for deletions in the audit log finds all of
// them, and nothing else.
func TestAuditActionHasOneMethod(t *testing.T) {
	methods := map[audit.Action]string{}
	for _, g := range groups() {
		for _, d := range g.Declarations() {
			if !d.Mutates() {
				continue
			}
			if method := methods[d.Audit]; method != "" && method != d.Method {
				t.Errorf("%s: method of the action %s = %s, want %s as elsewhere", d.ID, d.Audit, d.Method, method)
			}
			methods[d.Audit] = d.Method
			if _, verb, _ := strings.Cut(string(d.Audit), "."); (verb == "delete") != (d.Method == http.MethodDelete) {
				t.Errorf("%s: action of a %s = %s, want the verb delete exactly for DELETE", d.ID, d.Method, d.Audit)
			}
		}
	}
}

// TestDeletedObjectCanBeRecreated deletes each object and creates it again. It also checks that a second deletion
// reports that the object is missing.
func TestDeletedObjectCanBeRecreated(t *testing.T) {
	p := newPopulatedFixture(t)
	isDeletion := func(d api.Declaration) bool { return d.Method == http.MethodDelete && d.Mutates() }
	forEachOperation(t, isDeletion, func(t *testing.T, d api.Declaration) {
		fx, _, n := p.sendValid(t, d, p.sampleSet.Request(d))
		path, body := requestTarget(t, d, p.sampleSet.Request(d), n)
		fx.Now = fx.Now.Add(time.Second)
		fx.Restart()
		fx.Call(p.key, d.Method, path, body).Want(http.StatusNotFound)
		parameters := objectParameters(d)
		if len(parameters) == 0 {
			return // the name can be used again only after the durable operation: another test checks that
		}
		for _, g := range groups() {
			for _, creator := range g.Declarations() {
				for _, r := range p.sampleSet.CreationRequests(creator, parameters[len(parameters)-1]) {
					path, body := requestTarget(t, creator, r, p.values)
					fx.Now = fx.Now.Add(time.Second)
					fx.Call(p.key, creator.Method, path, body).Want(creator.Status)
				}
			}
		}
	})
}

// TestRepeatedCreationReplacesNothing sends each creation twice. The second one must create another object or be
// refused, and must not replace an object: each createdOn must stay.
func TestRepeatedCreationReplacesNothing(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, mutates, func(t *testing.T, d api.Declaration) {
		for _, r := range p.sampleSet.CreationRequests(d) {
			fx := p.Copy(t) // the copy's clock is an hour later
			path, body := requestTarget(t, d, r, p.values)
			fx.Call(p.key, d.Method, path, body)
			after := fx.Items.Snapshot()
			for key, item := range p.Items.Snapshot() {
				if !reflect.DeepEqual(item["createdOn"], after[key]["createdOn"]) {
					t.Errorf("%s %s replaced the item %s %s, want it to keep its createdOn", d.Method, path, key.PK, key.SK)
				}
			}
		}
	})
}

// containsText reports whether a text is in an item of a table, apart from audit records.
func containsText(t *testing.T, text string, items table) bool {
	t.Helper()
	for key, item := range items {
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

// TestReadsAreNotAudited checks that reads write no audit record, and neither do requests whose sample says that they
// change nothing.
func TestReadsAreNotAudited(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, anyOperation, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			if d.Mutates() && !r.ChangesNothing || !d.Mutates() && len(r.Prerequisites) > 0 {
				continue
			}
			fx, _, _ := p.sendValid(t, d, r)
			assertUnchanged(t, p.Items.Snapshot(), fx.Items.Snapshot())
			if n := len(newAuditRecords(fx, p.Items.Snapshot())); n > 0 {
				t.Errorf("%s left %d audit records, want 0", d.ID, n)
			}
		}
	})
}
