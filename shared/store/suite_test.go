package store_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// eachBackend runs one test over the table in memory and in DynamoDB.
func eachBackend(t *testing.T, test func(t *testing.T, table *store.Table)) {
	t.Run("memory", func(t *testing.T) { test(t, storetest.New(t)) })
	t.Run("embedded", func(t *testing.T) { test(t, storetest.Over(t, newEmbedded(t))) })
	t.Run("dynamodb", func(t *testing.T) {
		table, _, _ := storetest.NewDynamoDB(t)
		test(t, table)
	})
}

// newEmbedded makes an engine over files in memory.
func newEmbedded(t testing.TB) *embedded.Backend {
	t.Helper()
	b, err := embedded.Open(t.Context(), embedded.Options{Dir: "store", FS: vfs.NewMem(), Now: func() time.Time { return storetest.Epoch.Add(-24 * time.Hour) }}) // so that it deletes nothing by itself
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// thing is a record with a value of each kind that the product keeps.
type thing struct {
	Name    string            `dynamodbav:"name,omitempty"`
	Count   int64             `dynamodbav:"count,omitempty"` // a reserved word
	Data    []byte            `dynamodbav:"data,omitempty"`
	Tags    map[string]string `dynamodbav:"tags,omitempty"`
	List    []string          `dynamodbav:"list,omitempty"`
	On      bool              `dynamodbav:"on,omitempty"`
	TTL     int64             `dynamodbav:"ttl,omitempty"`
	DuePK   string            `dynamodbav:"duePk,omitempty"`
	DueSK   string            `dynamodbav:"dueSk,omitempty"`
	Changes map[string]thing  `dynamodbav:"changes,omitempty"`
}

func key(pk string, sk ...any) store.Key {
	if len(sk) == 0 {
		return store.Key{PK: pk, SK: "."}
	}
	return store.Key{PK: pk, SK: fmt.Sprint(sk...)}
}

func commit(t testing.TB, table *store.Table, writes ...store.Write) {
	t.Helper()
	if err := table.Commit(t.Context(), writes...); err != nil {
		t.Fatal(err)
	}
}

func get(t testing.TB, table *store.Table, k store.Key) thing {
	t.Helper()
	var got thing
	if err := table.Get(t.Context(), k, &got); err != nil {
		t.Fatalf("get %v: %v", k, err)
	}
	return got
}

func absent(t testing.TB, table *store.Table, k store.Key) {
	t.Helper()
	if err := table.Get(t.Context(), k, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get %v: %v, want ErrNotFound", k, err)
	}
}

func TestRecordComesBackAsItWasStored(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		want := thing{
			Name: "naïve #%\x00", Count: -42, Data: []byte{0, 255}, Tags: map[string]string{"a.b": "", "c": "d"},
			List: []string{"x", ""}, On: true, Changes: map[string]thing{"id": {Name: "nested"}},
		}
		commit(t, table, store.Put(key("a"), want))
		got := get(t, table, key("a"))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestLoadReadsManyItemsInOneRoundTrip(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		for i := range 2 {
			var writes []store.Write
			for j := range 49 {
				writes = append(writes, store.Put(key("p", i*49+j), thing{Count: int64(i*49 + j)}))
			}
			commit(t, table, writes...)
		}
		records := make([]thing, 99)
		wanted := make([]*store.Wanted, 99)
		for i := range wanted {
			wanted[i] = store.Want(key("p", i), &records[i])
		}
		var twice thing
		again := store.Want(key("p", 7), &twice) // another decoding of the same item
		there := store.Want(key("p", 8), nil)
		var meter store.Meter
		if err := table.Load(store.WithMeter(t.Context(), &meter), append(wanted, again, there)...); err != nil {
			t.Fatal(err)
		}
		for i, w := range wanted {
			if w.Found != (i < 98) || i < 98 && records[i].Count != int64(i) {
				t.Errorf("item %d: found %v, %+v", i, w.Found, records[i])
			}
		}
		if !again.Found || twice.Count != 7 || !there.Found {
			t.Errorf("again: %v %+v, there: %v", again.Found, twice, there.Found)
		}
		if u := meter.Usage(); u.Reads != 1 || u.ReadUnits != 99 || u.Queries+u.Commits != 0 || u.WriteUnits != 0 {
			t.Errorf("it cost %+v, want one read of 99 units", u)
		}
		if err := table.Load(t.Context()); err != nil {
			t.Errorf("load of nothing: %v", err)
		}
		tooMany := make([]*store.Wanted, store.MaxKeys+1)
		for i := range tooMany {
			tooMany[i] = store.Want(key("p", i), nil)
		}
		if err := table.Load(t.Context(), tooMany...); err == nil {
			t.Error("load of 101 items was accepted")
		}
	})
}

