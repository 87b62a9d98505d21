package keys_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys"
	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// smallBucketSize is the number of consumers in the ledger's small bucket.
const smallBucketSize = 1_000

var consumers = flag.Int("consumers", largeBucketSize, "how many consumers the ledger's large bucket has")

// TestDatabaseUsageMatchesLedger compares the database requests of each operation with the ledger, which is the golden
// file testdata/ledger.txt. A change needs one round trip to read (a read and concurrent queries) and one transaction.
// Only a large bulk creation needs more. The costs must not depend on the number of consumers.
func TestDatabaseUsageMatchesLedger(t *testing.T) {
	simulations.SkipUnderRace(t)
	t.Parallel()
	var out strings.Builder
	fmt.Fprintf(&out, "%-52s %6s %8s %8s %11s %12s\n", "", "reads", "queries", "commits", "read units", "write units")
	small, large := newFixtureWithConsumers(t, smallBucketSize), newFixtureWithConsumers(t, *consumers)
	for _, entry := range ledger() {
		a, b := small.cost(entry), large.cost(entry)
		fmt.Fprintf(&out, "%-52s %6d %8d %8d %11.1f %12.1f\n", entry.name, a.Reads, a.Queries, a.Commits, a.ReadUnits,
			a.WriteUnits)
		if a != b {
			t.Errorf("%s costs %+v among %d consumers and %+v among %d, want the same",
				entry.name, a, smallBucketSize, b, *consumers)
		}
	}
	golden.Equal(t, "testdata/ledger.txt", out.String())
	// The last entry has deleted the bucket. Its consumers must be invisible, and the operation must delete all of
	// them.
	if _, _, _, err := large.keys.ListConsumers(t.Context(), bucketAt(bucket), keys.Filter{}, store.Page{Limit: 1},
		keys.Include{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("ListConsumers(deleted bucket) error = %v, want %v", err, fault.NotFound)
	}
	large.finishOperations()
	leftover := slices.DeleteFunc(large.leftovers(), func(key string) bool {
		return strings.HasPrefix(key, "bucket-id#") // an entry has created another bucket
	})
	if len(leftover) > 0 {
		t.Errorf("%d items remain, such as %s, want 0", len(leftover), leftover[0])
	}
}

// entry is an operation whose cost is a line of the ledger.
type entry struct {
	name string
	// before, if not nil, prepares data for run. Its cost is not counted.
	before func(fx *fixture)
	run    func(ctx context.Context, fx *fixture) error
}

// newFixtureWithConsumers returns a fixture with n consumers in its bucket. One of them, alice, has a key.
func newFixtureWithConsumers(t *testing.T, n int) *fixture {
	t.Helper()
	fx := newFixture(t)
	fx.createBucket()
	for i := range n - 1 {
		fx.createConsumer(fmt.Sprintf("consumer-%06d", i))
	}
	must[keys.Consumer](t)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
		Name: "alice", WithKey: true, Tags: map[string]string{"team": "a"}, Metadata: json.RawMessage(`{"plan":"gold"}`),
	}))
	return fx
}

// cost runs an entry and returns its use of the database.
func (fx *fixture) cost(e entry) store.Usage {
	fx.Helper()
	if e.before != nil {
		e.before(fx)
	}
	var m store.Meter
	noError(fx, e.run(store.WithMeter(fx.requestContext(), &m), fx))
	return m.Usage()
}

// ledgerState is the state that the ledger's entries share: the text and the id of alice's newest key, and the number
// of new names.
type ledgerState struct {
	text, id string
	names    int
}

// loadNewest stores the text and id of alice's newest key.
func (l *ledgerState) loadNewest(fx *fixture) {
	k := fx.listKeys("alice")[0]
	l.text, l.id = k.Text, k.ID
}

func (l *ledgerState) nextName() string {
	l.names++
	return fmt.Sprintf("new-%d", l.names)
}

