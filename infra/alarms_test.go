package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/trigger"
)

const topic = "arn:aws:sns:eu-west-1:123456789012:alarms"

// TestTheTopicHearsOfEachAlarm when it begins and when it ends, whichever stack has it, and nobody does without one.
func TestTheTopicHearsOfEachAlarm(t *testing.T) {
	for name, context := range map[string]map[string]string{"": serving(nil), topic: ringing} {
		a, want := synthesise(t, context), "["+name+"]"
		alarms := a.all("AWS::CloudWatch::Alarm")
		if len(alarms) < 50 {
			t.Fatalf("%d alarms", len(alarms))
		}
		for id, alarm := range alarms {
			for _, when := range []string{"AlarmActions", "OKActions"} {
				actions, _ := alarm.Properties[when].([]any)
				if got := fmt.Sprint(actions); got != want {
					t.Errorf("%s of %s are %s, want %s", when, id, got, want)
				}
			}
		}
		rules := a.all("AWS::Events::Rule")
		if want := map[bool]int{true: 3}[name != ""]; len(rules) != want {
			t.Errorf("%d rules tell of releases that failed and of the key, want %d", len(rules), want)
		}
		of := map[string]any{}
		for _, r := range rules {
			if get(r.Properties, "Targets", 0, "Arn") != name {
				t.Errorf("the rule is %v", r.Properties)
			}
			of[render(get(r.Properties, "EventPattern", "source", 0))] = get(r.Properties, "EventPattern")
		}
		if name != "" && (get(of["aws.codedeploy"], "detail", "application", 0) != "gatewright-dev" || get(of["aws.ecs"], "detail", "eventName", 0) != "SERVICE_DEPLOYMENT_FAILED" ||
			get(of["aws.ecs"], "resources", 0, "suffix") != ":service/gatewright-dev-gateway/gateway") {
			t.Errorf("the rules are of %v", of)
		}
		if name != "" {
			if got := render(get(of["aws.kms"], "detail")); !strings.Contains(got, "DisableKey") || !strings.Contains(got, "ScheduleKeyDeletion") || !strings.Contains(got, "RootKey") {
				t.Errorf("the rule of the key is of %s", got)
			}
		}
		told := ""
		for _, stack := range a.stacks {
			if o, ok := stack.Outputs["AlarmsTell"]; ok {
				told = render(o.Value)
			}
		}
		if name == "" && !strings.Contains(told, "nobody") || name != "" && told != name {
			t.Errorf("the outputs say that alarms tell %q", told)
		}
	}
}

// TestAlarmsTellOurFaultsFromUpstreams by what the gateway's lines say of a 5xx, of its function and its processes.
func TestAlarmsTellOurFaultsFromUpstreams(t *testing.T) {
	a := synthesise(t, serving(nil))
	for id, metric := range map[string]string{"GatewayFaults": telemetry.GatewayFaults, "UpstreamFaults": telemetry.UpstreamFaults} {
		p := a.find(id).Properties
		if p["Namespace"] != telemetry.Namespace || p["MetricName"] != metric || get(p, "Dimensions", 0, "Name") != "table" || render(get(p, "Dimensions", 0, "Value")) != "${Table}" {
			t.Errorf("%s is of %v", id, p)
		}
	}
	for id, alarm := range a.all("AWS::CloudWatch::Alarm") {
		if alarm.Properties["MetricName"] == "5XXError" && strings.Contains(fmt.Sprint(alarm.Properties["Dimensions"]), "gatewright-dev-gateway") {
			t.Errorf("%s rings for what any upstream answers", id)
		}
	}
}

