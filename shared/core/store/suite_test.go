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

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// eachBackend runs a test with each backend.
func eachBackend(t *testing.T, test func(t *testing.T, table *store.Table)) {
	t.Run("memory", func(t *testing.T) { test(t, storetest.New(t)) })
	t.Run("embedded", func(t *testing.T) { test(t, storetest.NewWithBackend(t, newEmbedded(t))) })
	t.Run("dynamodb", func(t *testing.T) {
		table, _, _ := storetest.NewDynamoDB(t)
		test(t, table)
	})
}

// newEmbedded returns an embedded.Backend over files in memory.
func newEmbedded(t testing.TB) *embedded.Backend {
	t.Helper()
	// at this time no item of the suite has expired, so the housekeeping deletes nothing
	b, err := embedded.Open(t.Context(), embedded.Options{Dir: "store", FS: vfs.NewMem(), Now: func() time.Time {
		return storetest.Epoch.Add(-24 * time.Hour)
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("Close() = %v, want success", err)
		}
	})
	return b
}

// thing is a record with a value of each kind that the product stores.
type thing struct {
	Name    string            `dynamodbav:"name,omitempty"`
	Count   int64             `dynamodbav:"count,omitempty"` // count is a reserved word in DynamoDB's expressions
	Data    []byte            `dynamodbav:"data,omitempty"`
	Tags    map[string]string `dynamodbav:"tags,omitempty"`
	List    []string          `dynamodbav:"list,omitempty"`
	On      bool              `dynamodbav:"on,omitempty"`
	TTL     int64             `dynamodbav:"ttl,omitempty"`
	DuePK   string            `dynamodbav:"duePk,omitempty"`
	DueSK   string            `dynamodbav:"dueSk,omitempty"`
	Changes map[string]thing  `dynamodbav:"changes,omitempty"`
}

// key returns a key. Its sort key is the text of sk, or "." without sk.
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
		t.Fatalf("Get(%v) = %v, want success", k, err)
	}
	return got
}

func wantAbsent(t testing.TB, table *store.Table, k store.Key) {
	t.Helper()
	if err := table.Get(t.Context(), k, nil); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get(%v) = %v, want ErrNotFound", k, err)
	}
}

func TestRecordRoundTrip(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		want := thing{
			Name: "naïve #%\x00", Count: -42, Data: []byte{0, 255}, Tags: map[string]string{"a.b": "", "c": "d"},
			List: []string{"x", ""}, On: true, Changes: map[string]thing{"id": {Name: "nested"}},
		}
		commit(t, table, store.Put(key("a"), want))
		got := get(t, table, key("a"))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("Get() of a stored record = %+v, want %+v", got, want)
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
		requests := make([]*store.ReadRequest, 99)
		for i := range requests {
			requests[i] = store.Get(key("p", i), &records[i])
		}
		var second thing
		duplicate := store.Get(key("p", 7), &second) // decodes the same item again
		exists := store.Get(key("p", 8), nil)
		var meter store.Meter
		if err := table.Load(store.WithMeter(t.Context(), &meter), append(requests, duplicate, exists)...); err != nil {
			t.Fatalf("Load() of 99 items = %v, want success", err)
		}
		for i, r := range requests {
			if r.Found != (i < 98) || i < 98 && records[i].Count != int64(i) {
				t.Errorf("Load() item %d: found %t, %+v, want found %t with the count %d", i, r.Found, records[i], i < 98, i)
			}
		}
		if !duplicate.Found || second.Count != 7 || !exists.Found {
			t.Errorf("Load(): duplicate request found %t, %+v, request without a record found %t, want true, count 7, true",
				duplicate.Found, second, exists.Found)
		}
		if u := meter.Usage(); u.Reads != 1 || u.ReadUnits != 99 || u.Queries+u.Commits != 0 || u.WriteUnits != 0 {
			t.Errorf("usage of Load() = %+v, want one read of 99 units", u)
		}
		if err := table.Load(t.Context()); err != nil {
			t.Errorf("Load() without requests = %v, want nil", err)
		}
		tooMany := make([]*store.ReadRequest, store.MaxKeys+1)
		for i := range tooMany {
			tooMany[i] = store.Get(key("p", i), nil)
		}
		if err := table.Load(t.Context(), tooMany...); err == nil {
			t.Errorf("Load() of %d items succeeds, want an error", len(tooMany))
		}
	})
}

