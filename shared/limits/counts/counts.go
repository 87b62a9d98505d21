// Package counts keeps the limits of accounts (package limits): how many of a thing an account has, exactly, in the
// transaction that makes one, and what an account's own value of a limit is.
//
// A record of an account and a limit has a bound: the account never has more of the things than that. What makes n of them
// raises the bound by n in the same transaction, as long as it does not pass the limit; what removes some leaves it alone. A
// bound that would pass the limit is counted anew, from the things themselves, and so is one that is not there, as after an
// update from a release without limits, or older than a day, after which binaries of such a release beside this one are
// gone. So a limit is exact in both directions (never one more, and room as soon as something is gone), nothing that removes
// things knows of limits, no cascade, no sweep, and there is nothing to repair after a process was killed. What it costs: one
// read and one more item of a transaction for each thing that is made, and a count of them where the limit is near. The
// alternatives with what they would have cost are in docs/decisions/0062-bounds-are-counted-anew.md.
//
// That a count is no snapshot does not matter: it begins after the record was read, and every transaction that makes
// something changes the record's turn, so that the commit after a count holds only if nothing was made meanwhile.
//
// What it is not: the limit of a rate (package allowance), nor does it know what is counted: the owner of the things
// says how.
package counts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/bounded"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
)

// limitSpace has what is known of an account's limits (record): those of an account are a
// partition, by the limits' names. What makes things reads one of them, the command that
// lists limits all.
const limitSpace store.Space = "account-limits"

func partition(accountID string) string { return limitSpace.Partition(accountID) }

// record is an account and a limit. It has neither an id nor a version: writes say themselves
// what they depend on.
type record struct {
	store.Rest

	// Own is the account's own value, 0 for that of the installation.
	Own int64 `dynamodbav:"own,omitempty"`
	// Bound is more than or as much as there is; nothing is known without CountedOn. Of a
	// Daily limit it is what there was on the day CountedOn begins with.
	Bound int64 `dynamodbav:"bound,omitempty"`
	// Turn counts what has become of Bound.
	Turn int64 `dynamodbav:"turn,omitempty"`
	// CountedOn is when Bound was last counted.
	CountedOn time.Time `dynamodbav:"countedOn,omitempty"`
}

// believed is how long a bound is gone by before it is counted anew: longer than a release
// without limits runs beside this one.
const believed = 24 * time.Hour

// soon is how long it takes about until something UnderWay has ended.
const soon = 10 * time.Second

// Counts are the limits of an installation's accounts. It is safe for concurrent use.
type Counts struct {
	table  *store.Table
	now    func() time.Time
	values limits.Values
	rates  *allowance.Rates

	mu    sync.Mutex
	known map[store.Key]value
}

// Open makes the Counts of an installation.
func Open(p installation.Parts) *Counts {
	return &Counts{table: p.Table, now: p.Now, values: p.Config.Limits, rates: p.Rates, known: map[store.Key]value{}}
}

// Tally is a limit of an account, for one attempt of a change: load Wanted, then Take.
type Tally struct {
	limit limits.Limit
	key   store.Key
	now   time.Time
	// value is the installation's.
	value  int64
	record record
	// rates bound the counts at the limit, nil for no bound.
	rates *allowance.Rates
}

// Of prepares the tally of an account's limit.
func (c *Counts) Of(accountID string, l limits.Limit) *Tally {
	return &Tally{limit: l, key: store.In(partition(accountID), l.Name), now: c.now(), value: c.values.Of(l), rates: c.rates}
}

// Load is Of, loaded.
func (c *Counts) Load(ctx context.Context, accountID string, l limits.Limit) (*Tally, error) {
	t := c.Of(accountID, l)
	if err := c.table.Load(ctx, t.Wanted()); err != nil {
		return nil, fmt.Errorf("read the limit %s of an account: %w", l.Name, err)
	}
	return t, nil
}

// Wanted is what has to be loaded before anything else.
func (t *Tally) Wanted() *store.Wanted {
	t.record = record{}
	return store.Want(t.key, &t.record).Unchecked("the write of what is made says itself what it depends on")
}

// Most is the limit's value for the account.
func (t *Tally) Most() int64 {
	if t.record.Own > 0 {
		return t.record.Own
	}
	return t.value
}

// Room is how much can be taken without a count, at least: 0 where nothing is known.
func (t *Tally) Room() int64 {
	if !t.known() {
		return 0
	}
	return max(t.Most()-t.record.Bound, 0)
}