func TestItemPastItsTTLIsAbsentForEveryRead(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		now := storetest.Epoch.Unix()
		commit(t, table,
			store.Put(key("p", "1 past"), thing{TTL: now - 1}),
			store.Put(key("p", "2 just now"), thing{TTL: now}),
			store.Put(key("p", "3 next"), thing{TTL: now + 1}),
			store.Put(key("p", "4 never"), thing{}),
		)
		absent(t, table, key("p", "1 past"))
		absent(t, table, key("p", "2 just now"))
		get(t, table, key("p", "3 next"))
		get(t, table, key("p", "4 never"))
		q := store.Query{PK: "p"}
		if keys, err := table.Keys(t.Context(), q); err != nil || len(keys) != 2 || keys[0].SK != "3 next" {
			t.Errorf("keys: %v, %v", keys, err)
		}
		if n, err := table.Count(t.Context(), q); err != nil || n != 2 {
			t.Errorf("count: %d, %v", n, err)
		}
		q.Limit = 1 // a page of expired items is no end
		if got, err := store.Collect[thing](t.Context(), table, q); err != nil || len(got) != 1 || got[0].TTL != now+1 {
			t.Errorf("collected %+v, %v", got, err)
		}
		if err := table.Commit(t.Context(), store.Create(key("p", "1 past"), thing{})); !errors.Is(err, store.ErrCondition) {
			t.Errorf("create over an expired item: %v", err)
		}
	})
}

func TestCommitIsAllOrNothing(t *testing.T) {
	errTaken, errGone := errors.New("taken"), errors.New("gone")
	eachBackend(t, func(t *testing.T, table *store.Table) {
		commit(t, table, store.Create(key("a"), thing{Name: "first"}))
		err := table.Commit(t.Context(),
			store.Create(key("b"), thing{}),
			store.Update(key("c"), store.Set(store.At("name"), "x")).Else(errGone),
			store.Create(key("a"), thing{Name: "second"}).Else(errTaken),
			store.Delete(key("a2")),
		)
		if !errors.Is(err, errGone) || errors.Is(err, errTaken) {
			t.Errorf("answered %v, want the Else of the first false condition", err)
		}
		absent(t, table, key("b"))
		absent(t, table, key("c"))
		if got := get(t, table, key("a")); got.Name != "first" {
			t.Errorf("a is %+v", got)
		}
		err = table.Commit(t.Context(), store.Create(key("a"), thing{}))
		if !errors.Is(err, store.ErrCondition) {
			t.Errorf("answered %v, want ErrCondition", err)
		}
		if err := table.Commit(t.Context()); err != nil {
			t.Errorf("commit of nothing: %v", err)
		}
	})
}

func TestChangesReachEveryAttribute(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		k := key("a")
		commit(t, table, store.Upsert(k, store.Add(store.At("count"), 5), store.Set(store.At("changes"), map[string]thing{})))
		commit(t, table, store.Update(k,
			store.Set(store.At("changes", "dotted.name"), thing{Name: "deep"}),
			store.Add(store.At("count"), -7),
			store.Set(store.At("name"), "set"),
			store.Remove(store.At("tags")),
		))
		commit(t, table, store.Update(k,
			store.Add(store.At("changes", "dotted.name", "count"), 3),
			store.Set(store.At("tags"), map[string]string{"k": "v"}),
			store.Remove(store.At("name")),
		))
		commit(t, table, store.Update(k, store.Remove(store.At("tags", "k")), store.Remove(store.At("tags", "absent"))))
		want := thing{Count: -2, Tags: map[string]string{}, Changes: map[string]thing{"dotted.name": {Name: "deep", Count: 3}}}
		if got := get(t, table, k); !reflect.DeepEqual(got, want) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		commit(t, table, store.Delete(k), store.Delete(key("never there")))
		absent(t, table, k)
	})
}

