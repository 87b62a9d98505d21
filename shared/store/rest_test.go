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

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// inner stands within records.
type inner struct {
	store.Rest

	Name string    `dynamodbav:"name"`
	On   time.Time `dynamodbav:"on,omitempty"`
}

// public is a part of a record that shares its attributes.
type public struct {
	store.Rest

	Title string `dynamodbav:"title,omitempty"`
}

// kept is a record of a release that knows less than the one that wrote it.
type kept struct {
	store.Rest

	public
	ID      string           `dynamodbav:"id"`
	Version int              `dynamodbav:"version"`
	One     *inner           `dynamodbav:"one,omitempty"`
	Many    []inner          `dynamodbav:"many,omitempty"`
	ByName  map[string]inner `dynamodbav:"byName,omitempty"`
	Tags    map[string]int   `dynamodbav:"tags,omitempty"`
	Gone    string           `dynamodbav:"gone,omitempty"`
}

type object = map[string]any

// newer writes what a newer release would.
func newer(t testing.TB, table *store.Table, k store.Key, record object) {
	t.Helper()
	commit(t, table, store.Put(k, record))
}

// stored gives an item as it is, without its key.
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

func TestChangesKeepWhatTheirReleaseDoesNotKnow(t *testing.T) {
	later := object{"of": "a later release", "list": []any{1.0, nil, object{"deep": true}}}
	before := func() object {
		return object{
			"id": "1", "version": 1.0, "title": "x", "later": later, "tags": object{"a": 1.0}, "gone": "soon",
			"one":  object{"name": "one", "on": "2026-01-02T03:04:05Z", "later": later},
			"many": []any{object{"name": "a", "on": "2026-01-02T03:04:05Z", "later": 1.0}, object{"name": "b", "on": "2026-01-02T03:04:05Z"}, object{"name": "c", "on": "2026-01-02T03:04:05Z", "later": nil}},
			"byName": object{
				"x": object{"name": "x", "on": "2026-01-02T03:04:05Z", "later": later},
			},
		}
	}
	k := key("a")
	for _, c := range []struct {
		name   string
		change func(kept) store.Write
		want   func(object)
	}{
		{"put back", func(r kept) store.Write { r.Version++; return store.Put(k, r) }, func(o object) { o["version"] = 2.0 }},
		{"put by a pointer", func(r kept) store.Write { r.Version++; return store.Put(k, &r) }, func(o object) { o["version"] = 2.0 }},
		{"changed within", func(r kept) store.Write {
			r.Version, r.One.Name, r.Title = 2, "other", "y"
			return store.Put(k, r)
		}, func(o object) {
			o["version"], o["title"] = 2.0, "y"
			o["one"].(object)["name"] = "other"
		}},
		{"cleared", func(r kept) store.Write { r.Version, r.Gone, r.One = 2, "", nil; return store.Put(k, r) }, func(o object) {
			o["version"] = 2.0
			delete(o, "gone")
			delete(o, "one")
		}},
		{"moved within", func(r kept) store.Write {
			r.Version, r.Many = 2, append([]inner{*r.One}, r.Many[2], r.Many[0])
			r.One = nil
			return store.Put(k, r)
		}, func(o object) {
			many := o["many"].([]any)
			o["version"], o["many"] = 2.0, []any{o["one"], many[2], many[0]}
			delete(o, "one")
		}},
		{"an update of other attributes", func(kept) store.Write {
			return store.Update(k, store.Set(store.At("version"), 2), store.Remove(store.At("gone")))
		}, func(o object) {
			o["version"] = 2.0
			delete(o, "gone")
		}},
		{"an update that sets what was read", func(r kept) store.Write {
			return store.Update(k, store.Set(store.At("version"), 2), store.Set(store.At("one"), r.Many[0]), store.Set(store.At("many"), r.Many[:1]), store.Set(store.At("byName", "y"), r.ByName["x"]))
		}, func(o object) {
			many, byName := o["many"].([]any), o["byName"].(object)
			o["version"], o["one"], o["many"] = 2.0, many[0], many[:1]
			byName["y"] = byName["x"]
		}},
		{"a condition on what was read", func(r kept) store.Write {
			r.Version++
			return store.Put(k, r).If(store.And(store.Equal(store.At("one"), r.One), store.Equal(store.At("many"), r.Many)))
		}, func(o object) { o["version"] = 2.0 }},
		{"another thing in its place", func(kept) store.Write { return store.Put(k, kept{ID: "2", Version: 1}) }, func(o object) {
			clear(o)
			o["id"], o["version"] = "2", 1.0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			items := memory.New()
			table := storetest.Over(t, items)
			newer(t, table, k, before())
			var r kept
			if err := table.Get(t.Context(), k, &r); err != nil {
				t.Fatal(err)
			}
			commit(t, table, c.change(r))
			want := before()
			c.want(want)
			if got := stored(t, items, k); !reflect.DeepEqual(got, want) {
				t.Errorf("it is\n%v, want\n%v", got, want)
			}
		})
	}
}

