package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

const topicARN = "arn:aws:sns:eu-west-1:123456789012:alarms"

// TestEachAlarmNotifiesTheTopic checks that each alarm in every stack notifies the topic when the alarm begins and when
// it ends. Event rules notify the topic of failed releases, and of a disabled or deleted root key. Without a topic,
// alarms notify nobody and no event rule exists.
func TestEachAlarmNotifiesTheTopic(t *testing.T) {
	for name, context := range map[string]map[string]string{"": servicesContext(nil), topicARN: alarmTopicContext} {
		a, want := synthesize(t, context), "["+name+"]"
		alarms := 0
		for file, stack := range a.stacks { // alarms of different services have the same logical ids
			for id, alarm := range stack.Resources {
				if alarm.Type != "AWS::CloudWatch::Alarm" {
					continue
				}
				alarms++
				for _, property := range []string{"AlarmActions", "OKActions"} {
					actions, _ := alarm.Properties[property].([]any)
					if got := fmt.Sprint(actions); got != want {
						t.Errorf("%s of %s in %s are %s, want %s", property, id, file, got, want)
					}
				}
			}
		}
		if alarms < 50 {
			t.Fatalf("topic %q: the stacks have %d alarms, want at least 50", name, alarms)
		}
		rules := a.all("AWS::Events::Rule")
		if want := map[bool]int{true: 3}[name != ""]; len(rules) != want {
			t.Errorf("topic %q: the stacks have %d event rules, want %d", name, len(rules), want)
		}
		patterns := map[string]any{}
		for _, r := range rules {
			if get(r.Properties, "Targets", 0, "Arn") != name {
				t.Errorf("event rule = %v, want the target %q", r.Properties, name)
			}
			patterns[render(get(r.Properties, "EventPattern", "source", 0))] = get(r.Properties, "EventPattern")
		}
		if name != "" && (get(patterns["aws.codedeploy"], "detail", "application", 0) != "gatewright-dev" ||
			get(patterns["aws.ecs"], "detail", "eventName", 0) != "SERVICE_DEPLOYMENT_FAILED" ||
			get(patterns["aws.ecs"], "resources", 0, "suffix") != ":service/gatewright-dev-gateway/gateway") {
			t.Errorf("event patterns = %v, want gatewright-dev, SERVICE_DEPLOYMENT_FAILED and the gateway's service",
				patterns)
		}
		if name != "" {
			if got := render(get(patterns["aws.kms"], "detail")); !strings.Contains(got, "DisableKey") ||
				!strings.Contains(got, "ScheduleKeyDeletion") || !strings.Contains(got, "RootKey") {
				t.Errorf("event pattern of aws.kms = %s, want DisableKey and ScheduleKeyDeletion of RootKey", got)
			}
		}
		recipients := ""
		for _, stack := range a.stacks {
			if o, ok := stack.Outputs["AlarmsTell"]; ok {
				recipients = render(o.Value)
			}
		}
		if name == "" && !strings.Contains(recipients, "nobody") || name != "" && recipients != name {
			t.Errorf("output for the recipients of alarms = %q, want the topic %q (nobody if it is empty)", recipients, name)
		}
	}
}

// TestAlarmsSeparateGatewayFaultsFromUpstreamFaults checks that the alarms use the metrics from the gateway's log
// lines, which name the cause of a 5xx. No alarm uses the 5xx that API Gateway counts for the gateway.
func TestAlarmsSeparateGatewayFaultsFromUpstreamFaults(t *testing.T) {
	a := synthesize(t, servicesContext(nil))
	for id, metric := range map[string]string{
		"GatewayFaults":  telemetry.GatewayFaults,
		"UpstreamFaults": telemetry.UpstreamFaults,
	} {
		p := a.find(id).Properties
		if p["Namespace"] != telemetry.Namespace || p["MetricName"] != metric || get(p, "Dimensions", 0, "Name") != "table" ||
			render(get(p, "Dimensions", 0, "Value")) != "${Table}" {
			t.Errorf("alarm %s = %v, want the metric %s %s with the dimension table", id, p, telemetry.Namespace, metric)
		}
	}
	for id, alarm := range a.all("AWS::CloudWatch::Alarm") {
		if alarm.Properties["MetricName"] == "5XXError" && strings.Contains(fmt.Sprint(alarm.Properties["Dimensions"]),
			"gatewright-dev-gateway") {
			t.Errorf("alarm %s uses 5XXError of the gateway's API, want no alarm on the responses of upstreams", id)
		}
	}
}