// Holds reports whether the account is known to have no more than its limit.
func (t *Tally) Holds() bool { return t.known() && t.record.Bound <= t.Most() }

// known reports whether the bound is one to go by.
func (t *Tally) known() bool {
	if t.limit.Kind == limits.Daily {
		// It may be tomorrow already by another clock, but no later day: one that is years
		// ahead would end an account's deployments for years.
		ahead := t.record.CountedOn.Sub(t.day())
		return ahead >= 0 && ahead <= 24*time.Hour
	}
	return !t.record.CountedOn.IsZero() && t.now.Sub(t.record.CountedOn).Abs() < believed
}

// day is when the current day begins, UTC.
func (t *Tally) day() time.Time { return t.now.UTC().Truncate(24 * time.Hour) }

// Check refuses n more of the things where there are count of them: for what its owner counts
// in a record that its commit depends on. Fault: the limit's refusal.
func (t *Tally) Check(count, n int64) error {
	if count+n > t.Most() {
		return t.limit.Refusal(count, t.Most(), 0)
	}
	return nil
}

// Take gives the write that goes with the making of n things, in their transaction, within
// store.Table.Again. With n of 0 nothing is made, and the account is refused where it has more
// than its limit. count says how many there are; it is asked only where the bound does not
// tell, and nil for a Daily limit. Faults: the limit's refusal, where there is no room for n;
// Throttled, where the account is at its limit and was counted too often in this second.
func (t *Tally) Take(ctx context.Context, n int64, count func(ctx context.Context) (int64, error)) (store.Write, error) {
	bound, own := store.At("bound"), store.At("own")
	asRead := store.Lacks(own)
	if t.record.Own > 0 {
		asRead = store.Equal(own, t.record.Own)
	}
	turn := store.Add(store.At("turn"), 1)
	known := t.known()
	if known && t.record.Bound+n <= t.Most() {
		return store.Update(t.key, store.Add(bound, n), turn).If(asRead).
			If(store.Equal(store.At("countedOn"), t.record.CountedOn)).
			If(store.AtMost(bound, t.Most()-n)).Else(store.ErrStale), nil
	}
	var there int64
	countedOn := store.Instant(t.now)
	if t.limit.Kind == limits.Daily {
		if countedOn = t.day(); known {
			there, countedOn = t.record.Bound, t.record.CountedOn
		}
	} else {
		if known {
			if err := t.mayCount(ctx); err != nil {
				return store.Write{}, err
			}
		}
		var err error
		if there, err = count(ctx); err != nil {
			return store.Write{}, fmt.Errorf("count the %s of an account: %w", t.limit.Things, err)
		}
	}
	if there+n > t.Most() {
		after := countedOn.Add(24 * time.Hour).Sub(t.now)
		if t.limit.Kind == limits.UnderWay {
			after = soon
		}
		return store.Write{}, t.limit.Refusal(there, t.Most(), after)
	}
	nothingMade := store.Lacks(store.At("turn"))
	if t.record.Turn > 0 {
		nothingMade = store.Equal(store.At("turn"), t.record.Turn)
	}
	return store.Upsert(t.key, store.Set(bound, there+n), store.Set(store.At("countedOn"), countedOn), turn).
		If(asRead).If(nothingMade).Else(store.ErrStale), nil
}

// countsASecond is how often a limit of an account is counted at most while the account is at it, by all processes: a count reads
// all there is, and an account that is refused again and again is not to be what the table and the functions do.
const countsASecond = 10

// mayCount refuses a count beyond countsASecond. Fault: Throttled.
func (t *Tally) mayCount(ctx context.Context) error {
	if t.rates == nil {
		return nil
	}
	d, err := t.rates.Take(ctx, "rate/"+t.key.PK+"/"+t.key.SK, countsASecond)
	switch {
	case err != nil:
		return fmt.Errorf("bound the counts of an account: %w", err)
	case !d.Admitted:
		f := fault.New(fault.Throttled, "The account is at its limit %s, and is asked %d times a second at most whether that has changed. Repeat the request after the time in Retry-After.",
			t.limit.Name, countsASecond)
		f.RetryAfter = d.RetryAfter
		return f
	}
	return nil
}

