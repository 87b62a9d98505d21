package keys_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// smallCrowd is how many consumers the ledger's small bucket has.
const smallCrowd = 1_000

var consumers = flag.Int("consumers", crowd, "how many consumers the ledger's large bucket has")

// TestLedgerOfRequestsAndUnits says what each operation asks of the database:
// a change is one read round trip (a read and what is queried at the same time)
// and one transaction, whatever the bucket's size.
func TestLedgerOfRequestsAndUnits(t *testing.T) {
	simulations.Sequential(t)
	t.Parallel()
	var out strings.Builder
	fmt.Fprintf(&out, "%-52s %6s %8s %8s %11s %12s\n", "", "reads", "queries", "commits", "read units", "write units")
	small, large := crowded(t, smallCrowd), crowded(t, *consumers)
	for _, entry := range ledger() {
		a, b := small.cost(entry), large.cost(entry)
		fmt.Fprintf(&out, "%-52s %6d %8d %8d %11.1f %12.1f\n", entry.name, a.Reads, a.Queries, a.Commits, a.ReadUnits, a.WriteUnits)
		if a != b {
			t.Errorf("%s costs %+v among %d consumers and %+v among %d", entry.name, a, smallCrowd, b, *consumers)
		}
	}
	golden.Equal(t, "testdata/ledger.txt", out.String())
	// The last entry deleted the bucket: nothing of the crowd is to see, and
	// the operation leaves nothing of it behind.
	if _, _, _, err := large.keys.ListConsumers(t.Context(), in(bucket), keys.Filter{}, store.Page{Limit: 1}, keys.Include{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("the deleted bucket's consumers answer %v", err)
	}
	large.settle()
	left := slices.DeleteFunc(large.leftovers(), func(key string) bool {
		return strings.HasPrefix(key, "bucket-id#") // of the bucket that an entry made
	})
	if len(left) > 0 {
		t.Errorf("%d items are left, such as %s", len(left), left[0])
	}
}

// entry is one operation of the ledger.
type entry struct {
	name string
	// before prepares what is not counted.
	before func(w *world)
	do     func(ctx context.Context, w *world) error
}

// crowded is a bucket with n consumers, of which alice has a key.
func crowded(t *testing.T, n int) *world {
	t.Helper()
	w := newWorld(t)
	w.bucket()
	for i := range n - 1 {
		w.consumer(fmt.Sprintf("consumer-%06d", i))
	}
	must[keys.Consumer](t)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
		Name: "alice", WithKey: true, Tags: map[string]string{"team": "a"}, Metadata: json.RawMessage(`{"plan":"gold"}`),
	}))
	return w
}

// cost is what the operation uses.
func (w *world) cost(e entry) store.Usage {
	w.Helper()
	if e.before != nil {
		e.before(w)
	}
	var m store.Meter
	must0(w, e.do(store.WithMeter(w.request(), &m), w))
	return m.Usage()
}

