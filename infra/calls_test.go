package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// TestProductTriggersAreValid checks that checkTriggers accepts the triggers of the product's functions.
func TestProductTriggersAreValid(t *testing.T) {
	if err := checkTriggers(functionSpecs(settingsFor(t, minimalContext(nil)))); err != nil {
		t.Errorf("checkTriggers(functions of the product) = %v, want no error", err)
	}
}

// triggerCase is a declaration of triggers with a part of the error of checkTriggers.
type triggerCase struct {
	specs []functionSpec
	want  string // "" for valid triggers
}

// triggerCases returns valid and invalid declarations of triggers by name.
func triggerCases() map[string]triggerCase {
	hourRetries := trigger.Retries{MaxAge: time.Hour}
	events := func(e ...trigger.Event) []trigger.Event { return e }
	stream, upload := trigger.Event{FromStream: true}, trigger.Event{ObjectCreated: "uploads/"}
	scheduled := func(s trigger.Schedule) trigger.Event { s.Name = "tick"; return trigger.Event{Schedule: &s} }

	return map[string]triggerCase{
		"two readers of the stream": {[]functionSpec{
			{name: "a", triggers: events(stream)},
			{name: "b", triggers: events(stream)},
		}, ""},
		"three readers of the stream": {
			[]functionSpec{
				{name: "a", triggers: events(stream)},
				{name: "b", triggers: events(stream)},
				{name: "c", triggers: events(stream)},
			},
			"the stream calls 3 functions ([a b c]), and DynamoDB has 2 readers",
		},
		"three readers of the stream in one function": {
			[]functionSpec{{name: "a", triggers: events(stream, stream, stream)}},
			"the stream calls 3 functions ([a a a])",
		},
		"missing retries": {
			[]functionSpec{{name: "a", triggers: events(upload)}},
			"function a declares 0 retries of calls of 0s at most",
		},
		"three retries": {[]functionSpec{{
			name: "a", triggers: events(upload),
			retries: trigger.Retries{MaxRetries: 3, MaxAge: time.Hour},
		}}, "declares 3 retries"},
		"negative number of retries": {[]functionSpec{{
			name: "a", triggers: events(upload),
			retries: trigger.Retries{MaxRetries: -1, MaxAge: time.Hour},
		}}, "declares -1 retries"},
		"maximum age below a minute": {[]functionSpec{{
			name: "a", triggers: events(upload),
			retries: trigger.Retries{MaxAge: 59 * time.Second},
		}}, "calls of 59s at most"},
		"maximum age above six hours": {[]functionSpec{{
			name: "a", triggers: events(upload),
			retries: trigger.Retries{MaxAge: 6*time.Hour + time.Second},
		}}, "in whole seconds"},
		"maximum age with a fraction of a second": {[]functionSpec{{
			name: "a", triggers: events(upload),
			retries: trigger.Retries{MaxAge: time.Hour + time.Millisecond},
		}}, "in whole seconds"},
		"retries without asynchronous calls": {
			[]functionSpec{{name: "a", triggers: events(stream), retries: hourRetries}},
			"nothing calls it that waits for no answer",
		},
		"interval of a minute": {
			[]functionSpec{{
				name: "a", triggers: events(scheduled(trigger.Schedule{Interval: time.Minute})),
				retries: hourRetries,
			}}, "",
		},
		"interval of an hour": {
			[]functionSpec{{
				name: "a", triggers: events(scheduled(trigger.Schedule{Interval: time.Hour})),
				retries: hourRetries,
			}}, "function a: schedule tick: it runs every 1h0m0s: declare when by a cron",
		},
		"cron for each working day": {
			[]functionSpec{{
				name: "a", triggers: events(scheduled(trigger.Schedule{Cron: "30 2 * * 1-5"})),
				retries: hourRetries,
			}}, "",
		},
		"cron for the first day of a month": {
			[]functionSpec{{name: "a", triggers: events(scheduled(trigger.Schedule{Cron: "0 0 1 * *"})), retries: hourRetries}},
			"schedule tick: up to 744h0m0s pass between two calls, and an alarm looks back a week",
		},
	}
}

