package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// A creationRule is a condition that AWS checks when it creates a resource, or whose violation causes failures within
// the first minutes. Neither CloudFormation's schemas nor an emulator reports a violation.
type creationRule struct {
	name string
	// source is the page of the AWS documentation that describes the rule.
	source string
	// violations returns the addresses of the resources that violate the rule, sometimes with the violating part. checked
	// is the number of resources, parts of resources, or pairs of resources to which the rule applies.
	violations func(creationOrder) (violations []string, checked int)
	// violate changes the installation so that it breaks the rule.
	violate func(creationOrder)
}

const awsDocs = "https://docs.aws.amazon.com/"

// creationRules are all creation rules except those of API Gateway (apiCreationRules).
var creationRules = []creationRule{
	{
		name: "a function is created after the policies of its role: Lambda checks at once that the role can send " +
			"traces",
		source: awsDocs + "lambda/latest/dg/services-xray.html",
		violations: func(c creationOrder) ([]string, int) {
			return c.withoutPolicies("AWS::Lambda::Function", "Role")
		},
		violate: func(c creationOrder) { c.removeDependencies("AWS::Lambda::Function", "AWS::IAM::Policy") },
	},
	{
		name: "an event source mapping is created after the policies of its function's role: Lambda checks at once " +
			"that the role can read the stream",
		source: awsDocs + "lambda/latest/dg/with-ddb.html",
		violations: func(c creationOrder) ([]string, int) {
			return c.callersWithoutPolicies("AWS::Lambda::EventSourceMapping", func(map[string]any) bool { return true })
		},
		violate: func(c creationOrder) {
			c.removeDependencies("AWS::Lambda::EventSourceMapping", "AWS::IAM::Policy")
			c.removeDependencies("AWS::Lambda::Function", "AWS::IAM::Policy")
		},
	},
	{
		name: "a dead-letter queue is configured after the policies of the function's role: Lambda checks at once " +
			"that the role can send to the queue",
		source: awsDocs + "lambda/latest/dg/invocation-async-retain-records.html",
		violations: func(c creationOrder) ([]string, int) {
			return c.callersWithoutPolicies("AWS::Lambda::EventInvokeConfig", func(p map[string]any) bool {
				return p["DestinationConfig"] != nil
			})
		},
		violate: func(c creationOrder) {
			c.removeDependencies("AWS::CloudFormation::Stack", "AWS::IAM::Policy")
			c.removeDependencies("AWS::Lambda::Function", "AWS::IAM::Policy")
		},
	},
	{
		name:   "an ECS service is created after the policies of its tasks' roles: the tasks start at once",
		source: awsDocs + "AWSCloudFormation/latest/TemplateReference/aws-resource-ecs-service.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::ECS::Service") {
				tasks := c.resource(c.resolve(address, r.Properties["TaskDefinition"]))
				for _, role := range []string{"ExecutionRoleArn", "TaskRoleArn"} {
					checked++
					if len(c.missingBefore(address, c.policiesOf(c.resolve(address, tasks.Properties[role])))) > 0 {
						violations = append(violations, address+" "+role)
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) { c.removeDependencies("AWS::ECS::Service", "AWS::IAM::Policy") },
	},
	{
		name: "a bucket's notification is configured after the permission to call the function: S3 verifies it at once",
		source: awsDocs +
			"AWSCloudFormation/latest/TemplateReference/aws-properties-s3-bucket-notificationconfiguration.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::S3::Bucket") {
				if r.Properties["NotificationConfiguration"] == nil {
					continue
				}
				checked++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.createdBefore(address))), func(address string) bool {
					dependency := c.resource(address)
					return dependency.Type == "AWS::Lambda::Permission" && dependency.Properties["Principal"] == "s3.amazonaws.com"
				}) {
					violations = append(violations, address)
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) { c.removeDependencies("AWS::S3::Bucket", "AWS::Lambda::Permission") },
	},
	{
		name: "the scheduler can assume the role of each schedule, which has a policy: the scheduler verifies it at " +
			"once",
		source: awsDocs + "scheduler/latest/UserGuide/setting-up.html#setting-up-execution-role",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::Scheduler::Schedule") {
				checked++
				role := c.resource(c.resolve(address, get(r.Properties, "Target", "RoleArn")))
				if get(role.Properties, "AssumeRolePolicyDocument", "Statement", 0, "Principal",
					"Service") != "scheduler.amazonaws.com" || role.Properties["Policies"] == nil {
					violations = append(violations, address)
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, s := range c.stacks {
				for _, r := range s.Resources {
					if r.Type == "AWS::IAM::Role" {
						delete(r.Properties, "Policies")
					}
				}
			}
		},
	},
	{
		name:   "an alias is created after its deployment group: the alias's update policy names the group",
		source: awsDocs + "AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::Lambda::Alias") {
				group := get(r.UpdatePolicy, "CodeDeployLambdaAliasUpdate", "DeploymentGroupName")
				if group == nil {
					continue
				}
				checked++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.createdBefore(address))), func(address string) bool {
					return c.resource(address).Properties["DeploymentGroupName"] == group
				}) {
					violations = append(violations, address)
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) { c.removeDependencies("AWS::Lambda::Alias", "AWS::CloudFormation::Stack") },
	},
	hookExists, hookIsCallable, hookCanReport,
	{
		name: "the alarm for the gateway's own faults stops a release of its function: these faults are responses, " +
			"and not errors of the function",
		source: awsDocs + "codedeploy/latest/userguide/deployment-groups-configure-advanced-options.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::CodeDeploy::DeploymentGroup") {
				if r.Properties["DeploymentGroupName"] != gateway {
					continue
				}
				checked++
				alarms, _ := get(r.Properties, "AlarmConfiguration", "Alarms").([]any)
				if !slices.ContainsFunc(alarms, func(alarm any) bool {
					return strings.Contains(render(get(alarm, "Name")), "GatewayFaults")
				}) {
					violations = append(violations, address)
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, r := range c.all("AWS::CodeDeploy::DeploymentGroup") {
				delete(r.Properties, "AlarmConfiguration")
			}
		},
	},
	{
		name:   "functions use the KMS key of the root key only for the root key",
		source: awsDocs + "kms/latest/developerguide/conditions-kms.html#conditions-kms-encryption-context",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, statement := range c.statements() {
				if !strings.Contains(render(statement["Action"]), "kms:") {
					continue
				}
				checked++
				if get(statement, "Condition", "StringEquals", "kms:EncryptionContext:gatewright") != "root-key" {
					violations = append(violations, address)
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, statement := range c.statements() {
				delete(statement, "Condition")
			}
		},
	},
	{
		name: "each service whose tasks read a certificate has an alarm for its expiry: Parameter Store does not " +
			"renew certificates, and CloudWatch does not monitor them there",
		source: awsDocs + "systems-manager/latest/userguide/systems-manager-parameter-store.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::ECS::TaskDefinition") {
				container := get(r.Properties, "ContainerDefinitions", 0)
				if get(container, "Secrets", 0) == nil {
					continue
				}
				checked++
				if !slices.ContainsFunc(slices.Collect(maps.Values(c.all("AWS::CloudWatch::Alarm"))), func(r resource) bool {
					return r.Properties["MetricName"] == telemetry.CertificateDays &&
						render(get(r.Properties, "Dimensions", 0, "Value")) == telemetry.CertificateDimension("${Table}",
							render(get(container, "Name")))
				}) {
					violations = append(violations, address)
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, r := range c.all("AWS::CloudWatch::Alarm") {
				if r.Properties["MetricName"] == telemetry.CertificateDays {
					r.Properties["Dimensions"] = []any{map[string]any{"Name": "certificate", "Value": "gateway"}}
				}
			}
		},
	},
	{
		name: "a topic that sends alarms to a person is encrypted under a key that CloudWatch can use for this " +
			"account: with alias/aws/sns it cannot publish",
		source: awsDocs + "sns/latest/dg/sns-key-management.html#compatibility-with-aws-services",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::SNS::Topic") {
				checked++
				key := c.resource(c.resolve(address, r.Properties["KmsMasterKeyId"]))
				for _, service := range []string{"cloudwatch", "events"} {
					if got := allowedActions(key.Properties["KeyPolicy"], service); !slices.Contains(got, "kms:Decrypt") ||
						!slices.Contains(got, "kms:GenerateDataKey*") {
						violations = append(violations, address+" "+service)
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, r := range c.all("AWS::SNS::Topic") {
				r.Properties["KmsMasterKeyId"] = "alias/aws/sns"
			}
		},
	},
	{
		name: "each notification of a budget has one topic, whose policy and key let Budgets publish for this " +
			"account: otherwise Budgets sends nothing, and reports no error",
		source: awsDocs + "cost-management/latest/userguide/budgets-sns-policy.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address, r := range c.all("AWS::Budgets::Budget") {
				notifications, _ := r.Properties["NotificationsWithSubscribers"].([]any)
				for i, n := range notifications {
					checked++
					subscribers, _ := get(n, "Subscribers").([]any)
					topic := c.resolve(address, get(n, "Subscribers", 0, "Address"))
					key := c.resource(c.resolve(topic, c.resource(topic).Properties["KmsMasterKeyId"]))
					if len(subscribers) != 1 || get(n, "Subscribers", 0, "SubscriptionType") != "SNS" ||
						len(allowedActions(key.Properties["KeyPolicy"], "budgets")) != 2 ||
						!slices.ContainsFunc(slices.Collect(maps.Values(c.all("AWS::SNS::TopicPolicy"))), func(r resource) bool {
							return slices.Equal(allowedActions(r.Properties["PolicyDocument"], "budgets"), []string{"sns:Publish"})
						}) {
						violations = append(violations, fmt.Sprintf("%s, notification %d", address, i))
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, r := range c.all("AWS::KMS::Key") {
				delete(r.Properties["KeyPolicy"].(map[string]any), "Statement")
			}
		},
	},
	{
		name: "the policy of an alarm topic lets CloudWatch publish only for this account, and EventBridge without a " +
			"condition: with a condition, EventBridge could not publish",
		source: awsDocs + "eventbridge/latest/userguide/eb-troubleshooting.html",
		violations: func(c creationOrder) (violations []string, checked int) {
			for address := range c.all("AWS::SNS::Topic") {
				checked++
				policies := c.all("AWS::SNS::TopicPolicy")
				maps.DeleteFunc(policies, func(item string, r resource) bool {
					return c.resolve(item, r.Properties["Topics"]) != address
				})
				for _, service := range []string{"cloudwatch", "events"} {
					if !slices.ContainsFunc(slices.Collect(maps.Values(policies)), func(r resource) bool {
						return slices.Contains(allowedActions(r.Properties["PolicyDocument"], service), "sns:Publish")
					}) {
						violations = append(violations, address+" "+service)
					}
				}
			}
			return violations, checked
		},
		violate: func(c creationOrder) {
			for _, r := range c.all("AWS::SNS::TopicPolicy") {
				statements, _ := get(r.Properties, "PolicyDocument", "Statement").([]any)
				for _, s := range statements {
					s.(map[string]any)["Condition"] = map[string]any{
						"StringEquals": map[string]any{"aws:SourceAccount": "${AWS::AccountId}"},
					}
				}
			}
		},
	},
}

// allowedActions returns the actions that a policy allows a service of AWS. It counts statements for EventBridge only
// without a condition, and statements for other services only with a condition on this account.
func allowedActions(policy any, service string) (actions []string) {
	statements, _ := get(policy, "Statement").([]any)
	for _, s := range statements {
		account := get(s, "Condition", "StringEquals", "aws:SourceAccount")
		if get(s, "Principal", "Service") == service+".amazonaws.com" && get(s, "Effect") == "Allow" &&
			(service == "events" && get(s, "Condition") == nil || service != "events" &&
				render(account) == "${AWS::AccountId}") {
			actions = append(actions, texts(get(s, "Action"))...)
		}
	}
	return actions
}

// TestInstallationsFollowCreationRules checks that an installation with all resources follows each rule, and that each
// rule detects a violation.
func TestInstallationsFollowCreationRules(t *testing.T) {
	a := synthesize(t, fullContext())
	for _, rule := range slices.Concat(creationRules, apiCreationRules) {
		t.Run(rule.name, func(t *testing.T) {
			violations, checked := rule.violations(newCreationOrder(t, a))
			if checked == 0 {
				t.Errorf("the rule applies to 0 resources of the installation, want at least 1 (%s)", rule.source)
			}
			slices.Sort(violations)
			for _, address := range violations {
				t.Errorf("%s violates the rule, want no violation (%s)", address, rule.source)
			}
			violating := newCreationOrder(t, a)
			rule.violate(violating)
			violating.resolveDependencies()
			if violations, _ := rule.violations(violating); len(violations) == 0 {
				t.Error("violations() after violate() = none, want at least one")
			}
		})
	}
}
