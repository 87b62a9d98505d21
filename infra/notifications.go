package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// newNotificationTopics returns the ARNs of the SNS topics that alarms, rules and budgets notify: the operator's topic,
// a new topic of the stack that sends emails to the operator, or both. It returns nil if the settings have neither a
// topic nor an email address.
func newNotificationTopics(scope constructs.Construct, s Settings) (topics []*string) {
	if s.AlarmTopic != "" {
		topics = append(topics, &s.AlarmTopic)
	}
	if s.AlarmEmail != "" {
		topics = append(topics, newEmailTopic(scope, s))
	}
	return topics
}

// newEmailTopic creates a topic that sends emails to the operator, and returns the topic's ARN. SNS sends nothing
// before the owner of the address has confirmed the subscription.
func newEmailTopic(scope constructs.Construct, s Settings) *string {
	senders := []string{"cloudwatch", "events"}
	if s.MonthlyBudget > 0 {
		senders = append(senders, "budgets")
	}
	// The topic needs its own key: the policy of the AWS-managed key alias/aws/sns lets neither CloudWatch nor
	// EventBridge publish, and nobody can change that policy:
	// https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html.
	key := awskms.NewCfnKey(scope, jsii.String("AlarmKey"), &awskms.CfnKeyProps{
		Description: jsii.Sprintf("Encrypts the alarms of the Gatewright installation %s on their way to a person",
			s.Stage),
		EnableKeyRotation:   jsii.Bool(true),
		PendingWindowInDays: jsii.Number(7), // the minimum, because the key encrypts no stored data
		KeyPolicy: keyPolicy(serviceStatements(senders, []string{"kms:Decrypt", "kms:GenerateDataKey*"},
			jsii.String("*"))...),
	})
	topic := awssns.NewCfnTopic(scope, jsii.String("AlarmTopic"), &awssns.CfnTopicProps{
		DisplayName:    jsii.Sprintf("Gatewright %s", s.Stage),
		KmsMasterKeyId: key.AttrArn(),
	})
	awssns.NewCfnTopicPolicy(scope, jsii.String("AlarmTopicPolicy"), &awssns.CfnTopicPolicyProps{
		Topics: &[]*string{topic.Ref()},
		PolicyDocument: map[string]any{
			"Version": "2012-10-17",
			"Statement": append(serviceStatements(senders, []string{"sns:Publish"}, topic.Ref()), map[string]any{
				"Sid": "OnlyTLS", "Effect": "Deny", "Principal": "*", "Action": "sns:Publish", "Resource": topic.Ref(),
				"Condition": map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}},
			}),
		},
	})
	// The logical id depends on the address. A changed address is therefore a new resource, and the diff of a
	// deployment contains neither address. Addresses are in lower case: SNS might treat two addresses that differ only
	// in case as one subscription.
	digest := sha256.Sum256([]byte(s.AlarmEmail))
	awssns.NewCfnSubscription(scope, jsii.String("AlarmEmail"+hex.EncodeToString(digest[:4])),
		&awssns.CfnSubscriptionProps{
			TopicArn: topic.Ref(), Protocol: jsii.String("email"), Endpoint: &s.AlarmEmail,
		})
	return topic.Ref()
}

// serviceStatements returns statements for the policy of a topic, or of the KMS key that encrypts its messages. They
// allow the actions to services of AWS that publish alarms and events of this account. The statement for EventBridge
// has no condition on the account: EventBridge does not send the account to SNS and KMS, so a condition would refuse
// all of its messages. See https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-troubleshooting.html and the
// page about SNS and KMS above.
func serviceStatements(services, actions []string, resource *string) (out []any) {
	for _, service := range services {
		statement := map[string]any{
			"Effect": "Allow", "Principal": map[string]any{"Service": service + ".amazonaws.com"}, "Action": actions,
			"Resource": resource,
		}
		if service != "events" {
			statement["Condition"] = map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": awscdk.Aws_ACCOUNT_ID()}}
		}
		out = append(out, statement)
	}
	return out
}

