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
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

func takesIdempotencyKey(d api.Declaration) bool { return d.TakesIdempotencyKey() }

// preparedRequest is a request of an operation and a copy of the fixture. send sends each attempt to a new process,
// with an Idempotency-Key. A test can disturb the table.
type preparedRequest struct {
	*functionstest.Fixture
	method, path, body string
	key                string
	before             table
}

// newPreparedRequest returns a request of an operation in a copy of the fixture. If wrap is not nil, it wraps the
// backend of the copy's table.
func (p populatedFixture) newPreparedRequest(
	t *testing.T, d api.Declaration, r events.Request, wrap func(store.Backend) store.Backend,
) preparedRequest {
	t.Helper()
	fx, values := p.Copy(t), maps.Clone(p.values)
	if err := p.sampleSet.RunSteps(fx.Client(p.key), values, r.Prerequisites); err != nil {
		t.Fatal(err)
	}
	path, body := requestTarget(t, d, r, values)
	out := preparedRequest{fx, d.Method, path, body, p.key, fx.Items.Snapshot()}
	if wrap != nil {
		fx.Parts.Table = storetest.NewWithBackend(t, wrap(fx.Items), storetest.Clock(fx.Parts.Now))
	}
	return out
}

// send sends the request to a new process, one second after the previous attempt.
func (r preparedRequest) send(headers ...string) functionstest.Response {
	r.Helper()
	r.Now = r.Now.Add(time.Second)
	r.Restart()
	return r.Call(r.key, r.method, r.path, r.body, append([]string{"Idempotency-Key", "order-17"}, headers...)...)
}

// assertSameResponse fails the test unless a repeated response equals the first one, except for the request ID and the
// header that marks a repeat.
func (r preparedRequest) assertSameResponse(first, repeated functionstest.Response) {
	r.Helper()
	firstHeader, repeatedHeader := first.Header.Clone(), repeated.Header.Clone()
	for _, h := range []http.Header{firstHeader, repeatedHeader} {
		h.Del("X-Request-Id")
		h.Del("Idempotent-Replayed")
	}
	if first.Status != repeated.Status || first.Body != repeated.Body ||
		!maps.EqualFunc(firstHeader, repeatedHeader, func(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }) {
		r.Errorf("repeated response =\n%s\nwant\n%s", repeated.Dump, first.Dump)
	}
}

// successes returns the number of audit records of successful changes.
func (r preparedRequest) successes() (n int) {
	r.Helper()
	for _, e := range newAuditRecords(r.Fixture, r.before) {
		if *e.Success {
			n++
		}
	}
	return n
}

// TestRepeatedRequestIsOneChange repeats the request of every operation that accepts an Idempotency-Key. The repeat
// must get the same response and change nothing. A different request with the same Idempotency-Key must be refused, and
// a caller with another account key must not get the stored response.
func TestRepeatedRequestIsOneChange(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, takesIdempotencyKey, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			c := p.newPreparedRequest(t, d, r, nil)
			first := c.send().Want(d.Status).WantHeader("Idempotent-Replayed", "")
			afterFirst := c.Items.Snapshot()
			repeated := c.send()
			repeated.WantHeader("Idempotent-Replayed", "true")
			c.assertSameResponse(first, repeated)
			if after := c.Items.Snapshot(); !maps.EqualFunc(afterFirst, after, store.EqualItems) {
				t.Errorf("repeating %s changes the table, want no change", d.ID)
			}
			different := c
			if d.TakesBody {
				different.body += " "
			} else {
				different.path += "?a=b"
			}
			different.send().Want(http.StatusUnprocessableEntity, "Take a new key")
			assertUnchanged(t, afterFirst, c.Items.Snapshot())
			c.key = c.CreateKey("acme", nil) // each account key has its own idempotency keys
			if c.send().Header.Get("Idempotent-Replayed") != "" {
				t.Error("Idempotent-Replayed is set for another account key, want it unset")
			}
		}
	})
}

