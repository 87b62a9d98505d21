// Package allowance enforces limits exactly, over any number of instances, with far fewer writes than
// requests: an instance leases a slice of an allowance with one conditional write and spends it from
// memory (design, section 8). Rate limits use a Pool for their windows. Quotas are for calendar periods.
//
// The invariant, for each allowance of each period: the number granted in the record is at least the number of units
// that all instances have admitted or still hold. It never exceeds the limit with which the last lease was made. (Only
// units that TakeAsync admits break the invariant.) A lease raises granted before its tokens can be spent. A return
// removes the tokens from memory before it lowers granted. It is applied only once, because a record of the return (a
// fence) stays in the table for longer than the return can be repeated. The invariant does not depend on time, except
// that a clock must not be a day slow (recordRetention). So wrong clocks, pauses, crashes and lost replies cannot make
// Take admit one request too many. They can only strand leased units: nobody can spend these. The reasons and the
// costs: docs/decisions/0014-leases-without-expiry.md, 0015-sizes-of-leases.md.
//
// Stranded units are acceptable for minutes, but not for a month. So Quotas spend in two steps. A lease records its
// units in the instance's journal, and the instance activates units, which removes them from the journal, before it
// spends them. After a crash all units that are still in the journal are returned: 0039-quotas-with-journals.md.
//
// The package does not choose names, does not know policies or status codes, and does not smooth traffic: a period is a fixed window.
//
// Read this file first, then table.go and ledger.go (the table), pool.go (an instance) and
// demand.go (the size of a slice). For quotas read quota.go, journal.go and reclaim.go.
package allowance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Allowance is the number of times that something may happen in a period.
type Allowance struct {
	// Name identifies the allowance: the account, the policy and the limited client. It is stored
	// until a day after the period, or for a quota until 40 days after the period.
	Name string
	// Limit is the maximum number of units admitted from From until To. If instances
	// use different limits for one period (during a rollout), each enforces its own.
	Limit int64
	// From (included) and To (excluded) limit the period, to the millisecond.
	// All instances must compute the same period, as Window does.
	From, To time.Time
}

// Decision is the result of a request for units of an allowance.
type Decision struct {
	Admitted bool
	// Remaining is approximately the remainder of the allowance, and never more than its Limit. It is exact if no other
	// instance has leased units of the allowance. It is 0 if the request was refused.
	Remaining int64
	// RetryAfter is the time until the period ends if the request was refused (for Rates, until the current second ends),
	// at least a millisecond. Otherwise it is 0.
	RetryAfter time.Duration
}

// Window returns the fixed window of the given length that contains now. Windows are counted from 1970 in UTC, so every
// instance computes the same windows, and a window begins without a write. length must be at least a millisecond.
func Window(now time.Time, length time.Duration) (from, to time.Time) {
	ms, nowMs := length.Milliseconds(), now.UnixMilli()
	start := nowMs - ((nowMs%ms)+ms)%ms
	return time.UnixMilli(start).UTC(), time.UnixMilli(start + ms).UTC()
}

// maxNameBytes is the length up to which a name is stored unchanged. A longer name is
// stored as its hash, because it may contain a header of any length from an unknown
// client. So long headers do not enlarge the table's keys and the instances' memory.
const maxNameBytes = 256

// period identifies the record of an allowance.
type period struct {
	name     string
	from, to int64 // milliseconds since 1970
}

func (a Allowance) period() period {
	name := a.Name
	if len(name) > maxNameBytes {
		sum := sha256.Sum256([]byte(name))
		name = "sha256:" + hex.EncodeToString(sum[:])
	}
	return period{name: name, from: a.From.UnixMilli(), to: a.To.UnixMilli()}
}

func (p period) String() string {
	return strconv.FormatInt(p.from, 10) + "-" + strconv.FormatInt(p.to, 10)
}

func (p period) length() time.Duration { return time.Duration(p.to-p.from) * time.Millisecond }

func (p period) end() time.Time { return time.UnixMilli(p.to) }

// previous returns the period of the same length that ends where p begins.
func (p period) previous() period {
	return period{name: p.name, from: p.from - (p.to - p.from), to: p.from}
}

// check returns an error for an invalid request for n units. An invalid
// request is a defect of the caller, so the error is not a fault.
func (a Allowance) check(n int64) error {
	switch {
	case n < 1:
		return fmt.Errorf("allowance: asked for %d units, at least 1 is needed", n)
	case a.Limit < 0:
		return fmt.Errorf("allowance: the limit %d is negative", a.Limit)
	case !a.From.Before(a.To):
		return fmt.Errorf("allowance: the period ends at %v, not after its beginning", a.To)
	}
	return nil
}
