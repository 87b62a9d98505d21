package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/trigger"
)

// published is what AWS and our own lines count, and by which dimensions: an alarm about anything else is never on, or for ever. The metrics are those of
// each service's own page of CloudWatch metrics.
var published = []string{
	"AWS/Lambda Errors FunctionName", "AWS/Lambda Throttles FunctionName", "AWS/Lambda Duration FunctionName", "AWS/Lambda IteratorAge FunctionName",
	"AWS/Lambda AsyncEventsDropped FunctionName", "AWS/Lambda UnreservedConcurrentExecutions ",
	"AWS/ApiGateway 5XXError ApiName,Stage",
	"AWS/DynamoDB ReadThrottleEvents TableName", "AWS/DynamoDB WriteThrottleEvents TableName",
	"AWS/DynamoDB ReadThrottleEvents GlobalSecondaryIndexName,TableName", "AWS/DynamoDB WriteThrottleEvents GlobalSecondaryIndexName,TableName",
	"AWS/SQS ApproximateNumberOfMessagesVisible QueueName",
	"AWS/ECS CPUUtilization ClusterName,ServiceName", "AWS/ECS MemoryUtilization ClusterName,ServiceName",
	"AWS/NetworkELB HealthyHostCount LoadBalancer,TargetGroup",
	telemetry.Namespace + " " + telemetry.GatewayFaults + " table", telemetry.Namespace + " " + telemetry.UpstreamFaults + " table",
	telemetry.Namespace + " " + telemetry.KeyThrottles + " table", telemetry.Namespace + " " + telemetry.StuckOperations + " table",
	telemetry.Namespace + " " + telemetry.ScheduledRuns + " schedule", telemetry.Namespace + " " + telemetry.CertificateDays + " certificate",
}

// single are metrics of which one is one too many.
var single = map[string]bool{
	"Errors": true, "Throttles": true, "5XXError": true, "ReadThrottleEvents": true, "WriteThrottleEvents": true, "AsyncEventsDropped": true,
	telemetry.GatewayFaults: true, telemetry.KeyThrottles: true, telemetry.StuckOperations: true,
}

// metricsOf are what an alarm looks at, as published has them.
func metricsOf(p map[string]any) (out []string) {
	one := func(namespace, name, dimensions any) {
		var by []string
		list, _ := dimensions.([]any)
		for _, d := range list {
			by = append(by, fmt.Sprint(get(d, "Name")))
		}
		slices.Sort(by)
		out = append(out, fmt.Sprintf("%v %v %s", namespace, name, strings.Join(by, ",")))
	}
	if list, several := p["Metrics"].([]any); several {
		for _, m := range list {
			if of := get(m, "MetricStat", "Metric"); of != nil {
				one(get(of, "Namespace"), get(of, "MetricName"), get(of, "Dimensions"))
			}
		}
		return out
	}
	one(p["Namespace"], p["MetricName"], p["Dimensions"])
	return out
}

// called are the names by which CloudWatch knows what an installation has: functions, and the stages of APIs.
func (a assembly) called() map[string][]any {
	out := map[string][]any{}
	for _, f := range a.all("AWS::Lambda::Function") {
		out["FunctionName"] = append(out["FunctionName"], f.Properties["FunctionName"])
	}
	for _, api := range a.all("AWS::ApiGateway::RestApi") {
		out["ApiName"] = append(out["ApiName"], api.Properties["Name"])
	}
	for _, stage := range a.all("AWS::ApiGateway::Stage") {
		out["Stage"] = append(out["Stage"], stage.Properties["StageName"])
	}
	return out
}

