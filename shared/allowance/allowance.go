// Package allowance enforces limits exactly, over any number of instances, with
// far less than a write for each request: an instance leases a slice of an
// allowance with one conditional write and spends it from memory (design,
// section 8). Rate limits use a Pool for their windows and Quotas are for
// calendar periods.
//
// The invariant, for each allowance of each period: the record's granted is at
// least what all instances have admitted plus what they still hold, and never
// above the limit that its last lease was made under. A lease raises granted
// before its tokens can be spent; a return takes the tokens out of memory
// before it lowers granted, and is applied once by a fence that outlives any
// repeat. Nothing in this speaks of time, so no clock, pause, crash or lost
// reply lets a strict limit admit one request too many: they can only strand
// what was leased. Why it is so, and what it costs:
// docs/decisions/0014-leases-without-expiry.md, 0015-sizes-of-leases.md.
//
// Stranded for minutes is fine, for a month it is not. Quotas therefore spend in two
// steps: what is leased is first begun, in the instance's journal, and all that
// was not begun comes back after a crash: 0039-quotas-with-journals.md.
//
// What it is not: it decides no names, knows no policies and no status codes,
// and smooths nothing: a period is a fixed window.
//
// Read this file first, then table.go and ledger.go (the table), pool.go (an instance) and
// demand.go (how large a slice is); of quotas quota.go, journal.go and reclaim.go.
package allowance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"
)

// Allowance says how often something may happen in a period.
type Allowance struct {
	// Name tells this allowance from all others: the account, the policy and
	// whom it limits. It is stored for a day longer than the period.
	Name string
	// Limit is the most units admitted from From until To. Instances that name
	// different limits for one period (a rollout) each keep their own.
	Limit int64
	// From and To are the period, [From, To). All instances must compute the
	// same ones, as Window does. They are exact to the millisecond.
	From, To time.Time
}

// Decision is the answer to a request for units of an allowance.
type Decision struct {
	Admitted bool
	// Remaining is about what is left of the allowance, never more than its
	// Limit: exact when this instance is the only one, 0 after a refusal for
	// want of units.
	Remaining int64
	// RetryAfter is how long it is until the period ends, for a refusal; 0 when
	// admitted.
	RetryAfter time.Duration
}

// Window returns the fixed window of the given length that now lies in. Windows
// are counted from 1970 in UTC, so every instance agrees on them and the next
// one begins without a write. length is at least a millisecond.
func Window(now time.Time, length time.Duration) (from, to time.Time) {
	ms, at := length.Milliseconds(), now.UnixMilli()
	start := at - ((at%ms)+ms)%ms
	return time.UnixMilli(start).UTC(), time.UnixMilli(start + ms).UTC()
}

// longestName is the longest name that is stored as it is. A longer one, which
// some stranger's header may be a part of, is stored as its hash: neither the
// table's key nor an instance's memory grows with it.
const longestName = 256

// period is the identity of an allowance's record.
type period struct {
	name     string
	from, to int64 // milliseconds since 1970
}

func (a Allowance) period() period {
	name := a.Name
	if len(name) > longestName {
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

// before is the period of the same length that ends where p begins.
func (p period) before() period {
	return period{name: p.name, from: p.from - (p.to - p.from), to: p.from}
}

// check refuses what no caller should ask. It is a defect of the caller, so the
// error is no fault.
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
