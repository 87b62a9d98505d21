package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/timetable"
)

// maxStreamReaders is the maximum number of functions that the table's stream can call. DynamoDB allows two readers of
// a shard, and throttles all readers if there is a third ("Reading and processing a stream" in its developer guide).
const maxStreamReaders = 2

// These are Lambda's limits for retries of asynchronous calls (PutFunctionEventInvokeConfig). minAge and maxAge bound
// the time for which Lambda keeps a call.
const (
	maxRetries = 2
	minAge     = time.Minute
	maxAge     = 6 * time.Hour
)

// checkTriggers returns an error with a line for each declared trigger that AWS would refuse, or that cannot work
// reliably.
func checkTriggers(specs []functionSpec) error {
	var errs []error
	var readers []string
	for _, f := range specs {
		for _, e := range f.triggers {
			if e.FromStream {
				readers = append(readers, f.name)
			}
			if e.Schedule != nil {
				if _, _, err := alarmPeriods(*e.Schedule); err != nil {
					errs = append(errs, fmt.Errorf("function %s: %w", f.name, err))
				}
			}
		}
		r := f.retries
		switch async := (trigger.Function{Events: f.triggers}).Async(); {
		case !async && r != trigger.Retries{}:
			errs = append(errs, fmt.Errorf("function %s declares retries, and nothing calls it that waits for no answer: "+
				"leave them out", f.name))
		case async && (r.MaxRetries < 0 || r.MaxRetries > maxRetries || r.MaxAge < minAge || r.MaxAge > maxAge ||
			r.MaxAge%time.Second != 0):
			errs = append(errs, fmt.Errorf("function %s declares %d retries of calls of %s at most: declare 0 to %d of %s to "+
				"%s, in whole seconds", f.name, r.MaxRetries, r.MaxAge, maxRetries, minAge, maxAge))
		}
	}
	if len(readers) > maxStreamReaders {
		errs = append(errs, fmt.Errorf("the stream calls %d functions (%v), and DynamoDB has %d readers of a shard: have "+
			"one of them hand records on", len(readers), readers, maxStreamReaders))
	}
	return errors.Join(errs...)
}

// newCallHandling configures the retries of asynchronous calls of all functions, and creates alarms for schedules that
// miss their calls. These resources are in a nested stack, because the installation's own stack comes near
// CloudFormation's limit of 500 resources.
//
// There is no queue between callers and functions. Lambda stores asynchronous calls itself, for as long as the
// function's declaration says. If a call of a schedule is lost, the next call does the same work. The stream has its
// own queue for records that fail. A queue before functions would be polled every second of the month, at the
// operator's cost, and calls could wait in it unnoticed.
func newCallHandling(root constructs.Construct, s Settings, fns []*function) error {
	scope := awscdk.NewNestedStack(root, jsii.String("Calls"), &awscdk.NestedStackProps{
		Description: jsii.String("What becomes of calls that wait for no answer, and of schedules that are not kept"),
	})
	for _, f := range fns {
		if (trigger.Function{Events: f.triggers}).Async() {
			newRetries(scope, s, f)
		}
		for _, e := range f.triggers {
			if e.Schedule == nil {
				continue
			}
			if err := newMissedAlarm(scope, s, f, *e.Schedule); err != nil {
				return err
			}
		}
	}
	return nil
}

// deadLetterQueueName returns the name of the queue for the calls of a function that Lambda has given up. The name is
// fixed, so that the function's role can allow it before the queue exists: Lambda verifies the permission when the
// queue is configured.
func deadLetterQueueName(s Settings, f functionSpec) string {
	return fmt.Sprintf("gatewright-%s-%s-given-up", s.Stage, f.name)
}

// allowDeadLetters allows the function's role to send messages to the dead letter queue: Lambda uses this role to store
// calls that failed in all attempts. It does nothing if the function declares no dead letter queue.
func (f *function) allowDeadLetters(s Settings) {
	if f.retries.DeadLetter {
		f.statements = append(f.statements, allow([]any{"sqs:SendMessage"},
			awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:"+
				deadLetterQueueName(s, f.functionSpec)), nil)))
	}
}