// TestWhatMayGoWrongUnseenHasAnAlarm: each event that may be dropped, each index that may throttle, a sweep that does not run.
func TestWhatMayGoWrongUnseenHasAnAlarm(t *testing.T) {
	a := synthesise(t, needed(nil))
	metric := func(id string) string {
		p := a.find(id).Properties
		return fmt.Sprintf("%v %v", p["Namespace"], p["MetricName"])
	}
	for _, f := range declaredFunctions(settingsFor(t, needed(nil))) {
		asynchronous := slices.ContainsFunc(f.on, func(e trigger.Event) bool { return e.ObjectCreated != "" || e.Schedule != nil })
		if got := metric(exported(f.name) + "DroppedEvents"); (got == "AWS/Lambda AsyncEventsDropped") != asynchronous {
			t.Errorf("events of %s that are dropped are told by %s", f.name, got)
		}
	}
	for _, index := range store.Schema().Indexes {
		for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
			id := "Index" + exported(string(index.Name)) + name
			if metric(id) != "AWS/DynamoDB "+name || get(a.find(id).Properties, "Dimensions", 0, "Name") != "GlobalSecondaryIndexName" {
				t.Errorf("%s is %v", id, a.find(id).Properties)
			}
		}
	}
	s := settingsFor(t, needed(nil))
	near := a.find("ConcurrencyNearlyUsed").Properties
	if left := s.unreserved(declaredFunctions(s)); metric("ConcurrencyNearlyUsed") != "AWS/Lambda UnreservedConcurrentExecutions" || near["Threshold"] != float64(left*8/10) {
		t.Errorf("of %d calls at once, %v are told by %v", left, near["Threshold"], near)
	}
}

// hashed is what the CDK adds to the name of what stands in a construct.
var hashed = regexp.MustCompile(`[0-9A-F]{8}$`)

var alarmTable = regexp.MustCompile(`(?s)(<!-- table: alarms -->\n).*?(<!-- end of the table -->)`)

// TestAlarmsAreDocumented: docs/aws.md has a row for each, with when it rings and what to do.
func TestAlarmsAreDocumented(t *testing.T) {
	a, fs := synthesise(t, serving(nil)), declaredFunctions(settingsFor(t, serving(nil)))
	rows := map[string]bool{}
	// Alarms of services have the same names, and those of the check are in another region.
	for _, stack := range slices.Concat(slices.Collect(maps.Values(a.stacks)), slices.Collect(maps.Values(synthesiseCheck(t, nil).stacks))) {
		for id, alarm := range stack.Resources {
			if alarm.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			why, _ := alarm.Properties["AlarmDescription"].(string)
			if _, what, ok := strings.Cut(why, ": "); !ok || len(what) < 10 {
				t.Errorf("%s says %q, and not what to do", id, why)
			}
			if f := owner(id, alarm, fs); f != "" && id != "GatewayFaults" {
				id = "…" + strings.TrimPrefix(id, exported(f))
				why = strings.ReplaceAll(why, " "+f, " the function")
				why = strings.Replace(why, f+" ", "The function ", 1)
			}
			rows[fmt.Sprintf("| `%s` | %s | %s |", hashed.ReplaceAllString(id, ""), rings(alarm.Properties), why)] = true
		}
	}
	const path = "../docs/aws.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(alarmTable.FindAllString(string(text), -1)); n != 1 {
		t.Fatalf("%s has %d places for the table of alarms", path, n)
	}
	table := "| alarm | rings when | what it says |\n|---|---|---|\n" + strings.Join(slices.Sorted(maps.Keys(rows)), "\n") + "\n"
	golden.Equal(t, path, alarmTable.ReplaceAllStringFunc(string(text), func(old string) string {
		parts := alarmTable.FindStringSubmatch(old)
		return parts[1] + "\n" + table + "\n" + parts[2]
	}))
}

// rings tells when an alarm does.
func rings(p map[string]any) string {
	name, period, by := fmt.Sprint(p["MetricName"]), p["Period"], "more"
	if p["ComparisonOperator"] == "LessThanThreshold" {
		by = "less"
	}
	list, _ := p["Metrics"].([]any)
	for _, m := range list { // of a sum, what is looked at
		if get(m, "ReturnData") == true {
			name = fmt.Sprint(get(m, "Label"))
		} else {
			period = get(m, "MetricStat", "Period")
		}
	}
	minutes, _ := period.(float64)
	times, _ := p["EvaluationPeriods"].(float64)
	statistic := p["Statistic"]
	if statistic == nil {
		statistic = p["ExtendedStatistic"]
	}
	if statistic != nil {
		name += fmt.Sprintf(" (%v)", statistic)
	}
	return fmt.Sprintf("%s %s than %v in %v × %v min", name, by, p["Threshold"], times, minutes/60)
}
