package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// publishedMetrics are the metrics of AWS and of the gateway's log lines, with their dimensions. An alarm on any other
// metric never rings, or always rings. The metrics of AWS are from each service's documentation of its CloudWatch
// metrics.
var publishedMetrics = []string{
	"AWS/Lambda Errors FunctionName", "AWS/Lambda Throttles FunctionName", "AWS/Lambda Duration FunctionName",
	"AWS/Lambda IteratorAge FunctionName",
	"AWS/Lambda AsyncEventsDropped FunctionName", "AWS/Lambda UnreservedConcurrentExecutions ",
	"AWS/ApiGateway 5XXError ApiName,Stage",
	"AWS/DynamoDB ReadThrottleEvents TableName", "AWS/DynamoDB WriteThrottleEvents TableName",
	"AWS/DynamoDB ReadThrottleEvents GlobalSecondaryIndexName,TableName",
	"AWS/DynamoDB WriteThrottleEvents GlobalSecondaryIndexName,TableName",
	"AWS/SQS ApproximateNumberOfMessagesVisible QueueName",
	"AWS/ECS CPUUtilization ClusterName,ServiceName", "AWS/ECS MemoryUtilization ClusterName,ServiceName",
	"AWS/NetworkELB HealthyHostCount LoadBalancer,TargetGroup",
	telemetry.Namespace + " " + telemetry.GatewayFaults + " table",
	telemetry.Namespace + " " + telemetry.UpstreamFaults + " table",
	telemetry.Namespace + " " + telemetry.KeyThrottles + " table",
	telemetry.Namespace + " " + telemetry.StuckOperations + " table",
	telemetry.Namespace + " " + telemetry.ScheduledRuns + " schedule",
	telemetry.Namespace + " " + telemetry.CertificateDays + " certificate",
}

// zeroThresholdMetrics are metrics whose alarms ring for any value above 0.
var zeroThresholdMetrics = map[string]bool{
	"Errors": true, "Throttles": true, "5XXError": true, "ReadThrottleEvents": true, "WriteThrottleEvents": true,
	"AsyncEventsDropped":    true,
	telemetry.GatewayFaults: true, telemetry.KeyThrottles: true, telemetry.StuckOperations: true,
}

// metricsOf returns the metrics of an alarm in the form of publishedMetrics.
func metricsOf(p map[string]any) (out []string) {
	add := func(namespace, name, dimensions any) {
		var names []string
		list, _ := dimensions.([]any)
		for _, d := range list {
			names = append(names, fmt.Sprint(get(d, "Name")))
		}
		slices.Sort(names)
		out = append(out, fmt.Sprintf("%v %v %s", namespace, name, strings.Join(names, ",")))
	}
	if list, ok := p["Metrics"].([]any); ok {
		for _, m := range list {
			if stat := get(m, "MetricStat", "Metric"); stat != nil {
				add(get(stat, "Namespace"), get(stat, "MetricName"), get(stat, "Dimensions"))
			}
		}
		return out
	}
	add(p["Namespace"], p["MetricName"], p["Dimensions"])
	return out
}

