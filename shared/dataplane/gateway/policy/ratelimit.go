package policy

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/clientaddr"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Allowances counts units per window over all instances; shared/core/allowance implements it.
type Allowances interface {
	// Take takes one unit. An error means that the count is unknown.
	Take(ctx context.Context, a Allowance) (Decision, error)
}

// Allowance is a number of units for each window of time.
type Allowance struct {
	// Name identifies the allowance. It can contain a consumer's name or a client's address, but no secret.
	Name   string
	Limit  int64
	Window time.Duration
	// Async admits a request without waiting for other instances. So it sometimes
	// admits more units than the limit. If Async is false, the limit is exact.
	Async bool
}

// Decision is the result of Take.
type Decision struct {
	Admitted bool
	// Remaining is approximately the number of units left in the window. ResetAfter is the time until the window ends.
	Remaining  int64
	ResetAfter time.Duration
}

// rateLimitOptions are the options of rate-limit-inbound (contract 4.5).
type rateLimitOptions struct {
	By                string          `json:"rateLimitBy" required:"true" enum:"user,ip,function,all"`
	RequestsAllowed   int64           `json:"requestsAllowed" required:"true" minimum:"1"`
	TimeWindowMinutes float64         `json:"timeWindowMinutes" required:"true" minimum:"0.01" maximum:"525600"`
	HeaderMode        string          `json:"headerMode" enum:"none,retry-after"`
	ThrowOnFailure    bool            `json:"throwOnFailure"`
	Mode              string          `json:"mode" enum:"strict,async"`
	Identifier        json.RawMessage `json:"identifier"`
}

// defaultRateLimitOptions returns the values of options that a project does not set.
func defaultRateLimitOptions() rateLimitOptions {
	return rateLimitOptions{HeaderMode: "retry-after", Mode: "strict"}
}

// rateLimit refuses requests that exceed a limit.
type rateLimit struct {
	prefix         string // prefix of the names of the policy's allowances
	byUser, byIP   bool
	limit          int64
	window         time.Duration
	async          bool
	sendsHeaders   bool   // whether to send the limit in headers
	policyField    string // the member of the RateLimit-Policy field
	quotedName     string // the policy's name in the RateLimit field
	throwOnFailure bool
	allowances     Allowances
}

var _ pipeline.Inbound = (*rateLimit)(nil)

const rateLimitType = "rate-limit-inbound"

// limitsUsers reports whether a policy's options limit the requests of each user.
func limitsUsers(raw json.RawMessage) bool {
	var o rateLimitOptions
	options.Read(raw, &o)
	return o.By == "user"
}

func newRateLimit(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultRateLimitOptions()
	problems := options.Read(raw, &o)
	if o.By == "function" {
		problems = append(problems, options.Problem("/rateLimitBy",
			`Write "user", "ip" or "all": functions of a project's own can't be run here.`))
	} else if len(o.Identifier) > 0 {
		problems = append(problems, options.Problem("/identifier",
			`Remove "identifier": it names a function of the project's own, and none can be run here.`))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	window := time.Duration(o.TimeWindowMinutes * float64(time.Minute)).Round(time.Millisecond)
	quoted := quote(name)
	return Provisioned{Inbound: &rateLimit{
		// Use the deployment's name and not its build, so that a redeployment does not reset
		// a limit. With the policy's name, routes that share the policy share the limit.
		prefix:         strings.Join([]string{"rate-limit", s.Identity.AccountID, s.Identity.Deployment, name, o.By}, "/"),
		byUser:         o.By == "user",
		byIP:           o.By == "ip",
		limit:          o.RequestsAllowed,
		window:         window,
		async:          o.Mode == "async",
		sendsHeaders:   o.HeaderMode == "retry-after",
		policyField:    fmt.Sprintf("%s;q=%d;w=%d", quoted, o.RequestsAllowed, wholeSeconds(window)),
		quotedName:     quoted,
		throwOnFailure: o.ThrowOnFailure,
		allowances:     s.Allowances,
	}}, nil
}

// Inbound takes a unit of the request's allowance. It refuses the request if no unit is left.
func (l *rateLimit) Inbound(x *pipeline.Exchange) *http.Response {
	decision, err := l.allowances.Take(x.Context, Allowance{
		Name: l.allowanceName(x), Limit: l.limit, Window: l.window,
		Async: l.async,
	})
	switch {
	case err != nil && l.throwOnFailure:
		x.Cause = err
		return x.Problem(http.StatusServiceUnavailable,
			"The rate limit can't be checked now. Repeat the request in a few seconds.")
	case err != nil:
		// Without throwOnFailure, let a request through that can't be counted.
		x.Cause = err
		return nil
	}
	resetAfter := wholeSeconds(decision.ResetAfter)
	if l.sendsHeaders {
		// Both fields are lists: each limit of a route adds a member, and the upstream may add members, too.
		x.AddResponseField("Ratelimit-Policy", l.policyField)
		var buf [64]byte // enough for most values
		text := strconv.AppendInt(append(append(buf[:0], l.quotedName...), ";r="...), decision.Remaining, 10)
		x.AddResponseField("Ratelimit", string(strconv.AppendInt(append(text, ";t="...), resetAfter, 10)))
	}
	if decision.Admitted {
		return nil
	}
	response := x.Problem(http.StatusTooManyRequests, "Rate limit exceeded")
	if l.sendsHeaders {
		response.Header["Retry-After"] = []string{strconv.FormatInt(resetAfter, 10)}
	}
	return response
}

// wholeSeconds returns a duration as headers express it: in seconds, rounded up, at least one.
func wholeSeconds(d time.Duration) int64 { return max(1, int64(math.Ceil(d.Seconds()))) }

// quote returns a name as a string of a structured field (RFC 9651, section 3.3.3). It replaces quotes, backslashes,
// control characters and non-ASCII characters with "_".
func quote(name string) string {
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, name) + `"`
}

// allowanceName returns the name of the request's allowance. If users are limited, a request
// without a user counts for its address, so that every request has a limit.
func (l *rateLimit) allowanceName(x *pipeline.Exchange) string {
	switch {
	case l.byUser && x.User != nil:
		return l.prefix + "/user:" + x.User.Sub
	case l.byUser, l.byIP:
		return l.prefix + "/ip:" + clientaddr.Canonical(x.Client).String()
	}
	return l.prefix
}
