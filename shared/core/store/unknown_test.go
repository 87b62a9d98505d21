package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// inner is nested in records.
type inner struct {
	store.UnknownAttributes

	Name string    `dynamodbav:"name"`
	On   time.Time `dynamodbav:"on,omitempty"`
}

// public is embedded in records, whose attributes include those of public.
type public struct {
	store.UnknownAttributes

	Title string `dynamodbav:"title,omitempty"`
}

// olderRecord is the type of a record in an older release, which does not know all attributes of the stored record.
type olderRecord struct {
	store.UnknownAttributes

	public
	ID      string           `dynamodbav:"id"`
	Version int              `dynamodbav:"version"`
	One     *inner           `dynamodbav:"one,omitempty"`
	Many    []inner          `dynamodbav:"many,omitempty"`
	ByName  map[string]inner `dynamodbav:"byName,omitempty"`
	Tags    map[string]int   `dynamodbav:"tags,omitempty"`
	Note    string           `dynamodbav:"note,omitempty"`
}

type object = map[string]any

// putNewer writes a record as a newer release would.
func putNewer(t testing.TB, table *store.Table, k store.Key, record object) {
	t.Helper()
	commit(t, table, store.Put(k, record))
}

// stored returns the attributes of the stored item at k, without its key.
func stored(t testing.TB, items *memory.Backend, k store.Key) object {
	t.Helper()
	var out object
	if err := attributevalue.UnmarshalMap(items.Items()[k], &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "pk")
	delete(out, "sk")
	return out
}

// unknownCase is a change by an older release, and its effect on a record of a newer release.
type unknownCase struct {
	name   string
	change func(olderRecord) store.Write
	want   func(object)
}

// unknownCases returns changes of the record at k.
func unknownCases(k store.Key) []unknownCase {
	return []unknownCase{
		{"a put of the record", func(r olderRecord) store.Write {
			r.Version++
			return store.Put(k, r)
		}, func(o object) { o["version"] = 2.0 }},
		{"a put of a pointer", func(r olderRecord) store.Write {
			r.Version++
			return store.Put(k, &r)
		}, func(o object) { o["version"] = 2.0 }},
		{"a changed nested record", func(r olderRecord) store.Write {
			r.Version, r.One.Name, r.Title = 2, "other", "y"
			return store.Put(k, r)
		}, func(o object) {
			o["version"], o["title"] = 2.0, "y"
			o["one"].(object)["name"] = "other"
		}},
		{"a removed nested record", func(r olderRecord) store.Write {
			r.Version, r.Note, r.One = 2, "", nil
			return store.Put(k, r)
		}, func(o object) {
			o["version"] = 2.0
			delete(o, "note")
			delete(o, "one")
		}},
		{"moved nested records", func(r olderRecord) store.Write {
			r.Version, r.Many = 2, append([]inner{*r.One}, r.Many[2], r.Many[0])
			r.One = nil
			return store.Put(k, r)
		}, func(o object) {
			many := o["many"].([]any)
			o["version"], o["many"] = 2.0, []any{o["one"], many[2], many[0]}
			delete(o, "one")
		}},
		{"an update of other attributes", func(olderRecord) store.Write {
			return store.Update(k, store.Set(store.At("version"), 2), store.Remove(store.At("note")))
		}, func(o object) {
			o["version"] = 2.0
			delete(o, "note")
		}},
		{"an update with nested records that were read", func(r olderRecord) store.Write {
			return store.Update(k, store.Set(store.At("version"), 2), store.Set(store.At("one"), r.Many[0]),
				store.Set(store.At("many"), r.Many[:1]), store.Set(store.At("byName", "y"), r.ByName["x"]))
		}, func(o object) {
			many, byName := o["many"].([]any), o["byName"].(object)
			o["version"], o["one"], o["many"] = 2.0, many[0], many[:1]
			byName["y"] = byName["x"]
		}},
		{"a condition on nested records", func(r olderRecord) store.Write {
			r.Version++
			return store.Put(k, r).If(store.And(store.Equal(store.At("one"), r.One), store.Equal(store.At("many"), r.Many)))
		}, func(o object) { o["version"] = 2.0 }},
		{"a put of another record", func(olderRecord) store.Write {
			return store.Put(k, olderRecord{ID: "2", Version: 1})
		}, func(o object) {
			clear(o)
			o["id"], o["version"] = "2", 1.0
		}},
	}
}