func TestExpiredItemIsAbsent(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		now := storetest.Epoch.Unix()
		commit(t, table,
			store.Put(key("p", "1 past"), thing{TTL: now - 1}),
			store.Put(key("p", "2 just now"), thing{TTL: now}),
			store.Put(key("p", "3 next"), thing{TTL: now + 1}),
			store.Put(key("p", "4 never"), thing{}),
		)
		wantAbsent(t, table, key("p", "1 past"))
		wantAbsent(t, table, key("p", "2 just now"))
		get(t, table, key("p", "3 next"))
		get(t, table, key("p", "4 never"))
		q := store.Query{PK: "p"}
		if keys, err := table.Keys(t.Context(), q); err != nil || len(keys) != 2 || keys[0].SK != "3 next" {
			t.Errorf("Keys() = %v, %v, want 2 keys, the first \"3 next\"", keys, err)
		}
		if n, err := table.Count(t.Context(), q); err != nil || n != 2 {
			t.Errorf("Count() = %d, %v, want 2", n, err)
		}
		q.Limit = 1 // the first pages have only expired items: Collect must read on
		if got, err := store.Collect[thing](t.Context(), table, q); err != nil || len(got) != 1 || got[0].TTL != now+1 {
			t.Errorf("Collect() with a limit of 1 = %+v, %v, want the item with the TTL %d", got, err, now+1)
		}
		if err := table.Commit(t.Context(), store.Create(key("p", "1 past"), thing{})); !errors.Is(err, store.ErrCondition) {
			t.Errorf("Create() over an expired item = %v, want %v", err, store.ErrCondition)
		}
	})
}

func TestCommitIsAllOrNothing(t *testing.T) {
	errTaken, errMissing := errors.New("taken"), errors.New("missing")
	eachBackend(t, func(t *testing.T, table *store.Table) {
		commit(t, table, store.Create(key("a"), thing{Name: "first"}))
		err := table.Commit(t.Context(),
			store.Create(key("b"), thing{}),
			store.Update(key("c"), store.Set(store.At("name"), "x")).Else(errMissing),
			store.Create(key("a"), thing{Name: "second"}).Else(errTaken),
			store.Delete(key("a2")),
		)
		if !errors.Is(err, errMissing) || errors.Is(err, errTaken) {
			t.Errorf("Commit() = %v, want %v of the first false condition, and not %v of a later one",
				err, errMissing, errTaken)
		}
		wantAbsent(t, table, key("b"))
		wantAbsent(t, table, key("c"))
		if got := get(t, table, key("a")); got.Name != "first" {
			t.Errorf("Get(a) after a refused commit = %+v, want the name \"first\"", got)
		}
		err = table.Commit(t.Context(), store.Create(key("a"), thing{}))
		if !errors.Is(err, store.ErrCondition) {
			t.Errorf("Commit(Create(a)) of an existing item, without Else = %v, want ErrCondition", err)
		}
		if err := table.Commit(t.Context()); err != nil {
			t.Errorf("Commit() without writes = %v, want nil", err)
		}
	})
}

func TestUpdateChangesNestedAttributes(t *testing.T) {
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
		want := thing{
			Count: -2, Tags: map[string]string{},
			Changes: map[string]thing{"dotted.name": {Name: "deep", Count: 3}},
		}
		if got := get(t, table, k); !reflect.DeepEqual(got, want) {
			t.Errorf("Get() after the updates = %+v, want %+v", got, want)
		}
		commit(t, table, store.Delete(k), store.Delete(key("never there")))
		wantAbsent(t, table, k)
	})
}

