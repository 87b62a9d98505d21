package bodies

import (
	"math"
	"time"
)

const (
	// rateTimeConstant is the time until the weight of received bytes in the rate of a body decays to 1/e.
	rateTimeConstant = 4 * time.Second
	// initialRate is the minimum of competingRate, in bytes per second. It is the rate with which a new body requests
	// memory before any of its bytes have arrived.
	initialRate = 8 << 10
	// maxRecent is the maximum number of bytes that count for the rate. If there was no maximum, a body that stalls
	// after a megabyte would count as fast for a long time.
	maxRecent = 64 << 10
)

// rateMeter measures how fast a body arrives. The measure has three properties. A steady sender has its true rate at any
// time, even if it pauses for a moment after each part. A body that stalls loses its rate within seconds. Many bytes
// at once, with which each new body of an attack can begin, count as spread over rateTimeConstant (see upload.competingRate).
type rateMeter struct {
	start, updatedAt time.Time
	recent           float64 // number of bytes that count, at updatedAt
}

// newRateMeter returns the rateMeter of a body that begins now. Its first firstBytes bytes count as arrived: a body
// must not be aborted before its first bytes can have arrived.
func newRateMeter(now time.Time) rateMeter {
	return rateMeter{start: now, updatedAt: now, recent: firstBytes}
}

// add counts n bytes that have arrived.
func (m *rateMeter) add(n int, now time.Time) {
	m.recent, m.updatedAt = min(m.recentAt(now)+float64(n), maxRecent), now
}

// recentAt returns the number of bytes that count now.
func (m *rateMeter) recentAt(now time.Time) float64 {
	return m.recent * math.Exp(-now.Sub(m.updatedAt).Seconds()/rateTimeConstant.Seconds())
}

// rate returns the bytes per second that have arrived. While the body is new, it is
// the average since the body's beginning. Later it is the average of the last seconds.
func (u *upload) rate(now time.Time) float64 {
	age := now.Sub(u.meter.start).Seconds()
	return u.meter.recentAt(now) / (rateTimeConstant.Seconds() * -math.Expm1(-age/rateTimeConstant.Seconds()))
}

// competingRate returns the rate that counts when a body requests memory: only slower bodies are aborted in its
// favor. competingRate is higher than rate only if few bytes have arrived. A body that begins with many bytes and
// then stalls therefore aborts no steady body, however often its client repeats it. A nil upload is a body that has
// arrived completely. It has the highest possible competingRate.
func (u *upload) competingRate(now time.Time) float64 {
	if u == nil {
		return maxRecent / rateTimeConstant.Seconds()
	}
	return max(initialRate, u.meter.recentAt(now)/rateTimeConstant.Seconds())
}
