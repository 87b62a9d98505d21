package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// model is an independent model of DynamoDB's table: it implements the developer guide's
// description of transactions, streams and ttl, without using the product's code.
type model map[store.Key]modelItem

type modelItem struct {
	N     int    `dynamodbav:"n,omitempty"`
	TTL   int64  `dynamodbav:"ttl,omitempty"`
	DuePK string `dynamodbav:"duePk,omitempty"`
	DueSK string `dynamodbav:"dueSk,omitempty"`
}

// step is one write of a transaction.
type step struct {
	kind      string // put, add, delete, check
	key       store.Key
	item      modelItem
	condition string // "", absent, exists, below
}

// streamRecord is a record of the stream; nil means no item.
type streamRecord struct {
	key      store.Key
	old, new *modelItem
}

func (r streamRecord) String() string { return fmt.Sprintf("%v: %+v became %+v", r.key, r.old, r.new) }

// limit is the bound of the condition "below", which is true if the attribute n of the item is less than limit.
const limit = 8

// satisfies reports whether the condition of a step holds.
func (m model) satisfies(s step) bool {
	item, exists := m[s.key]
	switch s.condition {
	case "absent":
		return !exists
	case "exists":
		return exists
	case "below":
		return exists && item.N != 0 && item.N < limit // 0 means no attribute
	}
	return true
}

// at returns the item at k, nil if there is none.
func (m model) at(k store.Key) *modelItem {
	if item, exists := m[k]; exists {
		return &item
	}
	return nil
}

// apply applies a step to the model. If the step changes the item, apply appends the record of the change to out.
func (m model) apply(s step, out []streamRecord) []streamRecord {
	before := m.at(s.key)
	switch s.kind {
	case "put":
		m[s.key] = s.item
	case "add":
		item := m[s.key]
		item.N += s.item.N
		m[s.key] = item
	case "delete":
		delete(m, s.key)
	}
	if after := m.at(s.key); !cmp.Equal(before, after) {
		out = append(out, streamRecord{s.key, before, after})
	}
	return out
}

func (s step) write() store.Write {
	var w store.Write
	switch s.kind {
	case "put":
		w = store.Put(s.key, s.item)
	case "add":
		w = store.Upsert(s.key, store.Add(store.At("n"), int64(s.item.N)))
	case "delete":
		w = store.Delete(s.key)
	case "check":
		w = store.Check(s.key, store.Exists())
	}
	switch s.condition {
	case "absent":
		return w.If(store.Absent())
	case "exists":
		return w.If(store.Exists())
	case "below":
		return w.If(store.Less(store.At("n"), limit))
	}
	return w
}

func drawStep(r *rand.Rand, k store.Key, now int64) step {
	pick := func(options ...string) string { return options[r.IntN(len(options))] }
	s := step{
		pick("put", "put", "add", "add", "delete", "check"), k,
		modelItem{},
		pick("", "", "absent", "exists", "below"),
	}
	switch s.kind {
	case "put":
		s.item.N = 1 + r.IntN(2)
		if r.IntN(2) == 0 {
			s.item.DuePK, s.item.DueSK = "due", pick("1", "1\x00", "2")
		}
		if r.IntN(3) == 0 {
			s.item.TTL = now + r.Int64N(20)
		}
	case "add":
		s.item.N = 1 + r.IntN(3)
	case "check":
		s.condition = "exists"
	}
	return s
}

// transaction is a transaction with steps. Before and after its steps it
// writes two items of its own, which mark its beginning and end in the feed.
type transaction struct {
	token string
	time  int64
	steps []step
}

// boundaryKey returns the key of the item that marks the beginning (end is "<") or the end (">") of a transaction.
func boundaryKey(token, end string) store.Key { return store.Key{PK: "mark", SK: token + end} }

func (t transaction) writes() (out []store.Write) {
	out = append(out, store.Put(boundaryKey(t.token, "<"), modelItem{N: 1}))
	for _, st := range t.steps {
		out = append(out, st.write())
	}
	return append(out, store.Put(boundaryKey(t.token, ">"), modelItem{N: 1}))
}

// fixture is an engine, its clock, and the results that its clients have received.
type fixture struct {
	fs     *vfs.MemFS
	now    atomic.Int64
	engine *embedded.Backend

	mu           sync.Mutex
	transactions map[string]transaction
	unreported   map[string]bool // by token: true if the transaction succeeded and is not in the feed yet
	refused      map[string]bool
}