// TestRestStaysWithItsItem: what a later release has put into one item is no
// other's, such as the ttl of one of the two.
func TestRestStaysWithItsItem(t *testing.T) {
	items := memory.New()
	table := storetest.Over(t, items)
	newer(t, table, key("a"), object{"id": "1", "version": 1, "ttl": 1 << 40, "later": true})
	all, err := store.Collect[kept](t.Context(), table, store.Query{PK: key("a").PK})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	r := all[0]
	r.Version++
	commit(t, table, store.Put(key("a"), r), store.Put(key("b"), r))
	if got := stored(t, items, key("a")); got["later"] != true || got["ttl"] == nil {
		t.Errorf("the item itself has lost its rest: %v", got)
	}
	if got := stored(t, items, key("b")); got["later"] != nil || got["ttl"] != nil {
		t.Errorf("another item has it: %v", got)
	}
}

// withKey has an attribute for a part of its key.
type withKey struct {
	store.Rest

	SK      string `dynamodbav:"sk"`
	Version int    `dynamodbav:"version"`
}

// withTitle hides the title of the struct in it.
type withTitle struct {
	store.Rest

	public
	Title   string `dynamodbav:"title,omitempty"`
	Version int    `dynamodbav:"version"`
}

// TestOneUnknownAttributeIsKept by types that know an attribute twice: by two fields, or as a part of the key.
func TestOneUnknownAttributeIsKept(t *testing.T) {
	items := memory.New()
	table := storetest.Over(t, items)
	before := object{"title": "x", "version": 1.0, "later": true}
	for _, k := range []string{"a", "b"} {
		newer(t, table, key(k), before)
	}
	newer(t, table, key("c"), object{"version": 1.0, "later": true})
	var titled withTitle
	var two, one withKey
	for k, r := range map[string]any{"a": &titled, "b": &two, "c": &one} {
		if err := table.Get(t.Context(), key(k), r); err != nil {
			t.Fatal(err)
		}
	}
	if titled.Title != "x" || one.SK != key("c").SK {
		t.Errorf("Get() = title %q and sort key %q, want x and %q", titled.Title, one.SK, key("c").SK)
	}
	titled.Version, two.Version, one.Version = 2, 2, 2
	commit(t, table, store.Put(key("a"), titled), store.Put(key("b"), two), store.Put(key("c"), one))
	for k, want := range map[string]object{
		"a": {"title": "x", "version": 2.0, "later": true}, "b": {"title": "x", "version": 2.0, "later": true}, "c": {"version": 2.0, "later": true},
	} {
		if got := stored(t, items, key(k)); !reflect.DeepEqual(got, want) {
			t.Errorf("after a change, %s is %v, want %v", k, got, want)
		}
	}
}

