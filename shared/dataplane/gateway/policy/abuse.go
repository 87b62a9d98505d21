package policy

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/clientaddr"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

const abuseType = "abuse-inbound"

// abuseOptions are the options of abuse-inbound. The pointers are nil for options that a project does not set.
type abuseOptions struct {
	By            string   `json:"by" required:"true" enum:"ip,user"`
	Statuses      []int64  `json:"statuses" minimum:"200" maximum:"599"`
	Limit         *int64   `json:"limit" minimum:"1" maximum:"1000000"`
	WindowMinutes *float64 `json:"windowMinutes" minimum:"0.01" maximum:"1440"`
	BlockMinutes  *float64 `json:"blockMinutes" minimum:"0.01" maximum:"1440"`
	MaxConcurrent *int64   `json:"maxConcurrent" minimum:"1" maximum:"100000"`
}

const (
	defaultAbuseWindow = time.Minute
	defaultAbuseBlock  = 10 * time.Minute
	// maxAbusers is the maximum number of callers of a policy that are remembered for their responses.
	maxAbusers = 10_000
)

// abuse blocks callers with too many responses of some statuses, and bounds their requests in flight.
type abuse struct {
	byUser        bool
	statuses      []int64
	limit         int64 // 0 for none
	window, block time.Duration
	maxConcurrent int64 // 0 for no bound
	memory        *Memory
	state         *abuseState
}

var _ pipeline.Inbound = (*abuse)(nil)

// abuseState counts the callers of a policy.
type abuseState struct {
	callers *expiring[abuseCount]
	mu      sync.Mutex
	// inFlight has the callers with requests in flight, so the number of requests of the process bounds its size.
	inFlight map[fingerprint]int64
}

// abuseCount is the number of counted responses of a caller since the beginning of a window.
type abuseCount struct {
	count        int64
	windowEnd    time.Time
	blockedUntil time.Time // zero if the caller is not blocked
}

// limitsAbusers reports whether a policy counts users, and whether it counts a status.
func limitsAbusers(raw json.RawMessage, status int64) (byUser, counts bool) {
	var o abuseOptions
	options.Read(raw, &o)
	return o.By == "user", o.Limit != nil && slices.Contains(o.Statuses, status)
}

func newAbuse(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	var o abuseOptions
	problems := options.Read(raw, &o)
	if len(problems) == 0 {
		problems = checkAbuse(&o)
	}
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p := &abuse{
		byUser: o.By == "user", statuses: o.Statuses, window: defaultAbuseWindow, block: defaultAbuseBlock,
		memory: memoryOf(s),
	}
	if o.Limit != nil {
		p.limit = *o.Limit
	}
	if o.MaxConcurrent != nil {
		p.maxConcurrent = *o.MaxConcurrent
	}
	if o.WindowMinutes != nil {
		p.window = minutes(*o.WindowMinutes)
	}
	if o.BlockMinutes != nil {
		p.block = minutes(*o.BlockMinutes)
	}
	p.state = scopeOf(p.memory, scopeName(abuseType, name, s.Identity), func() *abuseState {
		return &abuseState{callers: newExpiring[abuseCount](maxAbusers), inFlight: map[fingerprint]int64{}}
	})
	return Provisioned{Inbound: p}, nil
}

func minutes(n float64) time.Duration {
	return time.Duration(n * float64(time.Minute)).Round(time.Millisecond)
}

// checkAbuse returns the problems of options that do not fit together.
func checkAbuse(o *abuseOptions) (problems []project.Problem) {
	report := func(at, text string) { problems = append(problems, options.Problem(at, "%s", text)) }
	if o.Limit == nil && o.MaxConcurrent == nil && o.Statuses == nil {
		report("", "Set limit and statuses, or maxConcurrent, or both: this policy refuses nothing.")
	}
	if o.Limit != nil && len(o.Statuses) == 0 {
		report("/statuses", "Name the statuses that limit counts, such as 401, 403 and 404.")
	}
	if o.Limit == nil && (o.Statuses != nil || o.WindowMinutes != nil || o.BlockMinutes != nil) {
		report("/limit", "Add this option, or remove statuses, windowMinutes and blockMinutes: they have no effect "+
			"without it.")
	}
	return problems
}

// caller returns the fingerprint of the caller of a request: its user, or the address of its client.
func (a *abuse) caller(x *pipeline.Exchange) fingerprint {
	if a.byUser && x.User != nil {
		return a.memory.fingerprint("user", x.User.Sub)
	}
	return a.memory.fingerprint("ip", clientaddr.Canonical(x.Client).String())
}

// Inbound refuses the requests of a blocked caller, and those beyond the bound of its requests in flight. For other
// requests, it counts the response.
func (a *abuse) Inbound(x *pipeline.Exchange) *http.Response {
	caller := a.caller(x)
	if wait := a.state.blockedFor(caller, a.memory.now()); a.limit > 0 && wait > 0 {
		return tooMany(x, "Too many requests of this caller have failed. Wait for the time in Retry-After.", wait)
	}
	if a.maxConcurrent > 0 && x.Hold(a.state) {
		if !a.state.reserve(caller, a.maxConcurrent) {
			return tooMany(x, "This caller has too many requests in flight. Wait for their responses, and repeat the request.",
				time.Second)
		}
		x.OnEnd(func() { a.state.release(caller) })
	}
	if a.limit > 0 {
		x.OnResponse(func(response *http.Response, _ bool) {
			if slices.Contains(a.statuses, int64(response.StatusCode)) {
				a.count(caller)
			}
		})
	}
	return nil
}

// tooMany returns a 429 response with Retry-After.
func tooMany(x *pipeline.Exchange, detail string, wait time.Duration) *http.Response {
	response := x.Problem(http.StatusTooManyRequests, detail)
	response.Header["Retry-After"] = []string{strconv.FormatInt(wholeSeconds(wait), 10)}
	return response
}

// blockedFor returns how long a caller is blocked, 0 if it is not.
func (s *abuseState) blockedFor(caller fingerprint, now time.Time) time.Duration {
	s.callers.mu.Lock()
	defer s.callers.mu.Unlock()
	c, _ := s.callers.get(caller, now)
	return max(0, c.blockedUntil.Sub(now))
}

// count counts a response. The response that reaches the limit blocks the caller. Responses to requests that were in
// flight then do not make the block longer.
func (a *abuse) count(caller fingerprint) {
	now := a.memory.now()
	a.state.callers.mu.Lock()
	defer a.state.callers.mu.Unlock()
	c, _ := a.state.callers.get(caller, now)
	if now.Before(c.blockedUntil) {
		return
	}
	if !now.Before(c.windowEnd) {
		c = abuseCount{windowEnd: now.Add(a.window)}
	}
	end := c.windowEnd
	if c.count++; c.count >= a.limit {
		c = abuseCount{blockedUntil: now.Add(a.block)}
		end = c.blockedUntil
	}
	a.state.callers.put(caller, c, now, end)
}

// reserve counts a request in flight. It returns false if the caller has limit of them already.
func (s *abuseState) reserve(caller fingerprint, limit int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[caller] >= limit {
		return false
	}
	s.inFlight[caller]++
	return true
}

// release undoes reserve.
func (s *abuseState) release(caller fingerprint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inFlight[caller]--; s.inFlight[caller] == 0 {
		delete(s.inFlight, caller)
	}
}
