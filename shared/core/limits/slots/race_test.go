package slots_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/slots"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// racingBackend lets a rival take the slot of a write for an hour, just before the write. It does this for as many
// writes as remaining says. It records the keys of writes, and counts queries. If queryErr is not nil, queries fail
// with it.
type racingBackend struct {
	*memory.Backend
	table     *store.Table // over Backend
	remaining int
	writes    []store.Key
	queries   int
	queryErr  error
}

func newRacingBackend(t *testing.T) *racingBackend {
	m := memory.New()
	return &racingBackend{Backend: m, table: storetest.NewWithBackend(t, m)}
}

func (r *racingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	key := writes[0].Key
	r.writes = append(r.writes, key)
	if r.remaining > 0 {
		r.remaining--
		if err := r.table.Commit(store.WithoutReadSet(ctx, "a rival"), store.Upsert(key,
			store.Set(store.At("holder"), "a rival"), store.Set(store.At("until"), storetest.Epoch.Add(time.Hour).UnixMilli()),
		)); err != nil {
			return err
		}
	}
	return r.Backend.Transact(ctx, token, writes)
}

func (r *racingBackend) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	r.queries++
	if r.queryErr != nil {
		return nil, "", r.queryErr
	}
	return r.Backend.Query(ctx, q)
}

// slots returns the Slots of a process that uses r.
func (r *racingBackend) slots(t *testing.T, now func() time.Time, limit int64) *slots.Slots {
	return open(storetest.NewWithBackend(t, r, storetest.Clock(now)), now, limit)
}

func fixedTime() time.Time { return storetest.Epoch }

// takeSlot calls Take, and returns a refusal as an error.
func takeSlot(t *testing.T, s *slots.Slots, account string, until time.Time) (func(context.Context) error, error) {
	t.Helper()
	release, refusal, err := s.Take(t.Context(), account, until)
	if refusal != nil {
		return nil, refusal
	}
	return release, err
}

