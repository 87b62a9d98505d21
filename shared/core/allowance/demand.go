package allowance

import (
	"math"
	"time"
)

// These constants determine the size of a slice, which is the number of units of one lease. The tradeoff:
// a large slice saves writes, but other instances cannot use it while its holder does not spend it, and
// it is lost if the holder dies. docs/decisions/0015-sizes-of-leases.md has the measurements.
const (
	// maxHorizon limits the units that are lost when an instance dies.
	maxHorizon = 30 * time.Second
	minHorizon = 250 * time.Millisecond
	// horizonsPerPeriod is about the number of leases that an instance makes in a short period of steady traffic.
	horizonsPerPeriod = 4
	// maxGrowth limits the size of a slice relative to the demand since
	// the last lease, so that a short burst does not look like a flood.
	maxGrowth = 4
	// minSliceDivisor defines the smallest slice of a busy instance as a fraction of the limit. It applies
	// even if few units are left, so that the last units of an allowance cost few leases.
	minSliceDivisor = 40
	// defaultShare is the assumed share of an instance in the total demand before it is known.
	defaultShare = 0.25
)

// horizon returns how far ahead an instance leases, and how long it keeps unspent units.
func horizon(p period) time.Duration {
	return min(max(p.length()/horizonsPerPeriod, minHorizon), maxHorizon)
}

// demand is what an instance knows about the use of one allowance. Its owner guards it. The zero value means that nothing is known.
type demand struct {
	at    time.Time // time of the last lease request
	spent int64     // total spent at that time
	// first is the estimated size of the first lease, from the use in the previous period.
	first int64

	share   float64 // this instance's share of all leases, 0 while unknown
	granted int64   // the record's value after the last lease, -1 while unknown
}

// want returns the number of units to lease: the expected demand until the horizon, or until the period's end if that
// is sooner. need is the number of units that callers wait for, spent is the total number of units that were spent, and
// available is the number of units that are still held. The result can be less than need, or negative.
func (d *demand) want(p period, now time.Time, need, spent, available int64) int64 {
	if d.at.IsZero() {
		return max(d.first, need)
	}
	requested := spent - d.spent + need
	elapsed := now.Sub(d.at)
	lookahead := min(horizon(p), p.end().Sub(now))
	if lookahead <= 0 {
		return need
	}
	want := maxGrowth * float64(requested)
	if elapsed > 0 {
		want = min(want, float64(requested)*float64(lookahead)/float64(elapsed))
	}
	return int64(want) - available
}

// recordLease records a lease of n units that was requested at now. spent is the total spent
// after the lease. grantedBefore is the granted value just before the lease, -1 if unknown.
func (d *demand) recordLease(now time.Time, n, spent, grantedBefore int64) {
	d.at, d.spent = now, spent
	if grantedBefore < 0 {
		d.granted = -1
		return
	}
	if d.granted >= 0 && n > 0 {
		// Between two of its own leases, an instance sees how many units the other
		// instances took. Its share of all these units is its share of the remainder.
		others := max(grantedBefore-d.granted, 0)
		share := float64(n) / float64(n+others)
		if d.share > 0 {
			share = (share + d.share) / 2
		}
		d.share = share
	}
	d.granted = grantedBefore + n
}

// pace is the recent rate at which an allowance is spent. Its owner guards it.
type pace struct {
	at    time.Time // when units were last activated
	spent int64     // total spent at that time
}

// An instance activates the units that it expects to spend in activateAhead. If these
// are fewer than minActivated, it activates minActivated units, but no more than it
// expects to spend in maxActivateAhead. Activated units are lost if the instance dies.
const (
	activateAhead    = 250 * time.Millisecond
	maxActivateAhead = time.Second
	minActivated     = 32
)

// want returns the number of units to activate, at least need. need is the number of
// units that callers wait for, and spent is the total number of units that were spent.
func (p *pace) want(now time.Time, need, spent int64) int64 {
	if p.at.IsZero() {
		return need
	}
	requested := spent - p.spent + need
	maxUnits := maxGrowth * float64(requested)
	if elapsed := now.Sub(p.at); elapsed > 0 {
		rate := float64(requested) / float64(elapsed)
		maxUnits = min(maxUnits, max(rate*float64(activateAhead), min(rate*float64(maxActivateAhead), minActivated)))
	}
	return max(int64(maxUnits), need)
}

// maxSlice returns the largest slice to take of the remainder: half of this instance's share, but at least the smallest
// slice (minSliceDivisor). So the slices shrink as the allowance runs out, and few of its last units are stranded in an
// instance that does not need them.
func (d *demand) maxSlice(limit, remaining int64) int64 {
	share := d.share
	if share == 0 {
		share = defaultShare
	}
	part := int64(math.Floor(float64(remaining) * share / 2))
	return max(part, limit/minSliceDivisor, 1)
}

// surplus returns how many of the held units to return because they exceed the expected demand. spent is the
// number of units that were spent during elapsed. If no unit was spent, all held units are surplus.
func surplus(p period, limit, held, spent int64, elapsed time.Duration, now time.Time) int64 {
	if held == 0 || elapsed <= 0 {
		return 0
	}
	if spent == 0 {
		return held
	}
	lookahead := min(horizon(p), max(p.end().Sub(now), 0))
	expected := int64(float64(spent) * float64(lookahead) / float64(elapsed))
	// A return costs a write, so only a disproportionate surplus is returned.
	if held <= 2*expected+limit/minSliceDivisor+1 {
		return 0
	}
	return held - expected
}
