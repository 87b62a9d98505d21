package allowance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// minutePeriod returns a period whose horizon is 15 s.
func minutePeriod() period { return period{name: "a", from: 0, to: time.Minute.Milliseconds()} }

// at returns the time d after the start of minutePeriod.
func at(d time.Duration) time.Time { return time.UnixMilli(0).Add(d) }

func TestNamesUpTo256BytesAreStoredUnchanged(t *testing.T) {
	for n, unchanged := range map[int]bool{256: true, 257: false} {
		name := strings.Repeat("x", n)
		if got := (Allowance{Name: name}).period().name; (got == name) != unchanged {
			t.Errorf("period().name for a name of %d bytes = %q; unchanged: %t, want %t", n, got, got == name, unchanged)
		}
	}
}

// TestRecentStateExpires checks for how long a slot remembers that the record was empty, and that the table has failed.
func TestRecentStateExpires(t *testing.T) {
	for age, want := range map[time.Duration]bool{0: true, time.Second - 1: true, time.Second: false, -1: false} {
		if got := recent(at(0), at(age), time.Second); got != want {
			t.Errorf("recent() for a state %v old = %t, want %t", age, got, want)
		}
	}
	s := newSlot(minutePeriod(), 10, 0)
	s.exhaustedAt, s.failedAt = at(0), at(0)
	if s.recentlyExhausted(at(0), 1) || s.recentFailure(at(0)) != nil {
		t.Errorf("new slot: recentlyExhausted() = %t, recentFailure() = %v, want false and nil",
			s.recentlyExhausted(at(0), 1), s.recentFailure(at(0)))
	}
	s.exhausted, s.failure = true, errSimulated
	if !s.recentlyExhausted(at(3*time.Second), 1) || s.recentlyExhausted(at(4*time.Second), 1) {
		t.Errorf("recentlyExhausted() after 3 s and 4 s = %t, %t, want true, false",
			s.recentlyExhausted(at(3*time.Second), 1), s.recentlyExhausted(at(4*time.Second), 1))
	}
	if s.recentFailure(at(failureBackoff-1)) == nil || s.recentFailure(at(failureBackoff)) != nil {
		t.Errorf("recentFailure() before and after the backoff = %v, %v, want an error and nil",
			s.recentFailure(at(failureBackoff-1)), s.recentFailure(at(failureBackoff)))
	}
}

// slotWithWaiters returns a slot with callers that wait for the given numbers of units. unleased is the number of units
// that were admitted before they are leased.
func slotWithWaiters(unleased int64, needs ...int64) *slot {
	s := newSlot(minutePeriod(), 100, 0)
	s.unleased = unleased
	for _, n := range needs {
		s.queue = append(s.queue, &waiter{n: n, done: make(chan outcome, 1)})
	}
	return s
}

// outcomesOf receives the waiters' outcomes. It returns one character for each waiter: + for admitted, - for refused, e
// for an error, . for no outcome.
func outcomesOf(waiters []*waiter) string {
	out := ""
	for _, w := range waiters {
		select {
		case o := <-w.done:
			switch {
			case o.err != nil:
				out += "e"
			case o.admitted:
				out += "+"
			default:
				out += "-"
			}
		default:
			out += "."
		}
	}
	return out
}

func TestPlanRequestsWaitingUnits(t *testing.T) {
	s := slotWithWaiters(3, 2, 4)
	if q, ok := s.plan(at(0)); !ok || q.need != 9 || q.want != 9 {
		t.Errorf("plan() with 6 waiting and 3 unleased units = %+v, %t, want need 9, want 9, true", q, ok)
	} else if !q.blind || q.limit != 100 {
		t.Errorf("plan() with 6 waiting and 3 unleased units: blind %t, limit %d, want true, 100", q.blind, q.limit)
	}
	s = slotWithWaiters(0, 2, 4)
	s.tokens.Store(5)
	all := slices.Clone(s.queue)
	q, ok := s.plan(at(0))
	if !ok || q.need != 4 || s.tokens.Load() != 3 {
		t.Errorf("plan() with 5 units for waiters of 2 and 4 = %+v, %t, %d units left; want need 4, true, 3",
			q, ok, s.tokens.Load())
	}
	if got := outcomesOf(all); got != "+." {
		t.Errorf("outcomes after plan() with 5 units for waiters of 2 and 4 = %q, want %q", got, "+.")
	}
	s = slotWithWaiters(0)
	if q, ok := s.plan(at(0)); ok {
		t.Errorf("plan() without waiters = %+v, true, want false", q)
	}
	for _, tt := range []struct {
		name      string
		first     int64
		exhausted bool
		ok        bool
	}{
		{"nothing is wanted", 0, false, false},
		{"something is wanted", 5, false, true},
		{"the record was empty", 0, true, true},
	} {
		s = slotWithWaiters(0)
		s.recheck, s.exhausted, s.demand.first = true, tt.exhausted, tt.first
		if q, ok := s.plan(at(0)); ok != tt.ok || q.blind || q.want != tt.first || s.recheck {
			t.Errorf("plan() with recheck when %s = %+v, %t, recheck %t; want %d units, not blind, %t, recheck false",
				tt.name, q, ok, s.recheck, tt.first, tt.ok)
		}
	}
	s = slotWithWaiters(0, 2)
	s.demand.at = at(0)
	if q, ok := s.plan(at(time.Second)); !ok || q.blind {
		t.Errorf("plan() when the record is known = %+v, %t, want a request that is not blind, true", q, ok)
	}
}

