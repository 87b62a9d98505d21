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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Subscriptions say what customers have bought: shared/metering does.
type Subscriptions interface {
	// Standing says how a customer of a metering bucket stands now. It is called for each
	// request and so has to answer from memory as a rule. A customer without a
	// subscription is a fault of the kind fault.NotFound, and so is a bucket that is not
	// the account's; any other error means that nobody knows.
	Standing(ctx context.Context, accountID, bucketID, customerKey string) (Standing, error)
}

// Standing is what a gateway has to know of a customer.
type Standing struct {
	// Subscription is its id, Status what it is now.
	Subscription, Status string
	// Quotas are the units of each meter in the current period, [From, To).
	Quotas   map[string]int64
	From, To time.Time
}

// quotaOptions are those of quota-inbound (its default statuses are contract
// 3.7's).
type quotaOptions struct {
	BucketID string `json:"bucketId" required:"true"`
	// Meters are increments, or where an answer has the amount: amountOptions.
	Meters          map[string]json.RawMessage `json:"meters" required:"true"`
	CustomerKey     *customerKeyOptions        `json:"customerKey"`
	AllowedStatuses []string                   `json:"allowedStatuses" enum:"active,inactive,incomplete,incomplete-expired,trialing,past-due,canceled,unpaid,paused"`
	OnError         string                     `json:"onError" enum:"closed,open"`
	HeaderMode      string                     `json:"headerMode" enum:"none,retry-after"`
	IdempotencyKeys bool                       `json:"idempotencyKeys"`
}

// customerKeyOptions say where the customer's key is, if it is not the user's sub. A header is
// no such place: what a client writes itself would be counted for whom it likes.
type customerKeyOptions struct {
	// Data is a JSON pointer into the user's data.
	Data string `json:"data" required:"true"`
}

// Bounds of the options.
const (
	maxMeters        = 20
	maxMeterBytes    = 128
	maxBucketIDBytes = 64
)

// quotaRetry is when a request is to be repeated that nobody could count.
const quotaRetry = "5"

// quota lets requests through that their callers have bought, and counts them.
type quota struct {
	policy      string
	accountID   string
	deployment  string
	bucketID    string
	customerKey jsonPointer // nil for the user's sub
	statuses    []string
	meters      []*quotaMeter
	open        bool // to requests that nobody can count
	tells       bool // the quotas, in headers
	once        bool // for an Idempotency-Key
	reads       bool // the bodies of answers

	subscriptions Subscriptions
	quotas        Quotas
	log           *slog.Logger
	metrics       bool
	now           func() time.Time
}

// quotaMeter is a meter that a request counts for.
type quotaMeter struct {
	name   string
	quoted string // as RateLimit names it
	// units are those of each request, or, where amount says how many an answer has used, the
	// most of one.
	units  int64
	amount *amount
	// last is the RateLimit-Policy of a limit and a length: nearly always the next one's too.
	last atomic.Pointer[toldPolicy]
}

// toldPolicy is what RateLimit-Policy says of a quota.
type toldPolicy struct {
	limit, seconds int64
	text           string
}

// policyText is a quota as RateLimit-Policy tells it.
func (m *quotaMeter) policyText(limit int64, length time.Duration) string {
	seconds := wholeSeconds(length)
	if t := m.last.Load(); t != nil && t.limit == limit && t.seconds == seconds {
		return t.text
	}
	t := &toldPolicy{limit, seconds, m.quoted + ";q=" + strconv.FormatInt(limit, 10) + ";w=" + strconv.FormatInt(seconds, 10)}
	m.last.Store(t)
	return t.text
}

var _ pipeline.Inbound = (*quota)(nil)

const quotaType = "quota-inbound"

// WantedMeteringBucket returns the metering bucket that a policy counts in, and where its
// options name it, below the policy's handler. ok is false for a policy that counts in none.
func WantedMeteringBucket(p project.Policy) (bucketID, pointer string, ok bool) {
	if p.Type != quotaType {
		return "", "", false
	}
	var o quotaOptions
	if problems := options.Read(p.Handler.Options, &o); len(problems) > 0 {
		return "", "", false // the build has failed for them
	}
	return o.BucketID, options.Root + "/bucketId", true
}

