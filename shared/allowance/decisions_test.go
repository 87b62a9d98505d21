package allowance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aMinute is a period whose horizon is 15 s.
func aMinute() period { return period{name: "a", from: 0, to: time.Minute.Milliseconds()} }

// at is a moment of it.
func at(d time.Duration) time.Time { return time.UnixMilli(0).Add(d) }

func TestASliceIsWhatWillBeAskedFor(t *testing.T) {
	const since = 10 * time.Second
	for _, tt := range []struct {
		name              string
		now               time.Duration
		need, spent, held int64
		want              int64
	}{
		{"as much as in the time since the last one", since + 5*time.Second, 5, 20, 0, 45},
		{"less what is held", since + 5*time.Second, 5, 20, 3, 42},
		{"no more than is left of the period", 55 * time.Second, 5, 20, 0, 1},
		{"four times what was asked for, after a burst", since + 100*time.Millisecond, 5, 20, 0, 60},
		{"the same where no time has passed", since, 5, 20, 4, 56},
		{"nothing where nothing was asked for", since, 0, 10, 3, -3},
		{"what is waited for at the period's end", time.Minute, 5, 20, 0, 5},
		{"what is waited for after it", 2 * time.Minute, 5, 20, 0, 5},
		{"a burst where the clock went back", since - time.Second, 5, 20, 0, 60},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := demand{at: at(since), spent: 10, granted: -1}
			if got := d.want(aMinute(), at(tt.now), tt.need, tt.spent, tt.held); got != tt.want {
				t.Errorf("wants %d, not %d", got, tt.want)
			}
		})
	}
	// A burst that the period's end cuts off.
	d := demand{at: at(time.Minute), spent: 10}
	if got := d.want(aMinute(), at(time.Minute), 5, 20, 0); got != 5 {
		t.Errorf("at the end wants %d, not what is waited for", got)
	}
	for first, want := range map[int64]int64{0: 3, 3: 3, 8: 8} {
		if got := (&demand{first: first}).want(aMinute(), at(0), 3, 0, 100); got != want {
			t.Errorf("first wants %d, not %d", got, want)
		}
	}
}

func TestAnInstanceLearnsItsShareFromWhatOthersTook(t *testing.T) {
	for _, tt := range []struct {
		name            string
		granted         int64
		share           float64
		n, before       int64
		wantShare       float64
		wantGrantedThen int64
	}{
		{"nothing was known", -1, 0, 10, 100, 0, 110},
		{"the record was empty", -1, 0, 10, 0, 0, 10},
		{"others took four times as much", 100, 0, 10, 140, 0.2, 150},
		{"others took all there is", 0, 0, 10, 30, 0.25, 40},
		{"nobody took anything", 100, 0, 10, 100, 1, 110},
		{"others gave back", 100, 0, 10, 60, 1, 70},
		{"the average with what was known", 100, 0.6, 10, 140, 0.4, 150},
		{"nothing was leased", 100, 0.6, 0, 140, 0.6, 140},
		{"nobody looked at the record", 100, 0.6, 10, -1, 0.6, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := demand{granted: tt.granted, share: tt.share}
			d.leased(at(time.Second), tt.n, 7, tt.before)
			if d.share < tt.wantShare-1e-9 || d.share > tt.wantShare+1e-9 || d.granted != tt.wantGrantedThen || !d.at.Equal(at(time.Second)) || d.spent != 7 {
				t.Errorf("then knows %+v", d)
			}
		})
	}
}

func TestAnInstanceTakesHalfOfItsShare(t *testing.T) {
	for _, tt := range []struct {
		share       float64
		limit, left int64
		want        int64
	}{
		{0, 1000, 800, 100}, // a quarter is assumed
		{0.5, 1000, 800, 200},
		{1, 1000, 800, 400},
		{0.5, 4000, 80, 100}, // a fortieth of the limit however little is left
		{0.5, 10, 1, 1},
		{0.5, 1000, 0, 25},
	} {
		if got := (&demand{share: tt.share}).maxSlice(tt.limit, tt.left); got != tt.want {
			t.Errorf("of %d left of %d with a share of %v: %d, not %d", tt.left, tt.limit, tt.share, got, tt.want)
		}
	}
}