func TestChangesKeepUnknownAttributes(t *testing.T) {
	later := object{"of": "a later release", "list": []any{1.0, nil, object{"deep": true}}}
	before := func() object {
		return object{
			"id": "1", "version": 1.0, "title": "x", "later": later, "tags": object{"a": 1.0}, "note": "removed later",
			"one": object{"name": "one", "on": "2026-01-02T03:04:05Z", "later": later},
			"many": []any{
				object{"name": "a", "on": "2026-01-02T03:04:05Z", "later": 1.0},
				object{"name": "b", "on": "2026-01-02T03:04:05Z"},
				object{"name": "c", "on": "2026-01-02T03:04:05Z", "later": nil},
			},
			"byName": object{
				"x": object{"name": "x", "on": "2026-01-02T03:04:05Z", "later": later},
			},
		}
	}
	k := key("a")
	for _, c := range unknownCases(k) {
		t.Run(c.name, func(t *testing.T) {
			items := memory.New()
			table := storetest.NewWithBackend(t, items)
			putNewer(t, table, k, before())
			var r olderRecord
			if err := table.Get(t.Context(), k, &r); err != nil {
				t.Fatalf("Get() of a newer record = %v, want success", err)
			}
			commit(t, table, c.change(r))
			want := before()
			c.want(want)
			if got := stored(t, items, k); !reflect.DeepEqual(got, want) {
				t.Errorf("stored item =\n%v, want\n%v", got, want)
			}
		})
	}
}

// TestUnknownAttributesStayWithTheirItem checks that the attributes of a
// later release, such as a ttl, are not copied from one item to another.
func TestUnknownAttributesStayWithTheirItem(t *testing.T) {
	items := memory.New()
	table := storetest.NewWithBackend(t, items)
	putNewer(t, table, key("a"), object{"id": "1", "version": 1, "ttl": 1 << 40, "later": true})
	all, err := store.Collect[olderRecord](t.Context(), table, store.Query{PK: key("a").PK})
	if err != nil || len(all) != 1 {
		t.Fatalf("Collect() = %v, %v, want one record", all, err)
	}
	r := all[0]
	r.Version++
	commit(t, table, store.Put(key("a"), r), store.Put(key("b"), r))
	if got := stored(t, items, key("a")); got["later"] != true || got["ttl"] == nil {
		t.Errorf("item after Put() = %v, want its unknown attributes later and ttl", got)
	}
	if got := stored(t, items, key("b")); got["later"] != nil || got["ttl"] != nil {
		t.Errorf("another item = %v, want no unknown attributes", got)
	}
}

// withKey is a record with a field for a part of its key.
type withKey struct {
	store.UnknownAttributes

	SK      string `dynamodbav:"sk"`
	Version int    `dynamodbav:"version"`
}

// withTitle is a record whose field for the title hides the title of the embedded struct.
type withTitle struct {
	store.UnknownAttributes

	public
	Title   string `dynamodbav:"title,omitempty"`
	Version int    `dynamodbav:"version"`
}

// TestOneUnknownAttributeIsKept checks types with two fields for one attribute,
// or with a field for a part of the key. They must keep an unknown attribute too.
func TestOneUnknownAttributeIsKept(t *testing.T) {
	items := memory.New()
	table := storetest.NewWithBackend(t, items)
	before := object{"title": "x", "version": 1.0, "later": true}
	for _, k := range []string{"a", "b"} {
		putNewer(t, table, key(k), before)
	}
	putNewer(t, table, key("c"), object{"version": 1.0, "later": true})
	var titled withTitle
	var twoUnknown, oneUnknown withKey
	for k, r := range map[string]any{"a": &titled, "b": &twoUnknown, "c": &oneUnknown} {
		if err := table.Get(t.Context(), key(k), r); err != nil {
			t.Fatalf("Get(%s) = %v, want success", k, err)
		}
	}
	if titled.Title != "x" || oneUnknown.SK != key("c").SK {
		t.Errorf("Get() = title %q and sort key %q, want x and %q", titled.Title, oneUnknown.SK, key("c").SK)
	}
	titled.Version, twoUnknown.Version, oneUnknown.Version = 2, 2, 2
	commit(t, table, store.Put(key("a"), titled), store.Put(key("b"), twoUnknown), store.Put(key("c"), oneUnknown))
	for k, want := range map[string]object{
		"a": {"title": "x", "version": 2.0, "later": true}, "b": {"title": "x", "version": 2.0, "later": true},
		"c": {"version": 2.0, "later": true},
	} {
		if got := stored(t, items, key(k)); !reflect.DeepEqual(got, want) {
			t.Errorf("item %s after a change = %v, want %v", k, got, want)
		}
	}
}

// TestRereadReplacesUnknownAttributes reads into the same record again, as a loop of attempts
// does. An unknown attribute that was removed before the second read must not be written again.
func TestRereadReplacesUnknownAttributes(t *testing.T) {
	items := memory.New()
	table := storetest.NewWithBackend(t, items)
	var r olderRecord
	for _, record := range []object{{"id": "1", "later": true}, {"id": "1"}} {
		putNewer(t, table, key("a"), record)
		if err := table.Get(t.Context(), key("a"), &r); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, table, store.Put(key("a"), r))
	if got := stored(t, items, key("a")); got["later"] != nil {
		t.Errorf("item after Put() = %v, want it without the attribute that was removed", got)
	}
}