// TestRequestHashUsesRootKey checks that the stored hash of a request depends on the root key. Bodies can contain
// secrets that people have chosen, which an attacker could otherwise guess with the hash.
func TestRequestHashUsesRootKey(t *testing.T) {
	p := newPopulatedFixture(t)
	isVariableCreate := func(d api.Declaration) bool { return d.ID == "VariablesService_create" }
	forEachOperation(t, isVariableCreate, func(t *testing.T, d api.Declaration) {
		storedHash := func(root rootKey) (recordKey store.Key, requestHash string, c preparedRequest) {
			c = p.newPreparedRequest(t, d, p.sampleSet.Request(d), nil)
			c.Parts.Key = root
			c.body = `{"name":"PIN","isSecret":true,"value":"1234"}`
			c.send().Want(d.Status)
			for key, item := range c.Items.Snapshot() {
				var record struct {
					Request string `dynamodbav:"request"`
				}
				if err := store.Decode(item, &record); err != nil {
					t.Fatal(err)
				}
				if _, existed := c.before[key]; !existed && strings.HasPrefix(key.PK, store.KeyPrefix("answers").Partition("")) {
					recordKey, requestHash = key, record.Request
				}
			}
			return recordKey, requestHash, c
		}
		_, first, _ := storedHash("one")
		recordKey, second, c := storedHash("other")
		if first == second || first == "" {
			t.Errorf("hash of the request with two root keys = %q and %q, want two different ones", first, second)
		}
		// Earlier releases have stored hashes in this form, without a root key. This release must still recognize a
		// repeat of such a request.
		sum := sha256.New()
		for _, text := range append([]string{"", c.body}, pathValues(d, c.path)...) {
			_, _ = fmt.Fprintf(sum, "%d:%s", len(text), text)
		}
		if err := c.Parts.Table.Commit(t.Context(),
			store.Update(recordKey, store.Set(store.At("request"), hex.EncodeToString(sum.Sum(nil))))); err != nil {
			t.Fatal(err)
		}
		c.send().Want(d.Status).WantHeader("Idempotent-Replayed", "true")
		c.body += " "
		c.send().Want(http.StatusUnprocessableEntity)
	})
}

// pathValues returns the values of the parameters of an operation's path.
func pathValues(d api.Declaration, path string) (values []string) {
	segments := strings.Split(path, "/")
	for i, declared := range strings.Split(d.Path, "/") {
		if strings.HasPrefix(declared, "{") {
			values = append(values, segments[i])
		}
	}
	return values
}

// rootKey is a root key that consists of the letters of a word.
type rootKey string

// Root implements seal.KeySource.
func (k rootKey) Root(context.Context) ([]byte, error) {
	return []byte(strings.Repeat(string(k), 32)[:32]), nil
}

// TestResponsesAreStoredForADay checks that repeats get the stored response for a day. After that, the same
// Idempotency-Key can be used for another request.
func TestResponsesAreStoredForADay(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, takesIdempotencyKey, func(t *testing.T, d api.Declaration) {
		c := p.newPreparedRequest(t, d, p.sampleSet.Request(d), nil)
		c.send().Want(d.Status)
		c.Now = c.Now.Add(24*time.Hour - 2*time.Second)
		c.send().WantHeader("Idempotent-Replayed", "true")
		c.Now = c.Now.Add(time.Second)
		c.send().WantHeader("Idempotent-Replayed", "")
	})
}

// TestRefusalIsNotStored checks that a caller can correct a refused request and send it with the same Idempotency-Key.
func TestRefusalIsNotStored(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, takesIdempotencyKey, func(t *testing.T, d api.Declaration) {
		c := p.newPreparedRequest(t, d, p.sampleSet.Request(d), nil)
		c.key = c.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = nil })
		c.before = c.Items.Snapshot()
		c.send().Want(http.StatusForbidden)
		c.key = p.key
		if d.TakesBody {
			invalid := c
			invalid.body = "{"
			invalid.send().Want(http.StatusBadRequest)
		}
		assertUnchanged(t, c.before, c.Items.Snapshot())
		c.send().Want(d.Status).WantHeader("Idempotent-Replayed", "")
	})
}