func TestOnlyWhatIsOutOfProportionIsGivenBack(t *testing.T) {
	for _, tt := range []struct {
		name        string
		held, spent int64
		while       time.Duration
		want        int64
	}{
		{"twice the demand and a fortieth of the limit stay", 106, 40, 15 * time.Second, 0},
		{"one more does not", 107, 40, 15 * time.Second, 67},
		{"no time has passed", 400, 0, 0, 0},
		{"the clock went back", 400, 0, -time.Second, 0},
	} {
		if got := surplus(aMinute(), 1000, tt.held, tt.spent, tt.while, at(30*time.Second)); got != tt.want {
			t.Errorf("%s: gives back %d, not %d", tt.name, got, tt.want)
		}
	}
	if got := surplus(aMinute(), 1000, 400, 40, 15*time.Second, at(2*time.Minute)); got != 400 {
		t.Errorf("after the period gives back %d, not all", got)
	}
}

func TestHorizonsAreBounded(t *testing.T) {
	for length, want := range map[time.Duration][2]time.Duration{ // horizon, and recheck
		time.Millisecond: {250 * time.Millisecond, 100 * time.Millisecond}, 2 * time.Second: {500 * time.Millisecond, 125 * time.Millisecond},
		time.Minute: {15 * time.Second, 3750 * time.Millisecond}, 24 * time.Hour: {30 * time.Second, 5 * time.Second},
	} {
		p := period{to: length.Milliseconds()}
		if got := [2]time.Duration{horizon(p), recheck(p)}; got != want {
			t.Errorf("%v: %v, not %v", length, got, want)
		}
	}
}

func TestNamesUpTo256BytesAreStoredAsTheyAre(t *testing.T) {
	for n, kept := range map[int]bool{256: true, 257: false} {
		name := strings.Repeat("x", n)
		if got := (Allowance{Name: name}).period().name; (got == name) != kept {
			t.Errorf("%d bytes become %s", n, got)
		}
	}
}

func TestWhatWasSeenIsBelievedForAWhile(t *testing.T) {
	for age, want := range map[time.Duration]bool{0: true, time.Second - 1: true, time.Second: false, -1: false} {
		if got := recent(at(0), at(age), time.Second); got != want {
			t.Errorf("%v old: %v", age, got)
		}
	}
	s := newSlot(aMinute(), 10, 0)
	s.exhaustedAt, s.failedAt = at(0), at(0)
	if s.refuses(at(0), 1) || s.fails(at(0)) != nil {
		t.Error("a slot that knows nothing refuses or fails")
	}
	s.exhausted, s.failure = true, errSimulated
	if !s.refuses(at(3*time.Second), 1) || s.refuses(at(4*time.Second), 1) {
		t.Error("an empty record is believed to be so for 3.75 s in a minute")
	}
	if s.fails(at(failurePause-1)) == nil || s.fails(at(failurePause)) != nil {
		t.Error("a failure counts for a quarter of a second")
	}
}

// waiting makes a slot in which callers wait for so many units.
func waiting(ahead int64, need ...int64) *slot {
	s := newSlot(aMinute(), 100, 0)
	s.ahead = ahead
	for _, n := range need {
		s.queue = append(s.queue, &waiter{n: n, done: make(chan outcome, 1)})
	}
	return s
}

