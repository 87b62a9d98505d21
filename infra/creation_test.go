package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/telemetry"
)

// A creationRule is a condition that AWS checks when it creates a resource, or whose violation shows in the first minutes after that. Neither
// CloudFormation's schemas nor an emulator reports it.
type creationRule struct {
	name string
	// source is where AWS documents it.
	source string
	// broken returns what breaks the rule in an installation, sorted, and how many resources the rule is about.
	broken func(creation) (broken []string, looked int)
	// undo changes the installation so that it breaks the rule.
	undo func(creation)
}

const awsDocs = "https://docs.aws.amazon.com/"

// creationRules are all rules of this kind that installations have to keep.
var creationRules = []creationRule{
	{
		name:   "a function is made after the policies of its role: Lambda asks at once whether the role may send traces",
		source: awsDocs + "lambda/latest/dg/services-xray.html",
		broken: func(c creation) ([]string, int) {
			return c.withoutPolicies("AWS::Lambda::Function", "Role")
		},
		undo: func(c creation) { c.forget("AWS::Lambda::Function", "AWS::IAM::Policy") },
	},
	{
		name:   "an event source is made after the policies of its function's role: Lambda asks at once whether the role may read the stream",
		source: awsDocs + "lambda/latest/dg/with-ddb.html",
		broken: func(c creation) ([]string, int) {
			return c.calledWithoutPolicies("AWS::Lambda::EventSourceMapping", func(map[string]any) bool { return true })
		},
		undo: func(c creation) {
			c.forget("AWS::Lambda::EventSourceMapping", "AWS::IAM::Policy")
			c.forget("AWS::Lambda::Function", "AWS::IAM::Policy")
		},
	},
	{
		name:   "a queue for failed calls is named after the policies of the function's role: Lambda asks at once whether the role may send to it",
		source: awsDocs + "lambda/latest/dg/invocation-async-retain-records.html",
		broken: func(c creation) ([]string, int) {
			return c.calledWithoutPolicies("AWS::Lambda::EventInvokeConfig", func(p map[string]any) bool { return p["DestinationConfig"] != nil })
		},
		undo: func(c creation) {
			c.forget("AWS::CloudFormation::Stack", "AWS::IAM::Policy")
			c.forget("AWS::Lambda::Function", "AWS::IAM::Policy")
		},
	},
	{
		name:   "a service of ECS is made after the policies of its tasks' roles: its tasks start at once",
		source: awsDocs + "AWSCloudFormation/latest/TemplateReference/aws-resource-ecs-service.html",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::ECS::Service") {
				tasks := c.resource(c.named(at, r.Properties["TaskDefinition"]))
				for _, role := range []string{"ExecutionRoleArn", "TaskRoleArn"} {
					looked++
					if len(c.missing(at, c.policiesOf(c.named(at, tasks.Properties[role])))) > 0 {
						broken = append(broken, at+" "+role)
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) { c.forget("AWS::ECS::Service", "AWS::IAM::Policy") },
	},
	{
		name:   "a bucket notifies a function after it may call it: S3 tries a call at once",
		source: awsDocs + "AWSCloudFormation/latest/TemplateReference/aws-properties-s3-bucket-notificationconfiguration.html",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::S3::Bucket") {
				if r.Properties["NotificationConfiguration"] == nil {
					continue
				}
				looked++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.before(at))), func(at string) bool {
					first := c.resource(at)
					return first.Type == "AWS::Lambda::Permission" && first.Properties["Principal"] == "s3.amazonaws.com"
				}) {
					broken = append(broken, at)
				}
			}
			return broken, looked
		},
		undo: func(c creation) { c.forget("AWS::S3::Bucket", "AWS::Lambda::Permission") },
	},
	{
		name:   "a schedule has a role that the scheduler takes on: it tries at once",
		source: awsDocs + "scheduler/latest/UserGuide/setting-up.html#setting-up-execution-role",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::Scheduler::Schedule") {
				looked++
				role := c.resource(c.named(at, get(r.Properties, "Target", "RoleArn")))
				if get(role.Properties, "AssumeRolePolicyDocument", "Statement", 0, "Principal", "Service") != "scheduler.amazonaws.com" || role.Properties["Policies"] == nil {
					broken = append(broken, at)
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
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
		name:   "an alias is made after the group that releases it: its update policy names the group",
		source: awsDocs + "AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::Lambda::Alias") {
				group := get(r.UpdatePolicy, "CodeDeployLambdaAliasUpdate", "DeploymentGroupName")
				if group == nil {
					continue
				}
				looked++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.before(at))), func(at string) bool {
					return c.resource(at).Properties["DeploymentGroupName"] == group
				}) {
					broken = append(broken, at)
				}
			}
			return broken, looked
		},
		undo: func(c creation) { c.forget("AWS::Lambda::Alias", "AWS::CloudFormation::Stack") },
	},
	hookIsThere, hookMayBeCalled, hookMayReport,
	{
		name:   "a web ACL is put before a stage that is there",
		source: awsDocs + "AWSCloudFormation/latest/TemplateReference/aws-resource-wafv2-webaclassociation.html",
		broken: func(c creation) (broken []string, looked int) {
			for at := range c.all("AWS::WAFv2::WebACLAssociation") {
				looked++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.before(at))), func(at string) bool { return c.resource(at).Type == "AWS::ApiGateway::Stage" }) {
					broken = append(broken, at)
				}
			}
			return broken, looked
		},
		undo: func(c creation) { c.forget("AWS::WAFv2::WebACLAssociation", "AWS::ApiGateway::Stage") },
	},
	{
		name:   "stacks with many parts of API Gateway are made one after the other: its control plane takes ten calls a second of an account",
		source: awsDocs + "apigateway/latest/developerguide/limits.html#api-gateway-control-service-limits-table",
		broken: func(c creation) (broken []string, looked int) {
			const few = 10 // resources: of these, API Gateway takes all calls at once (a burst of 40)
			files := map[string]int{}
			for at, r := range c.each() {
				if strings.HasPrefix(r.Type, "AWS::ApiGateway::") && c.stackAt[fileOf(at)] != "" {
					files[fileOf(at)]++
				}
			}
			many := slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(file string) bool { return files[file] <= few })
			for i, one := range many {
				for _, other := range many[i+1:] {
					looked++
					if !c.before(c.stackAt[one])[c.stackAt[other]] && !c.before(c.stackAt[other])[c.stackAt[one]] {
						broken = append(broken, c.stackAt[one]+" and "+c.stackAt[other])
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) { c.forget("AWS::CloudFormation::Stack", "AWS::CloudFormation::Stack") },
	},
	{
		name:   "each path of a REST API leads to a function: API Gateway takes a bearer token of another path for a signature, and repeats it in a 403",
		source: awsDocs + "apigateway/latest/developerguide/supported-gateway-response-types.html",
		broken: func(c creation) (broken []string, looked int) {
			whole := map[string]bool{} // APIs and paths of methods that take everything
			for _, r := range c.all("AWS::ApiGateway::Method") {
				if r.Properties["HttpMethod"] == anyMethod {
					whole[unreferred(r.Properties["RestApiId"])+" "+c.pathOf(r.Properties["ResourceId"])] = true
				}
			}
			for at := range c.all("AWS::ApiGateway::RestApi") {
				for _, path := range []string{"/", "/" + greedy} {
					looked++
					if !whole[idOf(at)+" "+path] {
						broken = append(broken, at+" "+path)
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for at, r := range c.all("AWS::ApiGateway::Method") {
				if c.pathOf(r.Properties["ResourceId"]) == "/"+greedy {
					delete(c.stacks[fileOf(at)].Resources, idOf(at))
				}
			}
		},
	},
	{
		name:   "what API Gateway answers by itself is a problem, repeats nothing of the request but its path, and says when to come back",
		source: awsDocs + "apigateway/latest/developerguide/supported-gateway-response-types.html",
		broken: func(c creation) (broken []string, looked int) {
			kinds := map[string]map[string]bool{}
			for at, r := range c.all("AWS::ApiGateway::GatewayResponse") {
				looked++
				api, kind := unreferred(r.Properties["RestApiId"]), fmt.Sprint(r.Properties["ResponseType"])
				if kinds[api] == nil {
					kinds[api] = map[string]bool{}
				}
				kinds[api][kind] = true
				text := fmt.Sprint(get(r.Properties, "ResponseTemplates", "application/json"))
				if strings.Contains(text, "$context.error") || strings.Contains(text, "$input") || strings.Contains(text, "$method") {
					broken = append(broken, at+" repeats the request")
				}
				if r.Properties["StatusCode"] == "429" && get(r.Properties, "ResponseParameters", "gatewayresponse.header.Retry-After") == nil {
					broken = append(broken, at+" has no Retry-After")
				}
			}
			for at := range c.all("AWS::ApiGateway::RestApi") {
				for _, kind := range []string{"DEFAULT_4XX", "DEFAULT_5XX", "INVALID_SIGNATURE", "MISSING_AUTHENTICATION_TOKEN", "THROTTLED", "WAF_FILTERED"} {
					if !kinds[idOf(at)][kind] {
						broken = append(broken, at+" has no "+kind)
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, r := range c.all("AWS::ApiGateway::GatewayResponse") {
				if parameters, ok := r.Properties["ResponseParameters"].(map[string]any); ok {
					delete(parameters, "gatewayresponse.header.Retry-After")
				}
			}
		},
	},
	{
		name:   "a method takes no more requests at once than its function runs calls: API Gateway answers a call that Lambda refuses with 500",
		source: awsDocs + "lambda/latest/dg/services-apigateway.html#services-apigateway-errors",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::ApiGateway::Stage") {
				most := math.Inf(1) // of the functions behind its methods
				for _, method := range c.all("AWS::ApiGateway::Method") {
					if unreferred(method.Properties["RestApiId"]) == unreferred(r.Properties["RestApiId"]) {
						if reserved, ok := c.find(c.behind(method)).Properties["ReservedConcurrentExecutions"].(float64); ok {
							most = min(most, reserved)
						}
					}
				}
				settings, _ := r.Properties["MethodSettings"].([]any)
				for _, of := range settings {
					looked++
					if burst, ok := get(of, "ThrottlingBurstLimit").(float64); !ok || burst > most {
						broken = append(broken, fmt.Sprintf("%s, %v", at, get(of, "ResourcePath")))
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, r := range c.all("AWS::ApiGateway::Stage") {
				of, _ := get(r.Properties, "MethodSettings", 0).(map[string]any)
				of["ThrottlingBurstLimit"] = 1000.0
			}
		},
	},
	{
		name:   "no setting of a stage names the method ANY: API Gateway refuses the stage with \"Invalid method setting path\"",
		source: awsDocs + "apigateway/latest/api/API_UpdateStage.html",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::ApiGateway::Stage") {
				settings, _ := r.Properties["MethodSettings"].([]any)
				for _, of := range settings {
					looked++
					if get(of, "HttpMethod") == anyMethod {
						broken = append(broken, fmt.Sprintf("%s, %v", at, get(of, "ResourcePath")))
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, r := range c.all("AWS::ApiGateway::Stage") {
				of, _ := get(r.Properties, "MethodSettings", 0).(map[string]any)
				of["HttpMethod"] = anyMethod
			}
		},
	},
	{
		name:   "a stage with access logs is made after API Gateway knows a role to write them: it refuses the stage otherwise",
		source: awsDocs + "apigateway/latest/developerguide/set-up-logging.html",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::ApiGateway::Stage") {
				if r.Properties["AccessLogSetting"] == nil {
					continue
				}
				looked++
				if !slices.ContainsFunc(slices.Collect(maps.Keys(c.before(at))), func(at string) bool { return c.resource(at).Type == "AWS::ApiGateway::Account" }) {
					broken = append(broken, at)
				}
			}
			return broken, looked
		},
		undo: func(c creation) { c.forget("AWS::ApiGateway::Stage", "AWS::ApiGateway::Account") },
	},
	{
		name:   "a release of the gateway's function ends with the alarm of its faults: they are answers, and no errors of the function",
		source: awsDocs + "codedeploy/latest/userguide/deployment-groups-configure-advanced-options.html",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::CodeDeploy::DeploymentGroup") {
				if r.Properties["DeploymentGroupName"] != gateway {
					continue
				}
				looked++
				alarms, _ := get(r.Properties, "AlarmConfiguration", "Alarms").([]any)
				if !slices.ContainsFunc(alarms, func(alarm any) bool { return strings.Contains(render(get(alarm, "Name")), "GatewayFaults") }) {
					broken = append(broken, at)
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, r := range c.all("AWS::CodeDeploy::DeploymentGroup") {
				delete(r.Properties, "AlarmConfiguration")
			}
		},
	},
	{
		name:   "functions use the key of the root key for the root key alone",
		source: awsDocs + "kms/latest/developerguide/conditions-kms.html#conditions-kms-encryption-context",
		broken: func(c creation) (broken []string, looked int) {
			for at, statement := range c.statements() {
				if !strings.Contains(render(statement["Action"]), "kms:") {
					continue
				}
				looked++
				if get(statement, "Condition", "StringEquals", "kms:EncryptionContext:gatewright") != "root-key" {
					broken = append(broken, at)
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, statement := range c.statements() {
				delete(statement, "Condition")
			}
		},
	},
	{
		name:   "each service whose tasks read a certificate has an alarm of its end: Parameter Store renews nothing, and CloudWatch sees no certificate in it",
		source: awsDocs + "systems-manager/latest/userguide/systems-manager-parameter-store.html",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::ECS::TaskDefinition") {
				container := get(r.Properties, "ContainerDefinitions", 0)
				if get(container, "Secrets", 0) == nil {
					continue
				}
				looked++
				if !slices.ContainsFunc(slices.Collect(maps.Values(c.all("AWS::CloudWatch::Alarm"))), func(r resource) bool {
					return r.Properties["MetricName"] == telemetry.CertificateDays &&
						render(get(r.Properties, "Dimensions", 0, "Value")) == telemetry.CertificateOf("${Table}", render(get(container, "Name")))
				}) {
					broken = append(broken, at)
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, r := range c.all("AWS::CloudWatch::Alarm") {
				if r.Properties["MetricName"] == telemetry.CertificateDays {
					r.Properties["Dimensions"] = []any{map[string]any{"Name": "certificate", "Value": "gateway"}}
				}
			}
		},
	},
	{
		name:   "a topic that sends alarms to a person is encrypted by a key that CloudWatch may use for this account: alias/aws/sns lets it publish nothing",
		source: awsDocs + "sns/latest/dg/sns-key-management.html#compatibility-with-aws-services",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::SNS::Topic") {
				looked++
				key := c.resource(c.named(at, r.Properties["KmsMasterKeyId"]))
				for _, service := range []string{"cloudwatch", "events"} {
					if got := letBy(key.Properties["KeyPolicy"], service); !slices.Contains(got, "kms:Decrypt") || !slices.Contains(got, "kms:GenerateDataKey*") {
						broken = append(broken, at+" "+service)
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, r := range c.all("AWS::SNS::Topic") {
				r.Properties["KmsMasterKeyId"] = "alias/aws/sns"
			}
		},
	},
	{
		name:   "each notification of a budget has one topic, whose policy and key let Budgets publish for this account: it sends nothing otherwise, and reports that nowhere",
		source: awsDocs + "cost-management/latest/userguide/budgets-sns-policy.html",
		broken: func(c creation) (broken []string, looked int) {
			for at, r := range c.all("AWS::Budgets::Budget") {
				notifications, _ := r.Properties["NotificationsWithSubscribers"].([]any)
				for i, n := range notifications {
					looked++
					subscribers, _ := get(n, "Subscribers").([]any)
					topic := c.named(at, get(n, "Subscribers", 0, "Address"))
					key := c.resource(c.named(topic, c.resource(topic).Properties["KmsMasterKeyId"]))
					if len(subscribers) != 1 || get(n, "Subscribers", 0, "SubscriptionType") != "SNS" || len(letBy(key.Properties["KeyPolicy"], "budgets")) != 2 ||
						!slices.ContainsFunc(slices.Collect(maps.Values(c.all("AWS::SNS::TopicPolicy"))), func(r resource) bool {
							return slices.Equal(letBy(r.Properties["PolicyDocument"], "budgets"), []string{"sns:Publish"})
						}) {
						broken = append(broken, fmt.Sprintf("%s, notification %d", at, i))
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, r := range c.all("AWS::KMS::Key") {
				delete(r.Properties["KeyPolicy"].(map[string]any), "Statement")
			}
		},
	},
	{
		name:   "the policy of such a topic lets CloudWatch publish for this account alone, and EventBridge without a condition, with which it publishes nothing",
		source: awsDocs + "eventbridge/latest/userguide/eb-troubleshooting.html",
		broken: func(c creation) (broken []string, looked int) {
			for at := range c.all("AWS::SNS::Topic") {
				looked++
				policies := c.all("AWS::SNS::TopicPolicy")
				maps.DeleteFunc(policies, func(of string, r resource) bool { return c.named(of, r.Properties["Topics"]) != at })
				for _, service := range []string{"cloudwatch", "events"} {
					if !slices.ContainsFunc(slices.Collect(maps.Values(policies)), func(r resource) bool {
						return slices.Contains(letBy(r.Properties["PolicyDocument"], service), "sns:Publish")
					}) {
						broken = append(broken, at+" "+service)
					}
				}
			}
			return broken, looked
		},
		undo: func(c creation) {
			for _, r := range c.all("AWS::SNS::TopicPolicy") {
				statements, _ := get(r.Properties, "PolicyDocument", "Statement").([]any)
				for _, s := range statements {
					s.(map[string]any)["Condition"] = map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": "${AWS::AccountId}"}}
				}
			}
		},
	},
}

// letBy returns the actions that a policy lets a service of AWS do: EventBridge without a condition, and any other service for this account alone.
func letBy(policy any, service string) (actions []string) {
	statements, _ := get(policy, "Statement").([]any)
	for _, s := range statements {
		account := get(s, "Condition", "StringEquals", "aws:SourceAccount")
		if get(s, "Principal", "Service") == service+".amazonaws.com" && get(s, "Effect") == "Allow" &&
			(service == "events" && get(s, "Condition") == nil || service != "events" && render(account) == "${AWS::AccountId}") {
			actions = append(actions, texts(get(s, "Action"))...)
		}
	}
	return actions
}

// TestInstallationsKeepTheRulesOfTheirCreation looks at each rule in an installation with everything, and breaks it there once.
func TestInstallationsKeepTheRulesOfTheirCreation(t *testing.T) {
	a := synthesise(t, everything())
	for _, rule := range creationRules {
		t.Run(rule.name, func(t *testing.T) {
			broken, looked := rule.broken(newCreation(t, a))
			if looked == 0 {
				t.Errorf("the rule is about 0 resources of the installation, want 1 at least (%s)", rule.source)
			}
			slices.Sort(broken)
			for _, at := range broken {
				t.Errorf("%s breaks the rule, want every resource to keep it (%s)", at, rule.source)
			}
			without := newCreation(t, a)
			rule.undo(without)
			without.order()
			if broken, _ := rule.broken(without); len(broken) == 0 {
				t.Error("0 resources break the rule after it was undone, want 1 at least")
			}
		})
	}
}
