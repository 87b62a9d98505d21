package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/trigger"
)

// TestTriggersOfTheProductAreTaken, and what AWS would refuse or do badly is told in a line.
func TestTriggersOfTheProductAreTaken(t *testing.T) {
	if err := checkTriggers(declaredFunctions(settingsFor(t, needed(nil)))); err != nil {
		t.Error(err)
	}
}

func TestTriggersThatAWSWouldRefuseAreTold(t *testing.T) {
	hour := trigger.Retries{MaxAge: time.Hour}
	on := func(e ...trigger.Event) []trigger.Event { return e }
	stream, upload := trigger.Event{StreamRecords: true}, trigger.Event{ObjectCreated: "uploads/"}
	by := func(s trigger.Schedule) trigger.Event { s.Name = "tick"; return trigger.Event{Schedule: &s} }
	for name, tt := range map[string]struct {
		fs   []declared
		want string // "" for what is taken
	}{
		"two readers of the stream": {[]declared{{name: "a", on: on(stream)}, {name: "b", on: on(stream)}}, ""},
		"a third one":               {[]declared{{name: "a", on: on(stream)}, {name: "b", on: on(stream)}, {name: "c", on: on(stream)}}, "the stream calls 3 functions ([a b c]), and DynamoDB has 2 readers"},
		"one function thrice":       {[]declared{{name: "a", on: on(stream, stream, stream)}}, "the stream calls 3 functions ([a a a])"},
		"retries undeclared":        {[]declared{{name: "a", on: on(upload)}}, "function a declares 0 retries of calls of 0s at most"},
		"three retries":             {[]declared{{name: "a", on: on(upload), retries: trigger.Retries{Attempts: 3, MaxAge: time.Hour}}}, "declares 3 retries"},
		"fewer than none":           {[]declared{{name: "a", on: on(upload), retries: trigger.Retries{Attempts: -1, MaxAge: time.Hour}}}, "declares -1 retries"},
		"too short":                 {[]declared{{name: "a", on: on(upload), retries: trigger.Retries{MaxAge: 59 * time.Second}}}, "calls of 59s at most"},
		"too long":                  {[]declared{{name: "a", on: on(upload), retries: trigger.Retries{MaxAge: 6*time.Hour + time.Second}}}, "in whole seconds"},
		"parts of seconds":          {[]declared{{name: "a", on: on(upload), retries: trigger.Retries{MaxAge: time.Hour + time.Millisecond}}}, "in whole seconds"},
		"retries of nothing":        {[]declared{{name: "a", on: on(stream), retries: hour}}, "nothing calls it that waits for no answer"},
		"each minute":               {[]declared{{name: "a", on: on(by(trigger.Schedule{Every: time.Minute})), retries: hour}}, ""},
		"each hour, counted":        {[]declared{{name: "a", on: on(by(trigger.Schedule{Every: time.Hour})), retries: hour}}, "function a: schedule tick: it runs every 1h0m0s: declare when by a cron"},
		"on working days":           {[]declared{{name: "a", on: on(by(trigger.Schedule{Cron: "30 2 * * 1-5"})), retries: hour}}, ""},
		"each month":                {[]declared{{name: "a", on: on(by(trigger.Schedule{Cron: "0 0 1 * *"})), retries: hour}}, "schedule tick: up to 744h0m0s pass between two calls, and an alarm looks back a week"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkTriggers(tt.fs)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("it says %v", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")):
				t.Errorf("it says %v, want %s", err, tt.want)
			}
		})
	}
}

// TestEveryScheduleRingsWhenItIsMissed: a schedule that is declared has an alarm, on what its function says and nobody else does, which is
// on where nothing was said for two intervals.
func TestEveryScheduleRingsWhenItIsMissed(t *testing.T) {
	a, fs := withAdded(t)
	periods := map[string]string{"minutely": "300 2", "sweep": "300 2", "hourly": "3600 2", "nightly": "86400 4", "often": "600 2"}
	alarms := a.all("AWS::CloudWatch::Alarm")
	schedules := 0
	for _, f := range fs {
		for _, e := range f.on {
			if e.Schedule == nil {
				continue
			}
			schedules++
			p := alarms[exported(f.name)+exported(e.Schedule.Name)+"Missed"].Properties
			if p["Namespace"] != telemetry.Namespace || p["MetricName"] != telemetry.ScheduledRuns || p["Statistic"] != "Sum" || p["ComparisonOperator"] != "LessThanThreshold" || p["Threshold"] != 1.0 || p["TreatMissingData"] != "breaching" {
				t.Errorf("the alarm of %s %s is %v", f.name, e.Schedule.Name, p)
			}
			if get(p, "Dimensions", 0, "Name") != "schedule" || get(p, "Dimensions", 0, "Value") != "gatewright-dev-"+f.name+"/"+e.Schedule.Name {
				t.Errorf("the alarm of %s %s is about %v", f.name, e.Schedule.Name, p["Dimensions"])
			}
			if got := fmt.Sprint(p["Period"], " ", p["EvaluationPeriods"]); got != periods[e.Schedule.Name] {
				t.Errorf("the alarm of %s %s has the periods %s, want %s", f.name, e.Schedule.Name, got, periods[e.Schedule.Name])
			}
		}
	}
	if schedules < 5 {
		t.Errorf("there are %d schedules", schedules)
	}
}

