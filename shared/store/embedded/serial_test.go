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

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// model is DynamoDB's table in its own words: what the developer guide says of
// transactions, streams and ttl, without a line of the product's.
type model map[store.Key]modelItem

type modelItem struct {
	N     int    `dynamodbav:"n,omitempty"`
	TTL   int64  `dynamodbav:"ttl,omitempty"`
	DuePK string `dynamodbav:"duePk,omitempty"`
	DueSK string `dynamodbav:"dueSk,omitempty"`
}

// step is one write of a transaction.
type step struct {
	kind string // put, add, delete, check
	key  store.Key
	item modelItem
	when string // "", absent, exists, below
}

// told is a record of the stream; nil is no item.
type told struct {
	key      store.Key
	old, new *modelItem
}

// limit is what a step compares with.
const limit = 8

func (m model) holds(s step) bool {
	item, there := m[s.key]
	switch s.when {
	case "absent":
		return !there
	case "exists":
		return there
	case "below":
		return there && item.N != 0 && item.N < limit // 0 is no attribute
	}
	return true
}

func (m model) at(k store.Key) *modelItem {
	if item, there := m[k]; there {
		return &item
	}
	return nil
}

// apply makes a step, and adds what the stream tells of it.
func (m model) apply(s step, out []told) []told {
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
		out = append(out, told{s.key, before, after})
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
	switch s.when {
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
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	s := step{pick("put", "put", "add", "add", "delete", "check"), k, modelItem{}, pick("", "", "absent", "exists", "below")}
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
		s.when = "exists"
	}
	return s
}

// sent is a transaction, between two items of its own by which the feed shows
// where it begins and ends.
type sent struct {
	token string
	on    int64
	steps []step
}

func markOf(token, end string) store.Key { return store.Key{PK: "mark", SK: token + end} }

func (s sent) writes() (out []store.Write) {
	out = append(out, store.Put(markOf(s.token, "<"), modelItem{N: 1}))
	for _, one := range s.steps {
		out = append(out, one.write())
	}
	return append(out, store.Put(markOf(s.token, ">"), modelItem{N: 1}))
}

// world is an engine, its time, and what its clients know.
type world struct {
	fs     *vfs.MemFS
	now    atomic.Int64
	engine *embedded.Backend

	mu      sync.Mutex
	sent    map[string]sent
	made    map[string]bool // of a transaction that was answered with nil: the feed has not told of it yet
	refused map[string]bool
}