func TestIdempotencyKeysAreVisibleASCII(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, takesIdempotencyKey, func(t *testing.T, d api.Declaration) {
		for key, status := range map[string]int{
			"": 400, "a b": 400, "ä": 400, "\x7f": 400, strings.Repeat("k", 256): 400, strings.Repeat("~", 255): d.Status,
			`!"#%,`: d.Status,
		} {
			c := p.newPreparedRequest(t, d, p.sampleSet.Request(d), nil)
			c.Restart()
			c.Call(c.key, c.method, c.path, c.body, "Idempotency-Key", key).Want(status)
		}
	})
}

// TestInterruptedAttemptIsCompletedByNext makes each table call of a first attempt fail in each way. The first and the
// next attempt together must make exactly one change. If the first attempt succeeded, the next one must get the same
// response.
func TestInterruptedAttemptIsCompletedByNext(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(takesIdempotencyKey), func(t *testing.T, d api.Declaration) {
		for i, r := range variants(p.sampleSet, d) {
			if r.ChangesNothing {
				continue
			}
			counter := &failingBackend{failAt: noCall}
			reference := p.newPreparedRequest(t, d, r, wrapWith(counter))
			reference.send().Want(d.Status)
			want := outcome(nil, reference.Fixture)
			for callNumber := range int(counter.calls.Load()) {
				for _, f := range failureModes() {
					if i > 0 && (!f.always || !f.applied) {
						continue
					}
					backend := &failingBackend{failureMode: f, failAt: callNumber}
					c := p.newPreparedRequest(t, d, r, wrapWith(backend))
					first := c.send()
					backend.failAt = noCall
					second := c.send()
					if first.Status == d.Status {
						c.assertSameResponse(first, second)
					}
					if second.Status == http.StatusConflict && second.Header.Get("Retry-After") != "" {
						c.Now = c.Now.Add(time.Minute) // the first attempt has certainly ended
						second = c.send()
					}
					got := outcome(nil, c.Fixture)
					if second.Status != d.Status || c.successes() != 1 || i == 0 && got != want {
						t.Errorf("%s at call %d: responses = %d, then %s, with %d changes, want %d with 1 change:\n%s\nwant\n%s",
							f.name, callNumber, first.Status, second.Dump, c.successes(), d.Status, got, want)
					}
				}
			}
		}
	})
}

func wrapWith(f *failingBackend) func(store.Backend) store.Backend {
	return func(b store.Backend) store.Backend { f.Backend = b; return f }
}

// TestConcurrentAttemptsAreOneChange sends the same request to another process between the read and the commit of the
// first attempt.
func TestConcurrentAttemptsAreOneChange(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, takesIdempotencyKey, func(t *testing.T, d api.Declaration) {
		for _, r := range variants(p.sampleSet, d) {
			backend := &interruptedBackend{}
			c := p.newPreparedRequest(t, d, r, func(b store.Backend) store.Backend { backend.Backend = b; return backend })
			var second functionstest.Response
			backend.beforeCommit = func() { second = c.send().Want(d.Status) }
			first := c.send()
			c.assertSameResponse(second, first)
			first.WantHeader("Idempotent-Replayed", "true")
			if n := c.successes(); n > 1 || n == 0 && !r.ChangesNothing {
				t.Errorf("%d changes were made, want 1", n)
			}
		}
	})
}

// disturbances are random disturbances of a table: calls fail, and other attempts of the request run before a
// transaction. There are none if random is nil.
type disturbances struct {
	failingBackend
	// readMu serializes reads, because services make some of them concurrently.
	readMu sync.Mutex
	random *rand.Rand
	// concurrentAttempt makes another attempt of the request. depth is the number of such attempts in progress, one inside
	// the other.
	concurrentAttempt func()
	depth             int
}

