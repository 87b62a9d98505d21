package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/trigger"
)

// tellsNothing are the variables of access logs that have nothing of a request's path, query, headers, body and client.
var tellsNothing = []string{
	"$context.requestTime", "$context.requestId", "$context.httpMethod", "$context.resourcePath", "$context.status",
	"$context.error.responseType", "$context.integration.status", "$context.responseLatency", "$context.responseLength",
}

// TestStagesTellNothingOfARequest: what API Gateway would trace and log of one has its URL with the query, its headers and
// its client's address and user agent, which docs/observability.md says are told nowhere.
func TestStagesTellNothingOfARequest(t *testing.T) {
	stages := synthesise(t, serving(nil)).all("AWS::ApiGateway::Stage")
	if len(stages) != 2 {
		t.Fatalf("%d stages", len(stages))
	}
	for id, stage := range stages {
		if stage.Properties["TracingEnabled"] != false {
			t.Errorf("%s is traced: %v", id, stage.Properties["TracingEnabled"])
		}
		var logged map[string]string
		if err := json.Unmarshal([]byte(render(get(stage.Properties, "AccessLogSetting", "Format"))), &logged); err != nil {
			t.Fatalf("%s logs requests as %v: %v", id, get(stage.Properties, "AccessLogSetting", "Format"), err)
		}
		for name, value := range logged {
			if !slices.Contains(tellsNothing, value) {
				t.Errorf("%s logs %s of each request as %s, which may be something that the client has chosen", id, value, name)
			}
		}
		settings, _ := stage.Properties["MethodSettings"].([]any)
		for _, of := range settings {
			if get(of, "DataTraceEnabled") != false || get(of, "LoggingLevel") != "OFF" {
				t.Errorf("%s writes requests down: %v", id, of)
			}
			if get(of, "MetricsEnabled") != false {
				t.Errorf("%s pays for metrics of each method, which nothing reads: %v", id, of)
			}
		}
	}
}

// TestWhoSetsTheRoleForAccessLogs: an installation changes the account's role only if its file says so.
func TestWhoSetsTheRoleForAccessLogs(t *testing.T) {
	for name, test := range map[string]struct {
		context       map[string]string
		logged, roles int
	}{
		"own":     {nil, 2, 1},
		"account": {larger, 2, 0},
		"none":    {unfenced, 0, 0},
	} {
		a := synthesise(t, needed(test.context))
		logged := 0
		for _, stage := range a.all("AWS::ApiGateway::Stage") {
			if stage.Properties["AccessLogSetting"] != nil {
				logged++
			}
		}
		if roles := len(a.all("AWS::ApiGateway::Account")); logged != test.logged || roles != test.roles {
			t.Errorf("accessLogs=%s: %d stages have access logs and the role is set %d times, want %d and %d", name, logged, roles, test.logged, test.roles)
		}
	}
}

func TestEachStageHasAThrottleOfItsOwn(t *testing.T) {
	for name, test := range map[string]struct {
		context map[string]string
		want    map[string][2]any // by the stage's API: rate and burst
	}{
		// A function that reserves 20 calls of 100 ms answers 200 a second, and the gateway's function has 554 calls at once.
		"by default": {nil, map[string][2]any{"Api": {200.0, 20.0}, "Gateway": {9000.0, 554.0}}},
		"as the context says": {
			unfenced,
			map[string][2]any{"Api": {50.0, 60.0}, "Gateway": {nil, nil}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			stages := map[string]resource{}
			for id, stage := range synthesise(t, needed(test.context)).all("AWS::ApiGateway::Stage") {
				stages[hashed.ReplaceAllString(id, "")] = stage
			}
			for api, want := range test.want {
				settings, _ := stages[api+"Stage"].Properties["MethodSettings"].([]any)
				if len(settings) == 0 || get(settings[0], "ResourcePath") != "/*" || get(settings[0], "HttpMethod") != "*" {
					t.Fatalf("the methods of %s have the settings %v", api, settings)
				}
				if got := [2]any{get(settings[0], "ThrottlingRateLimit"), get(settings[0], "ThrottlingBurstLimit")}; got != want {
					t.Errorf("%s takes %v, want %v", api, got, want)
				}
			}
		})
	}
}

