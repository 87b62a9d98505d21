package allowance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Rates enforces limits per second exactly, over any number of instances. A Pool would need a write
// for each instance in each second: one write for 12 requests if eight instances share a limit of 100.
// In Rates one record has the ten seconds of a block, and one write leases units of several seconds.
//
// The clock of the admitting instance decides to which second a request belongs. All instances
// together never admit more requests for one second than the limit, no matter how different their
// clocks are. As for all allowances, the record grants units under the limit before they can be
// spent. Units are never returned. If an instance leases units ahead and does not spend them,
// other instances cannot use them either: docs/decisions/0035-leases-over-several-seconds.md.
//
// An instance has one Rates, which is safe for concurrent use.
type Rates struct {
	table *store.Table
	now   func() time.Time

	mu    sync.Mutex
	rates map[string]*rate
}

const (
	// blockSeconds is the number of seconds that share a record.
	blockSeconds = 10
	// maxRates is the maximum number of names that are held at the same time, about 500
	// bytes each. If a name is forgotten, its leased units are lost until the block ends.
	maxRates = 16_384
	// rateTimeout is the timeout of a lease.
	rateTimeout = 2 * time.Second
)

// seconds has a number of units for each second of a block.
type seconds [blockSeconds]int64

// NewRates returns empty Rates. now is the instance's clock.
func NewRates(table *store.Table, now func() time.Time) *Rates {
	return &Rates{table: table, now: now, rates: map[string]*rate{}}
}

// rate is the state of one name in an instance.
type rate struct {
	mu    sync.Mutex
	limit int64
	// block is the second at which the current block begins.
	block int64
	// tokens are leased and unspent units. remaining is the record's remainder when it was last read; it only decreases.
	tokens, remaining seconds
	// recordRead is whether a lease in this block has succeeded.
	recordRead bool

	// requests has the number of requests in each second, admitted or not: first of this block, then of the previous block.
	requests [2]seconds
	// waiting is the number of callers that wait for the current lease. leasing is
	// closed when the lease ends; it is nil if there is no lease.
	waiting int64
	leasing chan struct{}

	failure  error // the error of the last lease, nil if it succeeded
	failedAt time.Time
}