// TestFeedIsASerialHistory runs many concurrent writers while items expire and the store
// restarts. It checks that the feed is a serial history: the model makes the same changes if
// it applies the transactions in the order of the feed. The feed must have each successful
// transaction once and no refused transaction. Queries must return the model's final state.
func TestFeedIsASerialHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			fx := &fixture{
				fs: vfs.NewMem(), transactions: map[string]transaction{}, unreported: map[string]bool{},
				refused: map[string]bool{},
			}
			fx.now.Store(1_800_000_000)
			state, history := model{}, []embedded.Change(nil)
			for restart := range 3 {
				fx.engine = open(t, embedded.Options{Dir: folder, FS: fx.fs, Now: func() time.Time {
					return time.Unix(fx.now.Load(), 0)
				}})
				var last uint64
				if len(history) > 0 {
					last = history[len(history)-1].Seq
					ctx, cancel := context.WithTimeout(t.Context(), deadline.Timeout())
					// all can have more changes than history, because the housekeeping already runs.
					all, err := fx.engine.Changes(ctx, 0, 1<<20)
					cancel()
					if len(all) < len(history) || !slices.Equal(seqs(history), seqs(all[:len(history)])) {
						t.Fatalf("Changes() after a restart = %v, %v, want it to begin with %v", seqs(all), err, seqs(history))
					}
				}
				feed := fx.run(t, seed, restart, last)
				fx.replay(t, state, feed)
				history = append(history, feed...)
				fx.checkQueries(t, state, rand.New(rand.NewPCG(seed, uint64(restart))))
				if err := fx.engine.Close(); err != nil {
					t.Fatal(err)
				}
				fx.now.Add(300)
			}
		})
		if !ok {
			return
		}
	}
}

func seqs(all []embedded.Change) (out []uint64) {
	for _, c := range all {
		out = append(out, c.Seq)
	}
	return out
}