func TestConditions(t *testing.T) {
	at := store.At
	tests := []struct {
		name string
		c    store.Condition
		// item is whether the condition is true for the item that this test commits. missing is whether it is true if there
		// is no item.
		item, missing bool
	}{
		{"exists", store.Exists(), true, false},
		{"absent", store.Absent(), false, true},
		{"has", store.Has(at("name")), true, false},
		{"has an absent attribute", store.Has(at("nope")), false, false},
		{"has nested", store.Has(at("tags", "k")), true, false},
		{"has below a text", store.Has(at("name", "k")), false, false},
		{"lacks", store.Lacks(at("nope")), true, true},
		{"lacks nested", store.Lacks(at("tags", "nope")), true, true},
		{"lacks below an absent attribute", store.Lacks(at("nope", "k")), true, true},
		{"lacks an existing attribute", store.Lacks(at("name")), false, true},
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
		{"equal reversed list", store.Equal(at("list"), []string{"b", "a"}), false, false},
		{"equal an absent attribute", store.Equal(at("nope"), "x"), false, false},
		{"not equal", store.NotEqual(at("name"), "other"), true, true},
		{"not equal the same text", store.NotEqual(at("name"), "middle"), false, true},
		{"not equal another kind", store.NotEqual(at("name"), 1), true, true},
		{"not equal an absent attribute", store.NotEqual(at("nope"), "x"), true, true},
		{"less number", store.Less(at("count"), 11), true, false},
		{"less number with fewer digits", store.Less(at("count"), 9), false, false},
		{"less the same number", store.Less(at("count"), 10), false, false},
		{"at most", store.AtMost(at("count"), 10), true, false},
		{"at least", store.AtLeast(at("count"), 10), true, false},
		{"less text", store.Less(at("name"), "n"), true, false},
		{"less another kind", store.Less(at("name"), 5), false, false},
		{"less an absent attribute", store.Less(at("nope"), 5), false, false},
		{"and", store.And(store.Exists(), store.Equal(at("count"), 10)), true, false},
		{"and false", store.And(store.Exists(), store.Equal(at("count"), 11)), false, false},
		{"or", store.Or(store.Absent(), store.Equal(at("count"), 10)), true, true},
		{"or false", store.Or(store.Absent(), store.Equal(at("count"), 11)), false, true},
		{
			"nested", store.Or(store.And(store.Exists(), store.NotEqual(at("name"), "x")), store.And(store.Absent())), true,
			true,
		},
	}
	eachBackend(t, func(t *testing.T, table *store.Table) {
		commit(t, table, store.Put(key("item"), thing{
			Name: "middle", Count: 10, On: true, Data: []byte("bytes"), Tags: map[string]string{"k": "v"},
			List: []string{"a", "b"},
		}))
		for _, test := range tests {
			for name, want := range map[string]bool{"item": test.item, "missing": test.missing} {
				err := table.Commit(t.Context(), store.Check(key(name), test.c))
				if (err == nil) != want || err != nil && !errors.Is(err, store.ErrCondition) {
					t.Errorf("%s: Check(%s) = %v, want success = %t, otherwise %v", test.name, name, err, want, store.ErrCondition)
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
		{
			"item grown over 400 KB",
			[]store.Write{store.Update(key("large"), store.Set(at("name"), strings.Repeat("x", 20<<10)))},
		},
		{"transaction over 4 MB", slices.Collect(func(yield func(store.Write) bool) {
			for i := range 11 {
				if !yield(store.Put(key("p", i), large(390<<10))) {
					return
				}
			}
		})},
		{"check without a condition", []store.Write{store.Check(k, nil)}},
		{"update without a change", []store.Write{store.Update(key("item"))}},
		{"change without a path", []store.Write{store.Update(key("item"), store.Remove(nil))}},
		{"change of the key", []store.Write{store.Update(key("item"), store.Set(at("sk"), "x"))}},
		{
			"paths that overlap",
			[]store.Write{store.Update(key("item"), store.Set(at("tags"), nil), store.Remove(at("tags", "k")))},
		},
		{
			"two changes of one path",
			[]store.Write{store.Update(key("item"), store.Add(at("count"), 1), store.Set(at("count"), 2))},
		},
		{"update expression over 4 KB", []store.Write{store.Update(key("item"), manyChanges(400)...)}},
		{"set below an absent attribute", []store.Write{store.Update(key("item"), store.Set(at("changes", "k"), "v"))}},
		{"set below a text", []store.Write{store.Update(key("item"), store.Set(at("name", "k"), "v"))}},
		{"number added to a text", []store.Write{store.Update(key("item"), store.Add(at("name"), 1))}},
		{"number as index key", []store.Write{store.Update(key("item"), store.Set(at("duePk"), 1))}},
		{"empty index key", []store.Write{store.Update(key("item"), store.Set(at("dueSk"), ""))}},
		{"empty index key in a new item", []store.Write{store.Put(k, map[string]string{"duePk": ""})}},
		{"comparison of booleans", []store.Write{store.Check(key("item"), store.Less(at("on"), true))}},
		{"And without conditions", []store.Write{store.Check(key("item"), store.And())}},
		{"value that cannot be encoded", []store.Write{store.Put(k, unencodable{})}},
	}
	eachBackend(t, func(t *testing.T, table *store.Table) {
		commit(t, table, store.Put(key("item"), thing{Name: "text"}), store.Put(key("large"), large(390<<10)))
		for _, test := range tests {
			// Each transaction also writes the item witness, which must not exist afterwards.
			err := table.Commit(t.Context(), append(test.writes[:len(test.writes):len(test.writes)],
				store.Put(key("witness"), thing{}))...)
			if err == nil || errors.Is(err, store.ErrCondition) || errors.Is(err, store.ErrRetryable) {
				t.Errorf("%s: Commit() = %v, want an error other than ErrCondition and ErrRetryable", test.name, err)
			}
			if err := table.Get(t.Context(), key("witness"), nil); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: Get(witness) after the refused Commit() = %v, want %v", test.name, err, store.ErrNotFound)
			}
		}
	})
}

// unencodable is a record that cannot be encoded.
type unencodable struct{}

func (unencodable) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return nil, errors.New("this value cannot be encoded")
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
		// The names of the attributes, pk "a" and sk "b" fill the rest of the 400 KB.
		size := 400<<10 - len("pk"+"a"+"sk"+"b"+"data")
		commit(t, table, store.Put(key("a", "b"), thing{Data: make([]byte, size)}))
		err := table.Commit(t.Context(), store.Put(key("a", "b"), thing{Data: make([]byte, size+1)}))
		if err == nil {
			t.Error("Put() of an item one byte too large succeeds, want an error")
		}
	})
}

