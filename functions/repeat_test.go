package functions_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func repeatable(d api.Declaration) bool { return d.Repeatable() }

// tries are tries of one request with an Idempotency-Key, each by a process of its
// own, in a copy of the world over a table that a test disturbs.
type tries struct {
	*functionstest.World
	method, path, body string
	key                string
	before             table
}

func (p populated) tries(t *testing.T, d api.Declaration, r events.Request, over func(store.Backend) store.Backend) tries {
	t.Helper()
	w, n := p.Copy(t), maps.Clone(p.names)
	if err := p.book.Steps(w.Client(p.key), n, r.After); err != nil {
		t.Fatal(err)
	}
	path, body := target(t, d, r, n)
	out := tries{w, d.Method, path, body, p.key, w.Items.Snapshot()}
	if over != nil {
		w.Parts.Table = storetest.Over(t, over(w.Items), storetest.Clock(w.Parts.Now))
	}
	return out
}

// try makes the request in a process of its own, a second later.
func (c tries) try(headers ...string) functionstest.Answer {
	c.Helper()
	c.Now = c.Now.Add(time.Second)
	c.Restart()
	return c.Call(c.key, c.method, c.path, c.body, append([]string{"Idempotency-Key", "order-17"}, headers...)...)
}

// same fails unless an answer is that of the first try: whatever a caller reads of
// it but which request it was, and that it was repeated.
func (c tries) same(first, again functionstest.Answer) {
	c.Helper()
	one, other := first.Header.Clone(), again.Header.Clone()
	for _, h := range []http.Header{one, other} {
		h.Del("X-Request-Id")
		h.Del("Idempotent-Replayed")
	}
	if first.Status != again.Status || first.Body != again.Body || !maps.EqualFunc(one, other, func(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		c.Errorf("a repetition is answered\n%s\nand was answered\n%s", again.Whole, first.Whole)
	}
}

// successes counts the records of changes that were made.
func (c tries) successes() (n int) {
	c.Helper()
	for _, e := range recorded(c.World, c.before) {
		if *e.Success {
			n++
		}
	}
	return n
}

// TestTheSameRequestTwiceIsOneChange asks every operation that takes an
// Idempotency-Key.
func TestTheSameRequestTwiceIsOneChange(t *testing.T) {
	p := newPopulated(t)
	each(t, repeatable, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			c := p.tries(t, d, r, nil)
			first := c.try().Want(d.Status).WantHeader("Idempotent-Replayed", "")
			done := c.Items.Snapshot()
			again := c.try()
			again.WantHeader("Idempotent-Replayed", "true")
			c.same(first, again)
			if after := c.Items.Snapshot(); !maps.EqualFunc(done, after, store.EqualItems) {
				t.Error("a repetition changes the table")
			}
			other := c
			if d.TakesBody {
				other.body += " "
			} else {
				other.path += "?a=b"
			}
			other.try().Want(http.StatusUnprocessableEntity, "Take a new key")
			unchanged(t, done, c.Items.Snapshot())
			c.key = c.Key("acme", nil) // whose keys are its own
			if c.try().Header.Get("Idempotent-Replayed") != "" {
				t.Error("an account key is answered what another one was")
			}
		}
	})
}

// TestWhatWasAskedIsHashedUnderTheRootKey: a body has secrets that are chosen, and so
// may be tried out against a hash that anybody can make.
func TestWhatWasAskedIsHashedUnderTheRootKey(t *testing.T) {
	p := newPopulated(t)
	asked := func(d api.Declaration) bool { return d.ID == "VariablesService_create" }
	each(t, asked, func(t *testing.T, d api.Declaration) {
		kept := func(root rootKey) (at store.Key, request string, c tries) {
			c = p.tries(t, d, p.book.Request(d), nil)
			c.Parts.Key = root
			c.body = `{"name":"PIN","isSecret":true,"value":"1234"}`
			c.try().Want(d.Status)
			for key, item := range c.Items.Snapshot() {
				var record struct {
					Request string `dynamodbav:"request"`
				}
				if err := store.Decode(item, &record); err != nil {
					t.Fatal(err)
				}
				if _, before := c.before[key]; !before && strings.HasPrefix(key.PK, store.Space("answers").Partition("")) {
					at, request = key, record.Request
				}
			}
			return at, request, c
		}
		_, one, _ := kept("one")
		at, other, c := kept("other")
		if one == other || one == "" {
			t.Errorf("kept of the request is %q, whatever the root key is", one)
		}
		// An earlier release has kept it so, and is repeated to this one.
		sum := sha256.New()
		for _, text := range append([]string{"", c.body}, pathValues(d, c.path)...) {
			_, _ = fmt.Fprintf(sum, "%d:%s", len(text), text)
		}
		if err := c.Parts.Table.Commit(t.Context(), store.Update(at, store.Set(store.At("request"), hex.EncodeToString(sum.Sum(nil))))); err != nil {
			t.Fatal(err)
		}
		c.try().Want(d.Status).WantHeader("Idempotent-Replayed", "true")
		c.body += " "
		c.try().Want(http.StatusUnprocessableEntity)
	})
}

