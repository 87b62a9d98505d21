package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// SubscriptionReader looks up the subscriptions of customers; shared/resource/metering implements it.
type SubscriptionReader interface {
	// CustomerState returns the current state of a customer of a metering bucket. It is called for each request,
	// so it must have a cache. For a customer without a subscription, and for a bucket of another account, the
	// error is a fault of the kind fault.NotFound. Any other error means that the state is unknown.
	CustomerState(ctx context.Context, accountID, bucketID, customerKey string) (CustomerState, error)
}

// CustomerState has the values of a customer that a gateway needs.
type CustomerState struct {
	// Subscription is the subscription's ID, Status its current status.
	Subscription, Status string
	// Quotas are the units of each meter in the current period, [From, To).
	Quotas   map[string]int64
	From, To time.Time
}

// quotaOptions are the options of quota-inbound (contract 3.7 has the default statuses).
type quotaOptions struct {
	BucketID string `json:"bucketId" required:"true"`
	// Meters has a number of units for each meter, or amountOptions if the response says the number of units.
	Meters          map[string]json.RawMessage `json:"meters" required:"true"`
	CustomerKey     *customerKeyOptions        `json:"customerKey"`
	AllowedStatuses []string                   `json:"allowedStatuses" enum:"active,inactive,incomplete,incomplete-expired,trialing,past-due,canceled,unpaid,paused"`
	OnError         string                     `json:"onError" enum:"closed,open"`
	HeaderMode      string                     `json:"headerMode" enum:"none,retry-after"`
	IdempotencyKeys bool                       `json:"idempotencyKeys"`
}

// defaultQuotaOptions returns the values of options that a project does not set.
func defaultQuotaOptions() quotaOptions {
	return quotaOptions{
		AllowedStatuses: []string{"active", "incomplete", "trialing"}, OnError: "closed",
		HeaderMode: "retry-after", IdempotencyKeys: true,
	}
}

// customerKeyOptions says where the customer's key is, if it is not the user's Sub.
// The key can't come from a header, because clients could send any customer's key.
type customerKeyOptions struct {
	// Data is a JSON pointer into the user's data.
	Data string `json:"data" required:"true"`
}

// The limits of the options.
const (
	maxMeters        = 20
	maxMeterBytes    = 128
	maxBucketIDBytes = 64
)

// quotaRetryAfter is the number of seconds after which to repeat a request that could not be counted.
const quotaRetryAfter = "5"

// quota counts the requests of customers. It refuses a request if its customer is unknown or has no subscription, if
// the subscription's status is not allowed, or if the subscription lacks a meter or has too few units left for the
// request. It also refuses a request with an invalid Idempotency-Key, and without failOpen a request that can't be
// counted.
type quota struct {
	policy              string // the policy's name
	accountID           string
	deployment          string
	bucketID            string
	customerKey         jsonPointer // nil for the user's sub
	statuses            []string    // the allowed statuses of a subscription
	meters              []*quotaMeter
	failOpen            bool // whether to let requests through that can't be counted
	sendsHeaders        bool // whether to send the quotas in headers
	usesIdempotencyKeys bool // whether repeats with an Idempotency-Key are counted once
	readsBodies         bool // whether it reads the bodies of responses

	subscriptions SubscriptionReader
	quotas        Quotas
	log           *slog.Logger
	metrics       bool
	now           func() time.Time
}

// quotaMeter is a meter for which requests are counted.
type quotaMeter struct {
	name   string
	quoted string // the quoted name in the RateLimit field
	// units is the increment of each request. If amount is set, it is the maximum amount of one response.
	units  int64
	amount *amount
	// cached is the RateLimit-Policy of the previous request. It is nearly always the same for the next request.
	cached atomic.Pointer[cachedPolicy]
}

// cachedPolicy is the RateLimit-Policy field of a quota, for a limit and a period of this length.
type cachedPolicy struct {
	limit, seconds int64
	text           string
}

// policyText returns the RateLimit-Policy of a quota.
func (m *quotaMeter) policyText(limit int64, length time.Duration) string {
	seconds := wholeSeconds(length)
	if t := m.cached.Load(); t != nil && t.limit == limit && t.seconds == seconds {
		return t.text
	}
	t := &cachedPolicy{limit, seconds, m.quoted + ";q=" + strconv.FormatInt(limit, 10) + ";w=" + strconv.FormatInt(seconds,
		10)}
	m.cached.Store(t)
	return t.text
}

var _ pipeline.Inbound = (*quota)(nil)

const quotaType = "quota-inbound"

