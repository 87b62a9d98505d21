package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// safeLogVariables are the variables of access logs that contain no part of a request's path, query, headers or body,
// and no data about the client.
var safeLogVariables = []string{
	"$context.requestTime", "$context.requestId", "$context.httpMethod", "$context.resourcePath", "$context.status",
	"$context.error.responseType", "$context.integration.status", "$context.responseLatency", "$context.responseLength",
}

// TestStagesLogNoRequestContent checks that traces and execution logs are off: they would contain the URL with the
// query, the headers, and the client's address and user agent, which docs/observability.md excludes. It also checks
// that access logs contain only safeLogVariables.
func TestStagesLogNoRequestContent(t *testing.T) {
	stages := synthesize(t, servicesContext(nil)).all("AWS::ApiGateway::Stage")
	if len(stages) != 2 {
		t.Fatalf("the templates have %d stages, want 2", len(stages))
	}
	for id, stage := range stages {
		if stage.Properties["TracingEnabled"] != false {
			t.Errorf("%s: TracingEnabled = %v, want false", id, stage.Properties["TracingEnabled"])
		}
		var format map[string]string
		if err := json.Unmarshal([]byte(render(get(stage.Properties, "AccessLogSetting", "Format"))), &format); err != nil {
			t.Fatalf("%s logs requests as %v, want JSON (%v)", id, get(stage.Properties, "AccessLogSetting", "Format"), err)
		}
		for name, value := range format {
			if !slices.Contains(safeLogVariables, value) {
				t.Errorf("%s logs %s of each request as %s, want a variable in safeLogVariables", id, value, name)
			}
		}
		settings, _ := stage.Properties["MethodSettings"].([]any)
		for _, setting := range settings {
			if get(setting, "DataTraceEnabled") != false || get(setting, "LoggingLevel") != "OFF" {
				t.Errorf("%s: method setting = %v, want DataTraceEnabled false and LoggingLevel OFF", id, setting)
			}
			if get(setting, "MetricsEnabled") != false {
				t.Errorf("%s: method setting = %v, want MetricsEnabled false, since nothing reads these metrics", id, setting)
			}
		}
	}
}

// TestAccessLogRoleFollowsTheSetting checks that an installation sets the account's role for access logs only with
// accessLogs=own.
func TestAccessLogRoleFollowsTheSetting(t *testing.T) {
	for name, test := range map[string]struct {
		context       map[string]string
		logged, roles int
	}{
		"own":     {nil, 2, 1},
		"account": {largerContext, 2, 0},
		"none":    {unreservedContext, 0, 0},
	} {
		a := synthesize(t, minimalContext(test.context))
		logged := 0
		for _, stage := range a.all("AWS::ApiGateway::Stage") {
			if stage.Properties["AccessLogSetting"] != nil {
				logged++
			}
		}
		if roles := len(a.all("AWS::ApiGateway::Account")); logged != test.logged || roles != test.roles {
			t.Errorf("accessLogs=%s: %d stages have access logs and the role is set %d times, want %d and %d", name, logged,
				roles, test.logged, test.roles)
		}
	}
}

// TestStagesHaveThrottles checks the rate and the burst of each API, by default and with settings of the context.
func TestStagesHaveThrottles(t *testing.T) {
	for name, test := range map[string]struct {
		context map[string]string
		want    map[string][2]any // by the stage's API: rate and burst
	}{
		// A function that reserves 20 calls of 100 ms can process 200 per second. The gateway's function has a
		// concurrency of 554.
		"defaults": {nil, map[string][2]any{"Api": {200.0, 20.0}, "Gateway": {9000.0, 554.0}}},
		"settings of the context": {
			unreservedContext,
			map[string][2]any{"Api": {50.0, 60.0}, "Gateway": {nil, nil}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stages := map[string]resource{}
			for id, stage := range synthesize(t, minimalContext(test.context)).all("AWS::ApiGateway::Stage") {
				stages[hashSuffix.ReplaceAllString(id, "")] = stage
			}
			for api, want := range test.want {
				settings, _ := stages[api+"Stage"].Properties["MethodSettings"].([]any)
				if len(settings) == 0 || get(settings[0], "ResourcePath") != "/*" || get(settings[0], "HttpMethod") != "*" {
					t.Fatalf("method settings of %s = %v, want one for all methods first", api, settings)
				}
				if got := [2]any{get(settings[0], "ThrottlingRateLimit"), get(settings[0], "ThrottlingBurstLimit")}; got != want {
					t.Errorf("rate and burst of %s = %v, want %v", api, got, want)
				}
			}
		})
	}
}

