package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/telemetry"
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
	telemetry.Namespace + " " + telemetry.ScheduledRuns + " schedule",
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

// TestEachAlarmCanRing: it is about something that is counted, passes its bound some day, is off where nothing is counted unless that is what it tells, and
// looks back no further than CloudWatch does.
func TestEachAlarmCanRing(t *testing.T) {
	const hour, day, week = 3600.0, 24 * 3600.0, 7 * 24 * 3600.0
	for _, stack := range synthesise(t, serving(nil)).stacks { // services' alarms have the same names
		for id, alarm := range stack.Resources {
			p := alarm.Properties
			if alarm.Type != "AWS::CloudWatch::Alarm" {
				continue
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