// TestGrantIsAppliedOldestFirst checks that a grant covers the unleased units first, and then admits the waiting
// callers, the oldest first. A caller for which the units do not suffice does not block a later caller that needs
// fewer.
func TestGrantIsAppliedOldestFirst(t *testing.T) {
	type state struct {
		Excess, Leased, Unleased, Tokens, Remainder, Watermark int64
		Exhausted                                              bool
		Outcomes                                               string
	}
	for _, tt := range []struct {
		name  string
		slot  *slot
		grant grant
		want  state
	}{
		{
			"units left", slotWithWaiters(3, 2, 9, 1),
			grant{leased: 10, remaining: 20},
			state{Leased: 10, Tokens: 4, Remainder: 20, Watermark: 1, Outcomes: "+.+"},
		},
		{
			"units for one of two callers", slotWithWaiters(0, 2, 2),
			grant{leased: 3, remaining: 20},
			state{Leased: 3, Tokens: 1, Remainder: 20, Outcomes: "+."},
		},
		{
			"the last units", slotWithWaiters(3, 2, 9, 1),
			grant{leased: 10, remaining: 0},
			state{Leased: 10, Tokens: 4, Exhausted: true, Outcomes: "+-+"},
		},
		{
			"fewer units than admitted, and none left", slotWithWaiters(3, 2),
			grant{leased: 1, remaining: 0},
			state{Excess: 2, Leased: 3, Exhausted: true, Outcomes: "-"},
		},
		{
			"fewer units than admitted, and units left", slotWithWaiters(3, 2),
			grant{leased: 1, remaining: 20},
			state{Leased: 1, Unleased: 2, Remainder: 20, Outcomes: "."},
		},
		{
			"exactly the admitted units", slotWithWaiters(3, 2),
			grant{leased: 5, remaining: 1},
			state{Leased: 5, Remainder: 1, Outcomes: "+"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, s := slices.Clone(tt.slot.queue), tt.slot
			s.failure = errSimulated
			excess := s.applyGrant(at(0), tt.grant)
			got := state{
				excess, s.leased, s.unleased, s.tokens.Load(), s.remainder.Load(), s.watermark.Load(), s.exhausted,
				outcomesOf(all),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("state after applyGrant(%+v) (-want +got):\n%s", tt.grant, diff)
			}
			if s.failure != nil {
				t.Errorf("failure after applyGrant(%+v) = %v, want nil", tt.grant, s.failure)
			}
		})
	}
}

// TestRemainingIsAtMostLimit checks that remaining adds the held units to the remainder, up to the limit. It also
// checks the number of spent units.
func TestRemainingIsAtMostLimit(t *testing.T) {
	s := newSlot(minutePeriod(), 100, 0)
	s.remainder.Store(30)
	for held, want := range map[int64]int64{0: 30, 5: 35, 80: 100} {
		if got := s.remaining(held); got != want {
			t.Errorf("remaining(%d) = %d, want %d", held, got, want)
		}
	}
	s.leased, s.unleased = 10, 4
	s.tokens.Store(3)
	if got := s.spent(); got != 11 {
		t.Errorf("spent() with 10 leased, 4 unleased and 3 available = %d, want 11", got)
	}
}