// TestInvalidTriggersAreReported checks that checkTriggers reports each invalid declaration in one line, and accepts
// valid ones.
func TestInvalidTriggersAreReported(t *testing.T) {
	for name, tt := range triggerCases() {
		t.Run(name, func(t *testing.T) {
			err := checkTriggers(tt.specs)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("checkTriggers() = %v, want no error", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("checkTriggers() = %v, want one line with %q", err, tt.want)
			}
		})
	}
}

// TestEveryScheduleHasAMissedRunAlarm checks that each declared schedule has an alarm on a metric that only the
// schedule's function reports. The alarm rings when the function has reported nothing in the periods that its schedule
// needs.
func TestEveryScheduleHasAMissedRunAlarm(t *testing.T) {
	a, specs := withAddedFunctions(t)
	periods := map[string]string{ // the period in seconds and the number of periods, by the name of the schedule
		"minutely": "300 2", "sweep": "300 2", "hourly": "3600 2", "nightly": "86400 4",
		"often": "600 2",
	}
	alarms := a.all("AWS::CloudWatch::Alarm")
	schedules := 0
	for _, f := range specs {
		for _, e := range f.triggers {
			if e.Schedule == nil {
				continue
			}
			schedules++
			p := alarms[logicalID(f.name)+logicalID(e.Schedule.Name)+"Missed"].Properties
			type settings struct{ namespace, metric, statistic, operator, threshold, missing any }
			want := settings{telemetry.Namespace, telemetry.ScheduledRuns, "Sum", "LessThanThreshold", 1.0, "breaching"}
			got := settings{
				p["Namespace"], p["MetricName"], p["Statistic"], p["ComparisonOperator"], p["Threshold"], p["TreatMissingData"],
			}
			if got != want {
				t.Errorf("alarm for missed runs of %s %s = %v, want %v", f.name, e.Schedule.Name, got, want)
			}
			if get(p, "Dimensions", 0, "Name") != "schedule" ||
				get(p, "Dimensions", 0, "Value") != "gatewright-dev-"+f.name+"/"+e.Schedule.Name {
				t.Errorf("dimensions of the alarm for missed runs = %v, want schedule = gatewright-dev-%s/%s", p["Dimensions"],
					f.name, e.Schedule.Name)
			}
			if got := fmt.Sprint(p["Period"], " ", p["EvaluationPeriods"]); got != periods[e.Schedule.Name] {
				t.Errorf("the alarm of %s %s has the periods %s, want %s", f.name, e.Schedule.Name, got, periods[e.Schedule.Name])
			}
		}
	}
	if schedules < 5 {
		t.Errorf("the functions have %d schedules, want at least 5", schedules)
	}
}