func ledger() []entry {
	var text string
	var id string
	page := store.Page{Limit: 100}
	newest := func(w *world) {
		k := w.list("alice")[0]
		text, id = k.Text, k.ID
	}
	name := 0
	next := func() string { name++; return fmt.Sprintf("new-%d", name) }
	filled := func(n int) func(*world) {
		return func(w *world) {
			must0(w, w.keys.DeleteConsumer(w.request(), of("alice")))
			w.settle()
			must[keys.Consumer](w)(w.keys.CreateConsumer(w.request(), in(bucket), keys.NewConsumer{
				Name: "alice", Tags: map[string]string{"team": "a"}, Metadata: json.RawMessage(`{"plan":"gold"}`),
			}))
			w.bulk("alice", n)
		}
	}
	return []entry{
		{"check a key", newest, func(ctx context.Context, w *world) error {
			_, err := w.verifier.Verify(ctx, ref(), text)
			return err
		}},
		{"check a key by the bucket's id, once more", newest, func(ctx context.Context, w *world) error {
			b := must[keys.Bucket](w)(w.keys.ReadBucket(w.Context(), in(bucket)))
			byID := keys.BucketRef{AccountID: accountID, ID: b.ID}
			must[keys.Identity](w)(w.verifier.Verify(w.Context(), byID, text))
			_, err := w.verifier.Verify(ctx, byID, text)
			return err
		}},
		{"check a mistyped key", newest, func(ctx context.Context, w *world) error {
			_, err := w.verifier.Verify(ctx, ref(), text+"x")
			if err == nil {
				return fmt.Errorf("it opens")
			}
			return nil
		}},
		{"create a bucket", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.CreateBucket(ctx, owner, keys.NewBucket{Name: "bucket-" + next()})
			return err
		}},
		{"read a bucket", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.ReadBucket(ctx, in(bucket))
			return err
		}},
		{"update a bucket", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.UpdateBucket(ctx, in(bucket), keys.BucketPatch{Description: store.PatchTo("new")})
			return err
		}},
		{"list 100 consumers", nil, func(ctx context.Context, w *world) error {
			_, _, _, err := w.keys.ListConsumers(ctx, in(bucket), keys.Filter{}, page, keys.Include{})
			return err
		}},
		{"list 100 consumers from the 500th on", nil, func(ctx context.Context, w *world) error {
			_, _, _, err := w.keys.ListConsumers(ctx, in(bucket), keys.Filter{}, store.Page{Limit: 100, Offset: 500}, keys.Include{})
			return err
		}},
		{"list 100 consumers behind the 500th", nil, func(ctx context.Context, w *world) error {
			_, _, _, err := w.keys.ListConsumers(ctx, in(bucket), keys.Filter{}, store.Page{Limit: 100, After: "consumer-000498"}, keys.Include{})
			return err
		}},
		{"list the 10 consumers whose names have a prefix", nil, func(ctx context.Context, w *world) error {
			_, _, _, err := w.keys.ListConsumers(ctx, in(bucket), keys.Filter{NamePrefix: "consumer-00050"}, page, keys.Include{})
			return err
		}},
		{"list the consumers with a tag, 1 of them", nil, func(ctx context.Context, w *world) error {
			_, _, _, err := w.keys.ListConsumers(ctx, in(bucket), keys.Filter{Tags: map[string]string{"team": "a"}}, page, keys.Include{})
			return err
		}},
		{"create a consumer", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.CreateConsumer(ctx, in(bucket), keys.NewConsumer{Name: next()})
			return err
		}},
		{"create a consumer with a key, 5 tags and a manager", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.CreateConsumer(ctx, in(bucket), keys.NewConsumer{
				Name: next(), WithKey: true, Tags: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"},
				Managers: []keys.NewManager{{Email: "a@example.com", Sub: "a"}},
			})
			return err
		}},
		{"read a consumer", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.ReadConsumer(ctx, of("alice"), keys.Include{})
			return err
		}},
		{"read a consumer with its key", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.ReadConsumer(ctx, of("alice"), keys.Include{Keys: true})
			return err
		}},
		{"update a consumer's tags", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.UpdateConsumer(ctx, of("alice"), keys.ConsumerPatch{Tags: store.PatchTo(map[string]string{"team": "b"})})
			return err
		}},
		{"update the metadata of a consumer with 1 key", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.UpdateConsumer(ctx, of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"plan":"tin"}`))})
			return err
		}},
		{"add a manager", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.AddManager(ctx, of("alice"), keys.NewManager{Email: "a@example.com", Sub: "a"})
			return err
		}},
		{"list keys", nil, func(ctx context.Context, w *world) error {
			_, _, _, err := w.keys.ListKeys(ctx, of("alice"), page, keys.Masked)
			return err
		}},
		{"create a key", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.CreateKey(ctx, of("alice"), keys.NewKey{})
			return err
		}},
		{"read a key", newest, func(ctx context.Context, w *world) error {
			_, err := w.keys.ReadKey(ctx, of("alice"), id, keys.Visible)
			return err
		}},
		{"update a key", newest, func(ctx context.Context, w *world) error {
			_, err := w.keys.UpdateKey(ctx, of("alice"), id, keys.KeyPatch{Description: store.PatchTo("new")})
			return err
		}},
		{"replace a key's text", newest, func(ctx context.Context, w *world) error {
			_, err := w.keys.UpdateKey(ctx, of("alice"), id, keys.KeyPatch{Text: "chosen-by-its-owner"})
			return err
		}},
		{"delete a key", newest, func(ctx context.Context, w *world) error { return w.keys.DeleteKey(ctx, of("alice"), id) }},
		{"create 40 keys", filled(1), func(ctx context.Context, w *world) error {
			_, err := w.keys.CreateKeys(ctx, of("alice"), make([]keys.NewKey, 40))
			return err
		}},
		{"create 400 keys", filled(1), func(ctx context.Context, w *world) error {
			_, err := w.keys.CreateKeys(ctx, of("alice"), make([]keys.NewKey, 400))
			return err
		}},
		{"roll 1 key", filled(1), roll},
		{"roll 40 keys", filled(40), roll},
		{"roll 400 keys", filled(400), roll},
		{"update the metadata of a consumer with 400 keys", nil, func(ctx context.Context, w *world) error {
			_, err := w.keys.UpdateConsumer(ctx, of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"plan":"tin"}`))})
			return err
		}},
		{"delete a consumer with 40 keys", filled(40), func(ctx context.Context, w *world) error {
			return w.keys.DeleteConsumer(ctx, of("alice"))
		}},
		{"delete a consumer with 400 keys", func(w *world) {
			w.consumer("alice")
			w.bulk("alice", 400)
		}, func(ctx context.Context, w *world) error {
			return w.keys.DeleteConsumer(ctx, of("alice"))
		}},
		{"delete the bucket", nil, func(ctx context.Context, w *world) error { return w.keys.DeleteBucket(ctx, in(bucket)) }},
	}
}

func roll(ctx context.Context, w *world) error {
	return w.keys.RollKey(ctx, of("alice"), w.clock.Now())
}