func newQuota(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := quotaOptions{AllowedStatuses: []string{"active", "incomplete", "trialing"}, OnError: "closed", HeaderMode: "retry-after", IdempotencyKeys: true}
	problems := options.Read(raw, &o)
	if o.BucketID != "" && (!strings.HasPrefix(o.BucketID, "mtr_") || len(o.BucketID) > maxBucketIDBytes) {
		problems = append(problems, options.Problem("/bucketId", `Write the id of a metering bucket, which begins with "mtr_".`))
	}
	if len(o.AllowedStatuses) == 0 {
		problems = append(problems, options.Problem("/allowedStatuses", `Name at least one status, such as "active", or leave the option out.`))
	}
	p := &quota{
		policy: name, bucketID: o.BucketID, statuses: o.AllowedStatuses, open: o.OnError == "open",
		tells: o.HeaderMode == "retry-after", once: o.IdempotencyKeys,
	}
	if o.CustomerKey != nil && o.CustomerKey.Data != "" {
		var text string
		if p.customerKey, text = readPointer(o.CustomerKey.Data); text != "" {
			problems = append(problems, options.Problem("/customerKey/data", "%s", text))
		}
	}
	problems = append(problems, p.read(o.Meters)...)
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p.accountID, p.deployment = s.Identity.AccountID, s.Identity.Deployment
	p.subscriptions, p.quotas, p.log, p.metrics, p.now = s.Subscriptions, s.Quotas, s.Log, s.Metrics, s.Now
	return Provisioned{Inbound: p}, nil
}