// newReleaseNotification creates rules that notify the topics when CodeDeploy, or ECS for gateways as processes, has
// rolled back or stopped a release. Neither service has a metric for that, so there is no alarm.
func newReleaseNotification(scope constructs.Construct, s Settings, topics []*string) {
	if len(topics) == 0 || s.Emulator != "" {
		return
	}
	targets := ruleTargets(topics)
	if s.servedByProcesses() {
		awsevents.NewCfnRule(scope, jsii.String("GatewayReleaseFailed"), &awsevents.CfnRuleProps{
			Description: jsii.String("Tells of gateways as processes whose release ECS has led back or given up"),
			EventPattern: map[string]any{
				"source": []any{"aws.ecs"}, "detail-type": []any{"ECS Deployment State Change"},
				"detail": map[string]any{"eventName": []any{"SERVICE_DEPLOYMENT_FAILED"}},
				// This is the end of the service's ARN: the names of the cluster and of the service.
				"resources": []any{map[string]any{"suffix": fmt.Sprintf(":service/gatewright-%s-%s/%s", s.Stage, gateway,
					gateway)}},
			},
			Targets: targets,
		})
	}
	awsevents.NewCfnRule(scope, jsii.String("ReleaseFailed"), &awsevents.CfnRuleProps{
		Description: jsii.String("Tells of a version that CodeDeploy has led back or given up"),
		EventPattern: map[string]any{
			"source": []any{"aws.codedeploy"}, "detail-type": []any{"CodeDeploy Deployment State-change Notification"},
			"detail": map[string]any{"state": []any{"FAILURE", "STOP"}, "application": []any{"gatewright-" + s.Stage}},
		},
		Targets: targets,
	})
}

// newKeyNotification creates a rule that notifies the topics when somebody disables the KMS key that wraps the root
// key, or schedules its deletion. Without the KMS key, nothing can be unsealed. EventBridge receives these events from
// CloudTrail, so the account needs a trail. KMS itself reports a deletion only after it has happened.
func newKeyNotification(scope constructs.Construct, s Settings, d data, topics []*string) {
	if len(topics) == 0 || s.Emulator != "" {
		return
	}
	awsevents.NewCfnRule(scope, jsii.String("RootKeyInDanger"), &awsevents.CfnRuleProps{
		Description: jsii.String("Tells that the KMS key of the root key is disabled or is to be deleted: cancel it within " +
			"the waiting period of the key"),
		EventPattern: map[string]any{
			"source": []any{"aws.kms"}, "detail-type": []any{"AWS API Call via CloudTrail"},
			"detail": map[string]any{
				"eventName": []any{"DisableKey", "ScheduleKeyDeletion"},
				// In this field CloudTrail has the ARN of the key, whether the caller named the key by its id or by its
				// ARN.
				"resources": map[string]any{"ARN": []any{d.key.AttrArn()}},
			},
		},
		Targets: ruleTargets(topics),
	})
}

// ruleTargets returns the targets of a rule that notifies topics.
func ruleTargets(topics []*string) *[]any {
	var out []any
	for i, topic := range topics {
		id := "topic" // the first topic keeps the id from the time when there was only one topic
		if i > 0 {
			id = fmt.Sprintf("topic%d", i+1)
		}
		out = append(out, &awsevents.CfnRule_TargetProperty{Id: &id, Arn: topic})
	}
	return &out
}

// setAlarmActions makes each alarm in a stack and its nested stacks notify the topics when the alarm begins and when it
// ends. root is the stack.
func setAlarmActions(root awscdk.Stack, topics []*string) {
	if len(topics) == 0 {
		return
	}
	for _, c := range *root.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		if r, ok := c.(awscdk.CfnResource); ok && *r.CfnResourceType() == "AWS::CloudWatch::Alarm" {
			r.AddPropertyOverride(jsii.String("AlarmActions"), topics)
			r.AddPropertyOverride(jsii.String("OKActions"), topics)
		}
	}
}

// alarmRecipients returns the value of the output AlarmsTell. It does not contain the email address, because outputs
// are printed and kept in logs.
func (s Settings) alarmRecipients() string {
	const emailRecipient = "the address of alarmEmail, once its owner has confirmed the subscription: SNS sends " +
		"the link to it"
	switch {
	case s.AlarmTopic != "" && s.AlarmEmail != "":
		return s.AlarmTopic + ", and " + emailRecipient
	case s.AlarmEmail != "":
		return emailRecipient
	case s.AlarmTopic != "":
		return s.AlarmTopic
	}
	return "nobody: set alarmEmail in the stage's file to an address, or alarmTopic to the ARN of a topic of SNS"
}
