package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticloadbalancingv2"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// metric is the metric of an alarm.
type metric struct {
	namespace, name string
	dimensions      map[string]*string
	statistic       string // or a percentile such as p99
}

// newAlarm creates an alarm that rings when a metric was above a threshold for a number of periods in a row.
// setAlarmActions sets the recipients of all alarms.
func newAlarm(
	scope constructs.Construct, id, description string, m metric, threshold float64, period time.Duration, periods int,
) awscloudwatch.CfnAlarm {
	props := alarmProps(description, m, period, periods)
	props.ComparisonOperator, props.Threshold, props.TreatMissingData = jsii.String("GreaterThanThreshold"), &threshold,
		jsii.String("notBreaching")
	return awscloudwatch.NewCfnAlarm(scope, &id, props)
}

// newLowAlarm works like newAlarm, but the alarm rings when the metric was below the threshold or missing.
func newLowAlarm(
	scope constructs.Construct, id, description string, m metric, threshold float64, period time.Duration, periods int,
) {
	props := alarmProps(description, m, period, periods)
	props.ComparisonOperator, props.Threshold, props.TreatMissingData = jsii.String("LessThanThreshold"), &threshold,
		jsii.String("breaching")
	awscloudwatch.NewCfnAlarm(scope, &id, props)
}

func alarmProps(description string, m metric, period time.Duration, periods int) *awscloudwatch.CfnAlarmProps {
	props := &awscloudwatch.CfnAlarmProps{
		AlarmDescription:  &description,
		Namespace:         &m.namespace,
		MetricName:        &m.name,
		Dimensions:        alarmDimensions(m),
		Period:            jsii.Number(period.Seconds()),
		EvaluationPeriods: jsii.Number(periods),
	}
	if m.statistic[0] == 'p' {
		props.ExtendedStatistic = &m.statistic
	} else {
		props.Statistic = &m.statistic
	}
	return props
}

// slowRequestP99 is the highest p99 of the duration of management requests for which no alarm rings. People notice
// longer delays.
const slowRequestP99 = 2 * time.Second

// newAlarms creates the alarms of a function. They depend on its routes and its triggers.
func newAlarms(scope constructs.Construct, f *function) {
	id := logicalID(f.name)
	lambdaMetric := func(name, statistic string) metric {
		return metric{"AWS/Lambda", name, map[string]*string{"FunctionName": &f.fullName}, statistic}
	}
	// A function that is called once an hour never fails in three minutes in a row.
	periods := 3
	if slices.ContainsFunc(f.triggers, func(e trigger.Event) bool { return e.Schedule != nil && e.Schedule.Cron != "" }) {
		periods = 1
	}
	f.alarms = append(f.alarms,
		newAlarm(scope, id+"Errors", fmt.Sprintf("Calls of %s fail: look at its log", f.name), lambdaMetric("Errors", "Sum"),
			0, time.Minute, periods),
		newAlarm(scope, id+"Throttles",
			fmt.Sprintf("Calls of %s are refused: raise concurrency in the stage's file, or ask AWS for more", f.name),
			lambdaMetric("Throttles", "Sum"), 0, time.Minute, 3))
	if len(f.routes) > 0 {
		newAlarm(scope, id+"Slow", fmt.Sprintf("One request of %s in a hundred takes longer than %s: look at its log for "+
			"which operation, and at the table's throttles", f.name, slowRequestP99),
			lambdaMetric("Duration", "p99"), float64(slowRequestP99.Milliseconds()), 5*time.Minute, 3)
	}
	if slices.ContainsFunc(f.triggers, func(e trigger.Event) bool { return e.ObjectCreated != "" || e.Schedule != nil }) {
		newAlarm(scope, id+"DroppedEvents", fmt.Sprintf("Events for %s are given up unheard: look for what kept it from "+
			"running, and repeat what was asked", f.name),
			lambdaMetric("AsyncEventsDropped", "Sum"), 0, time.Minute, 1)
	}
	if f.deadLetters != nil {
		newAlarm(scope, id+"IteratorAge", fmt.Sprintf("%s is minutes behind the table's stream: look for failures in its log",
			f.name),
			lambdaMetric("IteratorAge", "Maximum"), float64((2 * time.Minute).Milliseconds()), time.Minute, 3)
		newAlarm(scope, id+"DeadLettersDepth", fmt.Sprintf("%s gave up on records of the table's stream: its log says why; "+
			"what they tell of is found by the next sweep", f.name),
			metric{
				"AWS/SQS", "ApproximateNumberOfMessagesVisible",
				map[string]*string{"QueueName": f.deadLetters.AttrQueueName()},
				"Maximum",
			},
			0, time.Minute, 1)
	}
}

// newAPIAlarm creates the alarm for the 5xx responses of a REST API. Use it only for an API whose 5xx responses are
// all faults of the installation.
func newAPIAlarm(scope constructs.Construct, s Settings, name string) awscloudwatch.CfnAlarm {
	return newAlarm(scope, logicalID(name)+"ServerErrors",
		fmt.Sprintf("The API %s answers 5xx: look for level ERROR in the logs of its functions", name),
		metric{"AWS/ApiGateway", "5XXError", map[string]*string{
			"ApiName": jsii.Sprintf("gatewright-%s-%s", s.Stage, name), "Stage": jsii.String(s.Stage),
		}, "Sum"}, 0, time.Minute, 3)
}

