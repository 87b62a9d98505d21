package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/store"
)

// alarmDimensions returns the dimensions of a metric, sorted by name.
func alarmDimensions(m metric) *[]any {
	var out []any
	for _, name := range sortedKeys(m.dimensions) {
		out = append(out, &awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String(name), Value: m.dimensions[name]})
	}
	return &out
}

// maxUpstreamFaults is the number of requests in five minutes that can fail because of upstreams before an alarm rings:
// about one every three seconds. The alarm rings when three periods in a row have more.
const maxUpstreamFaults = 100

// newGatewayAlarms creates an alarm for faults of the gateway and an alarm for faults of upstreams. API Gateway counts
// both as 5xx, but the log lines of the gateway's function and processes name the cause. A function that crashed or
// timed out writes no line, but Lambda's metric Errors counts it. newGatewayAlarms returns the alarm for the gateway's
// faults, which also rolls back releases of the gateway's function and processes.
func newGatewayAlarms(scope constructs.Construct, d data) awscloudwatch.CfnAlarm {
	tableMetric := func(name string) metric {
		return metric{telemetry.Namespace, name, map[string]*string{"table": d.table.Ref()}, "Sum"}
	}
	faultAlarm := newAlarm(scope, "GatewayFaults", "The gateway answers 5xx through a fault of its own: look for "+
		"gatewayFaults in its log, and for the line with the same requestId",
		tableMetric(telemetry.GatewayFaults), 0, time.Minute, 3)
	newAlarm(scope, "UpstreamFaults", fmt.Sprintf("Upstreams fail more than %d requests in five minutes: look for "+
		"upstreamFaults in the gateway's log, by deployment, and tell the project's owner", maxUpstreamFaults),
		tableMetric(telemetry.UpstreamFaults), maxUpstreamFaults, 5*time.Minute, 3)
	return faultAlarm
}

// newIndexAlarms creates alarms for throttles of the table's indexes, which the table's own metrics do not include.
func newIndexAlarms(scope constructs.Construct, d data) {
	for _, index := range store.Schema().Indexes {
		for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
			newAlarm(scope, "Index"+logicalID(string(index.Name))+name,
				fmt.Sprintf("The table's index %s throttles, and writes to the table with it: see docs/scaling.md", index.Name),
				metric{"AWS/DynamoDB", name, map[string]*string{
					"TableName":                d.table.Ref(),
					"GlobalSecondaryIndexName": jsii.String(string(index.Name)),
				}, "Sum"},
				0, time.Minute, 3)
		}
	}
}

// nearLimitRatio is the fraction of a limit at which the limit counts as nearly reached.
const nearLimitRatio = 0.8

// newConcurrencyAlarm creates an alarm that rings when functions without a reservation nearly use up the concurrency
// that is left for them. Functions with a reservation have alarms for their throttles.
func newConcurrencyAlarm(scope constructs.Construct, s Settings, specs []functionSpec) {
	if s.Concurrency == 0 || !slices.ContainsFunc(specs, func(f functionSpec) bool { return s.reserved(f) == 0 }) {
		return
	}
	unreserved := s.unreserved(specs)
	newAlarm(scope, "ConcurrencyNearlyUsed", fmt.Sprintf("The gateway runs more than %d of %d calls at once: look for "+
		"slow upstreams, or ask AWS for more and raise concurrency in the stage's file",
		int(nearLimitRatio*float64(unreserved)), unreserved),
		metric{"AWS/Lambda", "UnreservedConcurrentExecutions", nil, "Maximum"},
		float64(int(nearLimitRatio*float64(unreserved))), time.Minute, 3)
}