// TestEachAlarmCanRing: it is about something that is counted, passes its bound some day, is off where nothing is counted unless that is what it tells, and
// looks back no further than CloudWatch does.
func TestEachAlarmCanRing(t *testing.T) {
	const hour, day, week = 3600.0, 24 * 3600.0, 7 * 24 * 3600.0
	a := synthesise(t, serving(nil))
	called := a.called()
	for _, stack := range a.stacks { // services' alarms have the same names
		for id, alarm := range stack.Resources {
			p := alarm.Properties
			if alarm.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			dimensions, _ := p["Dimensions"].([]any)
			for _, d := range dimensions {
				if names, known := called[fmt.Sprint(get(d, "Name"))]; known && !slices.Contains(names, get(d, "Value")) {
					t.Errorf("%s is about the %v %v, which there is not", id, get(d, "Name"), get(d, "Value"))
				}
			}
			if single[fmt.Sprint(p["MetricName"])] && (p["Statistic"] != "Sum" || p["Threshold"] != 0.0) {
				t.Errorf("%s is on where the %v is above %v, and one is one too many", id, p["Statistic"], p["Threshold"])
			}
			if p["MetricName"] == "IteratorAge" && p["Threshold"] != 120_000.0 {
				t.Errorf("%s is on at %v ms", id, p["Threshold"])
			}
			for _, m := range metricsOf(p) {
				if !slices.Contains(published, m) {
					t.Errorf("%s is about %s, which nobody counts", id, m)
				}
			}
			if strings.HasSuffix(id, "Utilization") && (p["Threshold"].(float64) < 70 || p["Threshold"].(float64) > 95) {
				t.Errorf("%s is on at %v %%", id, p["Threshold"])
			}
			want := map[any]string{"GreaterThanThreshold": "notBreaching", "LessThanThreshold": "breaching"}[p["ComparisonOperator"]]
			if p["MetricName"] == telemetry.CertificateDays { // a certificate is no better and no worse while no task reports
				want = "ignore"
			}
			if p["TreatMissingData"] != want {
				t.Errorf("%s is %v where nothing is counted, want %s", id, p["TreatMissingData"], want)
			}
			period, _ := p["Period"].(float64)
			times, _ := p["EvaluationPeriods"].(float64)
			if most := map[bool]float64{true: week, false: day}[period >= hour]; period*times > most {
				t.Errorf("%s looks back %v s, and CloudWatch takes %v", id, period*times, most)
			}
		}
	}
}

// TestAlarmsOfAReleaseRingWithinIt: what ends a release has to be on before it is over, which is the time of its canary.
func TestAlarmsOfAReleaseRingWithinIt(t *testing.T) {
	a := synthesise(t, serving(nil))
	names := map[string]string{"the processes": "GatewayFaults", "operations of an API": "ApiApiServerErrors"}
	for _, f := range declaredFunctions(settingsFor(t, serving(nil))) {
		names[f.name+" that fails"], names[f.name+" that is refused"] = exported(f.name)+"Errors", exported(f.name)+"Throttles"
	}
	for what, name := range names {
		found := false
		for id, alarm := range a.all("AWS::CloudWatch::Alarm") {
			if hashed.ReplaceAllString(id, "") != name {
				continue
			}
			found = true
			period, _ := alarm.Properties["Period"].(float64)
			times, _ := alarm.Properties["EvaluationPeriods"].(float64)
			if period*times >= canaryMinutes*60 || period == 0 {
				t.Errorf("%s: %s is on after %v s, and a canary takes %d minutes", what, name, period*times, canaryMinutes)
			}
		}
		if !found {
			t.Errorf("%s: there is no %s", what, name)
		}
	}
}

// TestFailuresOfRareCallsRing: of a function that is called once an hour no three minutes on end have a failure.
func TestFailuresOfRareCallsRing(t *testing.T) {
	rare := 0
	for _, f := range declaredFunctions(settingsFor(t, serving(nil))) {
		if !slices.ContainsFunc(f.on, func(e trigger.Event) bool { return e.Schedule != nil && e.Schedule.Cron != "" }) {
			continue
		}
		rare++
		if p := synthesise(t, serving(nil)).find(exported(f.name) + "Errors").Properties; p["EvaluationPeriods"] != 1.0 {
			t.Errorf("failures of %s are told after %v minutes with one each", f.name, p["EvaluationPeriods"])
		}
	}
	if rare == 0 {
		t.Error("no function is called by a clock of hours: remove this test")
	}
}