// newTableAlarms creates the alarms for metrics that have the table as a dimension, except those of newGatewayAlarms:
// throttles of the table, of its indexes and of the KMS key, and stuck operations.
func newTableAlarms(scope constructs.Construct, d data) {
	for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
		newAlarm(scope, "Table"+name,
			"The table throttles: one partition key takes more than DynamoDB allows, see docs/scaling.md",
			metric{"AWS/DynamoDB", name, map[string]*string{"TableName": d.table.Ref()}, "Sum"}, 0, time.Minute, 3)
	}
	newIndexAlarms(scope, d)
	newAlarm(scope, "KeyThrottles", "KMS refuses the root key: look in Service Quotas for what else asks KMS in this "+
		"account, and have its quota for symmetric keys raised",
		metric{telemetry.Namespace, telemetry.KeyThrottles, map[string]*string{"table": d.table.Ref()}, "Sum"}, 0,
		time.Minute, 1)
	// A stuck operation is retried at least every 10 minutes, so the alarm lasts as long as its cause.
	newAlarm(scope, "StuckOperations", "A durable operation that must happen does not get on: see docs/observability.md",
		metric{telemetry.Namespace, telemetry.StuckOperations, map[string]*string{"table": d.table.Ref()}, "Sum"}, 0,
		15*time.Minute, 1)
}

// newServiceAlarms creates alarms that ring when a service has too few healthy tasks, when its certificate expires
// soon, and when its tasks have hardly any processors or memory left.
func newServiceAlarms(scope constructs.Construct, s *deployedService, d data, stage string) {
	newMissingAlarm(scope, s)
	newExpiryAlarm(scope, s, d, stage)
	for name, resource := range map[string]string{"CPUUtilization": "processors", "MemoryUtilization": "memory"} {
		settings := s.memorySetting
		if s.autoscales() && resource == "processors" {
			settings += fmt.Sprintf(", or raise gatewayTasksMost if there are %d", s.maxTasks)
		}
		newAlarm(scope, name, fmt.Sprintf("%s has hardly any %s left: in the stage's file give it more by %s", s.Name,
			resource, settings),
			metric{"AWS/ECS", name, s.dimensions(), "Average"}, 80, 5*time.Minute, 3)
	}
}

// newMissingAlarm creates an alarm that rings when too few tasks are healthy, in both target groups together if there
// are two. The load balancer forwards connections across zones, so the metric of each zone counts the tasks of all
// zones. The minimum of the zones is therefore the number of all healthy tasks.
func newMissingAlarm(scope constructs.Construct, s *deployedService) {
	healthyHosts := func(targets awselasticloadbalancingv2.CfnTargetGroup) metric {
		return metric{"AWS/NetworkELB", "HealthyHostCount", map[string]*string{
			"LoadBalancer": s.balancer.resource.AttrLoadBalancerFullName(), "TargetGroup": targets.AttrTargetGroupFullName(),
		}, "Minimum"}
	}
	description := fmt.Sprintf("Of %s fewer than %d tasks answer: look at its log, and at the events of its service",
		s.Name, s.Copies)
	const periods = 10
	if s.balancer.alternate == nil {
		newLowAlarm(scope, "Missing", description, healthyHosts(s.balancer.targets), float64(s.Copies), time.Minute, periods)
		return
	}
	var queries []any
	for id, targets := range map[string]awselasticloadbalancingv2.CfnTargetGroup{
		"targets": s.balancer.targets,
		"others":  s.balancer.alternate,
	} {
		m := healthyHosts(targets)
		queries = append(queries, &awscloudwatch.CfnAlarm_MetricDataQueryProperty{
			Id: jsii.String(id), ReturnData: jsii.Bool(false), MetricStat: &awscloudwatch.CfnAlarm_MetricStatProperty{
				Metric: &awscloudwatch.CfnAlarm_MetricProperty{
					Namespace: &m.namespace, MetricName: &m.name,
					Dimensions: alarmDimensions(m),
				},
				Period: jsii.Number(time.Minute.Seconds()), Stat: &m.statistic,
			},
		})
	}
	// The metric of a target group without targets has no value: FILL replaces it with 0.
	queries = append(queries, &awscloudwatch.CfnAlarm_MetricDataQueryProperty{
		Id: jsii.String("answering"), Expression: jsii.String("FILL(targets, 0) + FILL(others, 0)"),
		Label: jsii.String("HealthyHostCount of both groups"), ReturnData: jsii.Bool(true),
	})
	awscloudwatch.NewCfnAlarm(scope, jsii.String("Missing"), &awscloudwatch.CfnAlarmProps{
		AlarmDescription: &description, Metrics: &queries, EvaluationPeriods: jsii.Number(periods),
		ComparisonOperator: jsii.String("LessThanThreshold"), Threshold: jsii.Number(s.Copies),
		TreatMissingData: jsii.String("breaching"),
	})
}

