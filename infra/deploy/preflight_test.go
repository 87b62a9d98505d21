package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// whole is a template in which each check finds something to read. Its functions reserve 446 calls.
const whole = `{
	"Parameters": {"BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/cdk-bootstrap/hnb659fds/version"}},
	"Rules": {"CheckBootstrapVersion": {"Assertions": [{"Assert": {"Fn::Not": [{"Fn::Contains": [["1", "2", "3", "4", "5"], {"Ref": "BootstrapVersion"}]}]}}]}},
	"Resources": {
		"A": {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": 440}},
		"B": {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": 6}},
		"C": {"Type": "AWS::Lambda::Function", "Properties": {}},
		"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com", "RegionalCertificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c"}},
		"GatewayDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "*.apis.example.com", "RegionalCertificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c"}},
		"Cluster": {"Type": "AWS::ECS::Cluster", "Properties": {}},
		"Service": {"Type": "AWS::ECS::Service", "Properties": {}},
		"Scaling": {"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": {"ServiceNamespace": "ecs"}},
		"Tasks": {"Type": "AWS::ECS::TaskDefinition", "Properties": {"ContainerDefinitions": [{"Secrets": [{"ValueFrom": {"Fn::Sub": "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/gatewright/dev/gateway-certificate"}}]}]}},
		"Table": {"Type": "AWS::DynamoDB::Table", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"DeletionProtectionEnabled": true}},
		"Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"BucketName": {"Fn::Sub": "gatewright-dev-${AWS::AccountId}-${AWS::Region}"}}},
		"RollupLogs": {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"LogGroupName": "/aws/lambda/gatewright-dev-rollup"}},
		"ApiAccessLogs": {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"LogGroupName": "/aws/apigateway/gatewright-dev-api"}},
		"LogWriterRole": {"Type": "AWS::IAM::Role", "DeletionPolicy": "Retain", "Properties": {}},
		"TaskLogs": {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "RetainExceptOnCreate", "Properties": {"LogGroupName": {"Fn::Join": ["-", ["/aws/ecs/gatewright-dev-gateway", {"Ref": "AWS::StackId"}]]}}},
		"Queue": {"Type": "AWS::SQS::Queue", "Properties": {}},
		"Stage": {"Type": "AWS::ApiGateway::Stage", "Properties": {"AccessLogSetting": {"DestinationArn": "logs"}}},
		"LogWriter": {"Type": "AWS::ApiGateway::Account", "Properties": {}},
		"Budget": {"Type": "AWS::Budgets::Budget", "Properties": {}}
	}
}`

const issued = `{"Certificate": {"Status": "ISSUED", "DomainName": "API.example.com", "SubjectAlternativeNames": ["API.example.com", "*.apis.example.com"]}}`

// ready returns an account in which the first deployment of whole succeeds.
func ready() *fake {
	return &fake{
		limit: limits(1000, 1000),
		parameters: map[string]string{
			"/cdk-bootstrap/hnb659fds/version":    "6",
			"/gatewright/dev/gateway-certificate": "sealed",
		},
		certificate: issued,
		roles:       `["AWSServiceRoleForSupport", "AWSServiceRoleForECS", "AWSServiceRoleForApplicationAutoScaling_ECSService"]`,
		logRole:     `{"apiKeyVersion": "4"}`,
		fails:       map[string]error{},
	}
}

// remaining puts a resource into a stack whose creation failed.
func remaining(f *fake, status types.ResourceStatus, kind, logical, physical string) {
	f.status, f.protected = types.StackStatusRollbackFailed, true
	f.leave(f.arn(), types.StackResourceSummary{ResourceType: &kind, LogicalResourceId: &logical, PhysicalResourceId: &physical, ResourceStatus: status})
}

func (f *fake) leave(stack string, r types.StackResourceSummary) {
	if f.left == nil {
		f.left = map[string][]types.StackResourceSummary{}
	}
	f.left[stack] = append(f.left[stack], r)
}

