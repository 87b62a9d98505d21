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

	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/trigger"
)

// metric is what an alarm looks at.
type metric struct {
	namespace, name string
	dimensions      map[string]*string
	statistic       string // or a percentile such as p99
}

// newAlarm tells that a metric was above a bound for several periods on end. Whom it
// tells is set for all alarms at once (addressAlarms).
func newAlarm(scope constructs.Construct, id, why string, m metric, above float64, period time.Duration, periods int) awscloudwatch.CfnAlarm {
	props := alarmOf(why, m, period, periods)
	props.ComparisonOperator, props.Threshold, props.TreatMissingData = jsii.String("GreaterThanThreshold"), &above, jsii.String("notBreaching")
	return awscloudwatch.NewCfnAlarm(scope, &id, props)
}

// newLowAlarm is newAlarm for a metric that was below a bound, or was not there at all.
func newLowAlarm(scope constructs.Construct, id, why string, m metric, below float64, period time.Duration, periods int) {
	props := alarmOf(why, m, period, periods)
	props.ComparisonOperator, props.Threshold, props.TreatMissingData = jsii.String("LessThanThreshold"), &below, jsii.String("breaching")
	awscloudwatch.NewCfnAlarm(scope, &id, props)
}

func alarmOf(why string, m metric, period time.Duration, periods int) *awscloudwatch.CfnAlarmProps {
	props := &awscloudwatch.CfnAlarmProps{
		AlarmDescription:  &why,
		Namespace:         &m.namespace,
		MetricName:        &m.name,
		Dimensions:        dimensionsOf(m),
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

// p99 of a management request that people notice.
const slowRequest = 2 * time.Second

// newAlarms watches a function by what it is.
func newAlarms(scope constructs.Construct, f *function) {
	id := exported(f.name)
	of := func(name, statistic string) metric {
		return metric{"AWS/Lambda", name, map[string]*string{"FunctionName": &f.fullName}, statistic}
	}
	// Of a function that is called once an hour, no three minutes on end have a failure.
	failing := 3
	if slices.ContainsFunc(f.on, func(e trigger.Event) bool { return e.Schedule != nil && e.Schedule.Cron != "" }) {
		failing = 1
	}
	f.alarms = append(f.alarms,
		newAlarm(scope, id+"Errors", fmt.Sprintf("Calls of %s fail: look at its log", f.name), of("Errors", "Sum"), 0, time.Minute, failing),
		newAlarm(scope, id+"Throttles", fmt.Sprintf("Calls of %s are refused: raise concurrency in the stage's file, or ask AWS for more", f.name), of("Throttles", "Sum"), 0, time.Minute, 3))
	if len(f.routes) > 0 {
		newAlarm(scope, id+"Slow", fmt.Sprintf("One request of %s in a hundred takes longer than %s: look at its log for which operation, and at the table's throttles", f.name, slowRequest),
			of("Duration", "p99"), float64(slowRequest.Milliseconds()), 5*time.Minute, 3)
	}
	if slices.ContainsFunc(f.on, func(e trigger.Event) bool { return e.ObjectCreated != "" || e.Schedule != nil }) {
		newAlarm(scope, id+"DroppedEvents", fmt.Sprintf("Events for %s are given up unheard: look for what kept it from running, and repeat what was asked", f.name),
			of("AsyncEventsDropped", "Sum"), 0, time.Minute, 1)
	}
	if f.deadLetters != nil {
		newAlarm(scope, id+"IteratorAge", fmt.Sprintf("%s is minutes behind the table's stream: look for failures in its log", f.name),
			of("IteratorAge", "Maximum"), float64((2 * time.Minute).Milliseconds()), time.Minute, 3)
		newAlarm(scope, id+"DeadLettersDepth", fmt.Sprintf("%s gave up on records of the table's stream: its log says why; what they tell of is found by the next sweep", f.name),
			metric{"AWS/SQS", "ApproximateNumberOfMessagesVisible", map[string]*string{"QueueName": f.deadLetters.AttrQueueName()}, "Maximum"},
			0, time.Minute, 1)
	}
}

// newAPIAlarms watches a REST API of which each 5xx is ours.
func newAPIAlarms(scope constructs.Construct, s Settings, name string) awscloudwatch.CfnAlarm {
	return newAlarm(scope, exported(name)+"ServerErrors", fmt.Sprintf("The API %s answers 5xx: look for level ERROR in the logs of its functions", name),
		metric{"AWS/ApiGateway", "5XXError", map[string]*string{
			"ApiName": jsii.Sprintf("gatewright-%s-%s", s.Stage, name), "Stage": jsii.String(s.Stage),
		}, "Sum"}, 0, time.Minute, 3)
}

func newTableAlarms(scope constructs.Construct, d data) {
	for _, name := range []string{"ReadThrottleEvents", "WriteThrottleEvents"} {
		newAlarm(scope, "Table"+name, "The table throttles: one partition key takes more than DynamoDB allows, see docs/scaling.md",
			metric{"AWS/DynamoDB", name, map[string]*string{"TableName": d.table.Ref()}, "Sum"}, 0, time.Minute, 3)
	}
	newIndexAlarms(scope, d)
	newAlarm(scope, "KeyThrottles", "KMS refuses the root key: look in Service Quotas for what else asks KMS in this account, and have its quota for symmetric keys raised",
		metric{telemetry.Namespace, telemetry.KeyThrottles, map[string]*string{"table": d.table.Ref()}, "Sum"}, 0, time.Minute, 1)
	// Tried again every 10 minutes at the latest, so that the alarm lasts as long as its cause.
	newAlarm(scope, "StuckOperations", "A durable operation that must happen does not get on: see docs/observability.md",
		metric{telemetry.Namespace, telemetry.StuckOperations, map[string]*string{"table": d.table.Ref()}, "Sum"}, 0, 15*time.Minute, 1)
}

// newServiceAlarms watches a service by what is left of it and of what it has.
func newServiceAlarms(scope constructs.Construct, s *deployedService, d data, stage string) {
	newMissingAlarm(scope, s)
	newExpiryAlarm(scope, s, d, stage)
	for name, what := range map[string]string{"CPUUtilization": "processors", "MemoryUtilization": "memory"} {
		by := s.memoryWord
		if s.grows() && what == "processors" {
			by += fmt.Sprintf(", or raise gatewayTasksMost if there are %d", s.most)
		}
		newAlarm(scope, name, fmt.Sprintf("%s has hardly any %s left: in the stage's file give it more by %s", s.Name, what, by),
			metric{"AWS/ECS", name, s.dimensions(), "Average"}, 80, 5*time.Minute, 3)
	}
}

// newMissingAlarm tells that fewer tasks answer than there are to be, of both groups of targets together where there are two. Each zone
// counts them: the tasks of all zones, since the load balancer passes connections on across them, so that the least is no part of them.
func newMissingAlarm(scope constructs.Construct, s *deployedService) {
	of := func(targets awselasticloadbalancingv2.CfnTargetGroup) metric {
		return metric{"AWS/NetworkELB", "HealthyHostCount", map[string]*string{
			"LoadBalancer": s.balancer.resource.AttrLoadBalancerFullName(), "TargetGroup": targets.AttrTargetGroupFullName(),
		}, "Minimum"}
	}
	why := fmt.Sprintf("Of %s fewer than %d tasks answer: look at its log, and at the events of its service", s.Name, s.Copies)
	const periods = 10
	if s.balancer.others == nil {
		newLowAlarm(scope, "Missing", why, of(s.balancer.targets), float64(s.Copies), time.Minute, periods)
		return
	}
	var all []any
	for id, targets := range map[string]awselasticloadbalancingv2.CfnTargetGroup{"targets": s.balancer.targets, "others": s.balancer.others} {
		m := of(targets)
		all = append(all, &awscloudwatch.CfnAlarm_MetricDataQueryProperty{
			Id: jsii.String(id), ReturnData: jsii.Bool(false), MetricStat: &awscloudwatch.CfnAlarm_MetricStatProperty{
				Metric: &awscloudwatch.CfnAlarm_MetricProperty{Namespace: &m.namespace, MetricName: &m.name, Dimensions: dimensionsOf(m)},
				Period: jsii.Number(time.Minute.Seconds()), Stat: &m.statistic,
			},
		})
	}
	// Of a group without targets there is no number.
	all = append(all, &awscloudwatch.CfnAlarm_MetricDataQueryProperty{
		Id: jsii.String("answering"), Expression: jsii.String("FILL(targets, 0) + FILL(others, 0)"), Label: jsii.String("HealthyHostCount of both groups"), ReturnData: jsii.Bool(true),
	})
	awscloudwatch.NewCfnAlarm(scope, jsii.String("Missing"), &awscloudwatch.CfnAlarmProps{
		AlarmDescription: &why, Metrics: &all, EvaluationPeriods: jsii.Number(periods),
		ComparisonOperator: jsii.String("LessThanThreshold"), Threshold: jsii.Number(s.Copies), TreatMissingData: jsii.String("breaching"),
	})
}

// expiryDays is how many days before the end of a service's certificate its operator is notified. ACME clients renew 30 days before it, so that
// renewals have failed for two weeks by then.
const expiryDays = 14

// newExpiryAlarm creates an alarm that rings when a certificate that tasks serve expires soon. It looks at the task whose certificate ends first,
// because each task reads the certificate at its start. While no task reports, the alarm keeps its state: missing tasks have an alarm of their own
// (Missing), and say nothing about the certificate.
func newExpiryAlarm(scope constructs.Construct, s *deployedService, d data, stage string) {
	if s.Certificate == "" {
		return
	}
	name := awscdk.Fn_Join(jsii.String(""), &[]*string{d.table.Ref(), jsii.String(telemetry.CertificateOf("", s.Name))})
	newCertificateAlarm(scope, fmt.Sprintf("The certificate of %[1]s expires in fewer than %[2]d days: keep a new one with make service-certificate SERVICE=%[1]s STAGE=%[3]s, which also replaces the tasks", s.Name, expiryDays, stage), name)
}

// newCertificateAlarm creates an alarm that rings when the certificate of a name, as a dimension has it, expires soon. While nobody reports it, the
// alarm keeps its state.
func newCertificateAlarm(scope constructs.Construct, why string, name *string) {
	props := alarmOf(why, metric{telemetry.Namespace, telemetry.CertificateDays, map[string]*string{"certificate": name}, "Minimum"}, time.Hour, 1)
	props.ComparisonOperator, props.Threshold, props.TreatMissingData = jsii.String("LessThanThreshold"), jsii.Number(expiryDays), jsii.String("ignore")
	awscloudwatch.NewCfnAlarm(scope, jsii.String("CertificateExpires"), props)
}

func (s *deployedService) dimensions() map[string]*string {
	return map[string]*string{"ClusterName": s.cluster.Ref(), "ServiceName": s.resource.AttrName()}
}

// newDashboard shows requests, errors and durations of all functions, what services
// have to do, and what the table is asked.
func newDashboard(scope constructs.Construct, s Settings, d data, fs []*function, services []*deployedService, apis map[string]awsapigateway.CfnRestApi) {
	var widgets []any
	place := 0
	add := func(title, statistic string, rows ...[]any) {
		widgets = append(widgets, map[string]any{
			"type": "metric", "width": 12, "height": 6, "x": place % 2 * 12, "y": place / 2 * 6,
			"properties": map[string]any{
				"title": title, "stat": statistic, "period": 60, "view": "timeSeries",
				"region": awscdk.Aws_REGION(), "metrics": rows,
			},
		})
		place++
	}
	for _, name := range sortedKeys(apis) {
		full := fmt.Sprintf("gatewright-%s-%s", s.Stage, name)
		row := func(metric string) []any { return []any{"AWS/ApiGateway", metric, "ApiName", full, "Stage", s.Stage} }
		add("Requests of "+name, "Sum", row("Count"), row("4XXError"), row("5XXError"))
		add("Latency of "+name, "p99", row("Latency"), row("IntegrationLatency"))
	}
	each := func(metric string) (rows [][]any) {
		for _, f := range fs {
			rows = append(rows, []any{"AWS/Lambda", metric, "FunctionName", f.resource.Ref()})
		}
		return rows
	}
	add("Duration of functions", "p99", each("Duration")...)
	add("Errors of functions", "Sum", each("Errors")...)
	add("Throttles of functions", "Sum", each("Throttles")...)
	for _, of := range services {
		balancer := func(metric string) []any {
			return []any{"AWS/NetworkELB", metric, "LoadBalancer", of.balancer.resource.AttrLoadBalancerFullName()}
		}
		task := func(metric string) []any {
			return []any{"AWS/ECS", metric, "ClusterName", of.cluster.Ref(), "ServiceName", of.resource.AttrName()}
		}
		add("Connections of "+of.Name, "Average", balancer("ActiveFlowCount"))
		add("Use of "+of.Name, "Average", task("CPUUtilization"), task("MemoryUtilization"))
	}
	table := func(metric string) []any { return []any{"AWS/DynamoDB", metric, "TableName", d.table.Ref()} }
	add("Capacity of the table", "Sum", table("ConsumedReadCapacityUnits"), table("ConsumedWriteCapacityUnits"))
	awscloudwatch.NewCfnDashboard(scope, jsii.String("Dashboard"), &awscloudwatch.CfnDashboardProps{
		DashboardName: jsii.Sprintf("gatewright-%s", s.Stage),
		DashboardBody: awscdk.Stack_Of(scope).ToJsonString(map[string]any{"widgets": widgets}, nil),
	})
}
