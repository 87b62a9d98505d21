package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsscheduler"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/timetable"
)

// Bounds of the stream's calls.
const (
	streamBatch    = 100
	streamAttempts = 10
	streamParallel = 4 // batches of one shard at a time, in order for each item
)

// newTriggers connects a function with what calls it.
func newTriggers(scope constructs.Construct, s Settings, d data, f *function) error {
	for _, e := range f.on {
		switch {
		case e.ObjectCreated != "":
			newUploadTrigger(scope, d, f, e.ObjectCreated)
		case e.StreamRecords:
			newStreamTrigger(scope, d, f, e, s.matching(e))
		case e.Schedule != nil:
			if err := newSchedule(scope, s, f, *e.Schedule); err != nil {
				return err
			}
		case e.HTTP, e.Invoked: // its own API, or nothing at all
		default:
			return fmt.Errorf("function %s declares an event of no kind", f.name)
		}
	}
	return nil
}

// newUploadTrigger has the bucket tell the function of new objects. The
// permission names the bucket by its spelled-out ARN and has to be there first.
func newUploadTrigger(scope constructs.Construct, d data, f *function, prefix string) {
	// Whoever makes a bucket of that name in another account must not call it.
	permission := f.permit(scope, "CalledByBucket"+digest(prefix), "s3.amazonaws.com", d.bucketARN, awscdk.Aws_ACCOUNT_ID())
	d.bucket.AddDependency(permission)
	*d.notified = append(*d.notified, &awss3.CfnBucket_LambdaConfigurationProperty{
		Event:    jsii.String("s3:ObjectCreated:*"),
		Function: f.alias.Ref(),
		Filter: &awss3.CfnBucket_NotificationFilterProperty{S3Key: &awss3.CfnBucket_S3KeyFilterProperty{
			Rules: &[]any{&awss3.CfnBucket_FilterRuleProperty{Name: jsii.String("prefix"), Value: &prefix}},
		}},
	})
	d.bucket.SetNotificationConfiguration(&awss3.CfnBucket_NotificationConfigurationProperty{LambdaConfigurations: d.notified})
}

// matching is the filter of an event's records. MiniStack takes a pattern's
// absent parent for one that does not match, and would hold back every record.
func (s Settings) matching(e trigger.Event) string {
	if s.Emulator == miniStack {
		return ""
	}
	return e.FilterPattern
}

// newStreamTrigger gives the function the table's stream. What it fails at for
// good goes to a queue, with an alarm: a sweep picks the operation up anyway.
func newStreamTrigger(scope constructs.Construct, d data, f *function, e trigger.Event, matching string) {
	id := exported(f.name)
	queue := newDeadLetters(scope, id+"DeadLetters", nil)
	f.deadLetters = queue
	f.statements = append(f.statements,
		allow([]any{"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"}, d.table.AttrStreamArn()),
		// The service takes no resource for this one.
		allow([]any{"dynamodb:ListStreams"}, "*"),
		allow([]any{"sqs:SendMessage"}, queue.AttrArn()))
	var filter any
	if matching != "" {
		filter = &awslambda.CfnEventSourceMapping_FilterCriteriaProperty{
			Filters: &[]any{&awslambda.CfnEventSourceMapping_FilterProperty{Pattern: &matching}},
		}
	}
	f.mappings = append(f.mappings, awslambda.NewCfnEventSourceMapping(scope, jsii.String(id+"Stream"), &awslambda.CfnEventSourceMappingProps{
		FilterCriteria:                 filter,
		FunctionName:                   f.alias.Ref(),
		EventSourceArn:                 d.table.AttrStreamArn(),
		StartingPosition:               jsii.String("TRIM_HORIZON"),
		BatchSize:                      jsii.Number(streamBatch),
		ParallelizationFactor:          jsii.Number(streamParallel),
		MaximumRetryAttempts:           jsii.Number(streamAttempts),
		BisectBatchOnFunctionError:     jsii.Bool(true),
		MaximumBatchingWindowInSeconds: jsii.Number(e.Gather.Seconds()),
		FunctionResponseTypes:          jsii.Strings("ReportBatchItemFailures"),
		DestinationConfig: &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
			OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: queue.AttrArn()},
		},
	}))
}

// newSchedule calls the function regularly, under a role that may do just that.
func newSchedule(scope constructs.Construct, s Settings, f *function, e trigger.Schedule) error {
	if e.Cron != "" && s.Cron != "" {
		e.Cron = s.Cron
	}
	table, err := timetable.Of(e)
	if err != nil {
		return fmt.Errorf("function %s: %w", f.name, err)
	}
	id := exported(f.name) + exported(e.Name)
	role := awsiam.NewCfnRole(scope, jsii.String(id+"ScheduleRole"), &awsiam.CfnRoleProps{
		AssumeRolePolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{
				"Effect": "Allow", "Action": "sts:AssumeRole",
				"Principal": map[string]any{"Service": "scheduler.amazonaws.com"},
				"Condition": map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Aws_ACCOUNT_ID()}},
			}},
		},
		Policies: &[]any{&awsiam.CfnRole_PolicyProperty{
			PolicyName: jsii.String("call"),
			PolicyDocument: map[string]any{
				"Version":   "2012-10-17",
				"Statement": []any{allow([]any{"lambda:InvokeFunction"}, f.alias.Ref())},
			},
		}},
	})
	awsscheduler.NewCfnSchedule(scope, jsii.String(id+"Schedule"), &awsscheduler.CfnScheduleProps{
		Name:               jsii.Sprintf("gatewright-%s-%s-%s", s.Stage, f.name, e.Name),
		ScheduleExpression: jsii.String(table.Expression()),
		FlexibleTimeWindow: &awsscheduler.CfnSchedule_FlexibleTimeWindowProperty{Mode: jsii.String("OFF")},
		Target: &awsscheduler.CfnSchedule_TargetProperty{
			Arn: f.alias.Ref(), RoleArn: role.AttrArn(),
			Input: jsii.Sprintf(`{"schedule":%q}`, e.Name),
			// Of handing the call to Lambda; what Lambda makes of one that fails is newRetries'.
			RetryPolicy: &awsscheduler.CfnSchedule_RetryPolicyProperty{
				MaximumRetryAttempts: jsii.Number(f.retries.Attempts), MaximumEventAgeInSeconds: jsii.Number(f.retries.MaxAge.Seconds()),
			},
		},
	})
	return nil
}