// recreateWithKeys returns a function that deletes alice and creates her again with n keys.
func recreateWithKeys(n int) func(*fixture) {
	return func(fx *fixture) {
		noError(fx, fx.keys.DeleteConsumer(fx.requestContext(), consumerAt("alice")))
		fx.finishOperations()
		must[keys.Consumer](fx)(fx.keys.CreateConsumer(fx.requestContext(), bucketAt(bucket), keys.NewConsumer{
			Name: "alice", Tags: map[string]string{"team": "a"}, Metadata: json.RawMessage(`{"plan":"gold"}`),
		}))
		fx.createKeys("alice", n)
	}
}

// ledger returns all entries in the required order. Each entry needs the state that the earlier entries leave.
func ledger() []entry {
	l := &ledgerState{}
	return slices.Concat(l.checks(), l.buckets(), consumerLists(), l.consumers(), l.keys(), largeEntries())
}

func (l *ledgerState) checks() []entry {
	return []entry{
		{"check a key", l.loadNewest, func(ctx context.Context, fx *fixture) error {
			_, err := fx.verifier.Verify(ctx, bucketRef(), l.text)
			return err
		}},
		{"check a key by the bucket's id, second time", l.loadNewest, func(ctx context.Context, fx *fixture) error {
			b := must[keys.Bucket](fx)(fx.keys.ReadBucket(fx.Context(), bucketAt(bucket)))
			byID := keys.BucketRef{AccountID: accountID, ID: b.ID}
			must[keys.Identity](fx)(fx.verifier.Verify(fx.Context(), byID, l.text))
			_, err := fx.verifier.Verify(ctx, byID, l.text)
			return err
		}},
		{"check a mistyped key", l.loadNewest, func(ctx context.Context, fx *fixture) error {
			_, err := fx.verifier.Verify(ctx, bucketRef(), l.text+"x")
			if err == nil {
				return fmt.Errorf("Verify(mistyped key) succeeds, want an error")
			}
			return nil
		}},
	}
}

func (l *ledgerState) buckets() []entry {
	return []entry{
		{"create a bucket", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.CreateBucket(ctx, owner, keys.NewBucket{Name: "bucket-" + l.nextName()})
			return err
		}},
		{"read a bucket", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.ReadBucket(ctx, bucketAt(bucket))
			return err
		}},
		{"update a bucket", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.UpdateBucket(ctx, bucketAt(bucket), keys.BucketPatch{Description: store.PatchTo("new")})
			return err
		}},
	}
}

func consumerLists() []entry {
	page := store.Page{Limit: 100}
	return []entry{
		{"list 100 consumers", nil, func(ctx context.Context, fx *fixture) error {
			_, _, _, err := fx.keys.ListConsumers(ctx, bucketAt(bucket), keys.Filter{}, page, keys.Include{})
			return err
		}},
		{"list 100 consumers at offset 500", nil, func(ctx context.Context, fx *fixture) error {
			_, _, _, err := fx.keys.ListConsumers(ctx, bucketAt(bucket), keys.Filter{}, store.Page{Limit: 100, Offset: 500},
				keys.Include{})
			return err
		}},
		{"list 100 consumers after the cursor of the 500th", nil, func(ctx context.Context, fx *fixture) error {
			_, _, _, err := fx.keys.ListConsumers(ctx, bucketAt(bucket), keys.Filter{},
				store.Page{Limit: 100, After: "consumer-000498"}, keys.Include{})
			return err
		}},
		{"list the 10 consumers whose names have a prefix", nil, func(ctx context.Context, fx *fixture) error {
			_, _, _, err := fx.keys.ListConsumers(ctx, bucketAt(bucket), keys.Filter{NamePrefix: "consumer-00050"}, page,
				keys.Include{})
			return err
		}},
		{"list the consumers with a tag, 1 match", nil, func(ctx context.Context, fx *fixture) error {
			_, _, _, err := fx.keys.ListConsumers(ctx, bucketAt(bucket), keys.Filter{Tags: map[string]string{"team": "a"}}, page,
				keys.Include{})
			return err
		}},
	}
}