func TestConditions(t *testing.T) {
	at := store.At
	tests := []struct {
		name string
		c    store.Condition
		// holds on the item below, and where there is no item
		item, none bool
	}{
		{"exists", store.Exists(), true, false},
		{"absent", store.Absent(), false, true},
		{"has", store.Has(at("name")), true, false},
		{"has not", store.Has(at("nope")), false, false},
		{"has nested", store.Has(at("tags", "k")), true, false},
		{"has below a text", store.Has(at("name", "k")), false, false},
		{"lacks", store.Lacks(at("nope")), true, true},
		{"lacks nested", store.Lacks(at("tags", "nope")), true, true},
		{"lacks below nothing", store.Lacks(at("nope", "k")), true, true},
		{"lacks what is there", store.Lacks(at("name")), false, true},
		{"equal text", store.Equal(at("name"), "middle"), true, false},
		{"equal other text", store.Equal(at("name"), "middl"), false, false},
		{"equal number", store.Equal(at("count"), 10), true, false},
		{"equal number as text", store.Equal(at("count"), "10"), false, false},
		{"equal bool", store.Equal(at("on"), true), true, false},
		{"equal other bool", store.Equal(at("on"), false), false, false},
		{"equal bytes", store.Equal(at("data"), []byte("bytes")), true, false},
		{"equal map", store.Equal(at("tags"), map[string]string{"k": "v"}), true, false},
		{"equal other map", store.Equal(at("tags"), map[string]string{"k": "v", "l": ""}), false, false},
		{"equal list", store.Equal(at("list"), []string{"a", "b"}), true, false},
		{"equal turned list", store.Equal(at("list"), []string{"b", "a"}), false, false},
		{"equal nothing", store.Equal(at("nope"), "x"), false, false},
		{"not equal", store.NotEqual(at("name"), "other"), true, true},
		{"not equal the same", store.NotEqual(at("name"), "middle"), false, true},
		{"not equal another kind", store.NotEqual(at("name"), 1), true, true},
		{"not equal nothing", store.NotEqual(at("nope"), "x"), true, true},
		{"less number", store.Less(at("count"), 11), true, false},
		{"less number, not by digits", store.Less(at("count"), 9), false, false},
		{"less same", store.Less(at("count"), 10), false, false},
		{"at most", store.AtMost(at("count"), 10), true, false},
		{"at least", store.AtLeast(at("count"), 10), true, false},
		{"less text", store.Less(at("name"), "n"), true, false},
		{"less another kind", store.Less(at("name"), 5), false, false},
		{"less nothing", store.Less(at("nope"), 5), false, false},
		{"and", store.And(store.Exists(), store.Equal(at("count"), 10)), true, false},
		{"and false", store.And(store.Exists(), store.Equal(at("count"), 11)), false, false},
		{"or", store.Or(store.Absent(), store.Equal(at("count"), 10)), true, true},
		{"or false", store.Or(store.Absent(), store.Equal(at("count"), 11)), false, true},
		{"nested", store.Or(store.And(store.Exists(), store.NotEqual(at("name"), "x")), store.And(store.Absent())), true, true},
	}
	eachBackend(t, func(t *testing.T, table *store.Table) {
		commit(t, table, store.Put(key("item"), thing{
			Name: "middle", Count: 10, On: true, Data: []byte("bytes"), Tags: map[string]string{"k": "v"}, List: []string{"a", "b"},
		}))
		for _, test := range tests {
			for name, want := range map[string]bool{"item": test.item, "none": test.none} {
				err := table.Commit(t.Context(), store.Check(key(name), test.c))
				if (err == nil) != want || err != nil && !errors.Is(err, store.ErrCondition) {
					t.Errorf("%s on %s: %v, want it to hold: %v", test.name, name, err, want)
				}
			}
		}
	})
}