// answers says what became of the waiters.
func answers(waiters []*waiter) string {
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

func TestAPlanAsksForWhatIsWaitedFor(t *testing.T) {
	s := waiting(3, 2, 4)
	if q, ok := s.plan(at(0)); !ok || q.need != 9 || q.want != 9 || !q.blind || q.limit != 100 {
		t.Errorf("plans %+v, %v", q, ok)
	}
	s = waiting(0, 2, 4)
	s.tokens.Store(5)
	all := slices.Clone(s.queue)
	if q, ok := s.plan(at(0)); !ok || q.need != 4 || answers(all) != "+." || s.tokens.Load() != 3 {
		t.Errorf("with units there plans %+v, %v", q, ok)
	}
	s = waiting(0)
	if q, ok := s.plan(at(0)); ok {
		t.Errorf("for nobody plans %+v", q)
	}
	for _, tt := range []struct {
		name      string
		first     int64
		exhausted bool
		ok        bool
	}{{"nothing is wanted", 0, false, false}, {"something is wanted", 5, false, true}, {"the record was empty", 0, true, true}} {
		s = waiting(0)
		s.recheck, s.exhausted, s.demand.first = true, tt.exhausted, tt.first
		if q, ok := s.plan(at(0)); ok != tt.ok || q.blind || q.want != tt.first || s.recheck {
			t.Errorf("to look again when %s: plans %+v, %v", tt.name, q, ok)
		}
	}
	s = waiting(0, 2)
	s.demand.at = at(0)
	if q, ok := s.plan(at(time.Second)); !ok || q.blind {
		t.Errorf("when the record is known plans %+v, %v", q, ok)
	}
}

func TestALeaseIsSettledOldestFirst(t *testing.T) {
	type state struct {
		Over, Leased, Ahead, Tokens, Left, Low int64
		Exhausted                              bool
		Answers                                string
	}
	for _, tt := range []struct {
		name  string
		slot  *slot
		grant grant
		want  state
	}{
		{"some is left", waiting(3, 2, 9, 1), grant{leased: 10, left: 20}, state{Leased: 10, Tokens: 4, Left: 20, Low: 1, Answers: "+.+"}},
		{"the last of it", waiting(3, 2, 9, 1), grant{leased: 10, left: 0}, state{Leased: 10, Tokens: 4, Exhausted: true, Answers: "+-+"}},
		{"less than was admitted before", waiting(3, 2), grant{leased: 1, left: 0}, state{Over: 2, Leased: 3, Exhausted: true, Answers: "-"}},
		{"more to come of what was admitted", waiting(3, 2), grant{leased: 1, left: 20}, state{Leased: 1, Ahead: 2, Left: 20, Answers: "."}},
		{"exactly enough", waiting(3, 2), grant{leased: 5, left: 1}, state{Leased: 5, Left: 1, Answers: "+"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all, s := slices.Clone(tt.slot.queue), tt.slot
			s.failure = errSimulated
			over := s.settle(at(0), tt.grant)
			got := state{over, s.leased, s.ahead, s.tokens.Load(), s.left.Load(), s.low.Load(), s.exhausted, answers(all)}
			if diff := cmp.Diff(tt.want, got); diff != "" || s.failure != nil {
				t.Error(diff, s.failure)
			}
		})
	}
}

func TestWhatMayBeLeftIsNeverAboveTheLimit(t *testing.T) {
	s := newSlot(aMinute(), 100, 0)
	s.left.Store(30)
	for held, want := range map[int64]int64{0: 30, 5: 35, 80: 100} {
		if got := s.remaining(held); got != want {
			t.Errorf("with %d held: %d, not %d", held, got, want)
		}
	}
	s.leased, s.ahead = 10, 4
	s.tokens.Store(3)
	if got := s.spent(); got != 11 {
		t.Errorf("%d were spent, not 11", got)
	}
}

func TestUnspentUnitsAreReclaimedOnceInAHorizon(t *testing.T) {
	full := func() *slot {
		s := newSlot(aMinute(), 100, 0)
		s.leased, s.exhausted = 50, true
		s.low.Store(9)
		s.left.Store(10)
		s.tokens.Store(40)
		return s
	}
	s := full()
	for _, tt := range []struct {
		name string
		now  time.Duration
		want int64
	}{
		{"the first look only counts", time.Second, 0},
		{"within a horizon it does not look", 16*time.Second - 1, 0},
		{"after one, nothing was spent", 16 * time.Second, 40},
	} {
		if got := s.reclaim(at(tt.now), false).n; got != tt.want {
			t.Errorf("%s: %d, not %d", tt.name, got, tt.want)
		}
	}
	if s.left.Load() != 50 || s.low.Load() != 0 || s.exhausted || s.leased != 10 || s.tokens.Load() != 0 {
		t.Errorf("then %d are left, %d held, %d leased", s.left.Load(), s.tokens.Load(), s.leased)
	}
	s = full()
	if s.reclaim(at(20*time.Second), false); s.reclaim(at(10*time.Second), false).n != 0 || !s.sampledAt.Equal(at(10*time.Second)) {
		t.Error("a clock that went back keeps units for ever")
	}
	for _, tt := range []struct {
		name    string
		now     time.Duration
		filling bool
		want    int64
	}{
		{"at once with all", time.Second, false, 40},
		{"not while a lease is on its way", time.Second, true, 0},
		{"with a quarter of a second to go", time.Minute - shortestHorizon, false, 40},
		{"with less", time.Minute - shortestHorizon + 1, false, 0},
	} {
		s := full()
		s.filling = tt.filling
		if got := s.reclaim(at(tt.now), true).n; got != tt.want {
			t.Errorf("%s: %d, not %d", tt.name, got, tt.want)
		}
	}
	// What is in proportion stays, and nothing is said to have changed.
	s = full()
	s.reclaim(at(time.Second), false)
	s.leased += 100
	if got := s.reclaim(at(20*time.Second), false).n; got != 0 || !s.exhausted || s.low.Load() != 9 || s.left.Load() != 10 {
		t.Errorf("gives back %d under traffic", got)
	}
}

func TestALeaseIsWhatIsDue(t *testing.T) {
	for _, tt := range []struct {
		name    string
		granted int64 // before
		request request
		want    grant
		reads   int64
	}{
		{"blind, what is wanted", 0, request{need: 2, want: 7, blind: true}, grant{leased: 7, left: 93, before: -1}, 0},
		{"blind, what is needed", 0, request{need: 9, want: 7, blind: true}, grant{leased: 9, left: 91, before: -1}, 0},
		{"blind for one, and nothing is left", 100, request{need: 1, blind: true}, grant{before: -1}, 0},
		{"blind for two, and one is left", 99, request{need: 2, blind: true}, grant{leased: 1, before: 99}, 1},
		{"what is wanted, up to a share", 20, request{need: 1, want: 90}, grant{leased: 10, left: 70, before: 20}, 1},
		{"what is wanted, below it", 20, request{need: 1, want: 5}, grant{leased: 5, left: 75, before: 20}, 1},
		{"what is needed, above it", 20, request{need: 30, want: 5}, grant{leased: 30, left: 50, before: 20}, 1},
		{"all that is left", 95, request{need: 30}, grant{leased: 5, before: 95}, 1},
		{"nothing where nothing is left", 100, request{need: 3}, grant{before: 100}, 1},
		{"nothing where more is granted than there is", 120, request{need: 3}, grant{before: 120}, 1},
		{"nothing where nothing is wanted", 20, request{want: -5}, grant{left: 80, before: 20}, 1},
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
				t.Errorf("got %+v after %d reads, %v", got, table.reads.Load(), err)
			}
			if then, err := pl.ledger.granted(t.Context(), p); err != nil || then != tt.granted+tt.want.leased {
				t.Errorf("then %d are granted, %v", then, err)
			}
		})
	}
}