// TestFunctionsThatComputeTakeLess: their calls take longer, so that fewer a second use up what they reserve.
func TestFunctionsThatComputeTakeLess(t *testing.T) {
	a := synthesise(t, needed(nil))
	computes := map[string]bool{}
	for _, g := range functions.Groups() {
		computes[exported(g.Name)+"Function"] = g.Computes
	}
	own := map[string]bool{} // paths with a throttle of their own
	for _, stage := range a.all("AWS::ApiGateway::Stage") {
		settings, _ := stage.Properties["MethodSettings"].([]any)
		for _, of := range settings[1:] {
			if get(of, "ThrottlingRateLimit") != 50.0 || get(of, "ThrottlingBurstLimit") != 20.0 {
				t.Errorf("%v takes %v requests a second and %v at once, want 50 and 20", get(of, "ResourcePath"), get(of, "ThrottlingRateLimit"), get(of, "ThrottlingBurstLimit"))
			}
			own[fmt.Sprint(get(of, "HttpMethod"), " ", strings.ReplaceAll(strings.TrimPrefix(render(get(of, "ResourcePath")), "/"), "~1", "/"))] = true
		}
	}
	for id, method := range a.all("AWS::ApiGateway::Method") {
		called := fmt.Sprint(method.Properties["HttpMethod"], " ", a.pathOf(method.Properties["ResourceId"]))
		if want := computes[a.behind(method)] && method.Properties["HttpMethod"] != anyMethod; want != own[called] {
			t.Errorf("%s, %s of %s: it has a throttle of its own: %v", id, called, a.behind(method), own[called])
		}
	}
	if len(own) == 0 {
		t.Error("no method has a throttle of its own")
	}
}

// TestDefaultsFitAnAccount: together stages take what API Gateway gives an account, and no more.
func TestDefaultsFitAnAccount(t *testing.T) {
	const rate, burst = 10_000, 5_000
	s := settingsFor(t, needed(nil))
	if s.APIRate+s.GatewayRate > rate || s.APIBurst+s.GatewayBurst > burst {
		t.Errorf("stages take %d a second and %d at once, an account has %d and %d", s.APIRate+s.GatewayRate, s.APIBurst+s.GatewayBurst, rate, burst)
	}
}

// TestNoFunctionStarvesAnother: each has its own part of the account's concurrency but the gateway's, which has what is left.
func TestNoFunctionStarvesAnother(t *testing.T) {
	for _, fs := range [][]declared{nil, grown(declaredFunctions(settingsFor(t, needed(nil))))} {
		s := settingsFor(t, needed(nil))
		if fs == nil {
			fs = declaredFunctions(s)
		}
		total := 0
		for _, f := range fs {
			n := s.reserved(f)
			serves := slices.ContainsFunc(f.on, func(e trigger.Event) bool { return e.HTTP })
			if (n == 0) != serves {
				t.Errorf("%s reserves %d calls at once", f.name, n)
			}
			if !serves && n < 2 { // a call that is late meets the next one
				t.Errorf("%s reserves %d calls at once, fewer than two", f.name, n)
			}
			if slices.ContainsFunc(f.on, func(e trigger.Event) bool { return e.StreamRecords }) && n < streamParallel {
				t.Errorf("%s reserves %d calls at once, and the stream makes %d of a shard", f.name, n, streamParallel)
			}
			total += n
		}
		if left := s.Concurrency - total; left != s.unreserved(fs) || left < keptUnreserved {
			t.Errorf("of %d calls at once %d functions reserve %d: Lambda refuses to leave fewer than %d", s.Concurrency, len(fs), total, keptUnreserved)
		}
	}
	a := synthesise(t, needed(nil))
	s := settingsFor(t, needed(nil))
	for _, f := range declaredFunctions(s) {
		want := any(float64(s.reserved(f)))
		if s.reserved(f) == 0 {
			want = nil
		}
		if got := a.find(exported(f.name) + "Function").Properties["ReservedConcurrentExecutions"]; got != want {
			t.Errorf("%s reserves %v calls at once, want %v", f.name, got, want)
		}
	}
}