// MeteringBucketOption returns the metering bucket that a policy counts in, and the pointer of the
// option within the policy's handler. ok is false for a policy that does not count in a bucket.
func MeteringBucketOption(p project.Policy) (bucketID, pointer string, ok bool) {
	if p.Type != quotaType {
		return "", "", false
	}
	var o quotaOptions
	if problems := options.Read(p.Handler.Options, &o); len(problems) > 0 {
		return "", "", false // the build has failed because of these problems
	}
	return o.BucketID, options.Root + "/bucketId", true
}

func newQuota(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultQuotaOptions()
	problems := options.Read(raw, &o)
	if o.BucketID != "" && (!strings.HasPrefix(o.BucketID, "mtr_") || len(o.BucketID) > maxBucketIDBytes) {
		problems = append(problems,
			options.Problem("/bucketId", `Write the id of a metering bucket, which begins with "mtr_".`))
	}
	if len(o.AllowedStatuses) == 0 {
		problems = append(problems, options.Problem("/allowedStatuses",
			`Name at least one status, such as "active", or leave the option out.`))
	}
	p := &quota{
		policy: name, bucketID: o.BucketID, statuses: o.AllowedStatuses, failOpen: o.OnError == "open",
		sendsHeaders: o.HeaderMode == "retry-after", usesIdempotencyKeys: o.IdempotencyKeys,
	}
	if o.CustomerKey != nil && o.CustomerKey.Data != "" {
		var text string
		if p.customerKey, text = parsePointer(o.CustomerKey.Data); text != "" {
			problems = append(problems, options.Problem("/customerKey/data", "%s", text))
		}
	}
	problems = append(problems, p.readMeters(o.Meters)...)
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p.accountID, p.deployment = s.Identity.AccountID, s.Identity.Deployment
	p.subscriptions, p.quotas, p.log, p.metrics, p.now = s.Subscriptions, s.Quotas, s.Log, s.Metrics, s.Now
	return Provisioned{Inbound: p}, nil
}