func TestTheFirstSliceIsGuessedFromThePeriodBefore(t *testing.T) {
	next := period{name: "a", from: time.Minute.Milliseconds(), to: 2 * time.Minute.Milliseconds()}
	for spent, want := range map[int64]int64{0: 0, 40: 10, 400: 100, 900: 125} {
		before := newSlot(aMinute(), 1000, 0)
		before.leased = spent
		sh := shard{slots: map[slotKey]*slot{{aMinute(), 1000}: before}}
		if got := sh.first(slotKey{next, 1000}); got != want {
			t.Errorf("after %d spent: %d, not %d", spent, got, want)
		}
		if got := sh.first(slotKey{next, 999}); got != 0 {
			t.Errorf("of another limit: %d", got)
		}
	}
}

func TestRefundsGoInBatchesOfDifferentAllowances(t *testing.T) {
	refunds := func(names ...string) (out []refund) {
		for _, name := range names {
			p := aMinute()
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
		{"different ones", refunds("a", "b"), 0, 2, 0},
		{"one twice", refunds("a", "b", "a"), 0, 2, 1},
		{"more than a transaction holds", refunds(many...), 0, refundsPerCommit, 5},
		{"as many as it holds", refunds(many[:refundsPerCommit]...), 0, refundsPerCommit, 0},
		{"just before their end", refunds("a"), time.Minute - 1, 1, 0},
		{"at their end", refunds("a"), time.Minute, 0, 0},
	} {
		if batch, rest := nextBatch(tt.due, at(tt.now)); len(batch) != tt.batch || len(rest) != tt.rest {
			t.Errorf("%s: %d and %d to come", tt.name, len(batch), len(rest))
		}
	}
}

func TestWhatIsOwedIsBounded(t *testing.T) {
	pl := newBackend().open(1)
	for range maxPendingReturns + 5 {
		pl.enqueueReturn(aMinute(), 1)
	}
	if n := len(pl.pending.refunds); n != maxPendingReturns {
		t.Errorf("%d are owed", n)
	}
	pl = newBackend().open(1)
	pl.enqueueReturn(aMinute(), 0)
	pl.enqueueReturn(aMinute(), -1)
	if n := len(pl.pending.refunds); n != 0 {
		t.Errorf("%d returns of nothing", n)
	}
}

func TestThoseInUseAreNotRemoved(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *slot)
		want   bool
	}{
		"idle": {func(*slot) {}, true}, "a lease on its way": {func(s *slot) { s.filling = true }, false},
		"a caller waits":       {func(s *slot) { s.queue = waiting(0, 1).queue }, false},
		"something is counted": {func(s *slot) { s.ahead = 1 }, false},
	} {
		pl, s := newBackend().open(1), newSlot(aMinute(), 100, 0)
		s.leased = 5
		s.tokens.Store(5)
		tt.change(s)
		if got := pl.remove(s); got != tt.want || s.evicted != tt.want || (s.tokens.Load() == 0) != tt.want || len(pl.pending.refunds) == 1 != tt.want {
			t.Errorf("%s: removed %v, %d held", name, got, s.tokens.Load())
		}
	}
}