// TestReservationsMakeNoVersion: Lambda publishes none where neither code nor configuration has changed, and the update
// of the stack would fail.
func TestReservationsMakeNoVersion(t *testing.T) {
	versions := func(context map[string]string) []string {
		return slices.Sorted(maps.Keys(synthesise(t, needed(context)).all("AWS::Lambda::Version")))
	}
	was, is := versions(nil), versions(unfenced)
	if !slices.Equal(was, is) {
		t.Errorf("versions = %q, and without reservations %q, want the same", was, is)
	}
}

// TestNothingIsReservedOfASmallAccount, nor of emulators.
func TestNothingIsReservedOfASmallAccount(t *testing.T) {
	for name, context := range map[string]map[string]string{
		"a small account": unfenced, "MiniStack": {"emulator": miniStack},
	} {
		if near := synthesise(t, needed(context)).find("ConcurrencyNearlyUsed"); name == "a small account" && near.Type != "" {
			t.Errorf("%s: of no quota that is known, nearly all is told by %v", name, near.Properties)
		}
		for id, f := range synthesise(t, needed(context)).all("AWS::Lambda::Function") {
			if n := f.Properties["ReservedConcurrentExecutions"]; n != nil {
				t.Errorf("%s: %s reserves %v", name, id, n)
			}
		}
	}
}

func TestFencesOfTheContextAreRead(t *testing.T) {
	for name, test := range map[string]struct {
		context map[string]string
		want    string // part of the error, "" for none
	}{
		"nothing":                      {nil, ""},
		"more":                         {map[string]string{"concurrency": "5000"}, ""},
		"no number":                    {map[string]string{"concurrency": "many"}, "-c concurrency is a whole number"},
		"below nothing":                {map[string]string{"gatewayRate": "-1"}, "-c gatewayRate is a whole number"},
		"too much":                     {map[string]string{"apiBurst": "1000001"}, "-c apiBurst is a whole number"},
		"a new account of ten":         {map[string]string{"concurrency": "10"}, "or 0 to reserve nothing"},
		"nothing is left":              {map[string]string{"concurrency": "150"}, "Lambda wants 100"},
		"a burst without a rate":       {map[string]string{"apiRate": "0"}, "-c apiRate and -c apiBurst are both 0"},
		"a topic":                      {map[string]string{"alarmTopic": topic}, ""},
		"a topic of China":             {map[string]string{"alarmTopic": "arn:aws-cn:sns:cn-north-1:123456789012:alarms"}, ""},
		"a topic's name":               {map[string]string{"alarmTopic": "alarms"}, "-c alarmTopic is the ARN"},
		"a queue":                      {map[string]string{"alarmTopic": "arn:aws:sqs:eu-west-1:123456789012:alarms"}, "-c alarmTopic is the ARN"},
		"a subscription":               {map[string]string{"alarmTopic": topic + ":a1b2"}, "-c alarmTopic is the ARN"},
		"a topic in order":             {map[string]string{"alarmTopic": topic + ".fifo"}, "-c alarmTopic is the ARN"},
		"what CloudFormation fills in": {map[string]string{"alarmTopic": "arn:aws:sns:${AWS::Region}:123456789012:alarms"}, "-c alarmTopic is the ARN"},
	} {
		t.Run(name, func(t *testing.T) {
			context := needed(test.context)
			_, err := settingsOf(func(name string) any {
				if v, ok := context[name]; ok {
					return v
				}
				return nil
			})
			if got := fmt.Sprint(err); (test.want == "") != (err == nil) || !strings.Contains(got, test.want) && test.want != "" {
				t.Errorf("the error is %s, want %q", got, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%q has several lines", err)
			}
		})
	}
}
