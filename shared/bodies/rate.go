package bodies

import (
	"math"
	"time"
)

const (
	// rateTime is how long bytes count for the rate of a body: after each rateTime, they count for a third (1/e).
	rateTime = 4 * time.Second
	// newRate is the rate of a body of which nothing has arrived when it asks for room, in bytes per second.
	newRate = 8 << 10
	// maxRecent is the most bytes that count for the rate. Otherwise a body of a megabyte that stalls would be a fast
	// one for a long time.
	maxRecent = 64 << 10
)

// pace measures how fast a body arrives. The measure has three properties. A steady sender has its true rate at any time, also if
// it pauses for a moment after each part. A body that stalls loses its rate within seconds. And many bytes at once, with
// which each new body of an attack can begin, count as what they are over rateTime (see arrival.askingRate).
type pace struct {
	begun, last time.Time
	recent      float64 // bytes that count, at the time last
}

// newPace returns the pace of a body that begins now. Its first buffer counts as arrived: a body must not end before its first
// bytes can have come.
func newPace(now time.Time) pace { return pace{begun: now, last: now, recent: firstBytes} }

// add counts n bytes that have arrived.
func (p *pace) add(n int, now time.Time) {
	p.recent, p.last = min(p.at(now)+float64(n), maxRecent), now
}

// at returns the bytes that count now.
func (p *pace) at(now time.Time) float64 {
	return p.recent * math.Exp(-now.Sub(p.last).Seconds()/rateTime.Seconds())
}

// rate returns the bytes per second that have arrived. It is the average since the body's beginning while the body is new, and
// the average of the last seconds later.
func (a *arrival) rate(now time.Time) float64 {
	age := now.Sub(a.pace.begun).Seconds()
	return a.pace.at(now) / (rateTime.Seconds() * -math.Expm1(-age/rateTime.Seconds()))
}

// askingRate returns the rate with which a body asks for room: only bodies that are slower end for it. It is never above rate, but
// for bodies of which little has arrived. So a body that begins with many bytes and then stalls ends no steady one, however often
// its client repeats it. A nil arrival is a body that has arrived. It asks with the highest rate.
func (a *arrival) askingRate(now time.Time) float64 {
	if a == nil {
		return maxRecent / rateTime.Seconds()
	}
	return max(newRate, a.pace.at(now)/rateTime.Seconds())
}
