package slots_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/slots"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// rivals are others who have the slot that is written next for an hour before it is, so many times. It counts writes and queries, and no query is
// answered while blind.
type rivals struct {
	*memory.Backend
	table  *store.Table // of Backend
	left   int
	writes []store.Key
	looks  int
	blind  error
}

func newRivals(t *testing.T) *rivals {
	m := memory.New()
	return &rivals{Backend: m, table: storetest.Over(t, m)}
}

func (r *rivals) Transact(ctx context.Context, token string, writes []store.Write) error {
	key := writes[0].Key
	r.writes = append(r.writes, key)
	if r.left > 0 {
		r.left--
		if err := r.table.Commit(store.Undecided(ctx, "a rival"), store.Upsert(key,
			store.Set(store.At("holder"), "a rival"), store.Set(store.At("until"), storetest.Epoch.Add(time.Hour).UnixMilli()),
		)); err != nil {
			return err
		}
	}
	return r.Backend.Transact(ctx, token, writes)
}

func (r *rivals) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	r.looks++
	if r.blind != nil {
		return nil, "", r.blind
	}
	return r.Backend.Query(ctx, q)
}

func (r *rivals) slots(t *testing.T, now func() time.Time, most int64) *slots.Slots {
	return open(storetest.Over(t, r, storetest.Clock(now)), now, most)
}

func still() time.Time { return storetest.Epoch }

// taking is Take, for who is answered either a slot or why there is none.
func taking(t *testing.T, s *slots.Slots, account string, until time.Time) (func(context.Context) error, error) {
	t.Helper()
	giveBack, refusal, err := s.Take(t.Context(), account, until)
	if refusal != nil {
		return nil, refusal
	}
	return giveBack, err
}