// disturb decides randomly whether the current call fails.
func (d *disturbances) disturb() {
	d.failAt = noCall
	if d.random != nil && d.random.IntN(4) == 0 {
		modes := failureModes()
		d.failureMode, d.failAt = modes[d.random.IntN(len(modes))], int(d.calls.Load())
		d.always = false
	}
}

// TestDisturbedAttemptsAreOneChange makes several attempts of a request, nested and one after the other, with a table
// whose calls fail and whose responses are lost. The change must be made at most once, and all successful responses
// must be equal. A last attempt without disturbances must succeed.
func TestDisturbedAttemptsAreOneChange(t *testing.T) {
	p := newPopulatedFixture(t)
	forEachOperation(t, fewerIfRacing(takesIdempotencyKey), func(t *testing.T, d api.Declaration) {
		r := p.sampleSet.Request(d)
		for seed := range simulations.Runs(6) {
			random := rand.New(rand.NewPCG(uint64(seed), 34))
			c := p.newPreparedRequest(t, d, r, nil)
			table := &disturbedBackend{disturbances: disturbances{failingBackend: failingBackend{
				Backend: c.Items,
				failAt:  noCall,
			}, random: random}}
			c.Parts.Table = storetest.NewWithBackend(t, table, storetest.Clock(c.Parts.Now))
			var responses []functionstest.Response
			attempt := func() {
				if resp := c.send(); resp.Status == d.Status {
					responses = append(responses, resp)
				} else if resp.Status < http.StatusConflict || resp.Status == http.StatusUnprocessableEntity {
					t.Errorf("seed %d: attempt = %s, want %d, or 409 and above except 422", seed, resp.Dump, d.Status)
				}
			}
			table.concurrentAttempt = attempt
			for range 3 {
				attempt()
			}
			table.random, table.failAt = nil, noCall
			c.Now = c.Now.Add(time.Minute)
			responses = append(responses, c.send().Want(d.Status))
			for _, resp := range responses {
				c.assertSameResponse(responses[0], resp)
			}
			if n := c.successes(); n != 1 {
				t.Errorf("seed %d: %d changes were made, want 1", seed, n)
			}
		}
	})
}

// disturbedBackend is a backend with disturbances.
type disturbedBackend struct{ disturbances }

// Read implements store.Backend.
func (b *disturbedBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	b.readMu.Lock()
	defer b.readMu.Unlock()
	b.disturb()
	return b.failingBackend.Read(ctx, keys)
}

// Query implements store.Backend.
func (b *disturbedBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	b.readMu.Lock()
	defer b.readMu.Unlock()
	b.disturb()
	return b.failingBackend.Query(ctx, q)
}

// Transact implements store.Backend.
func (b *disturbedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.random != nil && b.random.IntN(2) == 0 && b.depth < 2 {
		b.depth++
		b.concurrentAttempt()
		b.depth--
	}
	b.disturb()
	return b.failingBackend.Transact(ctx, token, writes)
}