// Take requests one unit of a name with the given limit per second. It decides from memory if possible, and
// otherwise waits for a lease. An error means that the decision is unknown, because the table did not respond or
// ctx ended. Call Take before anything else is done for a request, because the faults say that nothing was done.
func (rs *Rates) Take(ctx context.Context, name string, limit int64) (Decision, error) {
	r := rs.rate(name)
	r.mu.Lock()
	defer r.mu.Unlock()
	for first := true; ; first = false {
		now := rs.now()
		i := r.advance(now.Unix(), limit)
		if first {
			r.requests[0][i]++
		}
		switch {
		case r.tokens[i] > 0:
			r.tokens[i]--
			return Decision{Admitted: true, Remaining: r.tokens[i] + r.remaining[i]}, nil
		case r.remaining[i] <= 0:
			return Decision{RetryAfter: max(now.Truncate(time.Second).Add(time.Second).Sub(now), time.Millisecond)}, nil
		case r.failure != nil && recent(r.failedAt, now, failureBackoff):
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

// wait waits until a lease has ended. It waits for the lease in progress, whose error it does not return, or makes
// one if there is none. The caller must hold r's lock; wait releases it meanwhile.
func (rs *Rates) wait(ctx context.Context, name string, r *rate, i int) error {
	if inFlight := r.leasing; inFlight != nil {
		r.mu.Unlock()
		defer r.mu.Lock()
		select {
		case <-inFlight:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	r.leasing = make(chan struct{})
	q := r.request(i)
	r.mu.Unlock()
	// Other callers wait for the lease too, and the units of an abandoned lease are lost.
	leaseCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rateTimeout)
	got, remaining, err := rs.lease(store.WithoutReadSet(leaseCtx, "a lease has its own conditions"), name, q)
	cancel()
	r.mu.Lock()
	close(r.leasing)
	r.leasing = nil
	if r.failure = err; err != nil {
		r.failedAt = rs.now()
		return err
	}
	if q.block == r.block && q.limit == r.limit {
		r.recordRead = true
		for k := range got {
			r.tokens[k] += got[k]
			r.remaining[k] = min(r.remaining[k], remaining[k])
		}
	}
	return nil
}

// rate returns the state of a name, and creates it if necessary.
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

// advance makes second the current second, and returns its index in the block. The caller must hold r's lock.
func (r *rate) advance(second, limit int64) int {
	i := second % blockSeconds
	if block := second - i; block != r.block || limit != r.limit {
		previous := seconds{}
		if block == r.block+blockSeconds {
			previous = r.requests[0]
		}
		r.block, r.limit, r.requests, r.tokens, r.recordRead = block, limit, [2]seconds{{}, previous}, seconds{}, false
		for k := range r.remaining {
			r.remaining[k] = limit
		}
	}
	return int(i)
}

// steadyRate returns the expected number of requests per second: of the numbers of requests in the current
// second and in each of the three seconds before it, the largest but one. So a single busy second
// is a burst, and nothing is leased ahead for it. The caller must hold r's lock.
func (r *rate) steadyRate(i int) int64 {
	var counts [4]int64
	for age := range counts {
		switch second := i - age; {
		case second >= 0:
			counts[age] = r.requests[0][second]
		default:
			counts[age] = r.requests[1][second+blockSeconds]
		}
	}
	slices.Sort(counts[:])
	return counts[2]
}

// leaseRequest is an instance's request to a record.
type leaseRequest struct {
	block, limit int64
	// i is the index of the current second. need is the number of callers that wait for a unit of this second.
	i    int
	need int64
	// requests is the number of requests in the current second. steady is the expected number of requests in each second.
	requests, steady int64
	// held and remaining are tokens and remaining of the instance's
	// rate. recordRead is whether the instance has read the record.
	held, remaining seconds
	recordRead      bool
}

func (r *rate) request(i int) leaseRequest {
	return leaseRequest{
		block: r.block, limit: r.limit, i: i, need: r.waiting, requests: r.requests[0][i], steady: r.steadyRate(i),
		held: r.tokens, remaining: r.remaining, recordRead: r.recordRead,
	}
}

// plan returns the number of units of each second to lease, given the remainder.
// exact is set after other instances were faster. Then plan does not lease for a
// burst, and leases ahead in this second only if the smallest lease exceeds need.
func (r leaseRequest) plan(remaining seconds, exact bool) (n seconds) {
	current := r.need
	if minimum := min(r.steady, r.limit/minShareDivisor); !exact || minimum > current {
		// Lease the rest of the expected requests. While half of the limit is left, also
		// lease as many units as were requested, so that leases double during a burst.
		current = max(current, minimum, min(r.steady-r.requests+r.need, share(remaining[r.i])))
		if !exact {
			current = max(current, r.need+min(r.requests, remaining[r.i]-r.limit/2))
		}
	}
	n[r.i] = min(current, remaining[r.i])
	for k := r.i + 1; k < blockSeconds; k++ {
		minimum := min(r.steady-r.held[k], r.limit/minShareDivisor, remaining[k])
		n[k] = max(minimum, min(r.steady-r.held[k], share(remaining[k])), 0)
	}
	return n
}

// minShareDivisor defines the smallest lease of a busy instance as a fraction of the limit. It
// applies even if few units are left, so that the last units of a second cost few leases.
const minShareDivisor = 16

// share returns the maximum number of units to lease for requests that
// have not arrived yet, so that some units are left for other instances.
func share(remaining int64) int64 { return remaining * 3 / 4 }

// lease takes the units that q plans, or as many of them as are available. It returns these units and the remainder.
func (rs *Rates) lease(ctx context.Context, name string, q leaseRequest) (got, remaining seconds, err error) {
	p := period{name: name, from: q.block * 1000, to: (q.block + blockSeconds) * 1000}
	remaining = q.remaining
	if !q.recordRead && q.steady > 0 {
		if remaining, err = rs.readRemaining(ctx, p, q.limit); err != nil {
			return got, remaining, err
		}
	}
	for exact := false; ; exact = true {
		got = q.plan(remaining, exact)
		if got == (seconds{}) {
			return got, remaining, nil
		}
		switch err = rs.table.Commit(ctx, got.write(p, q.limit)); {
		case err == nil:
			for k := range remaining {
				remaining[k] -= got[k]
			}
			return got, remaining, nil
		// even if the lease succeeded, the request that needs the unit has not begun: "nothing was done" is true
		case fault.Is(err, fault.DatabaseUnavailable):
			return seconds{}, remaining,
				fault.New(fault.DatabaseUnavailable,
					"The database does not answer, and nothing was done. Repeat the request later.").WithCause(err)
		case !errors.Is(err, errExceedsLimit):
			return seconds{}, remaining, fmt.Errorf("lease a part of a rate: %w", err)
		}
		if remaining, err = rs.readRemaining(ctx, p, q.limit); err != nil {
			return seconds{}, remaining, err
		}
	}
}

// write returns the write that leases the units s, all or none. Its
// commit returns errExceedsLimit if a second has too few units left.
func (s seconds) write(p period, limit int64) store.Write {
	changes := []store.Change{store.Set(store.At(store.TTLAttribute), expiry(p))}
	var conditions []store.Condition
	for k, units := range s {
		if units > 0 {
			granted := grantedAt(k)
			changes = append(changes, store.Add(granted, units))
			conditions = append(conditions, store.Or(store.Lacks(granted), store.AtMost(granted, limit-units)))
		}
	}
	return store.Upsert(p.key(), changes...).If(store.And(conditions...)).Else(errExceedsLimit)
}

func grantedAt(second int) store.Path { return store.At("s" + strconv.Itoa(second)) }

// readRemaining reads the remainder of each second.
func (rs *Rates) readRemaining(ctx context.Context, p period, limit int64) (remaining seconds, err error) {
	var record map[string]any
	if err := rs.table.Get(ctx, p.key(), &record); err != nil && !errors.Is(err, store.ErrNotFound) {
		return remaining, fmt.Errorf("read a rate: %w", err)
	}
	for k := range remaining {
		granted, _ := record[grantedAt(k)[0]].(float64)
		remaining[k] = max(limit-int64(granted), 0)
	}
	return remaining, nil
}
