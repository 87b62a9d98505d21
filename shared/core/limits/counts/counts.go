// Package counts enforces the limits of accounts (package limits). It counts exactly how many things of a kind
// an account has, in the transaction that creates a thing. It also stores an account's own value of a limit.
//
// The record of an account and a limit has a bound: the account never has more things than the bound. A change
// that creates n things raises the bound by n in the same transaction, if the bound then does not exceed the
// limit. A change that deletes things does not change the bound. If the bound would exceed the limit, the things
// themselves are counted and the bound is set to their number. The same happens if there is no bound, for example
// after an update from a release without limits. It also happens if the bound is older than a day, because such a
// release may have run next to this one and created things without raising the bound. So a limit is exact in both
// directions: no change creates things beyond it, and the account has capacity again as soon as something is deleted.
// Deletions, cascades and sweeps do not have to know about limits, and there is nothing to repair after a process was
// killed. The cost: one read and one more item in the transaction for each thing that is created, and a count of
// the things when the limit is near. The alternatives with their costs are in decision 0062 (docs/decisions).
//
// A count is not a snapshot, but that does not matter. It begins after the record was read, and every transaction that
// creates something changes the record's Revision. So the commit after a count succeeds only if nothing was created meanwhile.
//
// The package does not limit rates (package allowance does), and it does not know
// the things that it counts: the service that owns the things provides the count.
package counts

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
)

// limitPrefix is the key prefix of the state of accounts' limits (record). Each account has
// one partition, with a record for each limit by the limit's name. A change that creates
// things reads one record. The command that lists limits reads all records of an account.
const limitPrefix store.KeyPrefix = "account-limits"

func partition(accountID string) string { return limitPrefix.Partition(accountID) }

// record is the state of one limit of an account. It has no id
// and no version, because the writes have their own conditions.
type record struct {
	store.UnknownAttributes

	// Own is the account's own value. 0 means that the installation's value applies.
	Own int64 `dynamodbav:"own,omitempty"`
	// Bound is at least the number of existing things. It is unknown if CountedOn is zero.
	// For a Daily limit it is the number of things on the day that begins at CountedOn.
	Bound int64 `dynamodbav:"bound,omitempty"`
	// Revision counts the changes of Bound.
	Revision int64 `dynamodbav:"turn,omitempty"`
	// CountedOn is when Bound was last counted.
	CountedOn time.Time `dynamodbav:"countedOn,omitempty"`
}

// maxBoundAge is how long a bound is used before the things are counted again.
// After an update, the processes of a release without limits end sooner than this.
const maxBoundAge = 24 * time.Hour

// inProgressRetryAfter is the Retry-After at an InProgress limit: about the time until one of the things ends.
const inProgressRetryAfter = 10 * time.Second

// Counts manages the limits of an installation's accounts. It is safe for concurrent use.
type Counts struct {
	table  *store.Table
	now    func() time.Time
	values limits.Values
	rates  *allowance.Rates

	mu    sync.Mutex
	cache map[store.Key]cachedValue
}

// Open returns the Counts of an installation.
func Open(p installation.Parts) *Counts {
	return &Counts{table: p.Table, now: p.Now, values: p.Config.Limits, rates: p.Rates, cache: map[store.Key]cachedValue{}}
}

// Counter is the counter for a limit of an account, for one attempt
// of a change. Load its ReadRequest first, then call Reserve.
type Counter struct {
	limit limits.Limit
	key   store.Key
	now   time.Time
	// value is the installation's value of the limit.
	value  int64
	record record
	// rates limits the counts when the account is at its limit; nil means no limit.
	rates *allowance.Rates
}

// NewCounter returns the Counter of an account's limit.
func (c *Counts) NewCounter(accountID string, l limits.Limit) *Counter {
	return &Counter{
		limit: l, key: store.KeyIn(partition(accountID), l.Name), now: c.now(), value: c.values.Get(l),
		rates: c.rates,
	}
}

// Load returns the Counter of an account's limit, and loads its ReadRequest.
func (c *Counts) Load(ctx context.Context, accountID string, l limits.Limit) (*Counter, error) {
	counter := c.NewCounter(accountID, l)
	if err := c.table.Load(ctx, counter.ReadRequest()); err != nil {
		return nil, fmt.Errorf("read the limit %s of an account: %w", l.Name, err)
	}
	return counter, nil
}

// ReadRequest returns the read request of the Counter. Load it before you call the other methods.
func (c *Counter) ReadRequest() *store.ReadRequest {
	c.record = record{}
	return store.Get(c.key, &c.record).Unchecked("the write of Reserve has its own conditions")
}

// Max returns the limit's value for the account.
func (c *Counter) Max() int64 {
	if c.record.Own > 0 {
		return c.record.Own
	}
	return c.value
}