// run lets writers write while items expire, and returns the changes that the feed has received meanwhile.
func (fx *fixture) run(t *testing.T, seed uint64, restart int, last uint64) (feed []embedded.Change) {
	t.Helper()
	const writers, perWriter = 6, 40
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var wg, background sync.WaitGroup
	var stopped atomic.Bool
	for n := range writers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(restart*writers+n)))
			for i := range perWriter {
				if err := fx.transact(ctx, r, fmt.Sprintf("%d-%d-%02d", restart, n, i)); err != nil {
					t.Errorf("transact() = %v, want success", err)
					return
				}
			}
		})
	}
	background.Go(func() {
		for !stopped.Load() {
			if err := fx.engine.Expire(ctx); err != nil {
				t.Errorf("Expire() = %v, want success", err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	background.Go(func() {
		for {
			batch, err := fx.engine.Changes(ctx, last, 7)
			if err != nil {
				t.Errorf("Changes() = %v, want success", err)
				return
			}
			if len(batch) > 7 {
				t.Errorf("Changes() = %d changes, want at most 7", len(batch))
			}
			for _, c := range batch {
				if c.Seq <= last {
					t.Errorf("change %d follows %d, want increasing numbers", c.Seq, last)
				}
				last = c.Seq
			}
			if feed = append(feed, batch...); feed[len(feed)-1].Key == boundaryKey(fmt.Sprint(restart, "-end"), ">") {
				return
			}
		}
	})
	wg.Wait()
	stopped.Store(true)
	err := fx.engine.Expire(ctx)
	end := transaction{token: fmt.Sprint(restart, "-end")}
	fx.transactions[end.token], fx.unreported[end.token] = end, true
	if err = errors.Join(err, fx.engine.Transact(ctx, end.token, end.writes())); err != nil {
		t.Fatal(err)
	}
	background.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return feed
}

// transact commits a new transaction. Before that, it sometimes repeats an earlier transaction, and tries other writes
// with the token of that transaction.
func (fx *fixture) transact(ctx context.Context, r *rand.Rand, token string) error {
	now := fx.now.Add(r.Int64N(2))
	if previous, ok := fx.drawPrevious(r, now); ok {
		if err := fx.engine.Transact(ctx, previous.token, previous.writes()); err != nil {
			return fmt.Errorf("repeated Transact() with the token %s: %w", previous.token, err)
		}
		another := []store.Write{store.Delete(store.Key{PK: "a", SK: "1"})}
		if err := fx.engine.Transact(ctx, previous.token, another); !errors.Is(err, store.ErrTokenReused) {
			//nolint:errorlint // %v: err can be nil
			return fmt.Errorf("Transact() of other writes with the token of %s: error = %v, want %w", previous.token, err,
				store.ErrTokenReused)
		}
	}
	tx := transaction{token: token, time: now}
	for _, n := range r.Perm(6)[:1+r.IntN(3)] {
		tx.steps = append(tx.steps,
			drawStep(r, store.Key{PK: []string{"a", "a\x00"}[n%2], SK: []string{"1", "10", "1\x00", "2", "é", "."}[n]}, now))
	}
	err := fx.engine.Transact(ctx, token, tx.writes())
	_, refused := errors.AsType[*store.ConditionError](err)
	if err != nil && !refused {
		return fmt.Errorf("Transact() with the token %s: %w", token, err)
	}
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.transactions[token], fx.unreported[token], fx.refused[token] = tx, !refused, refused
	return nil
}

// drawPrevious returns a random successful transaction of the last nine
// minutes. In three of four calls, or if there is none, it returns false.
func (fx *fixture) drawPrevious(r *rand.Rand, now int64) (transaction, bool) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	var all []string
	for token, tx := range fx.transactions {
		if !fx.refused[token] && tx.time > now-9*60 {
			all = append(all, token)
		}
	}
	if len(all) == 0 || r.IntN(4) > 0 {
		return transaction{}, false
	}
	slices.Sort(all)
	return fx.transactions[all[r.IntN(len(all))]], true
}

// replay applies the transactions to the model in the order of the feed. It compares each record of the model with the
// record in the feed.
func (fx *fixture) replay(t *testing.T, state model, feed []embedded.Change) {
	t.Helper()
	var expected []streamRecord
	current := ""
	for _, c := range feed {
		got := streamRecord{key: c.Key, old: itemOf(t, c.Old), new: itemOf(t, c.New)}
		switch token, begins := strings.CutSuffix(got.key.SK, "<"); {
		case got.key.PK == "mark" && begins:
			tx, known := fx.transactions[token]
			if current != "" || !known || !fx.unreported[token] {
				t.Fatalf("the feed has %s within %q (expected %t, refused %t), want each successful transaction once",
					token, current, fx.unreported[token], fx.refused[token])
			}
			current, expected = token, nil
			for _, st := range tx.steps {
				if !state.satisfies(st) {
					t.Fatalf("%s was committed over %+v, want the condition of %+v to be true", token, state.at(st.key), st)
				}
			}
			for _, st := range tx.steps {
				expected = state.apply(st, expected)
			}
			fx.unreported[token] = false // the transaction must not be in the feed again
		case got.key.PK == "mark":
			if got.key != boundaryKey(current, ">") || len(expected) > 0 {
				t.Fatalf("%s ends with %v and lacks %d records, want its end mark after all records",
					current, got.key, len(expected))
			}
			current = ""
		case current != "":
			if len(expected) == 0 || !equalRecords(got, expected[0]) {
				t.Fatalf("change of %s = %v, want the first of %v", current, got, expected)
			}
			expected = expected[1:]
		default: // an expiry
			if got.new != nil || got.old == nil || got.old.TTL >= fx.now.Load() || !cmp.Equal(got.old, state.at(got.key)) {
				t.Fatalf("change outside of a transaction = %v, want the expiry of %+v", got, state.at(got.key))
			}
			delete(state, got.key)
		}
	}
	for token, missing := range fx.unreported {
		if missing {
			t.Errorf("the feed lacks the transaction %s, want it", token)
		}
	}
	maps.DeleteFunc(state, func(k store.Key, item modelItem) bool {
		expired := item.TTL != 0 && item.TTL < fx.now.Load()
		if expired {
			t.Errorf("%v expired at %d and still exists at %d, want it deleted", k, item.TTL, fx.now.Load())
		}
		return expired
	})
}

func equalRecords(a, b streamRecord) bool {
	return a.key == b.key && cmp.Equal(a.old, b.old) && cmp.Equal(a.new, b.new)
}

func itemOf(t *testing.T, item store.Item) *modelItem {
	t.Helper()
	if item == nil {
		return nil
	}
	var out modelItem
	if err := attributevalue.UnmarshalMap(item, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// checkQueries compares the results of random queries with the model.
func (fx *fixture) checkQueries(t *testing.T, state model, r *rand.Rand) {
	t.Helper()
	for _, pk := range []string{"a", "a\x00", "due"} {
		for range 20 {
			q := store.Query{PK: pk, Limit: 1 + r.IntN(3), Descending: r.IntN(2) == 0}
			if pk == "due" {
				q.Index = store.DueIndex
			} else {
				q.Prefix = []string{"", "1", "é", "3"}[r.IntN(4)]
			}
			want := state.query(q)
			var got []store.Key
			for {
				items, next, err := fx.engine.Query(t.Context(), q)
				if err != nil {
					t.Fatalf("Query(%+v) = %v, want success", q, err)
				}
				for _, item := range items {
					k := store.KeyOf(item)
					if got = append(got, k); q.Index == "" && !cmp.Equal(itemOf(t, item), state.at(k)) {
						t.Errorf("Query() returns %v as %+v, want %+v", k, itemOf(t, item), state.at(k))
					}
				}
				if q.Cursor = next; next == "" || len(got) > len(state) {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("keys of query %+v = %v, want %v", q, got, want)
			}
		}
	}
}

// query returns the keys of a query in their order.
func (m model) query(q store.Query) (out []store.Key) {
	for k, item := range m {
		if q.Index != "" && item.DuePK == q.PK || q.Index == "" && k.PK == q.PK && strings.HasPrefix(k.SK, q.Prefix) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b store.Key) int {
		if q.Index == "" {
			return strings.Compare(a.SK, b.SK)
		}
		return slices.Compare([]string{m[a].DueSK, a.PK, a.SK}, []string{m[b].DueSK, b.PK, b.SK})
	})
	if q.Descending {
		slices.Reverse(out)
	}
	return out
}
