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

	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/timetable"
)

// streamReaders is how many functions the table's stream may call: DynamoDB has two readers of a shard at most, and throttles all of
// them where there is a third ("Reading and processing a stream" in its developer guide).
const streamReaders = 2

// Bounds of Lambda for calls that wait for no answer (PutFunctionEventInvokeConfig).
const (
	mostAttempts = 2
	leastAge     = time.Minute
	mostAge      = 6 * time.Hour
)

// checkTriggers says what AWS would refuse, or do badly, of what the functions declare: a line each.
func checkTriggers(fs []declared) error {
	var wrong []error
	var readers []string
	for _, f := range fs {
		for _, e := range f.on {
			if e.StreamRecords {
				readers = append(readers, f.name)
			}
			if e.Schedule != nil {
				if _, _, err := watched(*e.Schedule); err != nil {
					wrong = append(wrong, fmt.Errorf("function %s: %w", f.name, err))
				}
			}
		}
		r := f.retries
		switch async := (trigger.Function{On: f.on}).Async(); {
		case !async && r != trigger.Retries{}:
			wrong = append(wrong, fmt.Errorf("function %s declares retries, and nothing calls it that waits for no answer: leave them out", f.name))
		case async && (r.Attempts < 0 || r.Attempts > mostAttempts || r.MaxAge < leastAge || r.MaxAge > mostAge || r.MaxAge%time.Second != 0):
			wrong = append(wrong, fmt.Errorf("function %s declares %d retries of calls of %s at most: declare 0 to %d of %s to %s, in whole seconds", f.name, r.Attempts, r.MaxAge, mostAttempts, leastAge, mostAge))
		}
	}
	if len(readers) > streamReaders {
		wrong = append(wrong, fmt.Errorf("the stream calls %d functions (%v), and DynamoDB has %d readers of a shard: have one of them hand records on", len(readers), readers, streamReaders))
	}
	return errors.Join(wrong...)
}

// newCalls says of all functions what becomes of calls that wait for no answer, and watches that schedules are kept. It stands in a nested stack: the
// installation's own comes near CloudFormation's 500 resources.
//
// There is no queue between what calls and what is called. Lambda keeps such calls itself, for as long as the declaration says; what a
// schedule asks for, its next call does as well; the stream has a queue of its own for what fails. A queue would be polled each second of the month
// by somebody who pays for it, and would add a place where calls wait unseen.
func newCalls(root constructs.Construct, s Settings, fs []*function) error {
	scope := awscdk.NewNestedStack(root, jsii.String("Calls"), &awscdk.NestedStackProps{
		Description: jsii.String("What becomes of calls that wait for no answer, and of schedules that are not kept"),
	})
	for _, f := range fs {
		if (trigger.Function{On: f.on}).Async() {
			newRetries(scope, s, f)
		}
		for _, e := range f.on {
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

// keptName is what the queue of a function's calls that were given up is called; its role is granted the name before there is one, since
// Lambda asks whether the role may send when it is told of the queue.
func keptName(s Settings, f declared) string {
	return fmt.Sprintf("gatewright-%s-%s-given-up", s.Stage, f.name)
}

// mayKeep lets Lambda keep what is given up of a function, under the function's role.
func (f *function) mayKeep(s Settings) {
	if f.retries.Keep {
		f.statements = append(f.statements, allow([]any{"sqs:SendMessage"},
			awscdk.Fn_Sub(jsii.String("arn:${AWS::Partition}:sqs:${AWS::Region}:${AWS::AccountId}:"+keptName(s, f.declared)), nil)))
	}
}

func newRetries(scope constructs.Construct, s Settings, f *function) {
	id := exported(f.name)
	props := &awslambda.CfnEventInvokeConfigProps{
		// By its name, since a reference is for the alias alone; it is there before, which the alias depends on.
		FunctionName: f.resource.FunctionName(), Qualifier: jsii.String(live),
		MaximumRetryAttempts:     jsii.Number(f.retries.Attempts),
		MaximumEventAgeInSeconds: jsii.Number(f.retries.MaxAge.Seconds()),
	}
	if f.retries.Keep {
		queue := newDeadLetters(scope, id+"GivenUp", jsii.String(keptName(s, f.declared)))
		props.DestinationConfig = &awslambda.CfnEventInvokeConfig_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventInvokeConfig_OnFailureProperty{Destination: queue.AttrArn()},
		}
		newAlarm(scope, id+"GivenUpDepth", fmt.Sprintf("Calls of %s were given up: each is in the queue %s, see docs/observability.md", f.name, keptName(s, f.declared)),
			metric{"AWS/SQS", "ApproximateNumberOfMessagesVisible", map[string]*string{"QueueName": queue.AttrQueueName()}, "Maximum"},
			0, time.Minute, 1)
	}
	config := awslambda.NewCfnEventInvokeConfig(scope, jsii.String(id+"Retries"), props)
	config.Node().AddDependency(f.alias)
	if f.retries.Keep {
		config.Node().AddDependency(f.policy)
	}
}

// newDeadLetters makes a queue for what failed for good, which keeps it for as long as SQS does and takes nothing without TLS. It has a
// name where one is needed before there is the queue.
func newDeadLetters(scope constructs.Construct, id string, name *string) awssqs.CfnQueue {
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

// newMissedAlarm rings when no call by the schedule was done for two of its intervals: none was made, or none came to a good end.
// Functions say that one did (shared/cloud), since Lambda's own numbers do not tell a schedule's calls from a stream's.
func newMissedAlarm(scope constructs.Construct, s Settings, f *function, e trigger.Schedule) error {
	period, periods, err := watched(e)
	if err != nil {
		return fmt.Errorf("function %s: %w", f.name, err)
	}
	of := telemetry.ScheduleOf(fmt.Sprintf("gatewright-%s-%s", s.Stage, f.name), e.Name)
	newLowAlarm(scope, exported(f.name)+exported(e.Name)+"Missed", fmt.Sprintf("No call of %s by its schedule %s was done for %s: look at its log, and at the schedule", f.name, e.Name, period*time.Duration(periods)),
		metric{telemetry.Namespace, telemetry.ScheduledRuns, map[string]*string{"schedule": &of}, "Sum"}, 1, period, periods)
	return nil
}

const day = 24 * time.Hour

// Bounds of an alarm: a week is the longest that CloudWatch looks back, and five minutes are enough for a schedule that is due oftener.
const (
	leastWatched  = 5 * time.Minute
	mostDays      = 7
	lookedAtCalls = 2000
)

// watched gives the periods of an alarm within which one call by the schedule has to be done.
func watched(e trigger.Schedule) (period time.Duration, periods int, err error) {
	table, err := timetable.Of(e)
	if err != nil {
		return 0, 0, err
	}
	var gap time.Duration
	at := table.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for range lookedAtCalls {
		next := table.Next(at)
		gap, at = max(gap, next.Sub(at)), next
	}
	switch {
	case gap <= leastWatched:
		return leastWatched, 2, nil
	case gap <= day:
		return gap, 2, nil
	}
	days := int((gap+day-1)/day) + 1
	if days > mostDays {
		return 0, 0, fmt.Errorf("schedule %s: up to %s pass between two calls, and an alarm looks back a week: declare one within each %d days, so that a missed one is noticed", e.Name, gap, mostDays-1)
	}
	return day, days, nil
}