// Capacity returns the number of things that can certainly be created without a count. It is 0 if the bound is unknown.
func (c *Counter) Capacity() int64 {
	if !c.boundKnown() {
		return 0
	}
	return max(c.Max()-c.record.Bound, 0)
}

// WithinLimit reports whether the account certainly does not exceed its limit.
func (c *Counter) WithinLimit() bool { return c.boundKnown() && c.record.Bound <= c.Max() }

// boundKnown reports whether the bound can be used. It must have been counted less than
// maxBoundAge ago. The bound of a Daily limit must be of this day or the next day.
func (c *Counter) boundKnown() bool {
	if c.limit.Kind == limits.Daily {
		// The clock of another process may already show the next day, but not a later one. Without
		// this check, a bound from years ahead would block an account's deployments for years.
		ahead := c.record.CountedOn.Sub(c.day())
		return ahead >= 0 && ahead <= 24*time.Hour
	}
	return !c.record.CountedOn.IsZero() && c.now.Sub(c.record.CountedOn).Abs() < maxBoundAge
}

// day returns the start of the current day, UTC.
func (c *Counter) day() time.Time { return c.now.UTC().Truncate(24 * time.Hour) }

// Check returns a fault if an account with count things may not have n more. It is for services that
// count the things in a record, and whose commit depends on that record. Fault: the limit's refusal.
func (c *Counter) Check(count, n int64) error {
	if count+n > c.Max() {
		return c.limit.Refusal(count, c.Max(), 0)
	}
	return nil
}

// Reserve returns the write that must be in the transaction that creates n things, within
// store.Table.RunInTx. If n is 0, nothing is created, and Reserve refuses if the account exceeds its limit.
// count returns the number of existing things. It is called only if the bound would exceed the limit or is
// unknown, and is nil for a Daily limit. Faults: the limit's refusal if n more things would exceed the
// limit; Throttled if the account is at its limit and its things were counted too often in this second.
func (c *Counter) Reserve(
	ctx context.Context, n int64, count func(ctx context.Context) (int64, error),
) (store.Write, error) {
	bound, own := store.At("bound"), store.At("own")
	ownUnchanged := store.Lacks(own)
	if c.record.Own > 0 {
		ownUnchanged = store.Equal(own, c.record.Own)
	}
	nextRevision := store.Add(store.At("turn"), 1)
	known := c.boundKnown()
	if known && c.record.Bound+n <= c.Max() {
		return store.Update(c.key, store.Add(bound, n), nextRevision).If(ownUnchanged).
			If(store.Equal(store.At("countedOn"), c.record.CountedOn)).
			If(store.AtMost(bound, c.Max()-n)).Else(store.ErrStale), nil
	}
	var existing int64
	countedOn := store.Instant(c.now)
	if c.limit.Kind == limits.Daily {
		if countedOn = c.day(); known {
			existing, countedOn = c.record.Bound, c.record.CountedOn
		}
	} else {
		if known {
			if err := c.allowCount(ctx); err != nil {
				return store.Write{}, err
			}
		}
		var err error
		if existing, err = count(ctx); err != nil {
			return store.Write{}, fmt.Errorf("count the %s of an account: %w", c.limit.Plural, err)
		}
	}
	if existing+n > c.Max() {
		after := countedOn.Add(24 * time.Hour).Sub(c.now)
		if c.limit.Kind == limits.InProgress {
			after = inProgressRetryAfter
		}
		return store.Write{}, c.limit.Refusal(existing, c.Max(), after)
	}
	revisionUnchanged := store.Lacks(store.At("turn"))
	if c.record.Revision > 0 {
		revisionUnchanged = store.Equal(store.At("turn"), c.record.Revision)
	}
	return store.Upsert(c.key, store.Set(bound, existing+n), store.Set(store.At("countedOn"), countedOn), nextRevision).
		If(ownUnchanged).If(revisionUnchanged).Else(store.ErrStale), nil
}

// maxCountsPerSecond is the maximum number of counts per second, over all processes,
// for one limit of an account that is at the limit. A count reads all things. An
// account that is refused again and again must not occupy the table and the functions.
const maxCountsPerSecond = 10

// allowCount reserves one of the maxCountsPerSecond counts of this second. Fault: Throttled if all are reserved.
func (c *Counter) allowCount(ctx context.Context) error {
	if c.rates == nil {
		return nil
	}
	d, err := c.rates.Take(ctx, "rate/"+c.key.PK+"/"+c.key.SK, maxCountsPerSecond)
	switch {
	case err != nil:
		return fmt.Errorf("bound the counts of an account: %w", err)
	case !d.Admitted:
		f := fault.New(fault.Throttled, "The account is at its limit %s, and is asked %d times a second at most whether "+
			"that has changed. Repeat the request after the time in Retry-After.",
			c.limit.Name, maxCountsPerSecond)
		f.RetryAfter = d.RetryAfter
		return f
	}
	return nil
}