// TestTakeRetriesAfterRace lets other callers take seven of eight slots just
// before the account's writes, and checks that the account gets the last slot.
func TestTakeRetriesAfterRace(t *testing.T) {
	r := newRacingBackend(t)
	s := r.slots(t, fixedTime, 8)
	r.remaining = 7
	release, err := takeSlot(t, s, "acme", fixedTime().Add(time.Minute))
	if err != nil {
		t.Fatalf("Take() after seven lost races for eight slots = %v, want the last slot", err)
	}
	if tried := map[store.Key]bool{}; len(r.writes) != 8 {
		t.Errorf("Take() tried %d slots, want 8", len(r.writes))
	} else {
		for _, key := range r.writes {
			if tried[key] {
				t.Errorf("Take() tried the slot %s twice, want each slot once", key.SK)
			}
			tried[key] = true
		}
	}
	if err := release(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestCallersTryDifferentSlots checks that callers try many different slots, both in the first
// attempt and after a lost race for a slot. Otherwise all callers would compete for the same slots.
func TestCallersTryDifferentSlots(t *testing.T) {
	r := newRacingBackend(t)
	s := r.slots(t, fixedTime, 1_000)
	first, second := map[string]bool{}, map[string]bool{}
	for i := range 32 {
		r.remaining, r.writes = 1, nil
		if _, err := takeSlot(t, s, fmt.Sprint("account-", i), fixedTime().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		from, err := strconv.Atoi(r.writes[0].SK)
		if err != nil {
			t.Fatal(err)
		}
		to, err := strconv.Atoi(r.writes[1].SK)
		if err != nil {
			t.Fatal(err)
		}
		first[fmt.Sprint(from)], second[fmt.Sprint(to)] = true, true
		if from < 0 || from >= 1_000 || to < 0 || to >= 1_000 {
			t.Errorf("Take() tried the slots %d and %d, want 0 to 999", from, to)
		}
	}
	if len(first) < 8 || len(second) < 8 {
		t.Errorf("32 accounts try %d different slots first and %d second, want at least 8 of each", len(first), len(second))
	}
}

// TestRefusalIsCachedForASecond checks that the refusals of a thousand accounts, but not of more, are each
// cached for a second. An account that has released its slot is not refused.
func TestRefusalIsCachedForASecond(t *testing.T) {
	now := storetest.Epoch
	clock := func() time.Time { return now }
	r := newRacingBackend(t)
	s := r.slots(t, clock, 1)
	account := func(i int) string { return fmt.Sprint("account-", i) }
	const maxCached = 1_000
	var release func(context.Context) error
	for i := range maxCached + 1 {
		var err error
		if release, err = takeSlot(t, s, account(i), now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	countQueries := func(n int) (queries int) {
		t.Helper()
		r.queries = 0
		for i := range n {
			_, err := takeSlot(t, s, account(i), now.Add(time.Hour))
			f, ok := errors.AsType[*fault.Fault](err)
			if !ok || f.Kind != fault.Throttled {
				t.Fatalf("Take() of an account without a free slot = %v, want throttled", err)
			}
			if f.RetryAfter != time.Second {
				t.Fatalf("Take() of an account without a free slot: RetryAfter = %s, want 1s", f.RetryAfter)
			}
		}
		return r.queries
	}
	if n := countQueries(maxCached); n != maxCached {
		t.Fatalf("first refusals of %d accounts need %d queries, want %d", maxCached, n, maxCached)
	}
	if err := release(t.Context()); err != nil { // the slot of another account
		t.Fatal(err)
	}
	now = now.Add(999 * time.Millisecond)
	if n := countQueries(maxCached); n != 0 {
		t.Errorf("refusals of %d accounts within the second need %d queries, want 0", maxCached, n)
	}
	if _, err := takeSlot(t, s, account(maxCached), now.Add(time.Hour)); err != nil {
		t.Errorf("Take() of an account that released its slot: %v, want success", err)
	}
	now = now.Add(time.Millisecond)
	if n := countQueries(maxCached); n != maxCached {
		t.Errorf("refusals of %d accounts after the second need %d queries, want %d", maxCached, n, maxCached)
	}
	if countQueries(maxCached + 1); countQueries(maxCached+1) == 0 {
		t.Errorf("refusals of %d accounts are cached, want at most %d", maxCached+1, maxCached)
	}
}

// TestFailedQueryIsNotARefusal checks that a failed query is not reported as a refusal, and is not cached as a refusal.
func TestFailedQueryIsNotARefusal(t *testing.T) {
	r := newRacingBackend(t)
	s := r.slots(t, fixedTime, 2)
	r.remaining, r.queryErr = 1, errLost
	if _, err := takeSlot(t, s, "acme", fixedTime().Add(time.Minute)); !errors.Is(err, errLost) {
		t.Fatalf("Take() with a failing query = %v, want %v", err, errLost)
	}
	r.queryErr = nil
	if _, err := takeSlot(t, s, "acme", fixedTime().Add(time.Minute)); err != nil {
		t.Errorf("Take() with a free slot after a failed query = %v, want success", err)
	}
}

// TestReleaseErrorIsReturned checks that release returns an error of the table, and that the release can be repeated.
func TestReleaseErrorIsReturned(t *testing.T) {
	fail := false
	backend := &flakyBackend{Backend: memory.New(), failNext: func() (bool, bool) { return fail, false }}
	s := open(storetest.NewWithBackend(t, backend), fixedTime, 1)
	release, err := takeSlot(t, s, "acme", fixedTime().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	fail = true
	if err := release(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("release() with a failing table = %v, want %v", err, errLost)
	}
	fail = false
	if err := release(t.Context()); err != nil {
		t.Fatalf("second release(), with a working table = %v, want success", err)
	}
	if _, err := takeSlot(t, s, "acme", fixedTime().Add(time.Minute)); err != nil {
		t.Errorf("Take() after release() = %v, want success", err)
	}
}

// slotTimes returns the ends of the slots in a table, and the times at which their items expire.
func slotTimes(t *testing.T, m *memory.Backend) (until, ttl []time.Time) {
	t.Helper()
	for _, item := range m.Items() {
		var slot struct {
			Until int64 `dynamodbav:"until"`
			TTL   int64 `dynamodbav:"ttl"`
		}
		if err := store.Decode(item, &slot); err != nil {
			t.Fatal(err)
		}
		until, ttl = append(until, time.UnixMilli(slot.Until)), append(ttl, time.Unix(slot.TTL, 0))
	}
	return until, ttl
}

// TestSlotIsFreeAtItsEnd checks that a slot can be taken at its end and not before. The search
// for free slots and the write of a slot must agree about this, because otherwise a caller would
// find a slot again and again that it cannot take. The slot's item must expire within a day after the slot's end.
func TestSlotIsFreeAtItsEnd(t *testing.T) {
	for range 32 { // Take tries random slots
		now := storetest.Epoch
		clock := func() time.Time { return now }
		r := newRacingBackend(t)
		s := r.slots(t, clock, 2)
		if _, err := takeSlot(t, s, "acme", now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		until, ttl := slotTimes(t, r.Backend)
		if lifetime := until[0].Sub(now); lifetime < time.Minute || lifetime > time.Minute+10*time.Second {
			t.Fatalf("a slot for one minute ends after %s, want 1m0s to 1m10s", lifetime)
		}
		if retention := ttl[0].Sub(until[0]); retention < 0 || retention > 24*time.Hour {
			t.Fatalf("the item of a slot expires %s after the slot's end, want 0 to 24h", retention)
		}
		if _, err := takeSlot(t, s, "acme", now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		now = until[0].Add(-time.Millisecond)
		if _, err := takeSlot(t, r.slots(t, clock, 2), "acme", now.Add(time.Hour)); !fault.Is(err, fault.Throttled) {
			t.Fatalf("Take() a millisecond before the slot's end = %v, want throttled", err)
		}
		now, r.writes = until[0], nil
		if _, err := takeSlot(t, s, "acme", now.Add(time.Hour)); err != nil || len(r.writes) > 2 {
			t.Fatalf("Take() at the slot's end = %v after %d writes, want success after at most 2", err, len(r.writes))
		}
	}
}

// TestLimitsHaveSeparateSlots checks that holders under one limit occupy no slots of another limit.
func TestLimitsHaveSeparateSlots(t *testing.T) {
	table := storetest.New(t)
	for _, limit := range []limits.Limit{limits.FunctionStreams, limits.GatewayStreams} {
		s := slots.New(slots.Options{Table: table, Now: fixedTime, Max: 1, Limit: limit, Name: func() string {
			return limit.Name
		}})
		if _, err := takeSlot(t, s, "acme", fixedTime().Add(time.Minute)); err != nil {
			t.Errorf("Take() for the limit %s = %v, want success", limit.Name, err)
		}
	}
}

// TestLoweredLimitKeepsHeldSlots lowers the limit below the number of held slots. It checks that a refusal counts
// only the slots within the limit, and that the account gets a slot again when all slots are returned.
func TestLoweredLimitKeepsHeldSlots(t *testing.T) {
	table := storetest.New(t)
	s := open(table, fixedTime, 4)
	var releases []func(context.Context) error
	for range 4 {
		release, err := takeSlot(t, s, "acme", fixedTime().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, err := takeSlot(t, open(table, fixedTime, 2), "acme", fixedTime().Add(time.Minute)); !fault.Is(err,
		fault.Throttled) ||
		!strings.Contains(err.Error(), "The account has 2 streams under way at the gateway's function, and its limit "+
			"function-streams is 2.") {
		t.Errorf("Take() over a lowered limit = %v, want throttled, with 2 streams and a limit of 2 in the message", err)
	}
	for _, release := range releases {
		if err := release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := takeSlot(t, open(table, fixedTime, 2), "acme", fixedTime().Add(time.Minute)); err != nil {
		t.Errorf("Take() after all slots are released = %v, want success", err)
	}
}
