package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/telemetry"
)

func dimensionsOf(m metric) *[]any {
	var out []any
	for _, name := range sortedKeys(m.dimensions) {
		out = append(out, &awscloudwatch.CfnAlarm_DimensionProperty{Name: jsii.String(name), Value: m.dimensions[name]})
	}
	return &out
}

// upstreamBound is how many requests of five minutes upstreams may fail before somebody is told: one in three seconds.
const upstreamBound = 100

// newGatewayAlarms tells our faults from upstreams': API Gateway counts both as 5xx, the gateway's lines say whose each
// was, of its function and of its processes alike. A function that died or took too long writes no line: that is told
// by its Errors. It gives the one of our own, which ends a release of processes.
func newGatewayAlarms(scope constructs.Construct, d data) awscloudwatch.CfnAlarm {
	of := func(name string) metric {
		return metric{telemetry.Namespace, name, map[string]*string{"table": d.table.Ref()}, "Sum"}
	}
	faults := newAlarm(scope, "GatewayFaults", "The gateway answers 5xx through a fault of its own: look for gatewayFaults in its log, and for the line with the same requestId",
		of(telemetry.GatewayFaults), 0, time.Minute, 3)
	newAlarm(scope, "UpstreamFaults", fmt.Sprintf("Upstreams fail more than %d requests in five minutes: look for upstreamFaults in the gateway's log, by deployment, and tell the project's owner", upstreamBound),
		of(telemetry.UpstreamFaults), upstreamBound, 5*time.Minute, 3)
	return faults
}

// newIndexAlarms watches the table's indexes, whose throttles the table's own metrics do not tell.
func newIndexAlarms(scope constructs.Construct, d data) {
	for _, index := range store.Schema().Indexes {
		for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
			newAlarm(scope, "Index"+exported(string(index.Name))+name,
				fmt.Sprintf("The table's index %s throttles, and writes to the table with it: see docs/scaling.md", index.Name),
				metric{"AWS/DynamoDB", name, map[string]*string{"TableName": d.table.Ref(), "GlobalSecondaryIndexName": jsii.String(string(index.Name))}, "Sum"},
				0, time.Minute, 3)
		}
	}
}

// nearlyAll is when a bound counts as nearly met.
const nearlyAll = 0.8

// newConcurrencyAlarm tells that what functions without a reservation run at once comes near to what is left for them.
// What the others may is told by their throttles.
func newConcurrencyAlarm(scope constructs.Construct, s Settings, fs []declared) {
	if s.Concurrency == 0 || !slices.ContainsFunc(fs, func(f declared) bool { return s.reserved(f) == 0 }) {
		return
	}
	left := s.unreserved(fs)
	newAlarm(scope, "ConcurrencyNearlyUsed", fmt.Sprintf("The gateway runs more than %d of %d calls at once: look for slow upstreams, or ask AWS for more and raise concurrency in the stage's file", int(nearlyAll*float64(left)), left),
		metric{"AWS/Lambda", "UnreservedConcurrentExecutions", nil, "Maximum"}, float64(int(nearlyAll*float64(left))), time.Minute, 3)
}