// TestSlotThatOthersTakeMeanwhileIsSoughtAgain: seven times in a row somebody else is faster, and the account has the last one.
func TestSlotThatOthersTakeMeanwhileIsSoughtAgain(t *testing.T) {
	r := newRivals(t)
	s := r.slots(t, still, 8)
	r.left = 7
	giveBack, err := taking(t, s, "acme", still().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if tried := map[store.Key]bool{}; len(r.writes) != 8 {
		t.Errorf("%d slots were tried", len(r.writes))
	} else {
		for _, key := range r.writes {
			if tried[key] {
				t.Errorf("the slot %s was tried again, which another was seen to have", key.SK)
			}
			tried[key] = true
		}
	}
	if err := giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestWhoComeAtOnceTryDifferentSlots, at first and where theirs was taken: else each waits for all others.
func TestWhoComeAtOnceTryDifferentSlots(t *testing.T) {
	r := newRivals(t)
	s := r.slots(t, still, 1_000)
	first, second := map[string]bool{}, map[string]bool{}
	for i := range 32 {
		r.left, r.writes = 1, nil
		if _, err := taking(t, s, fmt.Sprint("account-", i), still().Add(time.Minute)); err != nil {
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
			t.Errorf("of 1,000 slots the numbers %d and %d were tried", from, to)
		}
	}
	if len(first) < 8 || len(second) < 8 {
		t.Errorf("32 accounts try %d slots at first, and %d then", len(first), len(second))
	}
}

// TestRefusalIsRememberedForASecond, that of one account and of no other, and for a thousand accounts.
func TestRefusalIsRememberedForASecond(t *testing.T) {
	now := storetest.Epoch
	clock := func() time.Time { return now }
	r := newRivals(t)
	s := r.slots(t, clock, 1)
	account := func(i int) string { return fmt.Sprint("account-", i) }
	const most = 1_000
	var giveBack func(context.Context) error
	for i := range most + 1 {
		var err error
		if giveBack, err = taking(t, s, account(i), now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(n int) (looks int) {
		t.Helper()
		r.looks = 0
		for i := range n {
			_, err := taking(t, s, account(i), now.Add(time.Hour))
			if f, ok := errors.AsType[*fault.Fault](err); !ok || f.Kind != fault.Throttled || f.RetryAfter != time.Second {
				t.Fatalf("an account that has none left is answered %v", err)
			}
		}
		return r.looks
	}
	if n := refused(most); n != most {
		t.Fatalf("%d accounts that nothing is known of have looked %d times", most, n)
	}
	if err := giveBack(t.Context()); err != nil { // of another account
		t.Fatal(err)
	}
	now = now.Add(999 * time.Millisecond)
	if n := refused(most); n != 0 {
		t.Errorf("within the second they have looked %d times", n)
	}
	if _, err := taking(t, s, account(most), now.Add(time.Hour)); err != nil {
		t.Errorf("an account that has given its slot back is answered %v", err)
	}
	now = now.Add(time.Millisecond)
	if n := refused(most); n != most {
		t.Errorf("after the second they have looked %d times", n)
	}
	if refused(most + 1); refused(most+1) == 0 {
		t.Errorf("more than %d accounts are remembered", most)
	}
}

// TestSlotsThatCannotBeReadAreNotFull: a failure is no refusal, neither now nor within the second.
func TestSlotsThatCannotBeReadAreNotFull(t *testing.T) {
	r := newRivals(t)
	s := r.slots(t, still, 2)
	r.left, r.blind = 1, errLost
	if _, err := taking(t, s, "acme", still().Add(time.Minute)); !errors.Is(err, errLost) {
		t.Fatalf("the account is answered %v", err)
	}
	r.blind = nil
	if _, err := taking(t, s, "acme", still().Add(time.Minute)); err != nil {
		t.Errorf("with a slot that is free it is answered %v", err)
	}
}

// TestGivingBackThatFailsIsTold, and may be repeated.
func TestGivingBackThatFailsIsTold(t *testing.T) {
	lost := false
	backend := &flaky{Backend: memory.New(), fails: func() (bool, bool) { return lost, false }}
	s := open(storetest.Over(t, backend), still, 1)
	giveBack, err := taking(t, s, "acme", still().Add(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	lost = true
	if err := giveBack(t.Context()); !errors.Is(err, errLost) {
		t.Errorf("a slot that stays taken is given back with %v", err)
	}
	lost = false
	if err := giveBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := taking(t, s, "acme", still().Add(time.Minute)); err != nil {
		t.Errorf("the slot is still taken: %v", err)
	}
}

// untils are when the slots of a table end, and are removed.
func untils(t *testing.T, m *memory.Backend) (until, ttl []time.Time) {
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

// TestSlotIsFreeFromItsVeryEndOn, whether it is tried at once or found: who finds one that it then cannot take would go round in circles.
// Its record goes within a day.
func TestSlotIsFreeFromItsVeryEndOn(t *testing.T) {
	for range 32 {
		now := storetest.Epoch
		clock := func() time.Time { return now }
		r := newRivals(t)
		s := r.slots(t, clock, 2)
		if _, err := taking(t, s, "acme", now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		until, ttl := untils(t, r.Backend)
		if ends := until[0].Sub(now); ends < time.Minute || ends > time.Minute+10*time.Second {
			t.Fatalf("a slot for a minute ends in %s", ends)
		}
		if stays := ttl[0].Sub(until[0]); stays < 0 || stays > 24*time.Hour {
			t.Fatalf("the record of a slot goes %s after its end", stays)
		}
		if _, err := taking(t, s, "acme", now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		now = until[0].Add(-time.Millisecond)
		if _, err := taking(t, r.slots(t, clock, 2), "acme", now.Add(time.Hour)); !fault.Is(err, fault.Throttled) {
			t.Fatalf("a millisecond before its end it is answered %v", err)
		}
		now, r.writes = until[0], nil
		if _, err := taking(t, s, "acme", now.Add(time.Hour)); err != nil || len(r.writes) > 2 {
			t.Fatalf("at its end it is answered %v, with %d tries", err, len(r.writes))
		}
	}
}

// TestLimitsHaveSlotsOfTheirOwn: what is counted by one limit takes no slot of another.
func TestLimitsHaveSlotsOfTheirOwn(t *testing.T) {
	table := storetest.New(t)
	for _, limit := range []limits.Limit{limits.FunctionStreams, limits.GatewayStreams} {
		s := slots.New(slots.Options{Table: table, Now: still, Most: 1, Limit: limit, Name: func() string { return limit.Name }})
		if _, err := taking(t, s, "acme", still().Add(time.Minute)); err != nil {
			t.Errorf("%s: %v", limit.Name, err)
		}
	}
}

// TestWhoHasMoreThanALoweredLimitKeepsThem, is told of those within it, and gets one when enough are given back.
func TestWhoHasMoreThanALoweredLimitKeepsThem(t *testing.T) {
	table := storetest.New(t)
	s := open(table, still, 4)
	var back []func(context.Context) error
	for range 4 {
		giveBack, err := taking(t, s, "acme", still().Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		back = append(back, giveBack)
	}
	if _, err := taking(t, open(table, still, 2), "acme", still().Add(time.Minute)); !fault.Is(err, fault.Throttled) ||
		!strings.Contains(err.Error(), "The account has 2 streams under way at the gateway's function, and its limit function-streams is 2.") {
		t.Errorf("one more than a lowered limit is answered %v", err)
	}
	for _, giveBack := range back {
		if err := giveBack(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := taking(t, open(table, still, 2), "acme", still().Add(time.Minute)); err != nil {
		t.Errorf("when all are given back: %v", err)
	}
}