// TestPreflightFindingStopsTheDeployment: each finding is one line that says what to do, and nothing has been created then.
func TestPreflightFindingStopsTheDeployment(t *testing.T) {
	const arn = "arn:aws:acm:eu-west-1:000000000000:certificate/c"
	const request = "type aws acm request-certificate --validation-method DNS --region eu-west-1 --domain-name 'api.example.com' --subject-alternative-names '*.apis.example.com', and set certificateArn in infra/stages/dev.json to its ARN"
	certificate := func(text string) func(*fake) { return func(f *fake) { f.certificate = text } }
	for name, tt := range map[string]struct {
		change func(*fake)
		want   string
	}{
		"no bootstrap stack": {
			func(f *fake) { delete(f.parameters, "/cdk-bootstrap/hnb659fds/version") },
			"the CDK has no bootstrap stack in eu-west-1 of this account (Parameter Store has no /cdk-bootstrap/hnb659fds/version): type make bootstrap AWS_REGION=eu-west-1",
		},
		"an old bootstrap stack": {
			func(f *fake) { f.parameters["/cdk-bootstrap/hnb659fds/version"] = "5" },
			"the CDK's bootstrap stack in eu-west-1 of this account has version 5, and the templates need version 6: type make bootstrap AWS_REGION=eu-west-1",
		},
		"a new account": {
			func(f *fake) { f.limit = limits(10, 10) },
			"Lambda runs at most 10 calls at once for this account in eu-west-1, of which 10 are unreserved; functions would reserve 446 more, and 100 have to stay unreserved: " +
				"type aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value 1000 --region eu-west-1, or set a lower concurrency in infra/stages/dev.json (0 reserves nothing)",
		},
		"other functions reserve too much": {func(f *fake) { f.limit = limits(1000, 545) }, "--desired-value 1001 --region eu-west-1"},
		"no certificate": {
			func(f *fake) {
				f.fails["acm describe-certificate"] = errors.New("ask the AWS command line (aws acm): exit status 254: An error occurred (ResourceNotFoundException) when calling the DescribeCertificate operation: Could not find certificate " + arn)
			}, "ACM has no certificate " + arn + ": " + request,
		},
		"a certificate that waits": {
			certificate(`{"Certificate": {"Status": "PENDING_VALIDATION", "DomainName": "api.example.com"}}`),
			"the certificate " + arn + " is not issued yet: create the DNS records that aws acm describe-certificate --certificate-arn " + arn + " --region eu-west-1 --query 'Certificate.DomainValidationOptions[].ResourceRecord' prints, and deploy when aws acm wait certificate-validated --certificate-arn " + arn + " --region eu-west-1 has ended",
		},
		"a certificate that expired":   {certificate(`{"Certificate": {"Status": "EXPIRED"}}`), "the certificate " + arn + " is EXPIRED, and API Gateway takes only one that is ISSUED: " + request},
		"a certificate that failed":    {certificate(`{"Certificate": {"Status": "VALIDATION_TIMED_OUT"}}`), "is VALIDATION_TIMED_OUT, and API Gateway"},
		"a certificate of other names": {certificate(`{"Certificate": {"Status": "ISSUED", "SubjectAlternativeNames": ["example.com", "www.example.com"]}}`), "the certificate " + arn + " does not cover api.example.com: " + request},
		"a wildcard of a level above":  {certificate(`{"Certificate": {"Status": "ISSUED", "SubjectAlternativeNames": ["*.example.com"]}}`), "does not cover *.apis.example.com: "},
		"a service without a certificate": {
			func(f *fake) { delete(f.parameters, "/gatewright/dev/gateway-certificate") },
			"the service gateway has no certificate, without which its tasks do not start: keep one by make service-certificate SERVICE=gateway STAGE=dev",
		},
		"no role of ECS": {
			func(f *fake) { f.roles = `["AWSServiceRoleForApplicationAutoScaling_ECSService"]` },
			"the account has no role AWSServiceRoleForECS, without which the first deployment of services fails: type aws iam create-service-linked-role --aws-service-name ecs.amazonaws.com",
		},
		"no role of Application Auto Scaling": {
			func(f *fake) { f.roles = `["AWSServiceRoleForECS"]` },
			"type aws iam create-service-linked-role --aws-service-name ecs.application-autoscaling.amazonaws.com",
		},
		"a log role of others": {
			func(f *fake) { f.logRole = `{"cloudwatchRoleArn": "arn:aws:iam::000000000000:role/others"}` },
			`API Gateway writes the logs of all APIs of this account in eu-west-1 under the role arn:aws:iam::000000000000:role/others, which this deployment would replace: add the line "accessLogs": "account" to infra/stages/dev.json`,
		},
		"a region without budgets": {
			func(f *fake) {
				f.fails["cloudformation describe-type"] = errors.New("ask the AWS command line (aws cloudformation): exit status 254: An error occurred (TypeNotFoundException) when calling the DescribeType operation")
			}, "CloudFormation creates no budgets in eu-west-1: remove monthlyBudget from infra/stages/dev.json",
		},
		"a bucket of a deleted stack": {
			func(f *fake) { f.buckets = []string{"gatewright-dev-000000000000-eu-west-1"} },
			"the bucket gatewright-dev-000000000000-eu-west-1 exists, which this deployment would create, for example of a stack that was deleted: move what is in it (docs/aws.md, A stack that was deleted), " +
				"empty it, old versions too, and type aws s3api delete-bucket --region eu-west-1 --bucket gatewright-dev-000000000000-eu-west-1, or deploy another stage",
		},
		"logs of a deleted stack": {
			func(f *fake) {
				f.logs = []string{"/aws/lambda/gatewright-dev-rollup", "/aws/apigateway/gatewright-dev-api", "/aws/lambda/gatewright-dev-another", "/aws/lambda/gatewright-development-rollup"}
			},
			"CloudWatch Logs has 2 log groups that this deployment would create, for example of a stack that was deleted: keep what you need of them, and type " +
				"for name in /aws/apigateway/gatewright-dev-api /aws/lambda/gatewright-dev-rollup; do aws logs delete-log-group --region eu-west-1 --log-group-name $name; done, or deploy another stage",
		},
		"a bucket of the failed stack": {
			func(f *fake) {
				remaining(f, types.ResourceStatusDeleteFailed, "AWS::S3::Bucket", "Bucket", "gatewright-dev-000000000000-eu-west-1")
				f.buckets = []string{"gatewright-dev-000000000000-eu-west-1"}
			}, "the failed stack has left the AWS::S3::Bucket gatewright-dev-000000000000-eu-west-1, whose name the next one needs: look at what is in it, empty it, old versions too, and type aws s3api delete-bucket --region eu-west-1 --bucket gatewright-dev-000000000000-eu-west-1, and deploy again",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := ready()
			tt.change(f)
			before := f.status
			steps, _, err := f.run(t, whole, false)
			if !errors.Is(err, errRefused) {
				t.Fatalf("deploy() = %v, want a refusal", err)
			}
			if got := err.Error(); strings.Contains(got, "\n") || !strings.Contains(got, tt.want) {
				t.Errorf("deploy() = %q, want one line with %q", got, tt.want)
			}
			if steps != "synth" {
				t.Errorf("steps = %q, want synth alone", steps)
			}
			if f.status != before {
				t.Errorf("status of the stack = %q, want %q as before", f.status, before)
			}
			if slices.Contains(f.asked, "UpdateTerminationProtection") {
				t.Error("UpdateTerminationProtection was called, want no change in the account")
			}
		})
	}
}