func TestCanceledContextStopsCalls(t *testing.T) {
	eachBackend(t, func(t *testing.T, table *store.Table) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, queryErr := table.Keys(ctx, store.Query{PK: "p"})
		for name, err := range map[string]error{
			"get": table.Get(ctx, key("a"), nil), "query": queryErr,
			"load":   table.Load(ctx, store.Get(key("a"), nil), store.Get(key("b"), nil)),
			"commit": table.Commit(ctx, store.Put(key("a"), thing{})),
		} {
			if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s with a canceled context = %v, want %v", name, err, context.Canceled)
			}
		}
	})
}

// TestMeterCountsCallsOfContext checks that each call is counted by the innermost meter of its context, and only there.
func TestMeterCountsCallsOfContext(t *testing.T) {
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
		// The commit costs 10 units for an item of 5 KB (two units per KB in a transaction), 2 units for the check, and
		// 1 unit for the entry of the index. The first query skips the item and reads its size. The second query finds
		// no more items.
		want := store.Usage{Commits: 1, Queries: 2, WriteUnits: 10 + 2 + 1, ReadUnits: 2 + 1}
		if got := outer.Usage(); got != want {
			t.Errorf("outer meter = %+v, want %+v", got, want)
		}
		if got := inner.Usage(); got != (store.Usage{Reads: 1, ReadUnits: 2}) {
			t.Errorf("inner meter = %+v, want 1 read with 2 units", got)
		}
	})
}
