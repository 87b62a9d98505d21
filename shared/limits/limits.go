// Package limits declares what bounds an account, so that no tenant of an installation takes what is the others': how many
// of a thing it has, how often it asks, what it has under way. Each limit is declared once, here; what operators type, the
// problem that a refusal is, docs/limits.md and the settings are made of it.
//
// An installation has a value of each limit (config.Config.Limits), the default where nothing is set, and an account may
// have one of its own, which whoever runs the installation gives it (package counts). An account that has more than a
// lowered limit keeps what it has, and makes no more.
//
// What it is not: bounds of a single request, a name or a document, which stand where those are checked, nor of what is
// smaller than an account (a project's mTLS certificates, a branch's variables, a metering bucket's plans). It imports no
// store: package counts below it keeps the numbers. Read All.
package limits

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
)

// Kind is how a limit is counted.
type Kind int

const (
	// Kept things are counted exactly, in the transaction that makes one.
	Kept Kind = iota
	// UnderWay things are counted as Kept ones are, and end by themselves.
	UnderWay
	// Daily things are counted exactly from midnight to midnight, UTC.
	Daily
	// Second is a rate: so many in a second, over all processes.
	Second
	// AtOnce are under way at the same time at one process, which alone knows of them: the
	// value is the installation's, and no account has its own.
	AtOnce
	// Slots are under way at the same time over all processes, each of which has a slot meanwhile (package slots). The
	// value is the installation's, as that of AtOnce is.
	Slots
)

// Limit is one of an account's limits.
type Limit struct {
	// Name tells it from all others, in settings, commands, problems and the table. It never changes.
	Name string
	Kind Kind
	// Default holds where nothing else is said; a value is 1 to Most.
	Default, Most int64
	// Things are what is counted, as a problem says it: "projects".
	Things string
	// Of is whose they are: "account", or something smaller that has the limit each.
	Of string
	// Cure is what a caller at the limit can do, a sentence; "" for waiting.
	Cure string
}

const cure = "Delete one that nobody uses any more"

// The limits. Defaults are generous: they end what runs away and no honest use. The highest value is what a list of the
// things, or the count of them (package counts), still does within a request.
var (
	AccountKeys = Limit{
		Name: "account-keys", Default: 1_000, Most: 10_000, Things: "account keys", Of: "account",
		Cure: "Revoke one that nobody uses any more; an expired one counts as long as it is listed",
	}
	Projects     = Limit{Name: "projects", Default: 1_000, Most: 10_000, Things: "projects", Of: "account", Cure: cure}
	Environments = Limit{
		Name: "environments", Default: 10_000, Most: 100_000, Things: "environments", Of: "account",
		Cure: "Delete the deployment of a branch that is gone, or a project that nobody uses any more",
	}
	KeyBuckets = Limit{Name: "key-buckets", Default: 5_000, Most: 50_000, Things: "key buckets", Of: "account", Cure: cure}
	// Consumers are those of all buckets of an account.
	Consumers = Limit{Name: "consumers", Default: 10_000_000, Most: 1_000_000_000, Things: "consumers", Of: "account", Cure: cure}
	// CustomDomains include claims; a list reads them whole, as gateways do ClientCAs: 100 in some 30 read units, when one has changed.
	CustomDomains = Limit{Name: "custom-domains", Default: 1_000, Most: 1_000, Things: "custom domains", Of: "account", Cure: cure}
	ClientCAs     = Limit{
		Name: "client-cas", Default: 100, Most: 100, Things: "client mTLS CA certificates", Of: "account",
		Cure: "Delete one that no client needs any more",
	}
	// The names of all Tunnels and of their TunnelServices stand in one item.
	Tunnels        = Limit{Name: "tunnels", Default: 100, Most: 100, Things: "tunnels", Of: "account", Cure: cure}
	TunnelServices = Limit{
		Name: "tunnel-services", Default: 1_000, Most: 1_000, Things: "services behind tunnels", Of: "account",
		Cure: "Remove some that nobody calls",
	}
	MeteringBuckets = Limit{Name: "metering-buckets", Default: 100, Most: 100, Things: "metering buckets", Of: "account", Cure: cure}
	// ConsumerKeys are those of one consumer: with Consumers they bound all keys of an account.
	ConsumerKeys = Limit{
		Name: "consumer-keys", Default: 100_000, Most: 1_000_000, Things: "API keys", Of: "consumer",
		Cure: "Delete those that have expired",
	}
	// Deployments are upload addresses given out, each of which may become a build, and builds
	// of sources that are there.
	Deployments = Limit{Name: "deployments", Kind: Daily, Default: 5_000, Most: 1_000_000, Things: "deployments a day", Of: "account"}
	// Builds are what has begun and not ended: upload addresses that may yet become a build, which is for 21 minutes, and
	// builds. So nobody has addresses given out over hours become builds in one minute.
	Builds = Limit{Name: "builds", Kind: UnderWay, Default: 100, Most: 1_000, Things: "builds and open upload addresses", Of: "account"}
	// Requests are those to the management API.
	Requests = Limit{Name: "requests", Kind: Second, Default: 1_000, Most: 100_000, Things: "requests a second to the management API", Of: "account"}
	// GatewayRequests are those that deployments of an account have under way, from a request's
	// head to the end of its answer, WebSockets and streams included.
	GatewayRequests = Limit{
		Name: "gateway-requests", Kind: AtOnce, Default: 5_000, Most: 1_000_000,
		Things: "requests under way at one gateway process", Of: "account",
	}
	// GatewayStreams are those of GatewayRequests that stay: WebSockets and other protocols, and answers in parts, such as
	// streams of events. They leave room for an account's other requests.
	GatewayStreams = Limit{
		Name: "gateway-streams", Kind: AtOnce, Default: 2_500, Most: 1_000_000,
		Things: "streams under way at one gateway process", Of: "account",
	}
	// FunctionStreams are what a gateway in Lambda has under way that stays: streams of events, and every answer that has gone on for longer than
	// an answer without streaming may. Each has one of the function's processes for itself, up to a quarter of an hour.
	FunctionStreams = Limit{
		Name: "function-streams", Kind: Slots, Default: 100, Most: 1_000,
		Things: "streams under way at the gateway's function", Of: "account",
	}
)