// expiryDays is the number of days before the expiry of a certificate when its alarm begins to ring. ACME clients renew
// a certificate 30 days before its expiry, so the renewal of a certificate with fewer than expiryDays left is about two
// weeks late.
const expiryDays = 14

// newExpiryAlarm creates an alarm that rings when a certificate that tasks serve expires soon. It uses the earliest
// expiry of all tasks, because each task reads the certificate when it starts. While no task reports, the alarm keeps
// its state, because missing tasks have an alarm of their own (Missing).
func newExpiryAlarm(scope constructs.Construct, s *deployedService, d data, stage string) {
	if s.Certificate == "" {
		return
	}
	name := awscdk.Fn_Join(jsii.String(""),
		&[]*string{d.table.Ref(), jsii.String(telemetry.CertificateDimension("", s.Name))})
	newCertificateAlarm(scope, fmt.Sprintf("The certificate of %[1]s expires in fewer than %[2]d days: keep a new one "+
		"with make service-certificate SERVICE=%[1]s STAGE=%[3]s, which also replaces the tasks", s.Name, expiryDays, stage),
		name)
}

// newCertificateAlarm creates an alarm that rings when a certificate expires soon. name is the value of the metric's
// dimension. While no value is reported, the alarm keeps its state.
func newCertificateAlarm(scope constructs.Construct, description string, name *string) {
	props := alarmProps(description, metric{
		telemetry.Namespace, telemetry.CertificateDays,
		map[string]*string{"certificate": name},
		"Minimum",
	}, time.Hour, 1)
	props.ComparisonOperator, props.Threshold, props.TreatMissingData = jsii.String("LessThanThreshold"),
		jsii.Number(expiryDays), jsii.String("ignore")
	awscloudwatch.NewCfnAlarm(scope, jsii.String("CertificateExpires"), props)
}

func (s *deployedService) dimensions() map[string]*string {
	return map[string]*string{"ClusterName": s.cluster.Ref(), "ServiceName": s.resource.AttrName()}
}

// newDashboard creates a dashboard with the requests and the latency of the APIs, the durations, errors and throttles
// of all functions, the load of services, and the capacity that the table uses.
func newDashboard(
	scope constructs.Construct, s Settings, d data, fns []*function, services []*deployedService,
	apis map[string]awsapigateway.CfnRestApi,
) {
	var widgets []any
	n := 0
	add := func(title, statistic string, rows ...[]any) {
		widgets = append(widgets, map[string]any{
			"type": "metric", "width": 12, "height": 6, "x": n % 2 * 12, "y": n / 2 * 6,
			"properties": map[string]any{
				"title": title, "stat": statistic, "period": 60, "view": "timeSeries",
				"region": awscdk.Aws_REGION(), "metrics": rows,
			},
		})
		n++
	}
	for _, name := range sortedKeys(apis) {
		apiName := fmt.Sprintf("gatewright-%s-%s", s.Stage, name)
		row := func(metric string) []any {
			return []any{"AWS/ApiGateway", metric, "ApiName", apiName, "Stage", s.Stage}
		}
		add("Requests of "+name, "Sum", row("Count"), row("4XXError"), row("5XXError"))
		add("Latency of "+name, "p99", row("Latency"), row("IntegrationLatency"))
	}
	perFunction := func(metric string) (rows [][]any) {
		for _, f := range fns {
			rows = append(rows, []any{"AWS/Lambda", metric, "FunctionName", f.resource.Ref()})
		}
		return rows
	}
	add("Duration of functions", "p99", perFunction("Duration")...)
	add("Errors of functions", "Sum", perFunction("Errors")...)
	add("Throttles of functions", "Sum", perFunction("Throttles")...)
	for _, svc := range services {
		balancer := func(metric string) []any {
			return []any{"AWS/NetworkELB", metric, "LoadBalancer", svc.balancer.resource.AttrLoadBalancerFullName()}
		}
		task := func(metric string) []any {
			return []any{"AWS/ECS", metric, "ClusterName", svc.cluster.Ref(), "ServiceName", svc.resource.AttrName()}
		}
		add("Connections of "+svc.Name, "Average", balancer("ActiveFlowCount"))
		add("Use of "+svc.Name, "Average", task("CPUUtilization"), task("MemoryUtilization"))
	}
	table := func(metric string) []any { return []any{"AWS/DynamoDB", metric, "TableName", d.table.Ref()} }
	add("Capacity of the table", "Sum", table("ConsumedReadCapacityUnits"), table("ConsumedWriteCapacityUnits"))
	awscloudwatch.NewCfnDashboard(scope, jsii.String("Dashboard"), &awscloudwatch.CfnDashboardProps{
		DashboardName: jsii.Sprintf("gatewright-%s", s.Stage),
		DashboardBody: awscdk.Stack_Of(scope).ToJsonString(map[string]any{"widgets": widgets}, nil),
	})
}
