package policy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// Quotas counts the units of meters over all instances; shared/core/allowance
// implements it. An error means that the count is unknown.
type Quotas interface {
	// Take takes n units, at least 1. It takes either all or none. After an error,
	// no units are counted, or the counted units are refunded automatically.
	Take(ctx context.Context, c Counter, n int64) (Decision, error)
	// Refund returns n units that were taken and not used.
	Refund(ctx context.Context, c Counter, n int64)
	// TakeOnce takes n units like Take, but only once for a receipt. If repeated is true, an earlier call has taken the
	// units for this receipt, and this call has taken none. TakeOnce reports a repeat even if the limit does not allow
	// n more units. A receipt can be repeated any number of times. After an error, it is unknown whether the units are
	// counted and the receipt exists.
	TakeOnce(ctx context.Context, c Counter, n int64, receipt string) (d Decision, repeated bool, err error)
}

// Counter is a meter of a subscription in a period, [From, To).
type Counter struct {
	AccountID, Subscription, Meter string
	Limit                          int64
	From, To                       time.Time
}

// reservation has the units that a request has taken from a meter.
type reservation struct {
	meter    *quotaMeter
	counter  Counter
	decision Decision
}

// reservations are the units that a request has taken and that it may have to refund.
type reservations struct {
	p       *quota
	x       *pipeline.Exchange
	entries []reservation
	// inline is the initial memory of entries. Most requests need only one entry.
	inline [1]reservation
	// keepIncrements is set if the increments must stay counted even if the request
	// fails: the receipt exists or may exist, so repeats of the request are not counted.
	keepIncrements bool
}

// reserve takes the units of all meters, in their order. If a meter refuses, reserve stops and returns the refused
// reservation. After a refusal or an error, the caller must call release.
//
// A request with a receipt is counted when its last increment is taken, for the receiptMeter. One write takes the units
// of this meter and stores the receipt. All other increments are taken before, and are refunded if the receipt already
// exists. Amounts are not refunded then. So a crash or refusal between two meters never leaves a receipt for a request
// that was not counted, which would make repeats of the request free. At worst, a failed request is counted for the
// other meters. If each meter had a receipt, a request would be partly counted when the second meter refuses.
func (r *reservations) reserve(state CustomerState, receipt string) (refused *reservation, err error) {
	receiptMeter := r.p.receiptMeter()
	if receiptMeter == nil {
		receipt = "" // amounts are counted for each response, even for a repeated request
	}
	for _, m := range r.p.meters {
		if m.units == 0 {
			continue
		}
		next := reservation{meter: m, counter: r.p.counter(state, m.name)}
		repeated := false
		if receipt != "" && m == receiptMeter {
			next.decision, repeated, err = r.p.quotas.TakeOnce(r.x.Context, next.counter, m.units, receipt)
			r.keepIncrements = err != nil || next.decision.Admitted && !repeated
		} else {
			next.decision, err = r.p.quotas.Take(r.x.Context, next.counter, m.units)
		}
		if err == nil && !repeated && !next.decision.Admitted && receipt != "" && m.amount == nil && m != receiptMeter {
			// The quota is used up, but a repeat is free. With a limit of 0,
			// TakeOnce takes no units, and only reports whether this is a repeat.
			exhausted := r.p.counter(state, receiptMeter.name)
			exhausted.Limit = 0
			_, repeated, err = r.p.quotas.TakeOnce(r.x.Context, exhausted, receiptMeter.units, receipt)
		}
		switch {
		case err != nil:
			return nil, err
		case repeated:
			r.refund(false)
			return nil, nil
		case !next.decision.Admitted:
			return &next, nil
		}
		r.entries = append(r.entries, next)
	}
	return nil, nil
}

// receiptMeter returns the last meter with an increment, nil for none. Repeats are recognized when its units are taken.
func (q *quota) receiptMeter() *quotaMeter {
	for _, m := range slices.Backward(q.meters) {
		if m.amount == nil && m.units > 0 {
			return m
		}
	}
	return nil
}

func (q *quota) counter(s CustomerState, meter string) Counter {
	return Counter{
		AccountID: q.accountID, Subscription: s.Subscription, Meter: meter, Limit: s.Quotas[meter],
		From: s.From, To: s.To,
	}
}

// release refunds the units of a request that is not sent upstream. If keepIncrements is set, it refunds
// only the units for amounts, because repeats of the request take them again.
func (r *reservations) release() {
	if r.keepIncrements {
		r.entries = slices.DeleteFunc(r.entries, func(entry reservation) bool { return entry.meter.amount == nil })
	}
	r.refund(true)
}

// refund refunds the increments. If includeAmounts is set, it also refunds the units that were taken for amounts in responses.
func (r *reservations) refund(includeAmounts bool) {
	remaining := r.entries[:0]
	for _, entry := range r.entries {
		if entry.meter.amount != nil && !includeAmounts {
			remaining = append(remaining, entry)
			continue
		}
		r.refundUnits(&entry, entry.meter.units)
	}
	r.entries = remaining
}

// refundUnits refunds units even if the request has ended.
func (r *reservations) refundUnits(entry *reservation, n int64) {
	if n > 0 {
		r.p.quotas.Refund(context.WithoutCancel(r.x.Context), entry.counter, n)
	}
}

// maxIdempotencyKeyBytes limits the length of an Idempotency-Key (contract 9).
const maxIdempotencyKeyBytes = 255

// idempotencyKey returns the Idempotency-Key of a request. It returns "" if the request has none, if the policy
// does not use keys, or if the method is not POST, PUT, PATCH or DELETE. If a GET request could use a key, a
// client could read a resource several times and pay once. ok is false for an invalid key.
func (q *quota) idempotencyKey(x *pipeline.Exchange) (key string, ok bool) {
	values := x.Header["Idempotency-Key"]
	if !q.usesIdempotencyKeys || len(values) == 0 {
		return "", true
	}
	switch x.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return "", true
	}
	invisible := func(r rune) bool { return r < '!' || r > '~' }
	key = values[0]
	return key, len(values) == 1 && key != "" && len(key) <= maxIdempotencyKeyBytes &&
		!strings.ContainsFunc(key, invisible)
}

// receipt returns a name for a request with an Idempotency-Key. A request with the same key but another operation,
// method, path or query has another name. The name includes the policy, because two policies of a route can count
// for the same meter. It does not include the subscription, because each subscription has its own counters.
func (q *quota) receipt(x *pipeline.Exchange, key string) string {
	operation := ""
	if x.Route != nil {
		operation = x.Route.Info.OperationID
	}
	h := sha256.New()
	for _, part := range []string{q.deployment, q.policy, operation, x.Method, x.UpstreamPath(), x.Query, key} {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		h.Write([]byte(":" + part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