// dimensionValues returns the valid values of some dimensions in an installation: the names of functions, of APIs and
// of their stages.
func (a assembly) dimensionValues() map[string][]any {
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

// TestAlarmsCanFire checks each alarm. Its metrics are published, and its functions, APIs and stages exist. Missing
// data does not make it ring, unless the alarm has a lower bound. It does not look back further than CloudWatch can.
// The alarms of zeroThresholdMetrics ring above 0. The thresholds for IteratorAge and for utilizations are values that
// the metric can reach.
func TestAlarmsCanFire(t *testing.T) {
	const hour, day, week = 3600.0, 24 * 3600.0, 7 * 24 * 3600.0
	a := synthesize(t, servicesContext(nil))
	values := a.dimensionValues()
	for _, stack := range a.stacks { // alarms of different services have the same logical ids
		for id, alarm := range stack.Resources {
			p := alarm.Properties
			if alarm.Type != "AWS::CloudWatch::Alarm" {
				continue
			}
			dimensions, _ := p["Dimensions"].([]any)
			for _, d := range dimensions {
				if names, ok := values[fmt.Sprint(get(d, "Name"))]; ok && !slices.Contains(names, get(d, "Value")) {
					t.Errorf("alarm %s has the dimension %v = %v, want one of %q", id, get(d, "Name"), get(d, "Value"), names)
				}
			}
			if zeroThresholdMetrics[fmt.Sprint(p["MetricName"])] && (p["Statistic"] != "Sum" || p["Threshold"] != 0.0) {
				t.Errorf("alarm %s compares the %v with %v, want the Sum with 0", id, p["Statistic"], p["Threshold"])
			}
			if p["MetricName"] == "IteratorAge" && p["Threshold"] != 120_000.0 {
				t.Errorf("alarm %s has the threshold %v ms, want 120000", id, p["Threshold"])
			}
			for _, m := range metricsOf(p) {
				if !slices.Contains(publishedMetrics, m) {
					t.Errorf("alarm %s uses the metric %s, want one that is published", id, m)
				}
			}
			if strings.HasSuffix(id, "Utilization") && (p["Threshold"].(float64) < 70 || p["Threshold"].(float64) > 95) {
				t.Errorf("alarm %s has the threshold %v %%, want 70 to 95", id, p["Threshold"])
			}
			want := map[any]string{
				"GreaterThanThreshold": "notBreaching",
				"LessThanThreshold":    "breaching",
			}[p["ComparisonOperator"]]
			if p["MetricName"] == telemetry.CertificateDays { // the alarm keeps its state while no task reports
				want = "ignore"
			}
			if p["TreatMissingData"] != want {
				t.Errorf("alarm %s: TreatMissingData = %v, want %s", id, p["TreatMissingData"], want)
			}
			period, _ := p["Period"].(float64)
			periods, _ := p["EvaluationPeriods"].(float64)
			if maxLookback := map[bool]float64{true: week, false: day}[period >= hour]; period*periods > maxLookback {
				t.Errorf("alarm %s evaluates the last %v s, want at most %v, the limit of CloudWatch", id,
					period*periods, maxLookback)
			}
		}
	}
}

// TestReleaseAlarmsFireDuringTheCanary checks that the alarms that stop a release ring before the canary ends: the
// alarms of each function, of the gateway's own faults, and of the management API's 5xx responses.
func TestReleaseAlarmsFireDuringTheCanary(t *testing.T) {
	a := synthesize(t, servicesContext(nil))
	names := map[string]string{"the processes": "GatewayFaults", "operations of an API": "ApiApiServerErrors"}
	for _, f := range functionSpecs(settingsFor(t, servicesContext(nil))) {
		names[f.name+" that fails"], names[f.name+" that is refused"] = logicalID(f.name)+"Errors",
			logicalID(f.name)+"Throttles"
	}
	for subject, name := range names {
		found := false
		for id, alarm := range a.all("AWS::CloudWatch::Alarm") {
			if hashSuffix.ReplaceAllString(id, "") != name {
				continue
			}
			found = true
			period, _ := alarm.Properties["Period"].(float64)
			periods, _ := alarm.Properties["EvaluationPeriods"].(float64)
			if period*periods >= canaryMinutes*60 || period == 0 {
				t.Errorf("%s: alarm %s fires after %v s, want less than the %d minutes of a canary", subject, name,
					period*periods, canaryMinutes)
			}
		}
		if !found {
			t.Errorf("%s: no alarm %s exists, want one", subject, name)
		}
	}
}

// TestFailuresOfInfrequentCallsFireAlarms checks functions with a cron schedule. Such a function never fails in three
// minutes in a row, because it is called once an hour or less. So one failure must be enough for its alarm.
func TestFailuresOfInfrequentCallsFireAlarms(t *testing.T) {
	checked := 0
	for _, f := range functionSpecs(settingsFor(t, servicesContext(nil))) {
		if !slices.ContainsFunc(f.triggers, func(e trigger.Event) bool {
			return e.Schedule != nil && e.Schedule.Cron != ""
		}) {
			continue
		}
		checked++
		p := synthesize(t, servicesContext(nil)).find(logicalID(f.name) + "Errors").Properties
		if p["EvaluationPeriods"] != 1.0 {
			t.Errorf("alarm %sErrors: EvaluationPeriods = %v, want 1", logicalID(f.name), p["EvaluationPeriods"])
		}
	}
	if checked == 0 {
		t.Error("no function has a cron schedule, want one: otherwise remove this test")
	}
}