// All are the limits, in the order of docs/limits.md.
func All() []Limit {
	return []Limit{AccountKeys, Projects, Environments, KeyBuckets, Consumers, ConsumerKeys, CustomDomains, ClientCAs, Tunnels, TunnelServices, MeteringBuckets, Deployments, Builds, Requests, GatewayRequests, GatewayStreams, FunctionStreams}
}

// Own are those that an account may have a value of its own of.
func Own() []Limit {
	return slices.DeleteFunc(All(), func(l Limit) bool { return l.Kind == AtOnce || l.Kind == Slots })
}

// Find gives the limit of a name among some. Fault: Invalid, which names them all.
func Find(among []Limit, name string) (Limit, error) {
	for _, l := range among {
		if l.Name == name {
			return l, nil
		}
	}
	return Limit{}, fault.InvalidField("limit", "is none of %s", names(among))
}

// Check refuses a value that the limit cannot have. Fault: Invalid.
func (l Limit) Check(value int64) error {
	if value < 1 || value > l.Most {
		return fault.InvalidField("value", "%s can be 1 to %d", l.Name, l.Most)
	}
	return nil
}

// Refusal is the fault of a request that would go beyond the limit, of which the value is most, where the account has count.
// That of a Kept thing is Forbidden, all others are Throttled for as long as after says, a second at least, rounded up to seconds: the Retry-After.
func (l Limit) Refusal(count, most int64, after time.Duration) *fault.Fault {
	if l.Kind == Kept {
		return fault.New(fault.Forbidden, "The %s has %d %s, and its limit %s is %d. %s, or ask whoever runs the installation for more.",
			l.Of, count, l.Things, l.Name, most, l.Cure)
	}
	f := fault.New(fault.Throttled, "The %s has had %d %s, and its limit %s is %d. Repeat the request after the time in Retry-After, or ask whoever runs the installation for more.",
		l.Of, count, l.Things, l.Name, most)
	switch l.Kind {
	case AtOnce, Slots, UnderWay:
		f = fault.New(fault.Throttled, "The %s has %d %s, and its limit %s is %d. Repeat the request after the time in Retry-After.",
			l.Of, count, l.Things, l.Name, most)
	case Kept, Daily, Second:
	}
	f.RetryAfter = max(after+time.Second-1, time.Second).Truncate(time.Second) // who comes early is refused again
	return f
}

// Values are those of an installation by the limits' names; one that is not there has its default.
type Values map[string]int64

// Of is the value of a limit.
func (v Values) Of(l Limit) int64 {
	if value, there := v[l.Name]; there {
		return value
	}
	return l.Default
}

// Parse reads values as a setting has them: NAME=VALUE with spaces between. The error names what is wrong, and never holds a
// text that is no name of a limit.
func Parse(text string) (Values, error) {
	out := Values{}
	for i, word := range strings.Fields(text) {
		name, number, _ := strings.Cut(word, "=")
		l, err := Find(All(), name)
		if err != nil {
			return nil, fmt.Errorf("word %d names no limit: write NAME=VALUE with spaces between, of %s", i+1, names(All()))
		}
		value, err := strconv.ParseInt(number, 10, 64)
		if err != nil || l.Check(value) != nil {
			return nil, fmt.Errorf("%s can be 1 to %d, such as %[1]s=%[3]d", l.Name, l.Most, l.Default)
		}
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		out[name] = value
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// String is what Parse reads.
func (v Values) String() string {
	var words []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		words = append(words, name+"="+strconv.FormatInt(v[name], 10))
	}
	return strings.Join(words, " ")
}

func names(of []Limit) string {
	out := make([]string, len(of))
	for i, l := range of {
		out[i] = l.Name
	}
	return strings.Join(out, ", ")
}