// Release returns the write that lowers the bound by n things that were reserved and not created. The commit of
// the write returns store.ErrStale if the bound was changed after it was read, other than by Release of this Counter.
func (c *Counter) Release(n int64) store.Write {
	defer func() { c.record.Revision++ }()
	return store.Update(c.key, store.Add(store.At("bound"), -n), store.Add(store.At("turn"), 1)).
		If(store.Equal(store.At("turn"), c.record.Revision)).Else(store.ErrStale)
}

// CapacityCheck is for a service that counts its things in a record. If is the condition for
// the write that counts one more thing. Else is the refusal if the condition does not hold.
type CapacityCheck struct {
	If   store.Condition
	Else error
}

// CheckCapacity returns the check for one more thing. The attribute count of the record at
// recordKey must be the number of existing things. If the limit is reached, CheckCapacity
// succeeds and the write fails, so that other errors of the request are reported first.
func (c *Counts) CheckCapacity(
	ctx context.Context, accountID string, l limits.Limit, recordKey store.Key,
) (CapacityCheck, error) {
	var record struct {
		Count int64 `dynamodbav:"count"`
	}
	counter := c.NewCounter(accountID, l)
	if err := c.table.Load(ctx, counter.ReadRequest(),
		store.Get(recordKey, &record).Unchecked("the write that counts asks for it")); err != nil {
		return CapacityCheck{}, fmt.Errorf("read how many %s an account has: %w", l.Plural, err)
	}
	count := store.At("count")
	return CapacityCheck{
		store.Or(store.Lacks(count), store.Less(count, counter.Max())),
		l.Refusal(max(record.Count, counter.Max()), counter.Max(), 0),
	}, nil
}

// IsForbidden reports whether an error is a Forbidden fault, such as Reserve's refusal for a Total limit.
func IsForbidden(err error) bool { return fault.Is(err, fault.Forbidden) }

// valueTTL is how long a value is used before it is read again.
const valueTTL = 30 * time.Second

// maxCachedValues is the maximum number of values that a process remembers, about 100 bytes each.
const maxCachedValues = 16_384

type cachedValue struct {
	limit  int64
	readAt time.Time
}

// Value returns the value of an account's limit from a cache. The value is at most valueTTL old.
func (c *Counts) Value(ctx context.Context, accountID string, l limits.Limit) (int64, error) {
	key, now := store.KeyIn(partition(accountID), l.Name), c.now()
	c.mu.Lock()
	cached, ok := c.cache[key]
	c.mu.Unlock()
	if ok && now.Sub(cached.readAt).Abs() < valueTTL {
		return cached.limit, nil
	}
	counter, err := c.Load(store.WithoutReadSet(ctx, "it is no part of what a change is decided from"), accountID, l)
	if err != nil {
		return 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	bounded.Put(c.cache, key, cachedValue{counter.Max(), now.Round(0)}, maxCachedValues)
	return counter.Max(), nil
}

// Status is the state of a limit for operators.
type Status struct {
	limits.Limit
	// Value is the value that applies to the account. Own is whether it is the account's own value.
	Value int64
	Own   bool
	// Bound is an upper bound for the number of existing things. It is -1 if it is unknown without a count.
	Bound int64
}

// List returns the state of the limits that an account can have its own value for.
func (c *Counts) List(ctx context.Context, accountID string) ([]Status, error) {
	var out []Status
	var counters []*Counter
	var requests []*store.ReadRequest
	for _, l := range limits.PerAccount() {
		counter := c.NewCounter(accountID, l)
		counters, requests = append(counters, counter), append(requests, counter.ReadRequest())
	}
	if err := c.table.Load(ctx, requests...); err != nil {
		return nil, fmt.Errorf("read the limits of an account: %w", err)
	}
	for _, counter := range counters {
		s := Status{Limit: counter.limit, Value: counter.Max(), Own: counter.record.Own > 0, Bound: -1}
		switch {
		case counter.boundKnown():
			s.Bound = counter.record.Bound
		case counter.limit.Kind == limits.Daily:
			s.Bound = 0 // there is no record for a day without things
		}
		out = append(out, s)
	}
	return out, nil
}

// Set sets an account's own value of a limit, or resets it to the installation's value if value is 0. more are further
// writes for the same commit. Set does not change the account's things. Fault: Invalid for a value that the limit
// cannot have.
func (c *Counts) Set(ctx context.Context, accountID string, l limits.Limit, value int64, more ...store.Write) error {
	change := store.Remove(store.At("own"))
	if value != 0 {
		if err := l.Check(value); err != nil {
			return err
		}
		change = store.Set(store.At("own"), value)
	}
	ctx = store.WithoutReadSet(ctx, "the value is the operator's, whatever it was")
	write := store.Upsert(store.KeyIn(partition(accountID), l.Name), change)
	if err := c.table.Commit(ctx, append(more, write)...); err != nil {
		return fmt.Errorf("set a limit of an account: %w", err)
	}
	return nil
}