// TestInstallationThatSetsNoLogRoleNeedsOne: API Gateway refuses a stage with access logs otherwise.
func TestInstallationThatSetsNoLogRoleNeedsOne(t *testing.T) {
	template := strings.Replace(whole, "AWS::ApiGateway::Account", "AWS::SQS::Queue", 1)
	f := ready()
	if steps, _, err := f.run(t, template, false); !errors.Is(err, errRefused) || steps != "synth" || !strings.Contains(err.Error(), `API Gateway has no role in eu-west-1 under which it writes access logs: remove "accessLogs" from infra/stages/dev.json`) {
		t.Errorf("without a role: steps = %q, error %v, want a refusal that names the role", steps, err)
	}
	f = ready()
	f.logRole = `{"cloudwatchRoleArn": "arn:aws:iam::000000000000:role/others"}`
	if steps, _, err := f.run(t, template, false); err != nil || steps != "synth images deploy" {
		t.Errorf("with a role: steps = %q, error %v, want synth images deploy", steps, err)
	}
}

// TestAllFindingsAreReportedTogether: nobody repairs one thing after the other.
func TestAllFindingsAreReportedTogether(t *testing.T) {
	f := &fake{limit: limits(10, 10), certificate: `{"Certificate": {"Status": "FAILED"}}`, roles: `[]`}
	_, _, err := f.run(t, whole, false)
	if err == nil {
		t.Fatal("deploy() = nil, want a refusal")
	}
	if got, want := len(strings.Split(err.Error(), "\n")), 6; got != want {
		t.Errorf("deploy() has %d lines, want %d:\n%v", got, want, err)
	}
}

