package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// These are the numbers behind the reservations of concurrency.
const (
	// minUnreserved is the minimum concurrency that Lambda requires for functions without a reservation.
	minUnreserved = 100
	// A function with routes, or one that the bucket or the table's stream calls, reserves the concurrency divided by
	// interactiveDivisor: 20 of 1,000. A function that only a schedule or an operator calls reserves the concurrency
	// divided by backgroundDivisor.
	interactiveDivisor, backgroundDivisor = 50, 500
)

// checkThrottles returns an error with a line for each invalid throttle or reservation. These limits keep one part of
// an installation from starving another.
func (s Settings) checkThrottles() error {
	var errs []error
	for _, pair := range []struct {
		name        string
		rate, burst int
	}{{"api", s.APIRate, s.APIBurst}, {"gateway", s.GatewayRate, s.GatewayBurst}} {
		if (pair.rate == 0) != (pair.burst == 0) {
			errs = append(errs, fmt.Errorf("-c %[1]sRate and -c %[1]sBurst are both 0, for none, or neither", pair.name))
		}
	}
	return errors.Join(append(errs, s.checkReserved(functionSpecs(s)))...)
}

// checkReserved returns an error if Lambda would refuse the reservations.
func (s Settings) checkReserved(specs []functionSpec) error {
	if s.Concurrency == 0 {
		return nil
	}
	if unreserved := s.unreserved(specs); unreserved < minUnreserved {
		return fmt.Errorf("-c concurrency=%d would leave %d calls at once for what reserves none, and Lambda wants %d: "+
			"give the quota that `aws lambda get-account-settings` says, or 0 to reserve nothing",
			s.Concurrency, max(unreserved, 0), minUnreserved)
	}
	return nil
}

// unreserved returns the concurrency that is left for functions without a reservation, such as the function that serves
// deployments.
func (s Settings) unreserved(specs []functionSpec) int {
	remaining := s.Concurrency
	for _, f := range specs {
		remaining -= s.reserved(f)
	}
	return remaining
}

// reserved returns the reserved concurrency of a function, which is also its maximum: other functions cannot use it up,
// and the function cannot use up the concurrency of others. reserved returns 0 for the gateway's function: its need
// depends on its upstreams, and is unknown. It also returns 0 in an emulator, and if Concurrency is 0.
func (s Settings) reserved(f functionSpec) int {
	hasTrigger := func(kind func(trigger.Event) bool) bool { return slices.ContainsFunc(f.triggers, kind) }
	switch {
	case s.Emulator != "", s.Concurrency == 0, hasTrigger(func(e trigger.Event) bool { return e.HTTP }):
		return 0
	case len(f.routes) > 0, hasTrigger(func(e trigger.Event) bool { return e.ObjectCreated != "" || e.FromStream }):
		return max(s.Concurrency/interactiveDivisor, 1)
	}
	// Two calls can run at once, because a late call can overlap with the next one.
	return max(s.Concurrency/backgroundDivisor, 2)
}

// throttles returns the settings of the methods of an API's stage. API Gateway applies them to each method
// separately: to the gateway's two paths, which take any method, and to each method of the management API.
//
// If functions reserve concurrency, no method of the management API accepts more requests than its function can
// process. Lambda refuses calls beyond the function's reservation, and API Gateway turns such a refusal into status
// 500, which looks like a fault of the server. API Gateway's own throttle responds with 429.
//
// The execution logs and data traces of API Gateway are off: they would contain whole requests. Access logs have one
// line for each request (accessLine). Metrics by method cost money for each method, and nothing reads them.
func (s Settings) throttles(name string, routes []route, fns map[string]*function) *[]any {
	if name != management {
		limit := throttle{s.GatewayRate, s.GatewayBurst}
		if unreserved := s.unreservedConcurrency(fns); unreserved > 0 && limit.burst > unreserved {
			limit.burst = unreserved // the rate cannot be limited, because the duration of calls depends on upstreams
		}
		return &[]any{limit.methodSettings("/*", "*")}
	}
	limit := throttle{s.APIRate, s.APIBurst}
	standard := limit.limitTo(s.maxReserved(fns), typicalCallDuration)
	out := []any{standard.methodSettings("/*", "*")}
	for _, r := range routes {
		f := fns[r.function].functionSpec
		// API Gateway refuses a stage with settings for the method ANY. Routes for ANY only respond with 405, so the
		// stage's default throttle is enough.
		if adjusted := limit.limitTo(s.reserved(f), f.callDuration()); adjusted != standard && r.method != anyMethod {
			out = append(out, adjusted.methodSettings(settingsPath(r.path), r.method))
		}
	}
	return &out
}

// settingsPath returns a path in the form of a stage's settings: each slash but the first is encoded, and the root is
// only "/".
func settingsPath(path string) string {
	if path == "/" {
		return path
	}
	return "/" + strings.ReplaceAll(path, "/", "~1")
}

// These are the assumed durations of a call. They determine how many requests per second a function with a reservation
// can process. In docs/performance.md a warm request takes 52 ms through the API Gateway of an emulator that shares its
// processors with the function. typicalCallDuration is about twice that. computeCallDuration is the duration of a
// search of the documentation on three fifths of a processor.
const (
	typicalCallDuration = 100 * time.Millisecond
	computeCallDuration = 400 * time.Millisecond
)

// callDuration returns the assumed duration of a call of the function.
func (f functionSpec) callDuration() time.Duration {
	if f.cpuBound {
		return computeCallDuration
	}
	return typicalCallDuration
}

// throttle is the number of requests per second that a method accepts (rate), and the number of simultaneous requests
// beyond that (burst). If rate is 0, only API Gateway's own quota applies.
type throttle struct{ rate, burst int }

// limitTo returns t, lowered so that calls of a duration need at most the reserved concurrency. If reserved is 0, it
// returns t unchanged.
func (t throttle) limitTo(reserved int, duration time.Duration) throttle {
	if reserved == 0 {
		return t
	}
	capacity := throttle{rate: max(int(float64(reserved)/duration.Seconds()), 1), burst: reserved}
	if t.rate == 0 {
		return capacity
	}
	return throttle{min(t.rate, capacity.rate), min(t.burst, capacity.burst)}
}

// methodSettings returns the settings of a method of a path.
func (t throttle) methodSettings(path, method string) *awsapigateway.CfnStage_MethodSettingProperty {
	out := &awsapigateway.CfnStage_MethodSettingProperty{
		ResourcePath: &path, HttpMethod: &method,
		LoggingLevel: jsii.String("OFF"), DataTraceEnabled: jsii.Bool(false), MetricsEnabled: jsii.Bool(false),
	}
	if t.rate > 0 {
		out.ThrottlingRateLimit, out.ThrottlingBurstLimit = jsii.Number(t.rate), jsii.Number(t.burst)
	}
	return out
}

// maxReserved returns the reservation of the functions with operations, which is the same for all of them. It returns 0
// if there are no such functions.
func (s Settings) maxReserved(fns map[string]*function) (n int) {
	for _, f := range fns {
		if len(f.routes) > 0 {
			n = max(n, s.reserved(f.functionSpec))
		}
	}
	return n
}

// unreservedConcurrency works like unreserved for the functions of the stack, but returns 0 if no function reserves
// concurrency.
func (s Settings) unreservedConcurrency(fns map[string]*function) int {
	if s.Concurrency == 0 || s.Emulator != "" {
		return 0
	}
	var all []functionSpec
	for _, f := range fns {
		all = append(all, f.functionSpec)
	}
	return s.unreserved(all)
}