// TestAsyncCallsAreRetriedAsDeclared checks that Lambda and the scheduler retry calls as declared, and that the
// declared queues exist with permissions and alarms.
func TestAsyncCallsAreRetriedAsDeclared(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	configs := a.all("AWS::Lambda::EventInvokeConfig")
	wantConfigs := 0
	for _, f := range functionSpecs(settingsFor(t, minimalContext(nil))) {
		if !(trigger.Function{Events: f.triggers}).Async() {
			continue
		}
		wantConfigs++
		p := configs[logicalID(f.name)+"Retries"].Properties
		if p["FunctionName"] != "gatewright-dev-"+f.name || p["Qualifier"] != liveAlias ||
			p["MaximumRetryAttempts"] != float64(f.retries.MaxRetries) ||
			p["MaximumEventAgeInSeconds"] != f.retries.MaxAge.Seconds() {
			t.Errorf("the retries of %s are %v, want %+v", f.name, p, f.retries)
		}
		for id, schedule := range a.all("AWS::Scheduler::Schedule") {
			if !strings.HasPrefix(id, logicalID(f.name)) {
				continue
			}
			policy := get(schedule.Properties, "Target", "RetryPolicy")
			if get(policy, "MaximumRetryAttempts") != float64(f.retries.MaxRetries) ||
				get(policy, "MaximumEventAgeInSeconds") != f.retries.MaxAge.Seconds() {
				t.Errorf("%s has the retries %v, want %+v", id, policy, f.retries)
			}
		}
		queue := render(get(p, "DestinationConfig", "OnFailure", "Destination"))
		if hasQueue := queue == "${"+logicalID(f.name)+"GivenUp.Arn}"; hasQueue != f.retries.DeadLetter {
			t.Errorf("dead-letter queue of %s = %q, want one: %t", f.name, queue, f.retries.DeadLetter)
		}
		if !f.retries.DeadLetter {
			continue
		}
		// Lambda refuses a queue to which the role cannot send. So the grant names the queue, and must exist before the
		// queue is configured.
		name := deadLetterQueueName(settingsFor(t, minimalContext(nil)), f)
		allowed := slices.ContainsFunc(a.grants()["${"+logicalID(f.name)+"Role}"], func(s statement) bool {
			return slices.Equal(s.actions, []string{"sqs:SendMessage"}) &&
				slices.Equal(s.resources, []string{"arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:" + name})
		})
		if !allowed {
			t.Errorf("grants of %s = %v, want sqs:SendMessage to the queue %s", f.name,
				a.grants()["${"+logicalID(f.name)+"Role}"], name)
		}
		if got := a.all("AWS::SQS::Queue")[logicalID(f.name)+"GivenUp"].Properties["QueueName"]; got != name {
			t.Errorf("QueueName of the dead-letter queue of %s = %v, want %s", f.name, got, name)
		}
		if p := a.all("AWS::CloudWatch::Alarm")[logicalID(f.name)+"GivenUpDepth"].Properties; p["Threshold"] != 0.0 ||
			render(get(p, "Dimensions", 0, "Value")) != "${"+logicalID(f.name)+"GivenUp.QueueName}" {
			t.Errorf("alarm %sGivenUpDepth = %v, want the threshold 0 for the dead-letter queue", logicalID(f.name), p)
		}
	}
	if wantConfigs == 0 || wantConfigs != len(configs) {
		t.Errorf("%d functions have retries, want %d and at least one", len(configs), wantConfigs)
	}
	for id, q := range a.all("AWS::SQS::Queue") { // operators need time to look at failed calls
		if q.Properties["MessageRetentionPeriod"] != 14*24*3600.0 {
			t.Errorf("retention period of the queue %s = %v s, want 14 days", id, q.Properties["MessageRetentionPeriod"])
		}
	}
	calls := a.nestedStack("Calls")
	if dependencies := fmt.Sprint(calls.DependsOn); !strings.Contains(dependencies, "BuilderPolicy") ||
		!strings.Contains(dependencies, "BuilderLive") {
		t.Errorf("dependencies of the stack Calls = %s, want BuilderPolicy and BuilderLive in them", dependencies)
	}
}

// nestedStack returns the nested stack with a name, or a resource without a type if there is none.
func (a assembly) nestedStack(name string) resource {
	for id, r := range a.all("AWS::CloudFormation::Stack") {
		if strings.HasPrefix(id, name+"NestedStack") {
			return r
		}
	}
	return resource{}
}

// TestScheduleEventContainsItsName checks that the event of a schedule contains the schedule's name, which
// shared/runtime/cloud reads.
func TestScheduleEventContainsItsName(t *testing.T) {
	for id, s := range synthesize(t, minimalContext(nil)).all("AWS::Scheduler::Schedule") {
		var schedule trigger.Schedule
		if err := json.Unmarshal([]byte(get(s.Properties, "Target", "Input").(string)), &schedule); err != nil ||
			schedule.Name == "" {
			t.Errorf("input of the schedule %s: name %q, error %v, want a name and no error", id, schedule.Name, err)
		}
	}
}