func (l *ledgerState) consumers() []entry {
	return []entry{
		{"create a consumer", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.CreateConsumer(ctx, bucketAt(bucket), keys.NewConsumer{Name: l.nextName()})
			return err
		}},
		{"create a consumer with a key, 5 tags and a manager", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.CreateConsumer(ctx, bucketAt(bucket), keys.NewConsumer{
				Name: l.nextName(), WithKey: true, Tags: map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"},
				Managers: []keys.NewManager{{Email: "a@example.com", Sub: "a"}},
			})
			return err
		}},
		{"read a consumer", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.ReadConsumer(ctx, consumerAt("alice"), keys.Include{})
			return err
		}},
		{"read a consumer with its key", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.ReadConsumer(ctx, consumerAt("alice"), keys.Include{Keys: true})
			return err
		}},
		{"update a consumer's tags", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.UpdateConsumer(ctx, consumerAt("alice"),
				keys.ConsumerPatch{Tags: store.PatchTo(map[string]string{"team": "b"})})
			return err
		}},
		{"update the metadata of a consumer with 1 key", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.UpdateConsumer(ctx, consumerAt("alice"),
				keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"plan":"tin"}`))})
			return err
		}},
		{"add a manager", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.AddManager(ctx, consumerAt("alice"), keys.NewManager{Email: "a@example.com", Sub: "a"})
			return err
		}},
	}
}

func (l *ledgerState) keys() []entry {
	page := store.Page{Limit: 100}
	return []entry{
		{"list keys", nil, func(ctx context.Context, fx *fixture) error {
			_, _, _, err := fx.keys.ListKeys(ctx, consumerAt("alice"), page, keys.Masked)
			return err
		}},
		{"create a key", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.CreateKey(ctx, consumerAt("alice"), keys.NewKey{})
			return err
		}},
		{"read a key", l.loadNewest, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.ReadKey(ctx, consumerAt("alice"), l.id, keys.Visible)
			return err
		}},
		{"update a key", l.loadNewest, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.UpdateKey(ctx, consumerAt("alice"), l.id, keys.KeyPatch{Description: store.PatchTo("new")})
			return err
		}},
		{"replace a key's text", l.loadNewest, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.UpdateKey(ctx, consumerAt("alice"), l.id, keys.KeyPatch{Text: "chosen-by-its-owner"})
			return err
		}},
		{"delete a key", l.loadNewest, func(ctx context.Context, fx *fixture) error {
			return fx.keys.DeleteKey(ctx, consumerAt("alice"), l.id)
		}},
	}
}

// largeEntries returns the entries that change many keys at once, and the entry that deletes the bucket.
func largeEntries() []entry {
	return []entry{
		{"create 40 keys", recreateWithKeys(1), func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.CreateKeys(ctx, consumerAt("alice"), make([]keys.NewKey, 40))
			return err
		}},
		{"create 400 keys", recreateWithKeys(1), func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.CreateKeys(ctx, consumerAt("alice"), make([]keys.NewKey, 400))
			return err
		}},
		{"roll 1 key", recreateWithKeys(1), roll},
		{"roll 40 keys", recreateWithKeys(40), roll},
		{"roll 400 keys", recreateWithKeys(400), roll},
		{"update the metadata of a consumer with 400 keys", nil, func(ctx context.Context, fx *fixture) error {
			_, err := fx.keys.UpdateConsumer(ctx, consumerAt("alice"),
				keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"plan":"tin"}`))})
			return err
		}},
		{"delete a consumer with 40 keys", recreateWithKeys(40), func(ctx context.Context, fx *fixture) error {
			return fx.keys.DeleteConsumer(ctx, consumerAt("alice"))
		}},
		{"delete a consumer with 400 keys", func(fx *fixture) {
			fx.createConsumer("alice")
			fx.createKeys("alice", 400)
		}, func(ctx context.Context, fx *fixture) error {
			return fx.keys.DeleteConsumer(ctx, consumerAt("alice"))
		}},
		{"delete the bucket", nil, func(ctx context.Context, fx *fixture) error {
			return fx.keys.DeleteBucket(ctx, bucketAt(bucket))
		}},
	}
}

func roll(ctx context.Context, fx *fixture) error {
	return fx.keys.RollKey(ctx, consumerAt("alice"), fx.clock.Now())
}