// TestReadingAgainForgetsTheRestOfBefore as a loop of attempts does, that reads into one record.
func TestReadingAgainForgetsTheRestOfBefore(t *testing.T) {
	items := memory.New()
	table := storetest.Over(t, items)
	var r kept
	for _, more := range []object{{"id": "1", "later": true}, {"id": "1"}} {
		newer(t, table, key("a"), more)
		if err := table.Get(t.Context(), key("a"), &r); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, table, store.Put(key("a"), r))
	if got := stored(t, items, key("a")); got["later"] != nil {
		t.Errorf("what is gone has come back: %v", got)
	}
}

// TestPuttingBackHoldsOverTheRest: what is put back of another release's attributes must not undo
// what that has changed meanwhile, in a record that has no version.
func TestPuttingBackHoldsOverTheRest(t *testing.T) {
	type plain struct {
		store.Rest

		Name string `dynamodbav:"name"`
	}
	items := memory.New()
	table := storetest.Over(t, items)
	newer(t, table, key("a"), object{"name": "x", "later": 1})
	tries := 0
	err := table.Again(t.Context(), func(ctx context.Context) error {
		var r plain
		if err := table.Get(ctx, key("a"), &r); err != nil {
			return err
		}
		if tries++; tries == 1 {
			meanwhile := store.Undecided(ctx, "it is another release's")
			if err := table.Commit(meanwhile, store.Update(key("a"), store.Set(store.At("later"), 2))); err != nil {
				return err
			}
		}
		r.Name = "y"
		return table.Commit(ctx, store.Put(key("a"), r))
	})
	if got := stored(t, items, key("a")); err != nil || tries != 2 || got["later"] != 2.0 || got["name"] != "y" {
		t.Errorf("after %d tries it is %v, %v", tries, got, err)
	}
}

// TestRestsOfCopiesAreEqual, which loops that compare records with == rest on.
func TestRestsOfCopiesAreEqual(t *testing.T) {
	var a inner
	if err := store.Decode(store.Item{"later": mustEncode(t, 1), "name": mustEncode(t, "x")}, &a); err != nil {
		t.Fatal(err)
	}
	if b := a; a != b || a == (inner{Name: "x"}) {
		t.Error("a copy is another, or a record without a rest is the same")
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

// TestAnyRestSurvivesAnyNumberOfChanges of releases that know different things.
func TestAnyRestSurvivesAnyNumberOfChanges(t *testing.T) {
	type narrow struct {
		store.Rest

		ID      string `dynamodbav:"id"`
		Version int    `dynamodbav:"version"`
	}
	rapid.Check(t, func(rt *rapid.T) {
		items := memory.New()
		table := storetest.Over(t, items)
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
		for name, v := range rapid.MapOfN(rapid.StringMatching("later[A-Za-z.#]{0,8}"), value, 0, 6).Draw(rt, "more") {
			want[name] = v
		}
		newer(t, table, key("a"), want)
		changes := rapid.IntRange(1, 5).Draw(rt, "changes")
		for n := range changes {
			err := table.Again(t.Context(), func(ctx context.Context) error {
				var wide kept
				var less narrow
				if rapid.Bool().Draw(rt, "narrow") {
					err := table.Get(ctx, key("a"), &less)
					less.Version++
					return errors.Join(err, table.Commit(ctx, store.Put(key("a"), less)))
				}
				err := table.Get(ctx, key("a"), &wide)
				wide.Version++
				wide.Title = fmt.Sprint(n)
				want["title"] = wide.Title
				return errors.Join(err, table.Commit(ctx, store.Put(key("a"), wide)))
			})
			if err != nil {
				rt.Fatal(err)
			}
		}
		want["version"] = float64(changes)
		if got := stored(t, items, key("a")); !reflect.DeepEqual(got, want) {
			rt.Fatalf("it is\n%v, want\n%v", got, want)
		}
	})
}
