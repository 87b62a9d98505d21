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

	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/timetable"
)

// These are the limits of the stream's calls.
const (
	streamBatchSize   = 100
	streamMaxRetries  = 10
	streamParallelism = 4 // batches of one shard at a time, in order for each item
)

// newTriggers connects a function with its triggers.
func newTriggers(scope constructs.Construct, s Settings, d data, f *function) error {
	for _, e := range f.triggers {
		switch {
		case e.ObjectCreated != "":
			newUploadTrigger(scope, d, f, e.ObjectCreated)
		case e.FromStream:
			newStreamTrigger(scope, d, f, e, s.filterPattern(e))
		case e.Schedule != nil:
			if err := newSchedule(scope, s, f, *e.Schedule); err != nil {
				return err
			}
		case e.HTTP, e.Invoked: // called through its own API, or directly by its callers
		default:
			return fmt.Errorf("function %s declares an event of no kind", f.name)
		}
	}
	return nil
}

// newUploadTrigger makes the bucket notify the function of new objects. The permission names the bucket by its literal
// ARN and has to exist before the bucket.
func newUploadTrigger(scope constructs.Construct, d data, f *function, prefix string) {
	// A bucket with the same name in another account must not call the function.
	permission := f.allowInvoke(scope, "CalledByBucket"+shortDigest(prefix), "s3.amazonaws.com", d.bucketARN,
		awscdk.Aws_ACCOUNT_ID())
	d.bucket.AddDependency(permission)
	*d.notifications = append(*d.notifications, &awss3.CfnBucket_LambdaConfigurationProperty{
		Event:    jsii.String("s3:ObjectCreated:*"),
		Function: f.alias.Ref(),
		Filter: &awss3.CfnBucket_NotificationFilterProperty{S3Key: &awss3.CfnBucket_S3KeyFilterProperty{
			Rules: &[]any{&awss3.CfnBucket_FilterRuleProperty{Name: jsii.String("prefix"), Value: &prefix}},
		}},
	})
	d.bucket.SetNotificationConfiguration(
		&awss3.CfnBucket_NotificationConfigurationProperty{LambdaConfigurations: d.notifications})
}

// filterPattern returns the filter of an event's records. For MiniStack it returns no filter: MiniStack does not match
// a pattern on a field whose parent is absent, and would deliver no record.
func (s Settings) filterPattern(e trigger.Event) string {
	if s.Emulator == miniStack {
		return ""
	}
	return e.FilterPattern
}

// newStreamTrigger connects the function with the table's stream. Records that fail in all attempts go to a queue with
// an alarm. Later calls do the work of these records: a sweep continues operations, and auditchain searches for audit
// records that the stream has not delivered.
func newStreamTrigger(scope constructs.Construct, d data, f *function, e trigger.Event, pattern string) {
	id := logicalID(f.name)
	queue := newDeadLetterQueue(scope, id+"DeadLetters", nil)
	f.deadLetters = queue
	f.statements = append(f.statements,
		allow([]any{"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator"}, d.table.AttrStreamArn()),
		// This action supports no resource-level permissions.
		allow([]any{"dynamodb:ListStreams"}, "*"),
		allow([]any{"sqs:SendMessage"}, queue.AttrArn()))
	var filter any
	if pattern != "" {
		filter = &awslambda.CfnEventSourceMapping_FilterCriteriaProperty{
			Filters: &[]any{&awslambda.CfnEventSourceMapping_FilterProperty{Pattern: &pattern}},
		}
	}
	f.mappings = append(f.mappings, awslambda.NewCfnEventSourceMapping(scope, jsii.String(id+"Stream"),
		&awslambda.CfnEventSourceMappingProps{
			FilterCriteria:                 filter,
			FunctionName:                   f.alias.Ref(),
			EventSourceArn:                 d.table.AttrStreamArn(),
			StartingPosition:               jsii.String("TRIM_HORIZON"),
			BatchSize:                      jsii.Number(streamBatchSize),
			ParallelizationFactor:          jsii.Number(streamParallelism),
			MaximumRetryAttempts:           jsii.Number(streamMaxRetries),
			BisectBatchOnFunctionError:     jsii.Bool(true),
			MaximumBatchingWindowInSeconds: jsii.Number(e.BatchWindow.Seconds()),
			FunctionResponseTypes:          jsii.Strings("ReportBatchItemFailures"),
			DestinationConfig: &awslambda.CfnEventSourceMapping_DestinationConfigProperty{
				OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: queue.AttrArn()},
			},
		}))
}

// newSchedule creates a schedule that calls the function, and a role that allows only these calls.
func newSchedule(scope constructs.Construct, s Settings, f *function, e trigger.Schedule) error {
	if e.Cron != "" && s.Cron != "" {
		e.Cron = s.Cron
	}
	table, err := timetable.Parse(e)
	if err != nil {
		return fmt.Errorf("function %s: %w", f.name, err)
	}
	id := logicalID(f.name) + logicalID(e.Name)
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
			// The scheduler repeats the call if Lambda does not accept it. newRetries configures the retries of an
			// accepted call that fails.
			RetryPolicy: &awsscheduler.CfnSchedule_RetryPolicyProperty{
				MaximumRetryAttempts:     jsii.Number(f.retries.MaxRetries),
				MaximumEventAgeInSeconds: jsii.Number(f.retries.MaxAge.Seconds()),
			},
		},
	})
	return nil
}