// TestReclaimOncePerHorizon checks that reclaim takes one sample per horizon, and then returns the units that the
// instance will not spend. If all is true, it returns all units at any time, except during a lease and shortly before
// the period's end.
func TestReclaimOncePerHorizon(t *testing.T) {
	full := func() *slot {
		s := newSlot(minutePeriod(), 100, 0)
		s.leased, s.exhausted = 50, true
		s.watermark.Store(9)
		s.remainder.Store(10)
		s.tokens.Store(40)
		return s
	}
	s := full()
	for _, tt := range []struct {
		name string
		now  time.Duration
		want int64
	}{
		{"first sample", time.Second, 0},
		{"within a horizon", 16*time.Second - 1, 0},
		{"after a horizon without spending", 16 * time.Second, 40},
	} {
		if got := s.reclaim(at(tt.now), false).n; got != tt.want {
			t.Errorf("%s: reclaim() = %d, want %d", tt.name, got, tt.want)
		}
	}
	if s.remainder.Load() != 50 || s.leased != 10 || s.tokens.Load() != 0 {
		t.Errorf("after reclaim() of 40: remainder %d, leased %d, tokens %d, want 50, 10, 0",
			s.remainder.Load(), s.leased, s.tokens.Load())
	}
	if s.watermark.Load() != 0 || s.exhausted {
		t.Errorf("after reclaim() of 40: watermark %d, exhausted %t, want 0, false", s.watermark.Load(), s.exhausted)
	}
	s = full()
	s.reclaim(at(20*time.Second), false)
	if got := s.reclaim(at(10*time.Second), false).n; got != 0 || !s.sampledAt.Equal(at(10*time.Second)) {
		t.Errorf("reclaim() after the clock went back = %d, sampled at %v, want 0, sampled at %v",
			got, s.sampledAt, at(10*time.Second))
	}
	for _, tt := range []struct {
		name    string
		now     time.Duration
		filling bool
		want    int64
	}{
		{"one second after the start", time.Second, false, 40},
		{"a lease in flight", time.Second, true, 0},
		{"a quarter of a second before the end", time.Minute - minHorizon, false, 40},
		{"less than a quarter of a second before the end", time.Minute - minHorizon + 1, false, 0},
	} {
		s := full()
		s.filling = tt.filling
		if got := s.reclaim(at(tt.now), true).n; got != tt.want {
			t.Errorf("%s: reclaim() of all units = %d, want %d", tt.name, got, tt.want)
		}
	}
	// A slot that does not hold too many units keeps them, and the slot's state does not change.
	s = full()
	s.reclaim(at(time.Second), false)
	s.leased += 100
	if got := s.reclaim(at(20*time.Second), false).n; got != 0 || !s.exhausted || s.watermark.Load() != 9 ||
		s.remainder.Load() != 10 {
		t.Errorf("reclaim() under traffic = %d, exhausted %t, watermark %d, remainder %d, want 0, true, 9, 10",
			got, s.exhausted, s.watermark.Load(), s.remainder.Load())
	}
}

func TestLeaseSize(t *testing.T) {
	for _, tt := range []struct {
		name    string
		granted int64 // granted before the lease
		request request
		want    grant
		reads   int64
	}{
		{
			"blind, more wanted than needed", 0,
			request{need: 2, want: 7, blind: true},
			grant{leased: 7, remaining: 93, grantedBefore: -1},
			0,
		},
		{
			"blind, more needed than wanted", 0,
			request{need: 9, want: 7, blind: true},
			grant{leased: 9, remaining: 91, grantedBefore: -1},
			0,
		},
		{"blind, nothing left", 100, request{need: 1, blind: true}, grant{grantedBefore: -1}, 0},
		{"blind, one of two units left", 99, request{need: 2, blind: true}, grant{leased: 1, grantedBefore: 99}, 1},
		{"more wanted than a share", 20, request{need: 1, want: 90}, grant{leased: 10, remaining: 70, grantedBefore: 20}, 1},
		{"less wanted than a share", 20, request{need: 1, want: 5}, grant{leased: 5, remaining: 75, grantedBefore: 20}, 1},
		{"more needed than a share", 20, request{need: 30, want: 5}, grant{leased: 30, remaining: 50, grantedBefore: 20}, 1},
		{"more needed than left", 95, request{need: 30}, grant{leased: 5, grantedBefore: 95}, 1},
		{"nothing left", 100, request{need: 3}, grant{grantedBefore: 100}, 1},
		{"more granted than the limit", 120, request{need: 3}, grant{grantedBefore: 120}, 1},
		{"nothing wanted", 20, request{want: -5}, grant{remaining: 80, grantedBefore: 20}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table := newBackend()
			pl, p := table.open(1), minute(100).period()
			tt.request.period, tt.request.limit, tt.request.demand.granted = p, 100, -1
			if tt.granted > 0 {
				if err := pl.ledger.overdraw(t.Context(), p, tt.granted); err != nil {
					t.Fatal(err)
				}
			}
			got, err := pl.lease(t.Context(), tt.request)
			if err != nil || got != tt.want || table.reads.Load() != tt.reads {
				t.Errorf("lease() = %+v, %v after %d reads, want %+v after %d reads",
					got, err, table.reads.Load(), tt.want, tt.reads)
			}
			if granted, err := pl.ledger.granted(t.Context(), p); err != nil || granted != tt.granted+tt.want.leased {
				t.Errorf("granted() after the lease = %d, %v, want %d", granted, err, tt.granted+tt.want.leased)
			}
		})
	}
}