// TestComputeFunctionsHaveLowerThrottles checks that the operations of CPU-bound functions have a lower throttle,
// because their calls take longer.
func TestComputeFunctionsHaveLowerThrottles(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	cpuBound := map[string]bool{}
	for _, g := range functions.Groups() {
		cpuBound[logicalID(g.Name)+"Function"] = g.CPUBound
	}
	throttled := map[string]bool{} // paths with their own throttle
	for _, stage := range a.all("AWS::ApiGateway::Stage") {
		settings, _ := stage.Properties["MethodSettings"].([]any)
		for _, setting := range settings[1:] {
			if get(setting, "ThrottlingRateLimit") != 50.0 || get(setting, "ThrottlingBurstLimit") != 20.0 {
				t.Errorf("%v takes %v requests a second and %v at once, want 50 and 20", get(setting, "ResourcePath"),
					get(setting, "ThrottlingRateLimit"), get(setting, "ThrottlingBurstLimit"))
			}
			throttled[fmt.Sprint(get(setting, "HttpMethod"), " ",
				strings.ReplaceAll(strings.TrimPrefix(render(get(setting, "ResourcePath")), "/"), "~1", "/"))] = true
		}
	}
	for id, method := range a.all("AWS::ApiGateway::Method") {
		operation := fmt.Sprint(method.Properties["HttpMethod"], " ", a.pathOf(method.Properties["ResourceId"]))
		want := cpuBound[a.integratedFunction(method)] && method.Properties["HttpMethod"] != anyMethod
		if want != throttled[operation] {
			t.Errorf("%s, %s of %s has its own throttle: %v, want %v", id, operation, a.integratedFunction(method),
				throttled[operation], want)
		}
	}
	if len(throttled) == 0 {
		t.Error("no method has its own throttle, want at least one")
	}
}

// TestDefaultThrottlesFitTheAccountQuota checks that the default throttles together do not exceed the default quota of
// an account.
func TestDefaultThrottlesFitTheAccountQuota(t *testing.T) {
	const rate, burst = 10_000, 5_000
	s := settingsFor(t, minimalContext(nil))
	if s.APIRate+s.GatewayRate > rate || s.APIBurst+s.GatewayBurst > burst {
		t.Errorf("default throttles allow %d requests a second, burst %d, want at most %d and %d, the account quota",
			s.APIRate+s.GatewayRate, s.APIBurst+s.GatewayBurst, rate, burst)
	}
}

// TestNoFunctionStarvesAnother checks that each function has a reservation, except the gateway's function, which uses
// the remaining concurrency.
func TestNoFunctionStarvesAnother(t *testing.T) {
	for _, specs := range [][]functionSpec{nil, growToExpectedSize(functionSpecs(settingsFor(t, minimalContext(nil))))} {
		s := settingsFor(t, minimalContext(nil))
		if specs == nil {
			specs = functionSpecs(s)
		}
		total := 0
		for _, f := range specs {
			n := s.reserved(f)
			serves := slices.ContainsFunc(f.triggers, func(e trigger.Event) bool { return e.HTTP })
			if (n == 0) != serves {
				t.Errorf("%s reserves a concurrency of %d, want 0 if it serves HTTP (%v), otherwise more", f.name, n, serves)
			}
			if !serves && n < 2 { // a late call can overlap with the next one
				t.Errorf("%s reserves a concurrency of %d, want at least 2", f.name, n)
			}
			if slices.ContainsFunc(f.triggers, func(e trigger.Event) bool { return e.FromStream }) && n < streamParallelism {
				t.Errorf("%s reserves a concurrency of %d, want at least %d, as many as the stream calls for a shard", f.name, n,
					streamParallelism)
			}
			total += n
		}
		if unreserved := s.Concurrency - total; unreserved != s.unreserved(specs) || unreserved < minUnreserved {
			t.Errorf("%d functions reserve %d of %d and leave %d, want %d and at least %d, the minimum of Lambda", len(specs),
				total, s.Concurrency, unreserved, s.unreserved(specs), minUnreserved)
		}
	}
	a := synthesize(t, minimalContext(nil))
	s := settingsFor(t, minimalContext(nil))
	for _, f := range functionSpecs(s) {
		want := any(float64(s.reserved(f)))
		if s.reserved(f) == 0 {
			want = nil
		}
		if got := a.find(logicalID(f.name) + "Function").Properties["ReservedConcurrentExecutions"]; got != want {
			t.Errorf("%s reserves %v calls at once, want %v", f.name, got, want)
		}
	}
}