// TestReadyAccountIsDeployedTo: no check stops what AWS would do.
func TestReadyAccountIsDeployedTo(t *testing.T) {
	for name, change := range map[string]func(*fake){
		"at the default quotas":     func(*fake) {},
		"just enough concurrency":   func(f *fake) { f.limit = limits(546, 546) },
		"a newer bootstrap stack":   func(f *fake) { f.parameters["/cdk-bootstrap/hnb659fds/version"] = "31" },
		"a wildcard over the API's": func(f *fake) { f.certificate = strings.ReplaceAll(issued, "API.", "*.") },
		"a log role that a failed deployment left": func(f *fake) {
			f.logRole = `{"cloudwatchRoleArn": "arn:aws:iam::000000000000:role/gatewright-dev-LogWriterRole-Ab12Cd34"}`
		},
		"a role that appears late": func(f *fake) { f.roles, f.later = `[]`, map[string]string{"iam list-roles": f.roles} },
		"a certificate that comes late": func(f *fake) {
			f.certificate, f.later = `{"Certificate": {"Status": "PENDING_VALIDATION"}}`, map[string]string{"acm describe-certificate": issued}
		},
		"a failed stack with a log": func(f *fake) {
			remaining(f, types.ResourceStatusDeleteSkipped, "AWS::Logs::LogGroup", "TaskLogs", "/aws/ecs/gatewright-dev-gateway-0123")
		},
		"a failed stack with a queue": func(f *fake) {
			remaining(f, types.ResourceStatusDeleteFailed, "AWS::SQS::Queue", "Queue", "q")
		},
		"a failed stack with a deleted bucket": func(f *fake) {
			remaining(f, types.ResourceStatusDeleteComplete, "AWS::S3::Bucket", "Bucket", "gatewright-dev-000000000000-eu-west-1")
		},
	} {
		f := ready()
		change(f)
		if steps, said, err := f.run(t, whole, false); err != nil || steps != "synth images deploy" {
			t.Errorf("%s: steps = %q, error %v, want synth images deploy; it says %q", name, steps, err, said)
		}
	}
}

// TestUnreadableChecksStopNothing: who may deploy need not be allowed to read everything, and AWS may be busy or return nothing.
func TestUnreadableChecksStopNothing(t *testing.T) {
	denied := errors.New("ask the AWS command line: exit status 254:\nAn error occurred (AccessDenied) when calling the operation")
	throttled := errors.New("operation error: exceeded maximum number of attempts, 3, https response error StatusCode: 429, TooManyRequestsException: Rate exceeded")
	operations := map[string]string{ // by the permission
		"ssm:GetParameters": "ssm get-parameters", "lambda:GetAccountSettings": "GetAccountSettings", "acm:DescribeCertificate": "acm describe-certificate",
		"iam:ListRoles": "iam list-roles", "cloudformation:ListStackResources": "ListStackResources",
		"apigateway:GET": "apigateway get-account", "s3:ListBucket, logs:DescribeLogGroups": "logs describe-log-groups", "cloudformation:DescribeType": "cloudformation describe-type",
	}
	empty := map[string]func(*fake){ // by the permission
		"ssm:GetParameters": func(f *fake) {
			f.parameters = map[string]string{"/cdk-bootstrap/hnb659fds/version": "", "/gatewright/dev/gateway-certificate": ""}
		},
		"lambda:GetAccountSettings": func(f *fake) { f.limit = &lambda.GetAccountSettingsOutput{} },
		"acm:DescribeCertificate":   func(f *fake) { f.certificate = `{}` },
		"iam:ListRoles":             func(f *fake) { f.roles = `null` },
	}
	for _, c := range checks {
		if !strings.HasPrefix(c.docs, "https://docs.aws.amazon.com/") || c.subject == "" {
			t.Errorf("check %q has no page of AWS: %q", c.subject, c.docs)
		}
		cases := map[string]func(*fake){
			"(AccessDenied) when calling": func(f *fake) { f.fails[operations[c.reads]] = denied },
			"TooManyRequestsException":    func(f *fake) { f.fails[operations[c.reads]] = throttled },
		}
		if change := empty[c.reads]; change != nil && c.subject != "The certificate of services" { // whose value nobody reads
			cases[map[bool]string{true: "is no version", false: "the reply is empty"}[c.reads == "ssm:GetParameters"]] = change
		}
		for want, change := range cases {
			f := ready()
			f.status, f.protected = types.StackStatusRollbackComplete, true
			change(f)
			steps, said, err := f.run(t, whole, false)
			if err != nil || steps != "synth images deploy" {
				t.Errorf("%s, %s: steps = %q, error %v, want synth images deploy", c.subject, want, steps, err)
			}
			line := c.subject + " could not be checked, which needs " + c.reads + " ("
			_, reason, reported := strings.Cut(said, line)
			reason, _, _ = strings.Cut(reason, "\n")
			if !reported || !strings.Contains(reason, want) || !strings.HasSuffix(reason, "). The deployment goes on.") {
				t.Errorf("%s: it says %q, want a line %q with %q", c.subject, said, line, want)
			}
		}
	}
}