// pathValues are the values of the parameters in a path.
func pathValues(d api.Declaration, path string) (values []string) {
	segments := strings.Split(path, "/")
	for i, declared := range strings.Split(d.Path, "/") {
		if strings.HasPrefix(declared, "{") {
			values = append(values, segments[i])
		}
	}
	return values
}

// rootKey is a root key of a word's letters.
type rootKey string

// Root implements seal.KeySource.
func (k rootKey) Root(context.Context) ([]byte, error) {
	return []byte(strings.Repeat(string(k), 32)[:32]), nil
}

// TestAnswersAreKeptForADay: and their keys are free again then.
func TestAnswersAreKeptForADay(t *testing.T) {
	p := newPopulated(t)
	each(t, repeatable, func(t *testing.T, d api.Declaration) {
		c := p.tries(t, d, p.book.Request(d), nil)
		c.try().Want(d.Status)
		c.Now = c.Now.Add(24*time.Hour - 2*time.Second)
		c.try().WantHeader("Idempotent-Replayed", "true")
		c.Now = c.Now.Add(time.Second)
		c.try().WantHeader("Idempotent-Replayed", "")
	})
}

// TestARefusalIsNotKept: it may be mended, and repeated with the same key.
func TestARefusalIsNotKept(t *testing.T) {
	p := newPopulated(t)
	each(t, repeatable, func(t *testing.T, d api.Declaration) {
		c := p.tries(t, d, p.book.Request(d), nil)
		c.key = c.Key("acme", func(p *auth.Permissions) { p.Scopes = nil })
		c.before = c.Items.Snapshot()
		c.try().Want(http.StatusForbidden)
		c.key = p.key
		if d.TakesBody {
			bad := c
			bad.body = "{"
			bad.try().Want(http.StatusBadRequest)
		}
		unchanged(t, c.before, c.Items.Snapshot())
		c.try().Want(d.Status).WantHeader("Idempotent-Replayed", "")
	})
}

func TestIdempotencyKeysAreVisibleASCII(t *testing.T) {
	p := newPopulated(t)
	each(t, repeatable, func(t *testing.T, d api.Declaration) {
		for key, status := range map[string]int{
			"": 400, "a b": 400, "ä": 400, "\x7f": 400, strings.Repeat("k", 256): 400, strings.Repeat("~", 255): d.Status, `!"#%,`: d.Status,
		} {
			c := p.tries(t, d, p.book.Request(d), nil)
			c.Restart()
			c.Call(c.key, c.method, c.path, c.body, "Idempotency-Key", key).Want(status)
		}
	})
}

// TestATryThatBrokeOffIsFinishedByTheNext has each call that a first try makes to
// the table fail in each way: what comes of it and the next try is one change, and
// a first try that was answered success is answered the same again.
func TestATryThatBrokeOffIsFinishedByTheNext(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(repeatable), func(t *testing.T, d api.Declaration) {
		for i, r := range variants(p.book, d) {
			if r.ChangesNothing {
				continue
			}
			count := &failing{at: none}
			reference := p.tries(t, d, r, over(count))
			reference.try().Want(d.Status)
			want := outcome(t, nil, reference.World)
			for at := range int(count.calls.Load()) {
				for _, f := range failures() {
					if i > 0 && (!f.always || !f.applied) {
						continue
					}
					broken := &failing{failure: f, at: at}
					c := p.tries(t, d, r, over(broken))
					first := c.try()
					broken.at = none
					second := c.try()
					if first.Status == d.Status {
						c.same(first, second)
					}
					if second.Status == http.StatusConflict && second.Header.Get("Retry-After") != "" {
						c.Now = c.Now.Add(time.Minute) // which is longer than any try takes
						second = c.try()
					}
					got := outcome(t, nil, c.World)
					if second.Status != d.Status || c.successes() != 1 || i == 0 && got != want {
						t.Errorf("%s at call %d: answered %d, then %s; %d changes:\n%s\nand not\n%s", f.name, at, first.Status, second.Whole, c.successes(), got, want)
					}
				}
			}
		}
	})
}