func TestWritesThatDynamoDBRefusesAreRefused(t *testing.T) {
	at, k := store.At, key("k")
	large := func(n int) thing { return thing{Data: make([]byte, n)} }
	tests := []struct {
		name   string
		writes []store.Write
	}{
		{"empty partition key", []store.Write{store.Put(key("", "s"), thing{})}},
		{"empty sort key", []store.Write{store.Delete(key("p", ""))}},
		{"long partition key", []store.Write{store.Put(key(strings.Repeat("p", 2049)), thing{})}},
		{"long sort key", []store.Write{store.Put(key("p", strings.Repeat("s", 1025)), thing{})}},
		{"two writes to one item", []store.Write{store.Delete(k), store.Check(k, store.Exists())}},
		{"too many writes", slices.Collect(func(yield func(store.Write) bool) {
			for i := range store.MaxWrites + 1 {
				if !yield(store.Delete(key("p", i))) {
					return
				}
			}
		})},
		{"item over 400 KB", []store.Write{store.Put(k, large(400<<10))}},
		{"item grown over 400 KB", []store.Write{store.Update(key("large"), store.Set(at("name"), strings.Repeat("x", 20<<10)))}},
		{"transaction over 4 MB", slices.Collect(func(yield func(store.Write) bool) {
			for i := range 11 {
				if !yield(store.Put(key("p", i), large(390<<10))) {
					return
				}
			}
		})},
		{"check of nothing", []store.Write{store.Check(k, nil)}},
		{"update of nothing", []store.Write{store.Update(key("item"))}},
		{"change of no path", []store.Write{store.Update(key("item"), store.Remove(nil))}},
		{"change of the key", []store.Write{store.Update(key("item"), store.Set(at("sk"), "x"))}},
		{"paths that overlap", []store.Write{store.Update(key("item"), store.Set(at("tags"), nil), store.Remove(at("tags", "k")))}},
		{"one path twice", []store.Write{store.Update(key("item"), store.Add(at("count"), 1), store.Set(at("count"), 2))}},
		{"update of 4 KB", []store.Write{store.Update(key("item"), manyChanges(400)...)}},
		{"set below nothing", []store.Write{store.Update(key("item"), store.Set(at("changes", "k"), "v"))}},
		{"set below a text", []store.Write{store.Update(key("item"), store.Set(at("name", "k"), "v"))}},
		{"sum with a text", []store.Write{store.Update(key("item"), store.Add(at("name"), 1))}},
		{"number as index key", []store.Write{store.Update(key("item"), store.Set(at("duePk"), 1))}},
		{"empty index key", []store.Write{store.Update(key("item"), store.Set(at("dueSk"), ""))}},
		{"empty index key in a new item", []store.Write{store.Put(k, map[string]string{"duePk": ""})}},
		{"order of booleans", []store.Write{store.Check(key("item"), store.Less(at("on"), true))}},
		{"combination of nothing", []store.Write{store.Check(key("item"), store.And())}},
		{"value that cannot be encoded", []store.Write{store.Put(k, unencodable{})}},
	}
	eachBackend(t, func(t *testing.T, table *store.Table) {
		commit(t, table, store.Put(key("item"), thing{Name: "text"}), store.Put(key("large"), large(390<<10)))
		for _, test := range tests {
			// The witness shows that nothing of the transaction was done.
			err := table.Commit(t.Context(), append(test.writes[:len(test.writes):len(test.writes)], store.Put(key("witness"), thing{}))...)
			if err == nil || errors.Is(err, store.ErrCondition) || errors.Is(err, store.ErrRepeat) {
				t.Errorf("%s: %v, want a plain refusal", test.name, err)
			}
			absent(t, table, key("witness"))
		}
	})
}

// unencodable is a record that fails to encode itself.
type unencodable struct{}

func (unencodable) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return nil, errors.New("no")
}

func manyChanges(n int) (changes []store.Change) {
	for i := range n {
		changes = append(changes, store.Set(store.At(fmt.Sprint("a", i)), i))
	}
	return changes
}

func TestLargestWritesAreAccepted(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		commit(t, table, store.Upsert(key("a"), manyChanges(250)...))
		var writes []store.Write
		for i := range store.MaxWrites {
			writes = append(writes, store.Put(key("p", i), thing{}))
		}
		commit(t, table, writes...)
		// pk "a", sk "b" and the names take the rest of 400 KB.
		rest := 400<<10 - len("pk"+"a"+"sk"+"b"+"data")
		commit(t, table, store.Put(key("a", "b"), thing{Data: make([]byte, rest)}))
		err := table.Commit(t.Context(), store.Put(key("a", "b"), thing{Data: make([]byte, rest+1)}))
		if err == nil {
			t.Error("one byte more was accepted")
		}
	})
}

func TestEndedContextEndsEveryCall(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, queryErr := table.Keys(ctx, store.Query{PK: "p"})
		for name, err := range map[string]error{
			"get": table.Get(ctx, key("a"), nil), "query": queryErr,
			"load":   table.Load(ctx, store.Want(key("a"), nil), store.Want(key("b"), nil)),
			"commit": table.Commit(ctx, store.Put(key("a"), thing{})),
		} {
			if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestMeterCountsWhatAPieceOfWorkAsks(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		var outer, inner store.Meter
		ctx := store.WithMeter(t.Context(), &outer)
		item := thing{Data: make([]byte, 5000), DuePK: "due", DueSK: "1"}
		if err := table.Commit(ctx, store.Create(key("a"), item), store.Check(key("b"), store.Absent())); err != nil {
			t.Fatal(err)
		}
		if err := table.Get(store.WithMeter(ctx, &inner), key("a"), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := table.Count(ctx, store.Query{PK: "a", Offset: 1}); err != nil {
			t.Fatal(err)
		}
		// 5 KB written twice, a check, an entry of the index; a query that
		// skips the item reads its size and then finds nothing.
		want := store.Usage{Commits: 1, Queries: 2, WriteUnits: 10 + 2 + 1, ReadUnits: 2 + 1}
		if got := outer.Usage(); got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		if got := inner.Usage(); got != (store.Usage{Reads: 1, ReadUnits: 2}) {
			t.Errorf("the inner meter counted %+v", got)
		}
	})
}
