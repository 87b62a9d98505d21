package memory_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

type thing struct {
	Name  string            `dynamodbav:"name,omitempty"`
	Tags  map[string]string `dynamodbav:"tags,omitempty"`
	DuePK string            `dynamodbav:"duePk,omitempty"`
	DueSK string            `dynamodbav:"dueSk,omitempty"`
}

func key(pk string, sk ...string) store.Key {
	if len(sk) == 0 {
		return store.Key{PK: pk, SK: "."}
	}
	return store.Key{PK: pk, SK: strings.Join(sk, "")}
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

func TestStreamHasChangesInOrder(t *testing.T) {
	backend := memory.New()
	table := storetest.NewWithBackend(t, backend)
	var got []string
	backend.OnChange(func(r store.StreamRecord) {
		name := func(item store.Item) string {
			if item == nil {
				return "-"
			}
			s, _ := item["name"].(*types.AttributeValueMemberS)
			return s.Value
		}
		got = append(got, fmt.Sprint(r.Key.PK, " ", name(r.Old), " ", name(r.New)))
	})
	commit(t, table, store.Create(key("a"), thing{Name: "1"}), store.Check(key("b"), store.Absent()),
		store.Delete(key("c")))
	commit(t, table, store.Put(key("b"), thing{Name: "1"}), store.Update(key("a"), store.Set(store.At("name"), "2")))
	commit(t, table, store.Update(key("a"), store.Set(store.At("name"), "2")), store.Delete(key("b")))
	if err := table.Commit(t.Context(), store.Create(key("a"), thing{}), store.Put(key("d"), thing{})); err == nil {
		t.Fatal("Commit() with a false condition succeeds, want an error")
	}
	// The stream has no records of a check, the deletion of a
	// missing item, a change without an effect, or a refused commit.
	if want := []string{"a - 1", "b - 1", "a 1 2", "b 1 -"}; !slices.Equal(got, want) {
		t.Errorf("stream records = %q, want %q", got, want)
	}
}

// TestReadersGetCopies checks that changes of an item by a reader, and updates of the stored item,
// change neither the stored item of others nor the item of the write that created it.
func TestReadersGetCopies(t *testing.T) {
	backend := memory.New()
	table := storetest.NewWithBackend(t, backend)
	record := thing{Name: "kept", Tags: map[string]string{"k": "kept"}}
	write := store.Put(key("a"), record)
	commit(t, table, write)
	corrupt := func(item store.Item) {
		corrupted := &types.AttributeValueMemberS{Value: "corrupted"}
		item["name"] = corrupted
		tags, _ := item["tags"].(*types.AttributeValueMemberM)
		tags.Value["k"] = corrupted
	}
	corrupt(backend.Items()[key("a")])
	err := table.Each(t.Context(), store.Query{PK: "a"}, func(item store.Item) (bool, error) {
		corrupt(item)
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantKept := func() {
		t.Helper()
		if got := get(t, table, key("a")); got.Name != "kept" || len(got.Tags) != 1 || got.Tags["k"] != "kept" {
			t.Errorf("Get(a) = %+v, want only the name and the tag \"kept\"", got)
		}
	}
	wantKept()
	// This update must not change the item in write, which is committed again below.
	commit(t, table, store.Update(key("a"), store.Set(store.At("tags", "new"), "x")))
	commit(t, table, store.Delete(key("a")))
	commit(t, table, write)
	wantKept()
}

func TestTokenOfAnotherTransactionIsRefused(t *testing.T) {
	backend := memory.New()
	first, second := []store.Write{store.Put(key("a"), thing{})}, []store.Write{store.Put(key("b"), thing{})}
	for _, writes := range [][]store.Write{first, first} {
		if err := backend.Transact(t.Context(), "token", writes); err != nil {
			t.Fatalf("Transact() of the same writes with the token = %v, want success", err)
		}
	}
	if err := backend.Transact(t.Context(), "token", second); err == nil {
		t.Error("Transact() of other writes with the token succeeds, want an error")
	}
}

// TestCloneIsIndependent writes to a backend and to its clone, and compares each with its expected content.
func TestCloneIsIndependent(t *testing.T) {
	original := memory.New()
	table := storetest.NewWithBackend(t, original)
	changes := 0
	original.OnChange(func(store.StreamRecord) { changes++ })
	commit(t, table,
		store.Put(key("p", "kept"), thing{Tags: map[string]string{"k": "1"}, DuePK: "due", DueSK: "1"}),
		store.Put(key("p", "deleted"), thing{DuePK: "due", DueSK: "2"}))
	if err := original.Transact(t.Context(), "token", []store.Write{store.Put(key("q"), thing{})}); err != nil {
		t.Fatal(err)
	}
	changes = 0
	clone := original.Clone()
	want := clone.Items()

	cloneTable := storetest.NewWithBackend(t, clone)
	commit(t, cloneTable,
		store.Update(key("p", "kept"), store.Set(store.At("tags", "k"), "2"), store.Set(store.At("dueSk"), "3")),
		store.Delete(key("p", "deleted")), store.Put(key("p", "new"), thing{DuePK: "due", DueSK: "4"}))
	if diff := cmp.Diff(want, original.Items(), compareUnexported); diff != "" || changes != 0 {
		t.Errorf("the clone's changes are in the original (-want +got), which reported %d changes:\n%s", changes, diff)
	}
	if got := dueIn(t, table); got != "kept deleted" {
		t.Errorf("due in the original = %q, want \"kept deleted\"", got)
	}
	if got := dueIn(t, cloneTable); got != "kept new" {
		t.Errorf("due in the clone = %q, want \"kept new\"", got)
	}

	want = clone.Items()
	commit(t, table, store.Delete(key("p", "kept")), store.Put(key("p", "late"), thing{}))
	if diff := cmp.Diff(want, clone.Items(), compareUnexported); diff != "" {
		t.Errorf("the original's changes are in the clone (-want +got):\n%s", diff)
	}
	// The clone knows the tokens of the original's transactions.
	if err := clone.Transact(t.Context(), "token", []store.Write{store.Put(key("r"), thing{})}); err == nil {
		t.Error("Transact() of the clone with a token of the original succeeds, want an error")
	}
}

var compareUnexported = cmp.Exporter(func(reflect.Type) bool { return true })

// dueIn returns the sort keys of the items in the due index, in the order of the index.
func dueIn(t *testing.T, table *store.Table) string {
	t.Helper()
	keys, err := table.Keys(t.Context(), store.Query{Index: store.DueIndex, PK: "due"})
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.SK
	}
	return strings.Join(names, " ")
}

func TestRestoreIsRepeatable(t *testing.T) {
	backend := memory.New()
	table := storetest.NewWithBackend(t, backend)
	commit(t, table, store.Put(key("p", "a"), thing{Name: "first"}))
	snapshot := backend.Clone()
	changes := 0
	backend.OnChange(func(store.StreamRecord) { changes++ })
	for range 2 {
		commit(t, table, store.Update(key("p", "a"), store.Set(store.At("name"), "second")),
			store.Put(key("p", "b"), thing{}))
		backend.Restore(snapshot)
		if n, err := table.Count(t.Context(), store.Query{PK: "p"}); err != nil || n != 1 {
			t.Errorf("Count() after Restore() = %d, %v, want 1", n, err)
		}
		if got := get(t, table, key("p", "a")).Name; got != "first" {
			t.Errorf("name after Restore() = %q, want \"first\"", got)
		}
	}
	if changes != 4 {
		t.Errorf("OnChange calls = %d, want 4", changes)
	}
	backend.Restore(backend)
	if n := len(backend.Items()); n != 1 {
		t.Errorf("Restore() of the backend itself leaves %d items, want 1", n)
	}
}

// TestConcurrentClones uses clones concurrently, so that the race detector reports data that they share.
func TestConcurrentClones(t *testing.T) {
	original := memory.New()
	table := storetest.NewWithBackend(t, original)
	fillPartition(t, table, 200)
	snapshot := original.Clone()
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			backend := original
			if i%2 == 0 {
				backend = snapshot.Clone()
			}
			ownTable := storetest.NewWithBackend(t, backend)
			for j := range 50 {
				if err := ownTable.Commit(t.Context(), store.Put(key("p", fmt.Sprintf("%06d", j)), thing{Name: fmt.Sprint(i)}),
					store.Delete(key("p", fmt.Sprintf("%06d", 199-j)))); err != nil {
					t.Errorf("Commit() of goroutine %d = %v, want success", i, err)
				}
			}
			if i%2 == 0 {
				backend.Restore(snapshot)
			}
		})
	}
	wg.Wait()
	if n, err := storetest.NewWithBackend(t, snapshot).Count(t.Context(), store.Query{PK: "p"}); err != nil || n != 200 {
		t.Errorf("Count() of the snapshot = %d, %v, want 200", n, err)
	}
}