func TestFirstSliceIsGuessedFromPreviousPeriod(t *testing.T) {
	next := period{name: "a", from: time.Minute.Milliseconds(), to: 2 * time.Minute.Milliseconds()}
	for spent, want := range map[int64]int64{0: 0, 40: 10, 400: 100, 900: 125} {
		previous := newSlot(minutePeriod(), 1000, 0)
		previous.leased = spent
		sh := shard{slots: map[slotKey]*slot{{minutePeriod(), 1000}: previous}}
		if got := sh.guessFirst(slotKey{next, 1000}); got != want {
			t.Errorf("guessFirst() after %d spent in the previous period = %d, want %d", spent, got, want)
		}
		if got := sh.guessFirst(slotKey{next, 999}); got != 0 {
			t.Errorf("guessFirst() for another limit = %d, want 0", got)
		}
	}
}

func TestRefundBatchHasDifferentAllowances(t *testing.T) {
	refunds := func(names ...string) (out []refund) {
		for _, name := range names {
			p := minutePeriod()
			p.name = name
			out = append(out, refund{period: p, n: 1})
		}
		return out
	}
	many := make([]string, 30)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	for _, tt := range []struct {
		name        string
		due         []refund
		now         time.Duration
		batch, rest int
	}{
		{"different allowances", refunds("a", "b"), 0, 2, 0},
		{"one allowance twice", refunds("a", "b", "a"), 0, 2, 1},
		{"more than fit in a transaction", refunds(many...), 0, refundsPerCommit, 5},
		{"as many as fit in a transaction", refunds(many[:refundsPerCommit]...), 0, refundsPerCommit, 0},
		{"just before the period's end", refunds("a"), time.Minute - 1, 1, 0},
		{"at the period's end", refunds("a"), time.Minute, 0, 0},
	} {
		if batch, rest := nextBatch(tt.due, at(tt.now)); len(batch) != tt.batch || len(rest) != tt.rest {
			t.Errorf("nextBatch(%s): %d in the batch, %d left, want %d, %d", tt.name, len(batch), len(rest), tt.batch, tt.rest)
		}
	}
}

func TestPendingReturnsAreBounded(t *testing.T) {
	pl := newBackend().open(1)
	for range maxPendingReturns + 5 {
		pl.scheduleRefund(refund{period: minutePeriod(), n: 1})
	}
	if n := len(pl.pending.refunds); n != maxPendingReturns {
		t.Errorf("pending refunds after %d calls of scheduleRefund() = %d, want %d", maxPendingReturns+5, n,
			maxPendingReturns)
	}
	pl = newBackend().open(1)
	pl.scheduleRefund(refund{period: minutePeriod(), n: 0})
	pl.scheduleRefund(refund{period: minutePeriod(), n: -1})
	if n := len(pl.pending.refunds); n != 0 {
		t.Errorf("pending refunds after scheduleRefund() of 0 and of -1 units = %d, want 0", n)
	}
}

func TestSlotInUseIsNotRemoved(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *slot)
		want   bool
	}{
		"idle":                  {func(*slot) {}, true},
		"a lease in flight":     {func(s *slot) { s.filling = true }, false},
		"a waiting caller":      {func(s *slot) { s.queue = slotWithWaiters(0, 1).queue }, false},
		"units without a lease": {func(s *slot) { s.unleased = 1 }, false},
	} {
		pl, s := newBackend().open(1), newSlot(minutePeriod(), 100, 0)
		s.leased = 5
		s.tokens.Store(5)
		tt.change(s)
		if got := pl.remove(s); got != tt.want || s.evicted != tt.want || (s.tokens.Load() == 0) != tt.want ||
			len(pl.pending.refunds) == 1 != tt.want {
			t.Errorf("remove(%s) = %t, evicted %t, %d tokens, %d refunds; want %t, and no tokens and one refund only if removed",
				name, got, s.evicted, s.tokens.Load(), len(pl.pending.refunds), tt.want)
		}
	}
}