// TestPutChecksRestoredAttributes checks that restoring another release's attributes
// does not undo a concurrent change by that release, in a record without a version.
func TestPutChecksRestoredAttributes(t *testing.T) {
	type plain struct {
		store.UnknownAttributes

		Name string `dynamodbav:"name"`
	}
	items := memory.New()
	table := storetest.NewWithBackend(t, items)
	putNewer(t, table, key("a"), object{"name": "x", "later": 1})
	attempts := 0
	err := table.RunInTx(t.Context(), func(ctx context.Context) error {
		var r plain
		if err := table.Get(ctx, key("a"), &r); err != nil {
			return err
		}
		if attempts++; attempts == 1 {
			concurrent := store.WithoutReadSet(ctx, "a test: this is the change of another release")
			if err := table.Commit(concurrent, store.Update(key("a"), store.Set(store.At("later"), 2))); err != nil {
				return err
			}
		}
		r.Name = "y"
		return table.Commit(ctx, store.Put(key("a"), r))
	})
	if got := stored(t, items, key("a")); err != nil || attempts != 2 || got["later"] != 2.0 || got["name"] != "y" {
		t.Errorf("item after %d attempts = %v, %v, want later 2 and name y after 2", attempts, got, err)
	}
}

// TestUnknownAttributesOfCopiesAreEqual checks that a record with unknown
// attributes equals only its copies, because some loops compare records with ==.
func TestUnknownAttributesOfCopiesAreEqual(t *testing.T) {
	var a inner
	if err := store.Decode(store.Item{"later": mustEncode(t, 1), "name": mustEncode(t, "x")}, &a); err != nil {
		t.Fatal(err)
	}
	if b := a; a != b {
		t.Error("a record with an unknown attribute differs from its copy, want them equal")
	}
	if a == (inner{Name: "x"}) {
		t.Error("a record with an unknown attribute equals the record without it, want them different")
	}
}

func mustEncode(t testing.TB, v any) store.Value {
	t.Helper()
	av, err := attributevalue.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return av
}

// TestUnknownAttributesSurviveChanges changes records through types
// that know different attributes. All attributes must remain.
func TestUnknownAttributesSurviveChanges(t *testing.T) {
	type narrow struct {
		store.UnknownAttributes

		ID      string `dynamodbav:"id"`
		Version int    `dynamodbav:"version"`
	}
	rapid.Check(t, func(rt *rapid.T) {
		items := memory.New()
		table := storetest.NewWithBackend(t, items)
		value := rapid.Custom(func(rt *rapid.T) any {
			return rapid.OneOf(
				rapid.Just[any](nil), rapid.Map(rapid.String(), func(s string) any { return s }),
				rapid.Map(rapid.IntRange(-1000, 1000), func(n int) any { return float64(n) }),
				rapid.Map(rapid.SliceOfN(rapid.Bool(), 1, 3), func(l []bool) any { return fmt.Sprint(l) }),
				rapid.Map(rapid.MapOfN(rapid.StringMatching("[a-z]{1,4}"), rapid.Bool(), 1, 3), func(m map[string]bool) any {
					out := object{}
					for name, b := range m {
						out[name] = b
					}
					return out
				}),
			).Draw(rt, "value")
		})
		want := object{"id": "1", "version": 0.0}
		for name, v := range rapid.MapOfN(rapid.StringMatching("later[A-Za-z.#]{0,8}"), value, 0, 6).Draw(rt, "unknown") {
			want[name] = v
		}
		putNewer(t, table, key("a"), want)
		changes := rapid.IntRange(1, 5).Draw(rt, "changes")
		for n := range changes {
			err := table.RunInTx(t.Context(), func(ctx context.Context) error {
				var wideRecord olderRecord
				var narrowRecord narrow
				if rapid.Bool().Draw(rt, "through the narrow type") {
					err := table.Get(ctx, key("a"), &narrowRecord)
					narrowRecord.Version++
					return errors.Join(err, table.Commit(ctx, store.Put(key("a"), narrowRecord)))
				}
				err := table.Get(ctx, key("a"), &wideRecord)
				wideRecord.Version++
				wideRecord.Title = fmt.Sprint(n)
				want["title"] = wideRecord.Title
				return errors.Join(err, table.Commit(ctx, store.Put(key("a"), wideRecord)))
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
		want["version"] = float64(changes)
		if got := stored(t, items, key("a")); !reflect.DeepEqual(got, want) {
			rt.Fatalf("stored item =\n%v, want\n%v", got, want)
		}
	})
}