// readMeters reads the meters, in the order of counting. The meters with amounts in responses come first, because every
// request counts for them, even a repeated one. The other meters, which count once for each Idempotency-Key, come last
// (reservations.go).
func (q *quota) readMeters(meters map[string]json.RawMessage) []project.Problem {
	if meters != nil && (len(meters) == 0 || len(meters) > maxMeters) {
		return []project.Problem{options.Problem("/meters",
			`Name 1 to %d meters, each with what a request counts for it, such as {"requests": 1}.`, maxMeters)}
	}
	var problems []project.Problem
	for name, raw := range meters {
		pointer := options.Member("/meters", name)
		if name == "" || len(name) > maxMeterBytes {
			problems = append(problems, options.Problem(pointer, "Name a meter by 1 to %d bytes, as its plans do.",
				maxMeterBytes))
			continue
		}
		m := &quotaMeter{name: name, quoted: quote(q.policy + "-" + name)}
		var meterProblems []project.Problem
		if strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
			m.amount, m.units, meterProblems = newAmount(pointer, raw)
			q.readsBodies = q.readsBodies || m.amount != nil && m.amount.pointer != nil
		} else {
			// JSON numbers are read as float64, which does not have all whole numbers above this maximum.
			meterProblems = options.ReadMember(pointer, raw, &m.units, `minimum:"0" maximum:"9007199254740991"`)
		}
		problems = append(problems, meterProblems...)
		q.meters = append(q.meters, m)
	}
	slices.SortStableFunc(problems, func(a, b project.Problem) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(q.meters, func(a, b *quotaMeter) int {
		if (a.amount == nil) != (b.amount == nil) {
			if a.amount != nil {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return problems
}

// Inbound counts the request or refuses it. With failOpen, it lets a request through that can't be counted.
func (q *quota) Inbound(x *pipeline.Exchange) *http.Response {
	if x.User == nil {
		return x.Problem(http.StatusUnauthorized, "This route counts what its callers have bought, and nobody knows who "+
			"this one is. Send the credential that the route asks for.")
	}
	customer := x.User.Sub
	if q.customerKey != nil {
		customer = q.customerKey.text(x.User.Data)
	}
	if customer == "" {
		return x.Problem(http.StatusForbidden, "The caller is known, and its metadata do not say which customer it belongs "+
			"to. Have the owner of the API add that.")
	}
	key, ok := q.idempotencyKey(x)
	if !ok {
		return x.Problem(http.StatusBadRequest,
			"Send one Idempotency-Key of 1 to 255 visible ASCII characters, such as a UUID, or none.")
	}
	state, err := CustomerState{}, errNoQuotas
	if q.subscriptions != nil && q.quotas != nil {
		state, err = q.subscriptions.CustomerState(x.Context, q.accountID, q.bucketID, customer)
	}
	switch {
	case fault.Is(err, fault.NotFound):
		return x.Problem(http.StatusForbidden, "The caller has no subscription for this route. Subscribe to one of the "+
			"plans of the API's owner.")
	case err != nil:
		return q.respondUncountable(x, err)
	case !slices.Contains(q.statuses, state.Status):
		return x.Problem(http.StatusForbidden, fmt.Sprintf("The caller's subscription is %s, and this route is for those "+
			"that are %s. Have the owner of the API change that.", state.Status, joinWithOr(q.statuses)))
	}
	for _, m := range q.meters {
		if _, included := state.Quotas[m.name]; !included {
			return x.Problem(http.StatusForbidden, fmt.Sprintf("The plans of the caller's subscription have no meter %s, for "+
				"which this route counts. Subscribe to one that has.", m.name))
		}
	}
	receipt := ""
	if key != "" {
		receipt = q.receipt(x, key)
	}
	return q.take(x, state, receipt)
}

var errNoQuotas = errors.New("this gateway counts no quotas")

// take counts the request for all meters. If one of them refuses, take counts it for none and returns the refusal.
// If a count is unknown, take returns the response of respondUncountable.
func (q *quota) take(x *pipeline.Exchange, state CustomerState, receipt string) *http.Response {
	c := &reservations{p: q, x: x}
	c.entries = c.inline[:0]
	refused, err := c.reserve(state, receipt)
	switch {
	case err != nil:
		c.release()
		return q.respondUncountable(x, err)
	case refused != nil:
		c.release()
		q.addHeaders(x, refused)
		response := x.Problem(http.StatusTooManyRequests, fmt.Sprintf("Of the meter %s the caller's subscription has fewer "+
			"units left in this period than the request counts for. Repeat it after the time in Retry-After, or change to a "+
			"larger plan.", refused.meter.name))
		if q.sendsHeaders {
			response.Header["Retry-After"] = []string{strconv.FormatInt(wholeSeconds(refused.decision.ResetAfter), 10)}
		}
		return response
	}
	for i := range c.entries {
		q.addHeaders(x, &c.entries[i])
	}
	if q.readsBodies {
		// Amounts can't be read from partial or compressed responses. Set Accept-Encoding here, so that redirects keep it.
		delete(x.Header, "Range")
		delete(x.Header, "If-Range")
		x.Header["Accept-Encoding"] = []string{"identity"}
	}
	if len(c.entries) > 0 {
		x.OnResponse(c.settle)
	}
	return nil
}

// addHeaders adds the remaining units of a meter to the response.
func (q *quota) addHeaders(x *pipeline.Exchange, c *reservation) {
	if !q.sendsHeaders {
		return
	}
	// Both fields are lists: each limit of a route adds a member, and the upstream may add members, too.
	x.AddResponseField("Ratelimit-Policy", c.meter.policyText(c.counter.Limit, c.counter.To.Sub(c.counter.From)))
	x.AddResponseField("Ratelimit", c.meter.quoted+";r="+strconv.FormatInt(c.decision.Remaining,
		10)+";t="+strconv.FormatInt(wholeSeconds(c.decision.ResetAfter), 10))
}

// respondUncountable returns the response to a request that can't be counted, nil to let
// it through. A request whose client has disconnected is not let through.
func (q *quota) respondUncountable(x *pipeline.Exchange, err error) *http.Response {
	x.Cause = fmt.Errorf("count for the policy %s: %w", q.policy, err)
	failOpen := q.failOpen && x.Context.Err() == nil
	if x.Context.Err() == nil {
		q.logUncounted(x, err)
	}
	if failOpen {
		return nil
	}
	response := x.Problem(http.StatusServiceUnavailable,
		"What the caller's subscription has left can't be checked now. Repeat the request in a few seconds.")
	response.Header["Retry-After"] = []string{quotaRetryAfter}
	return response
}

// UncountedRequests is the metric of requests that could not be counted, by outcome.
const UncountedRequests = "uncountedRequests"

// logUncounted logs a request that could not be counted, for the operator.
func (q *quota) logUncounted(x *pipeline.Exchange, err error) {
	outcome := "refused"
	if q.failOpen {
		outcome = "admitted"
	}
	attributes := append(q.attributes(x), slog.String("outcome", outcome), slog.Any("error", err),
		slog.Int(UncountedRequests, 1))
	if q.metrics {
		attributes = append(attributes, telemetry.Count(q.now(), UncountedRequests, "outcome"))
	}
	q.log.LogAttrs(x.Context, slog.LevelWarn, "request not counted", attributes...)
}

func (q *quota) attributes(x *pipeline.Exchange) []slog.Attr {
	operation := ""
	if x.Route != nil {
		operation = x.Route.Info.OperationID
	}
	return []slog.Attr{
		slog.String("requestId", x.RequestID), slog.String("deployment", q.deployment),
		slog.String("operation", operation), slog.String("policy", q.policy),
	}
}

// joinWithOr returns names as a list within a sentence.
func joinWithOr(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