// read takes the meters, in the order in which they are counted: first those whose amounts
// are in answers, which every request takes; then those that are counted once for an
// Idempotency-Key (claims.go).
func (p *quota) read(meters map[string]json.RawMessage) []project.Problem {
	if meters != nil && (len(meters) == 0 || len(meters) > maxMeters) {
		return []project.Problem{options.Problem("/meters", `Name 1 to %d meters, each with what a request counts for it, such as {"requests": 1}.`, maxMeters)}
	}
	var problems []project.Problem
	for name, raw := range meters {
		pointer := options.Member("/meters", name)
		if name == "" || len(name) > maxMeterBytes {
			problems = append(problems, options.Problem(pointer, "Name a meter by 1 to %d bytes, as its plans do.", maxMeterBytes))
			continue
		}
		m := &quotaMeter{name: name, quoted: quote(p.policy + "-" + name)}
		var wrong []project.Problem
		if strings.HasPrefix(strings.TrimSpace(string(raw)), "{") {
			m.amount, m.units, wrong = newAmount(pointer, raw)
			p.reads = p.reads || m.amount != nil && m.amount.member != nil
		} else {
			// Beyond that not every whole number has a float64, by which JSON is read.
			wrong = options.ReadMember(pointer, raw, &m.units, `minimum:"0" maximum:"9007199254740991"`)
		}
		problems = append(problems, wrong...)
		p.meters = append(p.meters, m)
	}
	slices.SortStableFunc(problems, func(a, b project.Problem) int { return strings.Compare(a.Path, b.Path) })
	slices.SortFunc(p.meters, func(a, b *quotaMeter) int {
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

// Inbound counts the request, and refuses it where its caller has not bought it.
func (p *quota) Inbound(x *pipeline.Exchange) *http.Response {
	if x.User == nil {
		return x.Problem(http.StatusUnauthorized, "This route counts what its callers have bought, and nobody knows who this one is. Send the credential that the route asks for.")
	}
	customer := x.User.Sub
	if p.customerKey != nil {
		customer = p.customerKey.text(x.User.Data)
	}
	if customer == "" {
		return x.Problem(http.StatusForbidden, "The caller is known, and its metadata do not say which customer it belongs to. Have the owner of the API add that.")
	}
	key, ok := p.key(x)
	if !ok {
		return x.Problem(http.StatusBadRequest, "Send one Idempotency-Key of 1 to 255 visible ASCII characters, such as a UUID, or none.")
	}
	standing, err := Standing{}, errNoQuotas
	if p.subscriptions != nil && p.quotas != nil {
		standing, err = p.subscriptions.Standing(x.Context, p.accountID, p.bucketID, customer)
	}
	switch {
	case fault.Is(err, fault.NotFound):
		return x.Problem(http.StatusForbidden, "The caller has no subscription for this route. Subscribe to one of the plans of the API's owner.")
	case err != nil:
		return p.unknown(x, err)
	case !slices.Contains(p.statuses, standing.Status):
		return x.Problem(http.StatusForbidden, fmt.Sprintf("The caller's subscription is %s, and this route is for those that are %s. Have the owner of the API change that.", standing.Status, alternatives(p.statuses)))
	}
	for _, m := range p.meters {
		if _, sold := standing.Quotas[m.name]; !sold {
			return x.Problem(http.StatusForbidden, fmt.Sprintf("The plans of the caller's subscription have no meter %s, for which this route counts. Subscribe to one that has.", m.name))
		}
	}
	receipt := ""
	if key != "" {
		receipt = p.receipt(x, key)
	}
	return p.take(x, standing, receipt)
}

var errNoQuotas = errors.New("this gateway counts no quotas")

// take counts for all meters or, where one refuses, for none.
func (p *quota) take(x *pipeline.Exchange, standing Standing, receipt string) *http.Response {
	c := &claims{p: p, x: x}
	c.held = c.first[:0]
	refused, err := c.take(standing, receipt)
	switch {
	case err != nil:
		c.release()
		return p.unknown(x, err)
	case refused != nil:
		c.release()
		p.tell(x, refused)
		response := x.Problem(http.StatusTooManyRequests, fmt.Sprintf("Of the meter %s the caller's subscription has fewer units left in this period than the request counts for. Repeat it after the time in Retry-After, or change to a larger plan.", refused.meter.name))
		if p.tells {
			response.Header["Retry-After"] = []string{strconv.FormatInt(wholeSeconds(refused.decision.Ends), 10)}
		}
		return response
	}
	for i := range c.held {
		p.tell(x, &c.held[i])
	}
	if p.reads {
		// A part of an answer is not read, nor one that is compressed. Redirects keep this
		// field.
		delete(x.Header, "Range")
		delete(x.Header, "If-Range")
		x.Header["Accept-Encoding"] = []string{"identity"}
	}
	if len(c.held) > 0 {
		x.After(c.settle)
	}
	return nil
}

// tell has the response say what is left of a meter.
func (p *quota) tell(x *pipeline.Exchange, c *taken) {
	if !p.tells {
		return
	}
	// Lists, to which each limit of a route adds its own, and the upstream may too.
	x.Tell("Ratelimit-Policy", c.meter.policyText(c.counter.Limit, c.counter.To.Sub(c.counter.From)))
	x.Tell("Ratelimit", c.meter.quoted+";r="+strconv.FormatInt(c.decision.Remaining, 10)+";t="+strconv.FormatInt(wholeSeconds(c.decision.Ends), 10))
}

// unknown answers a request that nobody can count, nil to let it through. A client that left
// while it waited gets nothing for it.
func (p *quota) unknown(x *pipeline.Exchange, err error) *http.Response {
	x.Cause = fmt.Errorf("count for the policy %s: %w", p.policy, err)
	open := p.open && x.Context.Err() == nil
	if x.Context.Err() == nil {
		p.uncounted(x, err)
	}
	if open {
		return nil
	}
	response := x.Problem(http.StatusServiceUnavailable, "What the caller's subscription has left can't be checked now. Repeat the request in a few seconds.")
	response.Header["Retry-After"] = []string{quotaRetry}
	return response
}

// UncountedRequests counts, by outcome, the requests that nobody could count.
const UncountedRequests = "uncountedRequests"

// uncounted tells the operator of a request that nobody could count.
func (p *quota) uncounted(x *pipeline.Exchange, err error) {
	outcome := "refused"
	if p.open {
		outcome = "admitted"
	}
	attributes := append(p.attributes(x), slog.String("outcome", outcome), slog.Any("error", err), slog.Int(UncountedRequests, 1))
	if p.metrics {
		attributes = append(attributes, telemetry.Count(p.now(), UncountedRequests, "outcome"))
	}
	p.log.LogAttrs(x.Context, slog.LevelWarn, "request not counted", attributes...)
}

func (p *quota) attributes(x *pipeline.Exchange) []slog.Attr {
	operation := ""
	if x.Route != nil {
		operation = x.Route.Info.OperationID
	}
	return []slog.Attr{slog.String("requestId", x.RequestID), slog.String("deployment", p.deployment), slog.String("operation", operation), slog.String("policy", p.policy)}
}

// alternatives writes names as a sentence has them.
func alternatives(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}
