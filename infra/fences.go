package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/trigger"
)

// Bounds of the fences.
const (
	// keptUnreserved is what Lambda wants to stay for functions that reserve nothing.
	keptUnreserved = 100
	// shares is which part of the concurrency a function reserves that people or events wait
	// for: a fiftieth, 20 of 1,000. fewShares is that of one that a clock or an operator calls.
	shares, fewShares = 50, 500
)

// checkFences says what is wrong with the fences together, a line each: bounds that keep one part of an installation from starving another.
func (s Settings) checkFences() error {
	var wrong []error
	for _, pair := range []struct {
		name        string
		rate, burst int
	}{{"api", s.APIRate, s.APIBurst}, {"gateway", s.GatewayRate, s.GatewayBurst}} {
		if (pair.rate == 0) != (pair.burst == 0) {
			wrong = append(wrong, fmt.Errorf("-c %[1]sRate and -c %[1]sBurst are both 0, for none, or neither", pair.name))
		}
	}
	return errors.Join(append(wrong, s.checkReserved(declaredFunctions(s)))...)
}

// checkReserved says why Lambda would refuse what functions reserve.
func (s Settings) checkReserved(fs []declared) error {
	if s.Concurrency == 0 {
		return nil
	}
	if left := s.unreserved(fs); left < keptUnreserved {
		return fmt.Errorf("-c concurrency=%d would leave %d calls at once for what reserves none, and Lambda wants %d: give the quota that `aws lambda get-account-settings` says, or 0 to reserve nothing",
			s.Concurrency, max(left, 0), keptUnreserved)
	}
	return nil
}

// unreserved is what of the concurrency is left for the function that serves deployments.
func (s Settings) unreserved(fs []declared) int {
	left := s.Concurrency
	for _, f := range fs {
		left -= s.reserved(f)
	}
	return left
}

// reserved is how many calls at once a function has for itself, and at most: none other can use
// them up, and it uses up nobody else's. 0 is for one that takes what others leave, which the
// gateway's function alone does: what it needs follows from its upstreams, and nobody knows it.
func (s Settings) reserved(f declared) int {
	is := func(kind func(trigger.Event) bool) bool { return slices.ContainsFunc(f.on, kind) }
	switch {
	case s.Emulator != "", s.Concurrency == 0, is(func(e trigger.Event) bool { return e.HTTP }):
		return 0
	case len(f.routes) > 0, is(func(e trigger.Event) bool { return e.ObjectCreated != "" || e.StreamRecords }):
		return max(s.Concurrency/shares, 1)
	}
	// A call that is late may meet the next one.
	return max(s.Concurrency/fewShares, 2)
}

// throttles are the settings of the methods of an API's stage. API Gateway holds each method to them
// by itself: the gateway's, which are two paths that take any method, and each of the management API.
//
// No method takes more requests than its function can answer. Lambda refuses calls beyond the function's reservation, and API Gateway answers such a
// refusal with 500, which clients take for a fault. Its own throttle answers 429.
//
// The execution logs and traces of the platform are off: they would write whole requests down. Access logs have one line each (accessLine).
// Metrics by method cost by the method, and nothing reads them.
func (s Settings) throttles(name string, routes []route, fs map[string]*function) *[]any {
	if name != management {
		most := throttle{s.GatewayRate, s.GatewayBurst}
		if left := s.left(fs); left > 0 && most.burst > left {
			most.burst = left // how long its calls take follows from upstreams, and so does the rate
		}
		return &[]any{most.of("/*", "*")}
	}
	most := throttle{s.APIRate, s.APIBurst}
	usual := most.within(s.mostReserved(fs), usualCall)
	out := []any{usual.of("/*", "*")}
	for _, r := range routes {
		f := fs[r.function].declared
		// API Gateway refuses a stage with settings of the method ANY. Such methods answer 405 here, with the usual throttle.
		if own := most.within(s.reserved(f), f.call()); own != usual && r.method != anyMethod {
			out = append(out, own.of(settingsPath(r.path), r.method))
		}
	}
	return &out
}

// settingsPath is what the settings of a stage call a path: each slash but the first is encoded, and the root is "/" alone.
func settingsPath(path string) string {
	if path == "/" {
		return path
	}
	return "/" + strings.ReplaceAll(path, "/", "~1")
}

// How long a call takes, which decides how many a second a function with a reservation answers. In
// docs/performance.md a warm request takes 52 ms through the API Gateway of an emulator that shares its processors with the function. usualCall is about
// twice that. A call of a function that computes takes as long as a search of the documentation on three fifths of a processor.
const (
	usualCall     = 100 * time.Millisecond
	computingCall = 400 * time.Millisecond
)

// call returns how long a call of the function takes.
func (f declared) call() time.Duration {
	if f.computes {
		return computingCall
	}
	return usualCall
}

// throttle is how many requests a second a method takes, and how many at once beyond that. If rate is 0, only API Gateway's own quota applies.
type throttle struct{ rate, burst int }

// within returns the throttle under which calls of a duration stay within a reservation. A reservation of 0 is none.
func (t throttle) within(reserved int, call time.Duration) throttle {
	if reserved == 0 {
		return t
	}
	fits := throttle{rate: max(int(float64(reserved)/call.Seconds()), 1), burst: reserved}
	if t.rate == 0 {
		return fits
	}
	return throttle{min(t.rate, fits.rate), min(t.burst, fits.burst)}
}

// of are the settings of the methods of a path.
func (t throttle) of(path, method string) *awsapigateway.CfnStage_MethodSettingProperty {
	out := &awsapigateway.CfnStage_MethodSettingProperty{
		ResourcePath: &path, HttpMethod: &method,
		LoggingLevel: jsii.String("OFF"), DataTraceEnabled: jsii.Bool(false), MetricsEnabled: jsii.Bool(false),
	}
	if t.rate > 0 {
		out.ThrottlingRateLimit, out.ThrottlingBurstLimit = jsii.Number(t.rate), jsii.Number(t.burst)
	}
	return out
}

// mostReserved returns the largest reservation of a function with operations. Most of them have the same.
func (s Settings) mostReserved(fs map[string]*function) (n int) {
	for _, f := range fs {
		if len(f.routes) > 0 {
			n = max(n, s.reserved(f.declared))
		}
	}
	return n
}

// left returns the calls at once that are left for functions that reserve nothing, 0 if no function reserves any.
func (s Settings) left(fs map[string]*function) int {
	if s.Concurrency == 0 || s.Emulator != "" {
		return 0
	}
	var all []declared
	for _, f := range fs {
		all = append(all, f.declared)
	}
	return s.unreserved(all)
}
