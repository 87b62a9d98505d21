package main

import (
	"errors"
	"fmt"
	"slices"

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

// throttles are the settings of all methods of an API's stage. API Gateway holds each method to them
// by itself: the gateway's, which are two paths that take any method, and each of the management API.
//
// Nothing of requests is logged or traced by the platform: it would write whole requests down.
// Metrics by method cost by the method, and nothing reads them.
func (s Settings) throttles(name string) *[]any {
	of := &awsapigateway.CfnStage_MethodSettingProperty{
		ResourcePath: jsii.String("/*"), HttpMethod: jsii.String("*"),
		LoggingLevel: jsii.String("OFF"), DataTraceEnabled: jsii.Bool(false), MetricsEnabled: jsii.Bool(false),
	}
	rate, burst := s.GatewayRate, s.GatewayBurst
	if name == management {
		rate, burst = s.APIRate, s.APIBurst
	}
	if rate > 0 {
		of.ThrottlingRateLimit, of.ThrottlingBurstLimit = jsii.Number(rate), jsii.Number(burst)
	}
	return &[]any{of}
}