func over(f *failing) func(store.Backend) store.Backend {
	return func(b store.Backend) store.Backend { f.Backend = b; return f }
}

// TestTwoTriesAtOnceAreOneChange has the same request made by another process
// between the look and the commit of the first.
func TestTwoTriesAtOnceAreOneChange(t *testing.T) {
	p := newPopulated(t)
	each(t, repeatable, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.book, d) {
			between := &interrupted{}
			c := p.tries(t, d, r, func(b store.Backend) store.Backend { between.Backend = b; return between })
			var second functionstest.Answer
			between.first = func() { second = c.try().Want(d.Status) }
			first := c.try()
			c.same(second, first)
			first.WantHeader("Idempotent-Replayed", "true")
			if n := c.successes(); n > 1 || n == 0 && !r.ChangesNothing {
				t.Errorf("%d changes were made", n)
			}
		}
	})
}

// chance is a table that chance disturbs: calls fail, and other tries of the
// request happen before transactions.
type chance struct {
	failing
	// reading has one read at a time: a service makes some at once.
	reading sync.Mutex
	random  *rand.Rand
	depth   int
	others  func()
}

// disturb has this call fail, or none.
func (c *chance) disturb() {
	c.at = none
	if c.random != nil && c.random.IntN(4) == 0 {
		all := failures()
		c.failure, c.at = all[c.random.IntN(len(all))], int(c.calls.Load())
		c.always = false
	}
}

// TestWhateverHappensToItsTriesARequestIsOneChange is the oracle's: some tries of
// a request, one within the other and one after the other, over a table of which
// calls fail and answers are lost. Whatever comes of each, the change is made at
// most once, every success is answered with the same bytes, and once nothing is
// disturbed any more there is one.
func TestWhateverHappensToItsTriesARequestIsOneChange(t *testing.T) {
	p := newPopulated(t)
	each(t, sampled(repeatable), func(t *testing.T, d api.Declaration) {
		r := p.book.Request(d)
		for seed := range simulations.Runs(6) {
			random := rand.New(rand.NewPCG(uint64(seed), 34))
			c := p.tries(t, d, r, nil)
			table := &disturbed{chance: chance{failing: failing{Backend: c.Items, at: none}, random: random}}
			c.Parts.Table = storetest.Over(t, table, storetest.Clock(c.Parts.Now))
			var answers []functionstest.Answer
			try := func() {
				if a := c.try(); a.Status == d.Status {
					answers = append(answers, a)
				} else if a.Status < http.StatusConflict || a.Status == http.StatusUnprocessableEntity {
					t.Errorf("seed %d: a try is answered %s", seed, a.Whole)
				}
			}
			table.others = try
			for range 3 {
				try()
			}
			table.random, table.at = nil, none
			c.Now = c.Now.Add(time.Minute)
			answers = append(answers, c.try().Want(d.Status))
			for _, a := range answers {
				c.same(answers[0], a)
			}
			if n := c.successes(); n != 1 {
				t.Errorf("seed %d: %d changes were made", seed, n)
			}
		}
	})
}

// disturbed is the table of chance.
type disturbed struct{ chance }

// Read implements store.Backend.
func (c *disturbed) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.disturb()
	return c.failing.Read(ctx, keys)
}

// Query implements store.Backend.
func (c *disturbed) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.disturb()
	return c.failing.Query(ctx, q)
}

// Transact implements store.Backend.
func (c *disturbed) Transact(ctx context.Context, token string, writes []store.Write) error {
	if c.random != nil && c.random.IntN(2) == 0 && c.depth < 2 {
		c.depth++
		c.others()
		c.depth--
	}
	c.disturb()
	return c.failing.Transact(ctx, token, writes)
}

