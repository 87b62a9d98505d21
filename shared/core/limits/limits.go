// Package limits declares the limits of accounts, so that no tenant of an installation takes the resources
// of others. A limit restricts how many things of a kind an account can have, how many requests it can make,
// or how many operations can be in progress. Each limit is declared only here. The commands for operators,
// the problem documents of refusals, docs/limits.md and the settings are derived from these declarations.
//
// An installation has a value for each limit (config.Config.Limits), or the default if nothing is
// set. An account can have its own value, which the installation's operator sets (package counts).
// If a limit is lowered, an account that has more things keeps them, but cannot create more.
//
// The package does not declare limits of a single request, a name or a document. These are
// declared in the packages that check them. Nor does it declare limits of something smaller than an account (a
// project's mTLS certificates, a branch's variables, a metering bucket's plans); the keys of a consumer are the
// exception. It does not import the store: package counts stores the numbers. Function All lists the limits.
package limits

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
)

// Kind says how a limit is counted.
type Kind int

const (
	// Total things are counted exactly, in the transaction that creates a thing.
	Total Kind = iota
	// InProgress things are counted as Total things are. They end without a request of the client.
	InProgress
	// Daily things are counted exactly from midnight to midnight, UTC.
	Daily
	// PerSecond is a rate: a number per second, over all processes.
	PerSecond
	// ConcurrentPerProcess things are in progress at the same time in one process, and only that process
	// counts them. The value is the installation's: accounts cannot have their own.
	ConcurrentPerProcess
	// Slots are things that are in progress at the same time over all processes. Each thing
	// holds a slot meanwhile (package slots). The value is the installation's, as for ConcurrentPerProcess.
	Slots
)

// Limit is one of an account's limits.
type Limit struct {
	// Name identifies the limit in settings, commands, problem documents and the table. It must never change.
	Name string
	Kind Kind
	// Default is the value if no other value is set. Each value is from 1 to Max.
	Default, Max int64
	// Plural is the plural of the counted things, as in a problem document: "projects".
	Plural string
	// Owner is the kind of resource that has the limit: "account", or "consumer" for the keys of one consumer.
	Owner string
	// Remedy is a sentence that says what a caller at the limit can do. "" means that the caller can only wait.
	Remedy string
}

const defaultRemedy = "Delete one that nobody uses any more"

// These are the limits. Defaults are generous: they stop runaway use, but not honest use.
// Max of a Total limit bounds the work of one request that lists or counts the things (package counts). Only
// the Max of Consumers is not such a bound, because package keys stores the number of consumers.
var (
	AccountKeys = Limit{
		Name: "account-keys", Default: 1_000, Max: 10_000, Plural: "account keys", Owner: "account",
		Remedy: "Revoke one that nobody uses any more; an expired one counts as long as it is listed",
	}
	Projects = Limit{
		Name: "projects", Default: 1_000, Max: 10_000, Plural: "projects", Owner: "account",
		Remedy: defaultRemedy,
	}
	Environments = Limit{
		Name: "environments", Default: 10_000, Max: 100_000, Plural: "environments", Owner: "account",
		Remedy: "Delete the deployment of a branch that is gone, or a project that nobody uses any more",
	}
	KeyBuckets = Limit{
		Name: "key-buckets", Default: 5_000, Max: 50_000, Plural: "key buckets", Owner: "account",
		Remedy: defaultRemedy,
	}
	// Consumers limits the consumers in all buckets of an account.
	Consumers = Limit{
		Name: "consumers", Default: 10_000_000, Max: 1_000_000_000, Plural: "consumers", Owner: "account",
		Remedy: defaultRemedy,
	}
	// CustomDomains also counts claims of domains. A list reads all custom domains of an account.
	CustomDomains = Limit{
		Name: "custom-domains", Default: 1_000, Max: 1_000, Plural: "custom domains", Owner: "account",
		Remedy: defaultRemedy,
	}
	// Max of ClientCAs is low because gateways read all client CAs of an
	// account when one has changed: 100 of them take about 30 read units.
	ClientCAs = Limit{
		Name: "client-cas", Default: 100, Max: 100, Plural: "client mTLS CA certificates", Owner: "account",
		Remedy: "Delete one that no client needs any more",
	}
	// Max of Tunnels and TunnelServices is low because the names of all tunnels and of their services are in one item.
	Tunnels = Limit{
		Name: "tunnels", Default: 100, Max: 100, Plural: "tunnels", Owner: "account",
		Remedy: defaultRemedy,
	}
	TunnelServices = Limit{
		Name: "tunnel-services", Default: 1_000, Max: 1_000, Plural: "services behind tunnels", Owner: "account",
		Remedy: "Remove some that nobody calls",
	}
	MeteringBuckets = Limit{
		Name: "metering-buckets", Default: 100, Max: 100, Plural: "metering buckets", Owner: "account",
		Remedy: defaultRemedy,
	}
	// ConsumerKeys limits the keys of one consumer. Together with Consumers it limits all API keys of an account.
	ConsumerKeys = Limit{
		Name: "consumer-keys", Default: 100_000, Max: 1_000_000, Plural: "API keys", Owner: "consumer",
		Remedy: "Delete those that have expired",
	}
	// Deployments limits upload addresses, because each upload may become a build. It also limits builds of existing
	// sources.
	Deployments = Limit{
		Name: "deployments", Kind: Daily, Default: 5_000, Max: 1_000_000, Plural: "deployments a day",
		Owner: "account",
	}
	// Builds limits builds in progress, and upload addresses that may still become a build, which is possible
	// for 21 minutes. So a client cannot collect addresses for hours and turn them into builds in one minute.
	Builds = Limit{
		Name: "builds", Kind: InProgress, Default: 100, Max: 1_000, Plural: "builds and open upload addresses",
		Owner: "account",
	}
	// Requests limits requests to the management API.
	Requests = Limit{
		Name: "requests", Kind: PerSecond, Default: 1_000, Max: 100_000,
		Plural: "requests a second to the management API", Owner: "account",
	}
	// GatewayRequests limits the requests in progress at deployments of an account, from
	// a request's head to the end of its response, including WebSockets and streams.
	GatewayRequests = Limit{
		Name: "gateway-requests", Kind: ConcurrentPerProcess, Default: 5_000, Max: 1_000_000,
		Plural: "requests under way at one gateway process", Owner: "account",
	}
	// GatewayStreams limits the long-lived part of GatewayRequests: WebSockets and other protocols, and
	// responses in parts, such as event streams. It leaves capacity for an account's other requests.
	GatewayStreams = Limit{
		Name: "gateway-streams", Kind: ConcurrentPerProcess, Default: 2_500, Max: 1_000_000,
		Plural: "streams under way at one gateway process", Owner: "account",
	}
	// FunctionStreams limits long-lived responses of a gateway in Lambda: event
	// streams, and every response that takes longer than a response without streaming
	// may take. Each occupies one of the function's processes for up to 15 minutes.
	FunctionStreams = Limit{
		Name: "function-streams", Kind: Slots, Default: 100, Max: 1_000,
		Plural: "streams under way at the gateway's function", Owner: "account",
	}
)

