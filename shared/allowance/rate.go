package allowance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// Rates enforces limits of so many a second exactly, over any number of instances.
// A Pool would need a write for each instance in each second, which is one for
// each 12 requests where eight instances share a limit of 100. Here one record has
// the ten seconds of a block, and one write leases units of several of them.
//
// A second is one of the clock of the instance that admits: of all that instances
// admit under one and the same second, there is never one too many, however far
// apart their clocks are. The invariant and its reason are those of the package:
// units are granted by the record under the limit before they can be spent, and
// nobody takes them back. What an instance leased ahead and does not spend is lost to the
// others until the block ends: docs/decisions/0035-leases-over-several-seconds.md.
//
// It is safe for concurrent use; an instance has one.
type Rates struct {
	table *store.Table
	now   func() time.Time

	mu    sync.Mutex
	rates map[string]*rate
}

const (
	// blockSeconds is how many seconds share a record.
	blockSeconds = 10
	// maxRates bounds how many names are held at once, some 500 bytes each. What is
	// leased under one that is forgotten is lost until its block ends.
	maxRates = 16_384
	// rateTimeout is how long a lease may take.
	rateTimeout = 2 * time.Second
)

// seconds are numbers of units, for each second of a block.
type seconds [blockSeconds]int64

// NewRates makes Rates that hold nothing. now is the instance's clock.
func NewRates(table *store.Table, now func() time.Time) *Rates {
	return &Rates{table: table, now: now, rates: map[string]*rate{}}
}

// rate is what an instance holds and knows of one name.
type rate struct {
	mu    sync.Mutex
	limit int64
	// block is the second at which the current block begins.
	block int64
	// tokens are leased and unspent; left is what the record had left when it was last
	// seen, which only ever falls.
	tokens, left seconds
	// seen is whether the record has been looked at.
	seen bool

	// asked counts requests, admitted or not, by second, of this block and the one before.
	asked [2]seconds
	// waiting are those who wait for the lease that is under way, which is over when
	// leasing is closed; nil for none.
	waiting int64
	leasing chan struct{}

	failure  error // of the last lease, nil when it went well
	failedAt time.Time
}