// newBulkRequest returns a bulk creation of many keys with chosen texts and long descriptions.
func (p populatedFixture) newBulkRequest(
	t *testing.T, keys int, wrap func(store.Backend) store.Backend,
) preparedRequest {
	t.Helper()
	var d api.Declaration
	forEachOperation(t, func(d api.Declaration) bool {
		return d.ID == "ApiKeyKeysService_bulkCreate"
	}, func(_ *testing.T, declared api.Declaration) { d = declared })
	if d.ID == "" {
		t.Skip("the tests are limited to another group")
	}
	c := p.newPreparedRequest(t, d, p.sampleSet.Request(d), wrap)
	entries := make([]string, keys)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"key":"chosen-text-number-%04d","description":%q}`, i, strings.Repeat("d", 900))
	}
	c.body = "[" + strings.Join(entries, ",") + "]"
	return c
}

// TestLongResponseIsStoredCompletely checks that a repeat gets the whole stored response, even if the response does not
// fit into one item.
func TestLongResponseIsStoredCompletely(t *testing.T) {
	c := newPopulatedFixture(t).newBulkRequest(t, 1000, nil)
	first := c.send().Want(http.StatusOK)
	if len(first.Body) < 2*store.MaxItemBytes {
		t.Fatalf("body has %d bytes, want %d or more", len(first.Body), 2*store.MaxItemBytes)
	}
	c.assertSameResponse(first, c.send().WantHeader("Idempotent-Replayed", "true"))
}

// commitHook is a backend that calls hook before commit number n, counted from 0. The commit fails if hook does.
type commitHook struct {
	store.Backend
	n    int
	hook func() error
}

// Transact implements store.Backend.
func (h *commitHook) Transact(ctx context.Context, token string, writes []store.Write) error {
	h.n-- // before the hook, which can make commits too
	if h.n == -1 && h.hook != nil {
		if err := h.hook(); err != nil {
			return err
		}
	}
	return h.Backend.Transact(ctx, token, writes)
}

// TestConcurrentAttemptConflicts makes a second attempt before each commit of a change with several commits. Before the
// first commit, the second attempt makes the change, and the first one gets its response. Later, the second attempt
// must be refused and must not disturb the first.
func TestConcurrentAttemptConflicts(t *testing.T) {
	p := newPopulatedFixture(t)
	const commits = 5 // the first, one for each of three portions of keys, and the last
	for n := range commits {
		backend := &commitHook{n: n}
		c := p.newBulkRequest(t, 100, func(b store.Backend) store.Backend { backend.Backend = b; return backend })
		var second functionstest.Response
		backend.hook = func() error { second = c.send(); return nil }
		first := c.send().Want(http.StatusOK)
		switch {
		case n == 0:
			c.assertSameResponse(second.Want(http.StatusOK), first)
		case second.Header.Get("Retry-After") != "1":
			t.Errorf("second attempt before commit %d = %s, want a Retry-After of 1", n, second.Dump)
		default:
			second.Want(http.StatusConflict, "still being carried out")
		}
		c.assertSameResponse(first, c.send().WantHeader("Idempotent-Replayed", "true"))
		if got := c.successes(); got != 1 {
			t.Errorf("second attempt before commit %d: %d changes were made, want 1", n, got)
		}
	}
}

// TestBulkRefusedAtLastCommitLeavesNothing changes or deletes the consumer before the last commit of a bulk creation.
// After a deletion, the creation must be refused, and no new keys may stay in the table.
func TestBulkRefusedAtLastCommitLeavesNothing(t *testing.T) {
	p := newPopulatedFixture(t)
	for _, method := range []string{http.MethodPatch, http.MethodDelete} {
		backend := &commitHook{n: 4}
		c := p.newBulkRequest(t, 100, func(b store.Backend) store.Backend { backend.Backend = b; return backend })
		consumerPath, _, found := strings.Cut(c.path, "/keys")
		if !found || consumerPath == "" {
			t.Fatalf("path of the bulk creation = %s, want /keys after the path of a consumer", c.path)
		}
		backend.hook = func() error {
			c.Call(c.key, method, consumerPath, `{"description":"another"}`)
			return nil
		}
		first := c.send()
		remaining := 0
		for key := range c.Items.Snapshot() {
			if _, existed := c.before[key]; !existed && strings.HasPrefix(key.PK, "key-hash#") {
				remaining++
			}
		}
		switch method {
		case http.MethodPatch:
			first.Want(http.StatusOK)
			c.assertSameResponse(first, c.send())
		default:
			first.Want(http.StatusNotFound)
			if remaining != 0 {
				t.Errorf("remaining keys = %d, want 0", remaining)
			}
		}
	}
}