// bulkOf is a bulk creation of so many keys, with texts of their own and long
// descriptions, and the number of its commits.
func (p populated) bulkOf(t *testing.T, keys int, over func(store.Backend) store.Backend) tries {
	t.Helper()
	var d api.Declaration
	each(t, func(d api.Declaration) bool { return d.ID == "ApiKeyKeysService_bulkCreate" }, func(_ *testing.T, found api.Declaration) { d = found })
	if d.ID == "" {
		t.Skip("the tests are limited to another group")
	}
	c := p.tries(t, d, p.book.Request(d), over)
	each := make([]string, keys)
	for i := range each {
		each[i] = fmt.Sprintf(`{"key":"chosen-text-number-%04d","description":%q}`, i, strings.Repeat("d", 900))
	}
	c.body = "[" + strings.Join(each, ",") + "]"
	return c
}

// TestLongAnswersAreKeptWhole: one that does not fit into an item is several.
func TestLongAnswersAreKeptWhole(t *testing.T) {
	c := newPopulated(t).bulkOf(t, 1000, nil)
	first := c.try().Want(http.StatusOK)
	if len(first.Body) < 2*store.MaxItemBytes {
		t.Fatalf("the answer has %d bytes", len(first.Body))
	}
	c.same(first, c.try().WantHeader("Idempotent-Replayed", "true"))
}

// atCommit has others happen before the commit number n of a request, from 0.
type atCommit struct {
	store.Backend
	n      int
	others func() error
}

// Transact implements store.Backend.
func (a *atCommit) Transact(ctx context.Context, token string, writes []store.Write) error {
	a.n--
	if a.n == none && a.others != nil {
		if err := a.others(); err != nil {
			return err
		}
	}
	return a.Backend.Transact(ctx, token, writes)
}

// TestATryThatIsRunningIsWaitedFor: a second try of a change of several commits
// meets the first one, and neither gets in the other's way; the keys of one whose
// process has died are free in half a minute.
func TestATryThatIsRunningIsWaitedFor(t *testing.T) {
	p := newPopulated(t)
	const commits = 5 // the beginning, three portions of keys, and the end
	for n := range commits {
		at := &atCommit{n: n}
		c := p.bulkOf(t, 100, func(b store.Backend) store.Backend { at.Backend = b; return at })
		var second functionstest.Answer
		at.others = func() error { second = c.try(); return nil }
		first := c.try().Want(http.StatusOK)
		switch {
		case n == 0:
			c.same(second.Want(http.StatusOK), first)
		case second.Header.Get("Retry-After") != "1":
			t.Errorf("before commit %d the second try is answered %s", n, second.Whole)
		default:
			second.Want(http.StatusConflict, "still being carried out")
		}
		c.same(first, c.try().WantHeader("Idempotent-Replayed", "true"))
		if got := c.successes(); got != 1 {
			t.Errorf("before commit %d: %d changes", n, got)
		}
	}
}

// TestARefusedEndOfABulkLeavesNothing: its consumer is changed, and then deleted,
// before its last commit.
func TestARefusedEndOfABulkLeavesNothing(t *testing.T) {
	p := newPopulated(t)
	consumer := func(c tries) string { return strings.TrimSuffix(c.path, "/keys/bulk") }
	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		at := &atCommit{n: 4}
		c := p.bulkOf(t, 100, func(b store.Backend) store.Backend { at.Backend = b; return at })
		if at, _, found := strings.Cut(c.path, "/keys"); !found || at == "" {
			t.Fatal(c.path)
		}
		at.others = func() error {
			path, _, _ := strings.Cut(consumer(c), "/keys")
			c.Call(c.key, method, path, `{"description":"another"}`)
			return nil
		}
		first := c.try()
		left := 0
		for key := range c.Items.Snapshot() {
			if strings.HasPrefix(key.PK, "key-hash#") {
				if _, was := c.before[key]; !was {
					left++
				}
			}
		}
		switch method {
		case http.MethodPatch:
			first.Want(http.StatusOK)
			c.same(first, c.try())
		default:
			first.Want(http.StatusNotFound)
			if left != 0 {
				t.Errorf("%d keys are left", left)
			}
		}
	}
}
