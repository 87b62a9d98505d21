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

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/subscriber"
)

// Allowances counts what may happen so often in a window over all instances:
// shared/allowance does.
type Allowances interface {
	// Take asks for one unit. An error means that nobody can tell.
	Take(ctx context.Context, a Allowance) (Decision, error)
}

// Allowance is a limit for each window of a length.
type Allowance struct {
	// Name tells it from all others. It may hold a consumer's name or a
	// client's address, and no secret.
	Name   string
	Limit  int64
	Window time.Duration
	// Async admits without waiting for other instances, and so sometimes too
	// much; otherwise not one unit too many is admitted.
	Async bool
}

// Decision is the answer to Take.
type Decision struct {
	Admitted bool
	// Remaining is about what is left of the window's units, Ends when it ends.
	Remaining int64
	Ends      time.Duration
}

// rateLimitOptions are those of rate-limit-inbound (contract 4.5).
type rateLimitOptions struct {
	By                string          `json:"rateLimitBy" required:"true" enum:"user,ip,function,all"`
	RequestsAllowed   int64           `json:"requestsAllowed" required:"true" minimum:"1"`
	TimeWindowMinutes float64         `json:"timeWindowMinutes" required:"true" minimum:"0.01" maximum:"525600"`
	HeaderMode        string          `json:"headerMode" enum:"none,retry-after"`
	ThrowOnFailure    bool            `json:"throwOnFailure"`
	Mode              string          `json:"mode" enum:"strict,async"`
	Identifier        json.RawMessage `json:"identifier"`
}

// rateLimit refuses the requests that are too many.
type rateLimit struct {
	prefix         string // of its allowances' names
	byUser, byIP   bool
	limit          int64
	window         time.Duration
	async          bool
	tells          bool // the limit, in headers
	policy         string
	quoted         string
	throwOnFailure bool
	allowances     Allowances
}

var _ pipeline.Inbound = (*rateLimit)(nil)

const rateLimitType = "rate-limit-inbound"

// limitsUsers reports whether a policy's options limit by user.
func limitsUsers(raw json.RawMessage) bool {
	var o rateLimitOptions
	options.Read(raw, &o)
	return o.By == "user"
}

func newRateLimit(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := rateLimitOptions{HeaderMode: "retry-after", Mode: "strict"}
	problems := options.Read(raw, &o)
	if o.By == "function" {
		problems = append(problems, options.Problem("/rateLimitBy", `Write "user", "ip" or "all": functions of a project's own can't be run here.`))
	} else if len(o.Identifier) > 0 {
		problems = append(problems, options.Problem("/identifier", `Remove "identifier": it names a function of the project's own, and none can be run here.`))
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	window := time.Duration(o.TimeWindowMinutes * float64(time.Minute)).Round(time.Millisecond)
	quoted := quote(name)
	return Provisioned{Inbound: &rateLimit{
		// The deployment's name, not its build: a redeploy is no way around a
		// limit. The policy's name: routes that share the policy share the limit.
		prefix:         strings.Join([]string{"rate-limit", s.Identity.AccountID, s.Identity.Deployment, name, o.By}, "/"),
		byUser:         o.By == "user",
		byIP:           o.By == "ip",
		limit:          o.RequestsAllowed,
		window:         window,
		async:          o.Mode == "async",
		tells:          o.HeaderMode == "retry-after",
		policy:         fmt.Sprintf("%s;q=%d;w=%d", quoted, o.RequestsAllowed, wholeSeconds(window)),
		quoted:         quoted,
		throwOnFailure: o.ThrowOnFailure,
		allowances:     s.Allowances,
	}}, nil
}

// Inbound takes a unit of the allowance that the request counts for.
func (p *rateLimit) Inbound(x *pipeline.Exchange) *http.Response {
	decision, err := p.allowances.Take(x.Context, Allowance{Name: p.name(x), Limit: p.limit, Window: p.window, Async: p.async})
	switch {
	case err != nil && p.throwOnFailure:
		x.Cause = err
		return x.Problem(http.StatusServiceUnavailable, "The rate limit can't be checked now. Repeat the request in a few seconds.")
	case err != nil:
		// The project prefers an unlimited request to a refused one.
		x.Cause = err
		return nil
	}
	ends := wholeSeconds(decision.Ends)
	if p.tells {
		// Lists, to which each limit of a route adds its own, and the upstream may too.
		x.Tell("Ratelimit-Policy", p.policy)
		var room [64]byte // which most need no more than
		text := strconv.AppendInt(append(append(room[:0], p.quoted...), ";r="...), decision.Remaining, 10)
		x.Tell("Ratelimit", string(strconv.AppendInt(append(text, ";t="...), ends, 10)))
	}
	if decision.Admitted {
		return nil
	}
	response := x.Problem(http.StatusTooManyRequests, "Rate limit exceeded")
	if p.tells {
		response.Header["Retry-After"] = []string{strconv.FormatInt(ends, 10)}
	}
	return response
}

// wholeSeconds is a time in seconds as headers tell it: never sooner, at least one.
func wholeSeconds(d time.Duration) int64 { return max(1, int64(math.Ceil(d.Seconds()))) }

// quote is a policy's name as a header has it (RFC 9651, 3.3.3): in ASCII.
func quote(name string) string {
	return `"` + strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '_'
		}
		return r
	}, name) + `"`
}

// name is whose allowance it is. A request without a user counts for its
// address where users are limited, so that nobody is without a limit.
func (p *rateLimit) name(x *pipeline.Exchange) string {
	switch {
	case p.byUser && x.User != nil:
		return p.prefix + "/user:" + x.User.Sub
	case p.byUser, p.byIP:
		return p.prefix + "/ip:" + subscriber.Of(x.Client).String()
	}
	return p.prefix
}