// All returns the limits, in the order of docs/limits.md.
func All() []Limit {
	return []Limit{
		AccountKeys, Projects, Environments, KeyBuckets, Consumers, ConsumerKeys, CustomDomains, ClientCAs,
		Tunnels, TunnelServices, MeteringBuckets, Deployments, Builds, Requests, GatewayRequests, GatewayStreams,
		FunctionStreams,
	}
}

// PerAccount returns the limits that an account can have its own value for.
func PerAccount() []Limit {
	return slices.DeleteFunc(All(), func(l Limit) bool { return l.Kind == ConcurrentPerProcess || l.Kind == Slots })
}

// Find returns the limit with a name. Fault: Invalid, which lists all names.
func Find(list []Limit, name string) (Limit, error) {
	for _, l := range list {
		if l.Name == name {
			return l, nil
		}
	}
	return Limit{}, fault.InvalidField("limit", "is none of %s", names(list))
}

// Check returns a fault if the limit cannot have the value. Fault: Invalid.
func (l Limit) Check(value int64) error {
	if value < 1 || value > l.Max {
		return fault.InvalidField("value", "%s can be 1 to %d", l.Name, l.Max)
	}
	return nil
}

// Refusal returns the fault for a request that would exceed the limit. value is the limit's value for the
// account. count is the account's current number of things. The fault is Forbidden for a Total limit, and
// Throttled for all other limits. after is the Retry-After, which Refusal rounds up to at least one second.
func (l Limit) Refusal(count, value int64, after time.Duration) *fault.Fault {
	if l.Kind == Total {
		return fault.New(fault.Forbidden,
			"The %s has %d %s, and its limit %s is %d. %s, or ask whoever runs the installation for more.",
			l.Owner, count, l.Plural, l.Name, value, l.Remedy)
	}
	f := fault.New(fault.Throttled, "The %s has had %d %s, and its limit %s is %d. Repeat the request after the time in "+
		"Retry-After, or ask whoever runs the installation for more.",
		l.Owner, count, l.Plural, l.Name, value)
	switch l.Kind {
	case ConcurrentPerProcess, Slots, InProgress:
		f = fault.New(fault.Throttled,
			"The %s has %d %s, and its limit %s is %d. Repeat the request after the time in Retry-After.",
			l.Owner, count, l.Plural, l.Name, value)
	case Total, Daily, PerSecond:
	}
	// round up, because a client that repeats its request too early is refused again
	f.RetryAfter = max(after+time.Second-1, time.Second).Truncate(time.Second)
	return f
}

// Values has the limits' values of an installation, by the limits' names. A limit without a value has its default.
type Values map[string]int64

// Get returns the value of a limit.
func (v Values) Get(l Limit) int64 {
	if value, ok := v[l.Name]; ok {
		return value
	}
	return l.Default
}

// Parse parses the values in a setting: entries NAME=VALUE, separated by spaces.
// The error never contains text from the setting that is not the name of a limit.
func Parse(text string) (Values, error) {
	out := Values{}
	for i, field := range strings.Fields(text) {
		name, number, _ := strings.Cut(field, "=")
		l, err := Find(All(), name)
		if err != nil {
			return nil, fmt.Errorf("word %d names no limit: write NAME=VALUE with spaces between, of %s", i+1, names(All()))
		}
		value, err := strconv.ParseInt(number, 10, 64)
		if err != nil || l.Check(value) != nil {
			return nil, fmt.Errorf("%s can be 1 to %d, such as %[1]s=%[3]d", l.Name, l.Max, l.Default)
		}
		if _, duplicate := out[name]; duplicate {
			return nil, fmt.Errorf("%s is there twice", name)
		}
		out[name] = value
	}
	if len(out) == 0 {
		return nil, nil
	}
	return out, nil
}

// String returns the values in the format of Parse.
func (v Values) String() string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(v)) {
		fields = append(fields, name+"="+strconv.FormatInt(v[name], 10))
	}
	return strings.Join(fields, " ")
}

func names(list []Limit) string {
	out := make([]string, len(list))
	for i, l := range list {
		out[i] = l.Name
	}
	return strings.Join(out, ", ")
}