// Take asks for one unit under a name, of which there are limit in each second. It
// answers from memory when it can, and otherwise waits for a lease. An error means
// that nobody can tell: the table did not answer, or ctx ended. Whoever asks does so before
// it does anything, and the faults say so.
func (rs *Rates) Take(ctx context.Context, name string, limit int64) (Decision, error) {
	r := rs.rate(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	for first := true; ; first = false {
		now := rs.now()
		i := r.turn(now.Unix(), limit)
		if first {
			r.asked[0][i]++
		}
		switch {
		case r.tokens[i] > 0:
			r.tokens[i]--
			return Decision{Admitted: true, Remaining: r.tokens[i] + r.left[i]}, nil
		case r.left[i] <= 0:
			return Decision{RetryAfter: max(now.Truncate(time.Second).Add(time.Second).Sub(now), time.Millisecond)}, nil
		case r.failure != nil && recent(r.failedAt, now, failurePause):
			return Decision{}, r.failure
		}
		r.waiting++
		err := rs.wait(ctx, name, r, i)
		r.waiting--
		if err != nil {
			return Decision{}, err
		}
	}
}

// wait returns when a lease has ended, that of another or its own. r is locked,
// and not meanwhile.
func (rs *Rates) wait(ctx context.Context, name string, r *rate, i int) error {
	if under := r.leasing; under != nil {
		r.mu.Unlock()
		defer r.mu.Lock()
		select {
		case <-under:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.leasing = make(chan struct{})
	q := r.request(i)
	r.mu.Unlock()
	// Others wait for it as well, and one that is given up halfway is lost.
	leasing, cancel := context.WithTimeout(context.WithoutCancel(ctx), rateTimeout)
	got, left, err := rs.lease(store.Undecided(leasing, "a lease has its own conditions"), name, q)
	cancel()
	r.mu.Lock()
	close(r.leasing)
	r.leasing = nil
	if r.failure = err; err != nil {
		r.failedAt = rs.now()
		return err
	}
	if q.block == r.block && q.limit == r.limit {
		r.seen = true
		for k := range got {
			r.tokens[k] += got[k]
			r.left[k] = min(r.left[k], left[k])
		}
	}
	return nil
}

// rate finds or makes what is held of a name.
func (rs *Rates) rate(name string) *rate {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.rates[name]
	if r == nil {
		for other := range rs.rates {
			if len(rs.rates) < maxRates {
				break
			}
			delete(rs.rates, other)
		}
		r = &rate{block: -1}
		rs.rates[name] = r
	}
	return r
}

// turn goes to a second and gives its place in its block. r is locked.
func (r *rate) turn(second, limit int64) int {
	i := second % blockSeconds
	if block := second - i; block != r.block || limit != r.limit {
		before := seconds{}
		if block == r.block+blockSeconds {
			before = r.asked[0]
		}
		r.block, r.limit, r.asked, r.tokens, r.seen = block, limit, [2]seconds{{}, before}, seconds{}, false
		for k := range r.left {
			r.left[k] = limit
		}
	}
	return int(i)
}

// steady is how many requests a second to expect here: the second largest number of
// this second and the three before. One busy second alone is a burst, for
// which nothing is leased ahead. r is locked.
func (r *rate) steady(i int) int64 {
	var lately [4]int64
	for back := range lately {
		switch at := i - back; {
		case at >= 0:
			lately[back] = r.asked[0][at]
		default:
			lately[back] = r.asked[1][at+blockSeconds]
		}
	}
	slices.Sort(lately[:])
	return lately[2]
}

// ask is what an instance wants of a record.
type ask struct {
	block, limit int64
	// i is the current second, need how many wait for units of it.
	i    int
	need int64
	// asked is how many were asked for in it, steady how many to expect in each.
	asked, steady int64
	// held and left are as the instance knows them, seen whether it has looked.
	held, left seconds
	seen       bool
}

func (r *rate) request(i int) ask {
	return ask{
		block: r.block, limit: r.limit, i: i, need: r.waiting, asked: r.asked[0][i], steady: r.steady(i),
		held: r.tokens, left: r.left, seen: r.seen,
	}
}

// plan says how many units of each second to lease when so many are left. With
// exact set, others were quicker: no more is taken of this second than is waited for.
func (q ask) plan(left seconds, exact bool) (n seconds) {
	now := q.need
	if least := min(q.steady, q.limit/smallestShare); !exact || least > now {
		// The rest of what is to be expected; and as long as half of the limit is left, as
		// much again as was asked for, so that a burst doubles its leases.
		now = max(now, least, min(q.steady-q.asked+q.need, share(left[q.i])))
		if !exact {
			now = max(now, q.need+min(q.asked, left[q.i]-q.limit/2))
		}
	}
	n[q.i] = min(now, left[q.i])
	for k := q.i + 1; k < blockSeconds; k++ {
		least := min(q.steady-q.held[k], q.limit/smallestShare, left[k])
		n[k] = max(least, min(q.steady-q.held[k], share(left[k])), 0)
	}
	return n
}

// smallestShare is the part of a limit that a busy instance takes at least, however
// little is left: the last units of a second cost few leases.
const smallestShare = 16

// share is the most to lease of what is left beyond what is waited for, so that
// something is left for those who come later.
func share(left int64) int64 { return left * 3 / 4 }

// lease takes what q plans, or what there is of it, and says what is left then.
func (rs *Rates) lease(ctx context.Context, name string, q ask) (got, left seconds, err error) {
	p := period{name: name, from: q.block * 1000, to: (q.block + blockSeconds) * 1000}
	left = q.left
	if !q.seen && q.steady > 0 {
		if left, err = rs.left(ctx, p, q.limit); err != nil {
			return got, left, err
		}
	}
	for exact := false; ; exact = true {
		got = q.plan(left, exact)
		if got == (seconds{}) {
			return got, left, nil
		}
		switch err = rs.table.Commit(ctx, got.write(p, q.limit)); {
		case err == nil:
			for k := range left {
				left[k] -= got[k]
			}
			return got, left, nil
		case fault.Is(err, fault.Unanswered): // of what the unit is for nothing was done, whatever became of the lease
			return seconds{}, left, fault.New(fault.Unanswered, "The database does not answer, and nothing was done. Repeat the request later.").Because(err)
		case !errors.Is(err, errSpent):
			return seconds{}, left, fmt.Errorf("lease a part of a rate: %w", err)
		}
		if left, err = rs.left(ctx, p, q.limit); err != nil {
			return seconds{}, left, err
		}
	}
}

// write leases n, all of it or nothing: errSpent where less is left of a second.
func (n seconds) write(p period, limit int64) store.Write {
	changes := []store.Change{store.Set(store.At(store.TTLAttribute), expiry(p))}
	var holds []store.Condition
	for k, units := range n {
		if units > 0 {
			granted := grantedAt(k)
			changes = append(changes, store.Add(granted, units))
			holds = append(holds, store.Or(store.Lacks(granted), store.AtMost(granted, limit-units)))
		}
	}
	return store.Upsert(p.key(), changes...).If(store.And(holds...)).Else(errSpent)
}

func grantedAt(second int) store.Path { return store.At("s" + strconv.Itoa(second)) }

// left reads how much of each second is not granted yet.
func (rs *Rates) left(ctx context.Context, p period, limit int64) (left seconds, err error) {
	var record map[string]any
	if err := rs.table.Get(ctx, p.key(), &record); err != nil && !errors.Is(err, store.ErrNotFound) {
		return left, fmt.Errorf("read a rate: %w", err)
	}
	for k := range left {
		granted, _ := record[grantedAt(k)[0]].(float64)
		left[k] = max(limit-int64(granted), 0)
	}
	return left, nil
}