// fillPartition puts n items into one partition, in a scattered order of their keys. n must be a multiple of 50.
func fillPartition(t testing.TB, table *store.Table, n int) {
	t.Helper()
	for i := range n / 50 {
		writes := make([]store.Write, 50)
		for j := range writes {
			sk := (i*50 + j) * 7919 % n // 7919 is prime and does not divide n, so each key occurs once
			writes[j] = store.Put(key("p", fmt.Sprintf("%06d", sk)), thing{Name: "x", DuePK: "due", DueSK: fmt.Sprint(sk % 10)})
		}
		commit(t, table, writes...)
	}
}

func TestPageCostIsIndependentOfPartitionSize(t *testing.T) {
	usage := map[int]store.Usage{}
	for _, n := range []int{1_000, 20_000} {
		table := storetest.New(t)
		fillPartition(t, table, n)
		var meter store.Meter
		ctx := store.WithMeter(t.Context(), &meter)
		if got, err := store.Collect[thing](ctx, table, store.Query{PK: "p", Limit: 100, After: "000500"}); err != nil ||
			len(got) != 100 {
			t.Fatalf("Collect() = %d items, %v, want 100", len(got), err)
		}
		usage[n] = meter.Usage()
	}
	if usage[1_000] != usage[20_000] || usage[1_000].Queries != 1 {
		t.Errorf("usage for a page = %+v, want the same for each size, with one query", usage)
	}
}

func BenchmarkPageOf100Among100000(b *testing.B) {
	table := storetest.New(b)
	fillPartition(b, table, 100_000)
	for b.Loop() {
		if _, err := table.Keys(b.Context(), store.Query{PK: "p", Limit: 100, After: "050000"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommitAmong100000(b *testing.B) {
	table := storetest.New(b)
	fillPartition(b, table, 100_000)
	i := 0
	for b.Loop() {
		i++
		commit(b, table, store.Put(key("p", fmt.Sprintf("%06d", i*7919%100_000)), thing{Name: "y"}),
			store.Upsert(key("count"), store.Add(store.At("count"), 1)))
	}
}
