package allowance

import (
	"math"
	"time"
)

// The sizes of slices. What they trade: a large slice saves writes, and is
// stranded for others while its holder does not spend it, for good when it
// dies. docs/decisions/0015-sizes-of-leases.md has the measurements.
const (
	// longestHorizon bounds what an instance that dies takes with it.
	longestHorizon  = 30 * time.Second
	shortestHorizon = 250 * time.Millisecond
	// horizonsPerPeriod is about how many leases an instance makes in a short
	// period of steady traffic.
	horizonsPerPeriod = 4
	// growth bounds how much larger a slice is than what was asked since the
	// last one, so that a short burst does not look like a flood.
	growth = 4
	// smallestParts: however little is left, a busy instance takes this part of
	// the limit, so that the end of an allowance costs few leases.
	smallestParts = 40
	// unknownShare is an instance's part of all demand before it knows better.
	unknownShare = 0.25
)

// horizon is how far ahead an instance leases, and how long it keeps what it
// does not spend.
func horizon(p period) time.Duration {
	return min(max(p.length()/horizonsPerPeriod, shortestHorizon), longestHorizon)
}

// demand is what an instance knows about the use of one allowance. Its owner
// guards it. The zero value knows nothing.
type demand struct {
	at    time.Time // when the last lease was asked for
	spent int64     // all that had been spent by then
	// first is the guess for the first lease, from the period before.
	first int64

	share   float64 // this instance's part of all leases, 0 while unknown
	granted int64   // by the record after the last lease, -1 while unknown
}

// want is how many units to lease when need are waited for, spent were spent
// in all and held are still there: what will be asked for until the horizon,
// or the period's end if that is nearer. It may be below need.
func (d *demand) want(p period, now time.Time, need, spent, held int64) int64 {
	if d.at.IsZero() {
		return max(d.first, need)
	}
	asked := spent - d.spent + need
	elapsed := now.Sub(d.at)
	ahead := min(horizon(p), p.end().Sub(now))
	if ahead <= 0 {
		return need
	}
	want := growth * float64(asked)
	if elapsed > 0 {
		want = min(want, float64(asked)*float64(ahead)/float64(elapsed))
	}
	return int64(want) - held
}

// leased notes a lease of n units that was asked for at now, after which spent
// units were spent in all. before is what was granted just before it, -1 if
// that is unknown.
func (d *demand) leased(now time.Time, n, spent, before int64) {
	d.at, d.spent = now, spent
	if before < 0 {
		d.granted = -1
		return
	}
	if d.granted >= 0 && n > 0 {
		// Between two leases of its own an instance sees what all others took:
		// its share of that is its share of what is left.
		others := max(before-d.granted, 0)
		share := float64(n) / float64(n+others)
		if d.share > 0 {
			share = (share + d.share) / 2
		}
		d.share = share
	}
	d.granted = before + n
}

// pace is how fast an allowance is spent of late. Its owner guards it.
type pace struct {
	at    time.Time // when units were begun last
	spent int64     // all that had been spent by then
}

// How much of what it has leased an instance begins, that is, how much of it is
// lost for good if the instance dies: what it will spend in beginAhead. Where that is
// fewer than fewestBegun units, as many, but no more than in longestAhead.
const (
	beginAhead   = 250 * time.Millisecond
	longestAhead = time.Second
	fewestBegun  = 32
)

// want is how many units to begin when need are waited for and spent were spent.
func (d *pace) want(now time.Time, need, spent int64) int64 {
	if d.at.IsZero() {
		return need
	}
	asked := spent - d.spent + need
	most := growth * float64(asked)
	if elapsed := now.Sub(d.at); elapsed > 0 {
		rate := float64(asked) / float64(elapsed)
		most = min(most, max(rate*float64(beginAhead), min(rate*float64(longestAhead), fewestBegun)))
	}
	return max(int64(most), need)
}

// maxSlice is the largest slice to take of what is left: half of this instance's
// share, so that the slices shrink as the allowance runs out and its last
// units are not stranded in an instance that has no use for them.
func (d *demand) maxSlice(limit, left int64) int64 {
	share := d.share
	if share == 0 {
		share = unknownShare
	}
	part := int64(math.Floor(float64(left) * share / 2))
	return max(part, limit/smallestParts, 1)
}

// surplus is how much of what is held is beyond the demand of the last while:
// all of it when nothing was asked for.
func surplus(p period, limit, held, spent int64, while time.Duration, now time.Time) int64 {
	if held == 0 || while <= 0 {
		return 0
	}
	if spent == 0 {
		return held
	}
	ahead := min(horizon(p), max(p.end().Sub(now), 0))
	expected := int64(float64(spent) * float64(ahead) / float64(while))
	// A return costs a write, so only what is out of proportion goes back.
	if held <= 2*expected+limit/smallestParts+1 {
		return 0
	}
	return held - expected
}