// Whatever many writers do at once, over restarts, while items expire: the feed
// tells one order in which the model does the same, with each transaction that
// was answered in it once and none that was refused, and pages show its end.
func TestFeedIsASerialHistory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &world{fs: vfs.NewMem(), sent: map[string]sent{}, made: map[string]bool{}, refused: map[string]bool{}}
			w.now.Store(1_800_000_000)
			table, history := model{}, []embedded.Change(nil)
			for life := range 3 {
				w.engine = open(t, embedded.Options{Dir: folder, FS: w.fs, Now: func() time.Time { return time.Unix(w.now.Load(), 0) }})
				var last uint64
				if len(history) > 0 {
					last = history[len(history)-1].Seq
					ctx, cancel := context.WithTimeout(t.Context(), deadline.Long())
					all, err := w.engine.Changes(ctx, 0, 1<<20) // nobody but the housekeeping writes
					cancel()
					if len(all) < len(history) || !slices.Equal(seqs(history), seqs(all[:len(history)])) {
						t.Fatalf("read again the feed is another (%v)", err)
					}
				}
				told := w.live(t, seed, life, last)
				w.replay(t, table, told)
				history = append(history, told...)
				w.look(t, table, rand.New(rand.NewPCG(seed, uint64(life))))
				if err := w.engine.Close(); err != nil {
					t.Fatal(err)
				}
				w.now.Add(300)
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

// live has writers write while items expire, and gives what the feed told
// meanwhile.
func (w *world) live(t *testing.T, seed uint64, life int, last uint64) (feed []embedded.Change) {
	t.Helper()
	const writers, each = 6, 40
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all, background sync.WaitGroup
	var over atomic.Bool
	for n := range writers {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(life*writers+n)))
			for i := range each {
				if err := w.turn(ctx, r, fmt.Sprintf("%d-%d-%02d", life, n, i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	background.Go(func() {
		for !over.Load() {
			if err := w.engine.Expire(ctx); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	background.Go(func() {
		for {
			some, err := w.engine.Changes(ctx, last, 7)
			if err != nil {
				t.Error(err)
				return
			}
			if len(some) > 7 {
				t.Errorf("of 7 changes at most it tells %d", len(some))
			}
			for _, c := range some {
				if c.Seq <= last {
					t.Errorf("the change %d is told behind %d", c.Seq, last)
				}
				last = c.Seq
			}
			if feed = append(feed, some...); feed[len(feed)-1].Key == markOf(fmt.Sprint(life, "-end"), ">") {
				return
			}
		}
	})
	all.Wait()
	over.Store(true)
	err := w.engine.Expire(ctx)
	end := sent{token: fmt.Sprint(life, "-end")}
	w.sent[end.token], w.made[end.token] = end, true
	if err = errors.Join(err, w.engine.Transact(ctx, end.token, end.writes())); err != nil {
		t.Fatal(err)
	}
	background.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return feed
}

// turn makes a transaction, a new one or one that was made before.
func (w *world) turn(ctx context.Context, r *rand.Rand, token string) error {
	now := w.now.Add(r.Int64N(2))
	if earlier, ok := w.earlier(r, now); ok {
		if err := w.engine.Transact(ctx, earlier.token, earlier.writes()); err != nil {
			return fmt.Errorf("%s again: %w", earlier.token, err)
		}
		another := []store.Write{store.Delete(store.Key{PK: "a", SK: "1"})}
		if err := w.engine.Transact(ctx, earlier.token, another); !errors.Is(err, store.ErrTokenReused) {
			return fmt.Errorf("the token of %s for another transaction is answered with %w", earlier.token, err)
		}
	}
	tx := sent{token: token, on: now}
	for _, n := range r.Perm(6)[:1+r.IntN(3)] {
		tx.steps = append(tx.steps, drawStep(r, store.Key{PK: []string{"a", "a\x00"}[n%2], SK: []string{"1", "10", "1\x00", "2", "é", "."}[n]}, now))
	}
	err := w.engine.Transact(ctx, token, tx.writes())
	_, refused := errors.AsType[*store.ConditionError](err)
	if err != nil && !refused {
		return fmt.Errorf("%s: %w", token, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[token], w.made[token], w.refused[token] = tx, !refused, refused
	return nil
}

// earlier draws a transaction that was made in the last minutes.
func (w *world) earlier(r *rand.Rand, now int64) (sent, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for token, s := range w.sent {
		if !w.refused[token] && s.on > now-9*60 {
			all = append(all, token)
		}
	}
	if len(all) == 0 || r.IntN(4) > 0 {
		return sent{}, false
	}
	slices.Sort(all)
	return w.sent[all[r.IntN(len(all))]], true
}

// replay has the model do what the feed tells, and compares record by record.
func (w *world) replay(t *testing.T, table model, feed []embedded.Change) {
	t.Helper()
	var expected []told
	inside := ""
	for _, c := range feed {
		got := told{key: c.Key, old: itemOf(t, c.Old), new: itemOf(t, c.New)}
		switch token, begins := strings.CutSuffix(got.key.SK, "<"); {
		case got.key.PK == "mark" && begins:
			s, known := w.sent[token]
			if inside != "" || !known || !w.made[token] {
				t.Fatalf("the feed tells of %s in %q: made %v, refused %v", token, inside, w.made[token], w.refused[token])
			}
			inside, expected = token, nil
			for _, one := range s.steps {
				if !table.holds(one) {
					t.Fatalf("%s was made over %+v, where %+v does not hold", token, table.at(one.key), one)
				}
			}
			for _, one := range s.steps {
				expected = table.apply(one, expected)
			}
			w.made[token] = false // and not again
		case got.key.PK == "mark":
			if got.key != markOf(inside, ">") || len(expected) > 0 {
				t.Fatalf("%s ends with %v, and %d records are missing", inside, got.key, len(expected))
			}
			inside = ""
		case inside != "":
			if len(expected) == 0 || !equalTold(got, expected[0]) {
				t.Fatalf("of %s it tells %+v (%+v, %+v), want %+v", inside, got, got.old, got.new, expected)
			}
			expected = expected[1:]
		default: // an expiry
			if got.new != nil || got.old == nil || got.old.TTL >= w.now.Load() || !cmp.Equal(got.old, table.at(got.key)) {
				t.Fatalf("by itself it tells %+v (%+v), with %+v there", got, got.old, table.at(got.key))
			}
			delete(table, got.key)
		}
	}
	for token, untold := range w.made {
		if untold {
			t.Errorf("the feed does not tell of %s", token)
		}
	}
	maps.DeleteFunc(table, func(k store.Key, item modelItem) bool {
		late := item.TTL != 0 && item.TTL < w.now.Load()
		if late {
			t.Errorf("%v expired at %d, and is there at %d", k, item.TTL, w.now.Load())
		}
		return late
	})
}

func equalTold(a, b told) bool {
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

// look compares pages of every kind with the model.
func (w *world) look(t *testing.T, table model, r *rand.Rand) {
	t.Helper()
	for _, pk := range []string{"a", "a\x00", "due"} {
		for range 20 {
			q := store.Query{PK: pk, Limit: 1 + r.IntN(3), Descending: r.IntN(2) == 0}
			if pk == "due" {
				q.Index = store.DueIndex
			} else {
				q.Prefix = []string{"", "1", "é", "3"}[r.IntN(4)]
			}
			want := table.run(q)
			var got []store.Key
			for {
				items, next, err := w.engine.Query(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, item := range items {
					k := store.KeyOf(item)
					if got = append(got, k); q.Index == "" && !cmp.Equal(itemOf(t, item), table.at(k)) {
						t.Errorf("%v is %+v, want %+v", k, itemOf(t, item), table.at(k))
					}
				}
				if q.Cursor = next; next == "" || len(got) > len(table) {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%+v gives %v, want %v", q, got, want)
			}
		}
	}
}

// run gives the keys of a query in their order.
func (m model) run(q store.Query) (out []store.Key) {
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