// newRetries configures how Lambda retries asynchronous calls of a function. If the function declares a dead letter
// queue, newRetries creates the queue with its alarm.
func newRetries(scope constructs.Construct, s Settings, f *function) {
	id := logicalID(f.name)
	props := &awslambda.CfnEventInvokeConfigProps{
		// FunctionName is the literal name of the function and no reference. The configuration depends on the alias, and the
		// alias on the function, so the function exists first.
		FunctionName: f.resource.FunctionName(), Qualifier: jsii.String(liveAlias),
		MaximumRetryAttempts:     jsii.Number(f.retries.MaxRetries),
		MaximumEventAgeInSeconds: jsii.Number(f.retries.MaxAge.Seconds()),
	}
	if f.retries.DeadLetter {
		queue := newDeadLetterQueue(scope, id+"GivenUp", jsii.String(deadLetterQueueName(s, f.functionSpec)))
		props.DestinationConfig = &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: queue.AttrArn()},
		}
		newAlarm(scope, id+"GivenUpDepth",
			fmt.Sprintf("Calls of %s were given up: each is in the queue %s, see docs/observability.md", f.name,
				deadLetterQueueName(s, f.functionSpec)),
			metric{
				"AWS/SQS", "ApproximateNumberOfMessagesVisible",
				map[string]*string{"QueueName": queue.AttrQueueName()},
				"Maximum",
			},
			0, time.Minute, 1)
	}
	config := awslambda.NewCfnEventInvokeConfig(scope, jsii.String(id+"Retries"), props)
	config.Node().AddDependency(f.alias)
	if f.retries.DeadLetter {
		config.Node().AddDependency(f.policy)
	}
}

// newDeadLetterQueue creates a queue for calls or records that failed in all attempts. The queue keeps them for as long
// as SQS can, and requires TLS. name is nil unless the name is needed before the queue exists.
func newDeadLetterQueue(scope constructs.Construct, id string, name *string) awssqs.CfnQueue {
	queue := awssqs.NewCfnQueue(scope, &id, &awssqs.CfnQueueProps{
		QueueName:              name,
		MessageRetentionPeriod: jsii.Number((14 * 24 * time.Hour).Seconds()),
		SqsManagedSseEnabled:   jsii.Bool(true),
	})
	awssqs.NewCfnQueuePolicy(scope, jsii.String(id+"Policy"), &awssqs.CfnQueuePolicyProps{
		Queues: &[]*string{queue.Ref()},
		PolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Sid": "OnlyTLS", "Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": queue.AttrArn(),
				"Condition": map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
			}},
		},
	})
	return queue
}

// newMissedAlarm creates an alarm that rings when no call of a schedule has succeeded in the periods of alarmPeriods.
// Functions report successful calls (shared/runtime/cloud), because Lambda's own metrics do not separate a schedule's
// calls from a stream's.
func newMissedAlarm(scope constructs.Construct, s Settings, f *function, e trigger.Schedule) error {
	period, periods, err := alarmPeriods(e)
	if err != nil {
		return fmt.Errorf("function %s: %w", f.name, err)
	}
	schedule := telemetry.ScheduleDimension(fmt.Sprintf("gatewright-%s-%s", s.Stage, f.name), e.Name)
	newLowAlarm(scope, logicalID(f.name)+logicalID(e.Name)+"Missed",
		fmt.Sprintf("No call of %s by its schedule %s was done for %s: look at its log, and at the schedule", f.name, e.Name,
			period*time.Duration(periods)),
		metric{telemetry.Namespace, telemetry.ScheduledRuns, map[string]*string{"schedule": &schedule}, "Sum"}, 1, period,
		periods)
	return nil
}

const day = 24 * time.Hour

// minPeriod is the shortest period of an alarm, which is enough for schedules with shorter intervals. maxAlarmDays is
// the maximum number of days that an alarm of CloudWatch can evaluate. sampledCalls is the number of calls of a
// schedule whose intervals are compared.
const (
	minPeriod    = 5 * time.Minute
	maxAlarmDays = 7
	sampledCalls = 2000
)

// alarmPeriods returns the length and the number of the alarm's periods. Within them, at least one call of the schedule
// has to succeed. It returns an error if an alarm cannot look back far enough.
func alarmPeriods(e trigger.Schedule) (period time.Duration, periods int, err error) {
	table, err := timetable.Parse(e)
	if err != nil {
		return 0, 0, err
	}
	var gap time.Duration
	at := table.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for range sampledCalls {
		next := table.Next(at)
		gap, at = max(gap, next.Sub(at)), next
	}
	switch {
	case gap <= minPeriod:
		return minPeriod, 2, nil
	case gap <= day:
		return gap, 2, nil
	}
	days := int((gap+day-1)/day) + 1
	if days > maxAlarmDays {
		return 0, 0, fmt.Errorf("schedule %s: up to %s pass between two calls, and an alarm looks back a week: declare one "+
			"within each %d days, so that a missed one is noticed", e.Name, gap, maxAlarmDays-1)
	}
	return day, days, nil
}