// TestCallsThatWaitForNoAnswerAreRetriedAsDeclared, by Lambda and by the scheduler, and kept where it is declared.
func TestCallsThatWaitForNoAnswerAreRetriedAsDeclared(t *testing.T) {
	a := synthesise(t, needed(nil))
	configs := a.all("AWS::Lambda::EventInvokeConfig")
	wanted := 0
	for _, f := range declaredFunctions(settingsFor(t, needed(nil))) {
		if !(trigger.Function{On: f.on}).Async() {
			continue
		}
		wanted++
		p := configs[exported(f.name)+"Retries"].Properties
		if p["FunctionName"] != "gatewright-dev-"+f.name || p["Qualifier"] != live || p["MaximumRetryAttempts"] != float64(f.retries.Attempts) || p["MaximumEventAgeInSeconds"] != f.retries.MaxAge.Seconds() {
			t.Errorf("the retries of %s are %v, want %+v", f.name, p, f.retries)
		}
		for id, schedule := range a.all("AWS::Scheduler::Schedule") {
			if !strings.HasPrefix(id, exported(f.name)) {
				continue
			}
			policy := get(schedule.Properties, "Target", "RetryPolicy")
			if get(policy, "MaximumRetryAttempts") != float64(f.retries.Attempts) || get(policy, "MaximumEventAgeInSeconds") != f.retries.MaxAge.Seconds() {
				t.Errorf("%s has the retries %v, want %+v", id, policy, f.retries)
			}
		}
		queue := render(get(p, "DestinationConfig", "OnFailure", "Destination"))
		if kept := queue == "${"+exported(f.name)+"GivenUp.Arn}"; kept != f.retries.Keep {
			t.Errorf("what is given up of %s goes to %q, kept is declared: %v", f.name, queue, f.retries.Keep)
		}
		if !f.retries.Keep {
			continue
		}
		// Lambda refuses a queue that the role may not send to: the grant names it, and is there before.
		name := keptName(settingsFor(t, needed(nil)), f)
		may := slices.ContainsFunc(a.grants()["${"+exported(f.name)+"Role}"], func(s statement) bool {
			return slices.Equal(s.actions, []string{"sqs:SendMessage"}) && slices.Equal(s.resources, []string{"arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:" + name})
		})
		if !may || a.all("AWS::SQS::Queue")[exported(f.name)+"GivenUp"].Properties["QueueName"] != name {
			t.Errorf("%s may not keep what is given up in %s: %v", f.name, name, a.grants()["${"+exported(f.name)+"Role}"])
		}
		if p := a.all("AWS::CloudWatch::Alarm")[exported(f.name)+"GivenUpDepth"].Properties; p["Threshold"] != 0.0 || render(get(p, "Dimensions", 0, "Value")) != "${"+exported(f.name)+"GivenUp.QueueName}" {
			t.Errorf("the alarm on what is given up of %s is %v", f.name, p)
		}
	}
	if wanted == 0 || wanted != len(configs) {
		t.Errorf("%d functions have retries, want %d", len(configs), wanted)
	}
	for id, q := range a.all("AWS::SQS::Queue") { // nobody looks at it at once
		if q.Properties["MessageRetentionPeriod"] != 14*24*3600.0 {
			t.Errorf("what failed for good is in %s for %v s", id, q.Properties["MessageRetentionPeriod"])
		}
	}
	calls := a.nested("Calls")
	if depends := fmt.Sprint(calls.DependsOn); !strings.Contains(depends, "BuilderPolicy") || !strings.Contains(depends, "BuilderLive") {
		t.Errorf("the stack of the retries comes after %s, not after grants and aliases", depends)
	}
}

// nested gives the nested stack of a name.
func (a assembly) nested(name string) resource {
	for id, r := range a.all("AWS::CloudFormation::Stack") {
		if strings.HasPrefix(id, name+"NestedStack") {
			return r
		}
	}
	return resource{}
}

// TestSchedulesEventIsWhatFunctionsTellBy: their process reads the name out of it (shared/cloud).
func TestSchedulesEventIsWhatFunctionsTellBy(t *testing.T) {
	for id, s := range synthesise(t, needed(nil)).all("AWS::Scheduler::Schedule") {
		var by trigger.Schedule
		if err := json.Unmarshal([]byte(get(s.Properties, "Target", "Input").(string)), &by); err != nil || by.Name == "" {
			t.Errorf("%s tells no name of a schedule: %v", id, err)
		}
	}
}
