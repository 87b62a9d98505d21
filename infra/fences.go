package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/trigger"
)

// Fences are bounds that keep one part of an installation from starving another, and
// who hears when one is met.
type Fences struct {
	// Concurrency is how many calls at once Lambda runs for this installation: the account's
	// quota, or the installation's part of it. 0 reserves nothing for anybody: a new account may
	// have 10, of which Lambda lets nobody reserve one.
	Concurrency int
	// APIRate and APIBurst are requests a second that API Gateway takes for each method of the
	// management API, and how many at once beyond that; GatewayRate and GatewayBurst those of all
	// deployments together. 0 leaves both to the account's quota.
	APIRate, APIBurst, GatewayRate, GatewayBurst int
	// AlarmTopic is the ARN of a topic of SNS that hears of each alarm, "" for nobody.
	AlarmTopic string
}

// Bounds of the fences.
const (
	// keptUnreserved is what Lambda wants to stay for functions that reserve nothing.
	keptUnreserved = 100
	// shares is which part of the concurrency a function reserves that people or events wait
	// for: a fiftieth, 20 of 1,000. fewShares is that of one that a clock or an operator calls.
	shares, fewShares = 50, 500
	// mostFence is far above what AWS gives: a mistyped number is told.
	mostFence = 1_000_000
)

// topicPattern is the ARN of a topic that alarms may have: no queue of the kind .fifo, which
// an alarm's message has no group for.
var topicPattern = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:[0-9]{12}:[A-Za-z0-9_-]{1,256}$`)

// readFences reads the fences of the context. Its error tells everything that is wrong.
func (s *Settings) readFences(text func(name, otherwise string) string) error {
	var wrong []error
	number := func(name string, otherwise int) int {
		n, err := strconv.Atoi(text(name, strconv.Itoa(otherwise)))
		if err != nil || n < 0 || n > mostFence {
			wrong = append(wrong, fmt.Errorf("-c %s is a whole number between 0, for none, and %d", name, mostFence))
		}
		return n
	}
	// Together what an account has unless it asks for more: 10,000 a second, and bursts of 5,000.
	s.Fences = Fences{
		Concurrency: number("concurrency", 1000),
		APIRate:     number("apiRate", 1000), APIBurst: number("apiBurst", 1000),
		GatewayRate: number("gatewayRate", 9000), GatewayBurst: number("gatewayBurst", 4000),
		AlarmTopic: text("alarmTopic", ""),
	}
	for _, pair := range []struct {
		name        string
		rate, burst int
	}{{"api", s.APIRate, s.APIBurst}, {"gateway", s.GatewayRate, s.GatewayBurst}} {
		if (pair.rate == 0) != (pair.burst == 0) {
			wrong = append(wrong, fmt.Errorf("-c %[1]sRate and -c %[1]sBurst are both 0, for none, or neither", pair.name))
		}
	}
	if s.AlarmTopic != "" && !topicPattern.MatchString(s.AlarmTopic) {
		wrong = append(wrong, errors.New("-c alarmTopic is the ARN of a standard topic of SNS, such as arn:aws:sns:eu-west-1:123456789012:alarms"))
	}
	if len(wrong) > 0 {
		return errors.Join(wrong...)
	}
	return s.checkReserved(declaredFunctions(*s))
}

// checkReserved says why Lambda would refuse what functions reserve.
func (s Settings) checkReserved(fs []declared) error {
	if s.Concurrency == 0 {
		return nil
	}
	if left := s.unreserved(fs); left < keptUnreserved {
		return fmt.Errorf("-c concurrency=%d would leave %d calls at once for what reserves none, and Lambda wants %d: give the quota that `aws lambda get-account-settings` says, or 0 to reserve nothing",
			s.Concurrency, left, keptUnreserved)
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