// GiveBack is the write that goes with the return of n that were taken and not used. It
// fails as stale where anything else has become of the bound, but for what this Tally has given back.
func (t *Tally) GiveBack(n int64) store.Write {
	defer func() { t.record.Turn++ }()
	return store.Update(t.key, store.Add(store.At("bound"), -n), store.Add(store.At("turn"), 1)).
		If(store.Equal(store.At("turn"), t.record.Turn)).Else(store.ErrStale)
}

// Room is what one more of the things depends on that their owner counts itself: the condition of the write that counts it, and
// the refusal where that does not hold.
type Room struct {
	If   store.Condition
	Else error
}

// Beside gives the room for one more of the things that are counted, up and down, in the attribute count of a record of their
// owner's. Where there is none, the write says so, and not Beside, so that what else is wrong is told before.
func (c *Counts) Beside(ctx context.Context, accountID string, l limits.Limit, counted store.Key) (Room, error) {
	var of struct {
		Count int64 `dynamodbav:"count"`
	}
	t := c.Of(accountID, l)
	if err := c.table.Load(ctx, t.Wanted(), store.Want(counted, &of).Unchecked("the write that counts asks for it")); err != nil {
		return Room{}, fmt.Errorf("read how many %s an account has: %w", l.Things, err)
	}
	count := store.At("count")
	return Room{store.Or(store.Lacks(count), store.Less(count, t.Most())), l.Refusal(max(of.Count, t.Most()), t.Most(), 0)}, nil
}

// IsRefusal reports whether an error is what Take refuses a Kept limit by.
func IsRefusal(err error) bool { return fault.Is(err, fault.Forbidden) }

// learned is how long a value is gone by before it is read again.
const learned = 30 * time.Second

// maxKnown bounds the values that a process remembers, some 100 bytes each.
const maxKnown = 16_384

type value struct {
	most int64
	read time.Time
}

// Value is that of an account's limit as it was at most half a minute ago, for what asks often.
func (c *Counts) Value(ctx context.Context, accountID string, l limits.Limit) (int64, error) {
	key, now := store.In(partition(accountID), l.Name), c.now()
	c.mu.Lock()
	known, there := c.known[key]
	c.mu.Unlock()
	if there && now.Sub(known.read).Abs() < learned {
		return known.most, nil
	}
	t, err := c.Load(store.Undecided(ctx, "it is no part of what a change is decided from"), accountID, l)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	bounded.Put(c.known, key, value{t.Most(), now.Round(0)}, maxKnown)
	return t.Most(), nil
}

// Status is a limit as whoever runs the installation sees it.
type Status struct {
	limits.Limit
	// Value is what holds for the account, Own whether it is the account's own.
	Value int64
	Own   bool
	// Bound is the most that there are, -1 where that is not known without a count.
	Bound int64
}

// List gives those limits of an account that it may have its own value of.
func (c *Counts) List(ctx context.Context, accountID string) ([]Status, error) {
	var out []Status
	var tallies []*Tally
	var wanted []*store.Wanted
	for _, l := range limits.Own() {
		t := c.Of(accountID, l)
		tallies, wanted = append(tallies, t), append(wanted, t.Wanted())
	}
	if err := c.table.Load(ctx, wanted...); err != nil {
		return nil, fmt.Errorf("read the limits of an account: %w", err)
	}
	for _, t := range tallies {
		s := Status{Limit: t.limit, Value: t.Most(), Own: t.record.Own > 0, Bound: -1}
		switch {
		case t.known():
			s.Bound = t.record.Bound
		case t.limit.Kind == limits.Daily:
			s.Bound = 0 // of a day without any there is no record
		}
		out = append(out, s)
	}
	return out, nil
}

// Set gives an account a value of its own of a limit, or 0 for that of the installation, in
// one commit with more writes. It changes nothing that the account has. Fault: Invalid for a
// value that the limit cannot have.
func (c *Counts) Set(ctx context.Context, accountID string, l limits.Limit, value int64, with ...store.Write) error {
	change := store.Remove(store.At("own"))
	if value != 0 {
		if err := l.Check(value); err != nil {
			return err
		}
		change = store.Set(store.At("own"), value)
	}
	ctx = store.Undecided(ctx, "the value is the operator's, whatever it was")
	write := store.Upsert(store.In(partition(accountID), l.Name), change)
	if err := c.table.Commit(ctx, append(with, write)...); err != nil {
		return fmt.Errorf("set a limit of an account: %w", err)
	}
	return nil
}