// TestSilentFailuresHaveAlarms checks the alarms for dropped events, for throttled indexes, and for the concurrency
// that is left for the gateway.
func TestSilentFailuresHaveAlarms(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	metric := func(id string) string {
		p := a.find(id).Properties
		return fmt.Sprintf("%v %v", p["Namespace"], p["MetricName"])
	}
	for _, f := range functionSpecs(settingsFor(t, minimalContext(nil))) {
		asynchronous := slices.ContainsFunc(f.triggers, func(e trigger.Event) bool {
			return e.ObjectCreated != "" || e.Schedule != nil
		})
		if got := metric(logicalID(f.name) + "DroppedEvents"); (got == "AWS/Lambda AsyncEventsDropped") != asynchronous {
			t.Errorf("metric for dropped events of %s = %q, want AWS/Lambda AsyncEventsDropped: %t", f.name, got, asynchronous)
		}
	}
	for _, index := range store.Schema().Indexes {
		for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
			id := "Index" + logicalID(string(index.Name)) + name
			if metric(id) != "AWS/DynamoDB "+name ||
				get(a.find(id).Properties, "Dimensions", 0, "Name") != "GlobalSecondaryIndexName" {
				t.Errorf("alarm %s = %v, want the metric %s with the dimension GlobalSecondaryIndexName", id,
					a.find(id).Properties, name)
			}
		}
	}
	s := settingsFor(t, minimalContext(nil))
	alarm := a.find("ConcurrencyNearlyUsed").Properties
	if unreserved := s.unreserved(functionSpecs(s)); metric(
		"ConcurrencyNearlyUsed") != "AWS/Lambda UnreservedConcurrentExecutions" ||
		alarm["Threshold"] != float64(unreserved*8/10) {
		t.Errorf("alarm ConcurrencyNearlyUsed = %v, want UnreservedConcurrentExecutions above %d", alarm, unreserved*8/10)
	}
}

// hashSuffix matches the suffix that the CDK adds to the name of a resource within a construct.
var hashSuffix = regexp.MustCompile(`[0-9A-F]{8}$`)

// alarmTable matches the table of alarms in docs/aws.md, between two comments of the page. Its groups are these
// comments.
var alarmTable = regexp.MustCompile(`(?s)(<!-- table: alarms -->\n).*?(<!-- end of the table -->)`)

// TestAlarmsAreDocumented checks that docs/aws.md has a row for each alarm, with when it rings and what to do.
func TestAlarmsAreDocumented(t *testing.T) {
	a, specs := synthesize(t, servicesContext(nil)), functionSpecs(settingsFor(t, servicesContext(nil)))
	rows := map[string]bool{}
	// Read each stack separately: alarms of different services have the same logical ids, and the check's alarms are in
	// another region.
	for _, stack := range slices.Concat(slices.Collect(maps.Values(a.stacks)),
		slices.Collect(maps.Values(synthesizeCheck(t, nil).stacks))) {
		for id, alarm := range stack.Resources {
			if alarm.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			description, _ := alarm.Properties["AlarmDescription"].(string)
			if _, advice, ok := strings.Cut(description, ": "); !ok || len(advice) < 10 {
				t.Errorf("description of the alarm %s = %q, want what to do after a colon", id, description)
			}
			if f := owner(id, alarm, specs); f != "" && id != "GatewayFaults" {
				id = "…" + strings.TrimPrefix(id, logicalID(f))
				description = strings.ReplaceAll(description, " "+f, " the function")
				description = strings.Replace(description, f+" ", "The function ", 1)
			}
			rows[fmt.Sprintf("| `%s` | %s | %s |", hashSuffix.ReplaceAllString(id, ""), alarmCondition(alarm.Properties),
				description)] = true
		}
	}
	const path = "../docs/aws.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(alarmTable.FindAllString(string(text), -1)); n != 1 {
		t.Fatalf("%s has %d places for the table of alarms, want 1", path, n)
	}
	table := "| alarm | rings when | what it says |\n|---|---|---|\n" + strings.Join(slices.Sorted(maps.Keys(rows)),
		"\n") + "\n"
	golden.Equal(t, path, alarmTable.ReplaceAllStringFunc(string(text), func(old string) string {
		parts := alarmTable.FindStringSubmatch(old)
		return parts[1] + "\n" + table + "\n" + parts[2]
	}))
}

// alarmCondition describes when an alarm rings.
func alarmCondition(p map[string]any) string {
	name, period, comparison := fmt.Sprint(p["MetricName"]), p["Period"], "more"
	if p["ComparisonOperator"] == "LessThanThreshold" {
		comparison = "less"
	}
	metrics, _ := p["Metrics"].([]any)
	for _, m := range metrics { // an alarm on a sum has several metrics
		if get(m, "ReturnData") == true {
			name = fmt.Sprint(get(m, "Label"))
		} else {
			period = get(m, "MetricStat", "Period")
		}
	}
	minutes, _ := period.(float64)
	periods, _ := p["EvaluationPeriods"].(float64)
	statistic := p["Statistic"]
	if statistic == nil {
		statistic = p["ExtendedStatistic"]
	}
	if statistic != nil {
		name += fmt.Sprintf(" (%v)", statistic)
	}
	return fmt.Sprintf("%s %s than %v in %v × %v min", name, comparison, p["Threshold"], periods, minutes/60)
}