// TestDeployedResourcesAreNotCheckedAgain: what a deployment has already got does not stop the next one.
func TestDeployedResourcesAreNotCheckedAgain(t *testing.T) {
	more := strings.Replace(whole, `"ReservedConcurrentExecutions": 6`, `"ReservedConcurrentExecutions": 16`, 1)
	for name, tt := range map[string]struct {
		template   string
		unreserved int32
		want       string // the commands that are run, or the refusal
	}{
		"the same":                      {whole, 0, "ssm get-parameters"},
		"ten more":                      {more, 110, "GetAccountSettings ssm get-parameters"},
		"ten more, and nine are left":   {more, 109, "functions would reserve 10 more"},
		"a new name with a certificate": {strings.Replace(whole, `"api.example.com"`, `"api2.example.com"`, 1), 0, "does not cover api2.example.com"},
	} {
		f := ready()
		f.status, f.template, f.limit = types.StackStatusUpdateComplete, whole, limits(1000, tt.unreserved)
		_, _, err := f.run(t, tt.template, false, func(d *deployment) { d.wanted = []string{"apiDomain"} })
		var got string
		if err != nil {
			got = err.Error()
		} else {
			commands := map[string]bool{}
			for _, operation := range f.asked {
				if operation != "DescribeStacks" && operation != "GetTemplate" {
					commands[operation] = true
				}
			}
			got = strings.Join(slices.Sorted(maps.Keys(commands)), " ")
		}
		if err == nil && got != tt.want || !strings.Contains(got, tt.want) {
			t.Errorf("%s: deploy() = %q, want %q", name, got, tt.want)
		}
	}
}

// TestHookOfReleasesHasItsCalls: the hook calls all new versions at the same time, and Lambda refuses calls that a new account may not make.
func TestHookOfReleasesHasItsCalls(t *testing.T) {
	const released = `{"Resources": {
		"A": {"Type": "AWS::Lambda::Function", "Properties": {}}, "B": {"Type": "AWS::Lambda::Function", "Properties": {}},
		"ALive": {"Type": "AWS::Lambda::Alias", "Properties": {}, "UpdatePolicy": {"CodeDeployLambdaAliasUpdate": {"BeforeAllowTrafficHook": "gatewright-dev-releasecheck"}}},
		"BLive": {"Type": "AWS::Lambda::Alias", "Properties": {}, "UpdatePolicy": {"CodeDeployLambdaAliasUpdate": {"BeforeAllowTrafficHook": "gatewright-dev-releasecheck"}}}}}`
	const few = `Lambda runs at most 3 calls at once for this account in eu-west-1, and a release needs 4, because a hook calls each new version before it gets traffic: add "canary": false to infra/stages/dev.json until the account has a higher quota`
	for name, tt := range map[string]struct {
		deployed, planned string
		limit             int32
		want              string
	}{
		"a first deployment":      {"", released, 3, ""},
		"too few":                 {released, released, 3, few},
		"enough":                  {released, released, 4, ""},
		"without a hook":          {released, strings.ReplaceAll(released, "BeforeAllowTrafficHook", "Other"), 3, ""},
		"functions reserve calls": {strings.Replace(released, `"Properties": {}`, `"Properties": {"ReservedConcurrentExecutions": 1}`, 1), strings.Replace(released, `"Properties": {}`, `"Properties": {"ReservedConcurrentExecutions": 1}`, 1), 3, ""},
		"an alias that is new":    {strings.Replace(released, `"BLive"`, `"CLive"`, 1), released, 3, ""},
	} {
		f := ready()
		f.limit = limits(tt.limit, tt.limit)
		if tt.deployed != "" {
			f.status, f.template = types.StackStatusUpdateComplete, tt.deployed
		}
		_, said, err := f.run(t, tt.planned, false, func(d *deployment) { d.wanted = []string{"CLive"} })
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: deploy() = %v, want %q; it says %q", name, err, tt.want, said)
		}
	}
}