// TestReservationsPublishNoVersion checks that a changed reservation does not create a new version. Lambda does not
// publish a version if neither code nor configuration has changed, so the update of the stack would fail.
func TestReservationsPublishNoVersion(t *testing.T) {
	versions := func(context map[string]string) []string {
		return slices.Sorted(maps.Keys(synthesize(t, minimalContext(context)).all("AWS::Lambda::Version")))
	}
	before, after := versions(nil), versions(unreservedContext)
	if !slices.Equal(before, after) {
		t.Errorf("versions = %q, and without reservations %q, want the same", before, after)
	}
}

// TestSmallAccountReservesNothing checks that functions reserve no concurrency with concurrency=0, and none in an
// emulator. With concurrency=0, no alarm compares the used concurrency with a quota.
func TestSmallAccountReservesNothing(t *testing.T) {
	for name, context := range map[string]map[string]string{
		"a small account": unreservedContext, "MiniStack": {"emulator": miniStack},
	} {
		if alarm := synthesize(t, minimalContext(context)).find("ConcurrencyNearlyUsed"); name == "a small account" &&
			alarm.Type != "" {
			t.Errorf("%s: alarm ConcurrencyNearlyUsed = %v, want none without a known quota", name, alarm.Properties)
		}
		for id, f := range synthesize(t, minimalContext(context)).all("AWS::Lambda::Function") {
			if n := f.Properties["ReservedConcurrentExecutions"]; n != nil {
				t.Errorf("%s: %s reserves a concurrency of %v, want none", name, id, n)
			}
		}
	}
}

// TestThrottleAndAlarmTopicSettingsAreValidated checks valid and invalid settings. An invalid setting causes an error
// of one line.
func TestThrottleAndAlarmTopicSettingsAreValidated(t *testing.T) {
	for name, test := range map[string]struct {
		context map[string]string
		want    string // a part of the error, "" for none
	}{
		"no settings":                       {nil, ""},
		"higher concurrency":                {map[string]string{"concurrency": "5000"}, ""},
		"text as concurrency":               {map[string]string{"concurrency": "many"}, "-c concurrency is a whole number"},
		"negative rate":                     {map[string]string{"gatewayRate": "-1"}, "-c gatewayRate is a whole number"},
		"burst over the maximum":            {map[string]string{"apiBurst": "1000001"}, "-c apiBurst is a whole number"},
		"account with a quota of ten calls": {map[string]string{"concurrency": "10"}, "or 0 to reserve nothing"},
		"no concurrency left":               {map[string]string{"concurrency": "150"}, "Lambda wants 100"},
		"a burst without a rate":            {map[string]string{"apiRate": "0"}, "-c apiRate and -c apiBurst are both 0"},
		"a topic":                           {map[string]string{"alarmTopic": topicARN}, ""},
		"a topic of China": {
			map[string]string{"alarmTopic": "arn:aws-cn:sns:cn-north-1:123456789012:alarms"},
			"",
		},
		"name of a topic": {map[string]string{"alarmTopic": "alarms"}, "-c alarmTopic is the ARN"},
		"a queue": {
			map[string]string{"alarmTopic": "arn:aws:sqs:eu-west-1:123456789012:alarms"},
			"-c alarmTopic is the ARN",
		},
		"a subscription": {map[string]string{"alarmTopic": topicARN + ":a1b2"}, "-c alarmTopic is the ARN"},
		"FIFO topic":     {map[string]string{"alarmTopic": topicARN + ".fifo"}, "-c alarmTopic is the ARN"},
		"reference of CloudFormation": {
			map[string]string{"alarmTopic": "arn:aws:sns:${AWS::Region}:123456789012:alarms"},
			"-c alarmTopic is the ARN",
		},
	} {
		t.Run(name, func(t *testing.T) {
			context := minimalContext(test.context)
			_, err := settingsFromContext(func(name string) any {
				if v, ok := context[name]; ok {
					return v
				}
				return nil
			})
			if got := fmt.Sprint(err); (test.want == "") != (err == nil) || !strings.Contains(got, test.want) &&
				test.want != "" {
				t.Errorf("settingsFromContext() error = %s, want one with %q, or none if it is empty", got, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q has several lines, want one", err)
			}
		})
	}
}
