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

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// Quotas count units of meters over all instances: shared/allowance does. An error means that
// nobody can tell.
type Quotas interface {
	// Take asks for n units, at least 1, all or none. After an error none is counted, or
	// what is comes back by itself.
	Take(ctx context.Context, c Counter, n int64) (Decision, error)
	// Give hands back n units that were admitted and are not used.
	Give(ctx context.Context, c Counter, n int64)
	// Once is Take that counts once for a receipt: repeated says that the units were counted
	// for it before, and none now, and that the receipt may be repeated again. A repeat is one also
	// where the limit has no room for n. After an error the units may be counted, and then
	// the receipt is there.
	Once(ctx context.Context, c Counter, n int64, receipt string) (d Decision, repeated bool, err error)
}

// Counter is a meter of a subscription in a period, [From, To).
type Counter struct {
	AccountID, Subscription, Meter string
	Limit                          int64
	From, To                       time.Time
}

// taken is what a request has counted for a meter.
type taken struct {
	meter    *quotaMeter
	counter  Counter
	decision Decision
}

// claims are what a request has taken and may have to hand back.
type claims struct {
	p    *quota
	x    *pipeline.Exchange
	held []taken
	// first is room for the one that most have.
	first [1]taken
	// kept says that the increments stay counted, whatever becomes of the request: there is
	// a receipt, or may be, and its repeats count none.
	kept bool
}

// take asks for the units of all meters, in their order, up to the first that refuses, which
// it answers.
//
// A request with a receipt is counted by the last of its increments: the receipt
// and its units are one write, and all others are taken before and handed back if the
// receipt was counted already. So no crash and no refusal in between leaves a receipt for
// a request that was not counted, which its repeats would then get for nothing; at worst a
// request that failed is counted for the others. A receipt of each meter would
// leave a request half counted when the second one refuses.
func (c *claims) take(standing Standing, receipt string) (refused *taken, err error) {
	decider := c.p.decider()
	if decider == nil {
		receipt = "" // amounts are what each answer says, a repeat's too
	}
	for _, m := range c.p.meters {
		if m.units == 0 {
			continue
		}
		next := taken{meter: m, counter: c.p.counter(standing, m.name)}
		repeated := false
		if receipt != "" && m == decider {
			next.decision, repeated, err = c.p.quotas.Once(c.x.Context, next.counter, m.units, receipt)
			c.kept = err != nil || next.decision.Admitted && !repeated
		} else {
			next.decision, err = c.p.quotas.Take(c.x.Context, next.counter, m.units)
		}
		if err == nil && !repeated && !next.decision.Admitted && receipt != "" && m.amount == nil && m != decider {
			// Used up, but a repeat costs nothing. Without room only a repeat is admitted.
			full := c.p.counter(standing, decider.name)
			full.Limit = 0
			_, repeated, err = c.p.quotas.Once(c.x.Context, full, decider.units, receipt)
		}
		switch {
		case err != nil:
			return nil, err
		case repeated:
			c.giveBack(false)
			return nil, nil
		case !next.decision.Admitted:
			return &next, nil
		}
		c.held = append(c.held, next)
	}
	return nil, nil
}

// decider is the last meter with an increment, nil for none: it tells repeats.
func (p *quota) decider() *quotaMeter {
	for _, m := range slices.Backward(p.meters) {
		if m.amount == nil && m.units > 0 {
			return m
		}
	}
	return nil
}

func (p *quota) counter(s Standing, meter string) Counter {
	return Counter{AccountID: p.accountID, Subscription: s.Subscription, Meter: meter, Limit: s.Quotas[meter], From: s.From, To: s.To}
}

// release hands back what a request has taken that goes no further. Amounts are taken anew by a
// repeat.
func (c *claims) release() {
	if c.kept {
		c.held = slices.DeleteFunc(c.held, func(h taken) bool { return h.meter.amount == nil })
	}
	c.giveBack(true)
}

// giveBack hands back the increments, and what is taken for answers' amounts where all is said.
func (c *claims) giveBack(all bool) {
	kept := c.held[:0]
	for _, h := range c.held {
		if h.meter.amount != nil && !all {
			kept = append(kept, h)
			continue
		}
		c.give(&h, h.meter.units)
	}
	c.held = kept
}

// give does not end with the request: it may be over.
func (c *claims) give(held *taken, n int64) {
	if n > 0 {
		c.p.quotas.Give(context.WithoutCancel(c.x.Context), held.counter, n)
	}
}

// maxIdempotencyKeyBytes bounds an Idempotency-Key (contract 9).
const maxIdempotencyKeyBytes = 255

// key reads the Idempotency-Key of a request that has one and whose method it is meant for, "" for
// none. A safe request has no use for it: its repeats may be asked for anything anew, and
// would be as many free ones.
func (p *quota) key(x *pipeline.Exchange) (key string, ok bool) {
	values := x.Header["Idempotency-Key"]
	if !p.once || len(values) == 0 {
		return "", true
	}
	switch x.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return "", true
	}
	invisible := func(r rune) bool { return r < '!' || r > '~' }
	key = values[0]
	return key, len(values) == 1 && key != "" && len(key) <= maxIdempotencyKeyBytes && !strings.ContainsFunc(key, invisible)
}

// receipt names a request with an Idempotency-Key within its counter, which is one
// subscription's: another operation, path or query under the same key is another request. The
// policy is in it since two of a route may count for one meter.
func (p *quota) receipt(x *pipeline.Exchange, key string) string {
	operation := ""
	if x.Route != nil {
		operation = x.Route.Info.OperationID
	}
	h := sha256.New()
	for _, part := range []string{p.deployment, p.policy, operation, x.Method, x.UpstreamPath(), x.Query, key} {
		h.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		h.Write([]byte(":" + part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
