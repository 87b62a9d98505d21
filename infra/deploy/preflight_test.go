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

// fullTemplate is a template with something to verify for each check. Its functions reserve a concurrency of 446.
const fullTemplate = `{
	"Parameters": {"BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>",
		"Default": "/cdk-bootstrap/hnb659fds/version"}},
	"Rules": {"CheckBootstrapVersion": {"Assertions": [
		{"Assert": {"Fn::Not": [{"Fn::Contains": [["1", "2", "3", "4", "5"], {"Ref": "BootstrapVersion"}]}]}}]}},
	"Resources": {
		"A": {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": 440}},
		"B": {"Type": "AWS::Lambda::Function", "Properties": {"ReservedConcurrentExecutions": 6}},
		"C": {"Type": "AWS::Lambda::Function", "Properties": {}},
		"ApiDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "api.example.com",
			"RegionalCertificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c"}},
		"GatewayDomain": {"Type": "AWS::ApiGateway::DomainName", "Properties": {"DomainName": "*.apis.example.com",
			"RegionalCertificateArn": "arn:aws:acm:eu-west-1:000000000000:certificate/c"}},
		"Cluster": {"Type": "AWS::ECS::Cluster", "Properties": {}},
		"Service": {"Type": "AWS::ECS::Service", "Properties": {}},
		"Scaling": {"Type": "AWS::ApplicationAutoScaling::ScalableTarget", "Properties": {"ServiceNamespace": "ecs"}},
		"Tasks": {"Type": "AWS::ECS::TaskDefinition", "Properties": {"ContainerDefinitions": [{
			"Secrets": [{"ValueFrom": {"Fn::Sub":
			"arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:parameter/gatewright/dev/gateway-certificate"}}]}]}},
		"Table": {"Type": "AWS::DynamoDB::Table", "DeletionPolicy": "RetainExceptOnCreate",
			"Properties": {"DeletionProtectionEnabled": true}},
		"Bucket": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "RetainExceptOnCreate",
			"Properties": {"BucketName": {"Fn::Sub": "gatewright-dev-${AWS::AccountId}-${AWS::Region}"}}},
		"RollupLogs": {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "RetainExceptOnCreate",
			"Properties": {"LogGroupName": "/aws/lambda/gatewright-dev-rollup"}},
		"ApiAccessLogs": {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "RetainExceptOnCreate",
			"Properties": {"LogGroupName": "/aws/apigateway/gatewright-dev-api"}},
		"LogWriterRole": {"Type": "AWS::IAM::Role", "DeletionPolicy": "Retain", "Properties": {}},
		"TaskLogs": {"Type": "AWS::Logs::LogGroup", "DeletionPolicy": "RetainExceptOnCreate",
			"Properties": {"LogGroupName": {"Fn::Join": ["-", ["/aws/ecs/gatewright-dev-gateway", {"Ref": "AWS::StackId"}]]}}},
		"Queue": {"Type": "AWS::SQS::Queue", "Properties": {}},
		"Stage": {"Type": "AWS::ApiGateway::Stage", "Properties": {"AccessLogSetting": {"DestinationArn": "logs"}}},
		"LogWriter": {"Type": "AWS::ApiGateway::Account", "Properties": {}},
		"Budget": {"Type": "AWS::Budgets::Budget", "Properties": {}}
	}
}`

const issuedCertificate = `{"Certificate": {"Status": "ISSUED", "DomainName": "API.example.com", ` +
	`"SubjectAlternativeNames": ["API.example.com", "*.apis.example.com"]}}`

// readyAccount returns an account that is ready: the first deployment of fullTemplate succeeds.
func readyAccount() *fakeAccount {
	return &fakeAccount{
		accountSettings: limits(1000, 1000),
		parameters: map[string]string{
			"/cdk-bootstrap/hnb659fds/version":    "6",
			"/gatewright/dev/gateway-certificate": "sealed",
		},
		certificate: issuedCertificate,
		roles: `["AWSServiceRoleForSupport", "AWSServiceRoleForECS", ` +
			`"AWSServiceRoleForApplicationAutoScaling_ECSService"]`,
		logRole: `{"apiKeyVersion": "4"}`,
		errs:    map[string]error{},
	}
}

// addLeftover adds a resource with a status to the account's stack, and marks the stack as one whose creation failed.
func addLeftover(f *fakeAccount, status types.ResourceStatus, kind, logical, physical string) {
	f.status, f.protected = types.StackStatusRollbackFailed, true
	f.addResource(f.arn(), types.StackResourceSummary{
		ResourceType: &kind, LogicalResourceId: &logical,
		PhysicalResourceId: &physical, ResourceStatus: status,
	})
}

// addResource adds a resource to the stack with this ARN.
func (f *fakeAccount) addResource(stack string, r types.StackResourceSummary) {
	if f.stackResources == nil {
		f.stackResources = map[string][]types.StackResourceSummary{}
	}
	f.stackResources[stack] = append(f.stackResources[stack], r)
}

// preflightCase is a change of the account from readyAccount, and a part of the expected finding.
type preflightCase struct {
	change func(*fakeAccount)
	want   string
}

// accountCases returns cases with missing preconditions in the account.
func accountCases() map[string]preflightCase {
	return map[string]preflightCase{
		"no bootstrap stack": {
			func(f *fakeAccount) { delete(f.parameters, "/cdk-bootstrap/hnb659fds/version") },
			"the CDK has no bootstrap stack in eu-west-1 of this account (Parameter Store has no " +
				"/cdk-bootstrap/hnb659fds/version): type make bootstrap AWS_REGION=eu-west-1",
		},
		"an old bootstrap stack": {
			func(f *fakeAccount) { f.parameters["/cdk-bootstrap/hnb659fds/version"] = "5" },
			"the CDK's bootstrap stack in eu-west-1 of this account has version 5, and the templates need version 6: type " +
				"make bootstrap AWS_REGION=eu-west-1",
		},
		"a new account": {
			func(f *fakeAccount) { f.accountSettings = limits(10, 10) },
			"Lambda runs at most 10 calls at once for this account in eu-west-1, of which 10 are unreserved; functions would " +
				"reserve 446 more, and 100 have to stay unreserved: " +
				"type aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 " +
				"--desired-value 1000 --region eu-west-1, or set a lower concurrency in infra/stages/dev.json (0 reserves nothing)",
		},
		"too much concurrency reserved by other functions": {func(f *fakeAccount) {
			f.accountSettings = limits(1000, 545)
		}, "--desired-value 1001 --region eu-west-1"},
		"a service without a certificate": {
			func(f *fakeAccount) { delete(f.parameters, "/gatewright/dev/gateway-certificate") },
			"the service gateway has no certificate, without which its tasks do not start: keep one by make " +
				"service-certificate SERVICE=gateway STAGE=dev",
		},
		"no role of ECS": {
			func(f *fakeAccount) { f.roles = `["AWSServiceRoleForApplicationAutoScaling_ECSService"]` },
			"the account has no role AWSServiceRoleForECS, without which the first deployment of services fails: type aws iam " +
				"create-service-linked-role --aws-service-name ecs.amazonaws.com",
		},
		"no role of Application Auto Scaling": {
			func(f *fakeAccount) { f.roles = `["AWSServiceRoleForECS"]` },
			"type aws iam create-service-linked-role --aws-service-name ecs.application-autoscaling.amazonaws.com",
		},
		"log role of other APIs": {
			func(f *fakeAccount) { f.logRole = `{"cloudwatchRoleArn": "arn:aws:iam::000000000000:role/others"}` },
			`API Gateway writes the logs of all APIs of this account in eu-west-1 under the role ` +
				`arn:aws:iam::000000000000:role/others, which this deployment would replace: add the line "accessLogs": ` +
				`"account" to infra/stages/dev.json`,
		},
		"a region without budgets": {
			func(f *fakeAccount) {
				f.errs["cloudformation describe-type"] = errors.New("ask the AWS command line (aws cloudformation): exit status " +
					"254: An error occurred (TypeNotFoundException) when calling the DescribeType operation")
			}, "CloudFormation creates no budgets in eu-west-1: remove monthlyBudget from infra/stages/dev.json",
		},
	}
}

// certificateCases returns cases with unusable certificates of the domain names.
func certificateCases() map[string]preflightCase {
	const arn = "arn:aws:acm:eu-west-1:000000000000:certificate/c"
	const request = "type aws acm request-certificate --validation-method DNS --region eu-west-1 --domain-name " +
		"'api.example.com' --subject-alternative-names '*.apis.example.com', and set certificateArn in " +
		"infra/stages/dev.json to its ARN"
	certificate := func(text string) func(*fakeAccount) { return func(f *fakeAccount) { f.certificate = text } }
	return map[string]preflightCase{
		"no certificate": {
			func(f *fakeAccount) {
				f.errs["acm describe-certificate"] = errors.New("ask the AWS command line (aws acm): exit status 254: An error " +
					"occurred (ResourceNotFoundException) when calling the DescribeCertificate operation: Could not find " +
					"certificate " + arn)
			}, "ACM has no certificate " + arn + ": " + request,
		},
		"pending certificate": {
			certificate(`{"Certificate": {"Status": "PENDING_VALIDATION", "DomainName": "api.example.com"}}`),
			"the certificate " + arn + " is not issued yet: create the DNS records that aws acm describe-certificate " +
				"--certificate-arn " + arn + " --region eu-west-1 --query 'Certificate.DomainValidationOptions[].ResourceRecord' " +
				"prints, and deploy when aws acm wait certificate-validated --certificate-arn " +
				arn + " --region eu-west-1 has ended",
		},
		"expired certificate": {
			certificate(`{"Certificate": {"Status": "EXPIRED"}}`),
			"the certificate " + arn + " is EXPIRED, and API Gateway takes only one that is ISSUED: " + request,
		},
		"failed certificate": {
			certificate(`{"Certificate": {"Status": "VALIDATION_TIMED_OUT"}}`),
			"is VALIDATION_TIMED_OUT, and API Gateway",
		},
		"certificate of other names": {
			certificate(`{"Certificate": {"Status": "ISSUED", "SubjectAlternativeNames": ["example.com", "www.example.com"]}}`),
			"the certificate " + arn + " does not cover api.example.com: " + request,
		},
		"wildcard of a parent domain": {
			certificate(`{"Certificate": {"Status": "ISSUED", "SubjectAlternativeNames": ["*.example.com"]}}`),
			"does not cover *.apis.example.com: ",
		},
	}
}

// leftoverCases returns cases with resources that deleted or failed stacks have left.
func leftoverCases() map[string]preflightCase {
	return map[string]preflightCase{
		"a bucket of a deleted stack": {
			func(f *fakeAccount) { f.buckets = []string{"gatewright-dev-000000000000-eu-west-1"} },
			"the bucket gatewright-dev-000000000000-eu-west-1 exists, which this deployment would create, for example of a " +
				"stack that was deleted: move what is in it (docs/aws.md, A stack that was deleted), " +
				"empty it, old versions too, and type aws s3api delete-bucket --region eu-west-1 --bucket " +
				"gatewright-dev-000000000000-eu-west-1, or deploy another stage",
		},
		"logs of a deleted stack": {
			func(f *fakeAccount) {
				f.logs = []string{
					"/aws/lambda/gatewright-dev-rollup", "/aws/apigateway/gatewright-dev-api",
					"/aws/lambda/gatewright-dev-another", "/aws/lambda/gatewright-development-rollup",
				}
			},
			"CloudWatch Logs has 2 log groups that this deployment would create, for example of a stack that was deleted: " +
				"keep what you need of them, and type for name in /aws/apigateway/gatewright-dev-api " +
				"/aws/lambda/gatewright-dev-rollup; do aws logs delete-log-group " +
				"--region eu-west-1 --log-group-name $name; done, or deploy another stage",
		},
		"a bucket of the failed stack": {
			func(f *fakeAccount) {
				addLeftover(f, types.ResourceStatusDeleteFailed, "AWS::S3::Bucket", "Bucket",
					"gatewright-dev-000000000000-eu-west-1")
				f.buckets = []string{"gatewright-dev-000000000000-eu-west-1"}
			}, "the failed stack has left the AWS::S3::Bucket gatewright-dev-000000000000-eu-west-1, whose name the next one " +
				"needs: look at what is in it, empty it, old versions too, and type aws s3api delete-bucket --region eu-west-1 " +
				"--bucket gatewright-dev-000000000000-eu-west-1, and deploy again",
		},
	}
}

// TestPreflightFindingStopsTheDeployment checks that each finding is one line that says what to do, and that nothing
// was created.
func TestPreflightFindingStopsTheDeployment(t *testing.T) {
	cases := accountCases()
	maps.Copy(cases, certificateCases())
	maps.Copy(cases, leftoverCases())
	for name, tt := range cases {
		t.Run(name, func(t *testing.T) {
			f := readyAccount()
			tt.change(f)
			before := f.status
			steps, _, err := f.run(t, fullTemplate, false)
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
			if slices.Contains(f.operations, "UpdateTerminationProtection") {
				t.Error("UpdateTerminationProtection was called, want no change in the account")
			}
		})
	}
}

// TestInstallationWithoutLogRoleNeedsOne checks a template with access logs that sets no role: the account must have
// one, because API Gateway refuses the stage otherwise.
func TestInstallationWithoutLogRoleNeedsOne(t *testing.T) {
	template := strings.Replace(fullTemplate, "AWS::ApiGateway::Account", "AWS::SQS::Queue", 1)
	f := readyAccount()
	if steps, _, err := f.run(t, template, false); !errors.Is(err, errRefused) || steps != "synth" ||
		!strings.Contains(err.Error(),
			`API Gateway has no role in eu-west-1 under which it writes access logs: remove "accessLogs" from `+
				`infra/stages/dev.json`) {
		t.Errorf("deploy(no role) steps = %q, error %v, want synth, and \"API Gateway has no role in eu-west-1\"",
			steps, err)
	}
	f = readyAccount()
	f.logRole = `{"cloudwatchRoleArn": "arn:aws:iam::000000000000:role/others"}`
	if steps, _, err := f.run(t, template, false); err != nil || steps != "synth images deploy" {
		t.Errorf("deploy(with a role) steps = %q, error %v, want synth images deploy", steps, err)
	}
}

// TestAllFindingsAreReportedTogether checks that one run reports all findings.
func TestAllFindingsAreReportedTogether(t *testing.T) {
	f := &fakeAccount{accountSettings: limits(10, 10), certificate: `{"Certificate": {"Status": "FAILED"}}`, roles: `[]`}
	_, _, err := f.run(t, fullTemplate, false)
	if err == nil {
		t.Fatal("deploy() = nil, want a refusal")
	}
	// The bootstrap stack, the concurrency, the certificates of the domains and of the service, and two roles.
	if got, want := len(strings.Split(err.Error(), "\n")), 6; got != want {
		t.Errorf("error of deploy() has %d lines, want %d:\n%v", got, want, err)
	}
}

// TestReadyAccountIsDeployedTo checks that the checks do not refuse a deployment that AWS would accept.
func TestReadyAccountIsDeployedTo(t *testing.T) {
	for name, change := range map[string]func(*fakeAccount){
		"at the default quotas":   func(*fakeAccount) {},
		"just enough concurrency": func(f *fakeAccount) { f.accountSettings = limits(546, 546) },
		"a newer bootstrap stack": func(f *fakeAccount) { f.parameters["/cdk-bootstrap/hnb659fds/version"] = "31" },
		"wildcard that includes the API's domain": func(f *fakeAccount) {
			f.certificate = strings.ReplaceAll(issuedCertificate, "API.", "*.")
		},
		"log role of a failed deployment": func(f *fakeAccount) {
			f.logRole = `{"cloudwatchRoleArn": "arn:aws:iam::000000000000:role/gatewright-dev-LogWriterRole-Ab12Cd34"}`
		},
		"role that appears late": func(f *fakeAccount) {
			f.roles, f.laterReplies = `[]`, map[string]string{"iam list-roles": f.roles}
		},
		"certificate that appears late": func(f *fakeAccount) {
			f.certificate, f.laterReplies = `{"Certificate": {"Status": "PENDING_VALIDATION"}}`,
				map[string]string{"acm describe-certificate": issuedCertificate}
		},
		"a failed stack with a log": func(f *fakeAccount) {
			addLeftover(f, types.ResourceStatusDeleteSkipped, "AWS::Logs::LogGroup", "TaskLogs",
				"/aws/ecs/gatewright-dev-gateway-0123")
		},
		"a failed stack with a queue": func(f *fakeAccount) {
			addLeftover(f, types.ResourceStatusDeleteFailed, "AWS::SQS::Queue", "Queue", "q")
		},
		"a failed stack with a deleted bucket": func(f *fakeAccount) {
			addLeftover(f, types.ResourceStatusDeleteComplete, "AWS::S3::Bucket", "Bucket",
				"gatewright-dev-000000000000-eu-west-1")
		},
	} {
		f := readyAccount()
		change(f)
		if steps, output, err := f.run(t, fullTemplate, false); err != nil || steps != "synth images deploy" {
			t.Errorf("%s: steps = %q, error %v, want synth images deploy; output %q", name, steps, err, output)
		}
	}
}

// TestUnreadableChecksDoNotStopTheDeployment checks missing permissions, throttling and empty replies. An operator who
// is allowed to deploy need not be allowed to read everything.
func TestUnreadableChecksDoNotStopTheDeployment(t *testing.T) {
	denied := errors.New("ask the AWS command line: exit status 254:\nAn error occurred (AccessDenied) when calling " +
		"the operation")
	throttled := errors.New("operation error: exceeded maximum number of attempts, 3, https response error StatusCode: " +
		"429, TooManyRequestsException: Rate exceeded")
	operations := map[string]string{ // by the permission that they need
		"ssm:GetParameters": "ssm get-parameters", "lambda:GetAccountSettings": "GetAccountSettings",
		"acm:DescribeCertificate": "acm describe-certificate",
		"iam:ListRoles":           "iam list-roles", "cloudformation:ListStackResources": "ListStackResources",
		"apigateway:GET": "apigateway get-account", "s3:ListBucket, logs:DescribeLogGroups": "logs describe-log-groups",
		"cloudformation:DescribeType": "cloudformation describe-type",
	}
	empty := map[string]func(*fakeAccount){ // by the permission that the operation needs
		"ssm:GetParameters": func(f *fakeAccount) {
			f.parameters = map[string]string{"/cdk-bootstrap/hnb659fds/version": "", "/gatewright/dev/gateway-certificate": ""}
		},
		"lambda:GetAccountSettings": func(f *fakeAccount) { f.accountSettings = &lambda.GetAccountSettingsOutput{} },
		"acm:DescribeCertificate":   func(f *fakeAccount) { f.certificate = `{}` },
		"iam:ListRoles":             func(f *fakeAccount) { f.roles = `null` },
	}
	for _, c := range preconditions {
		if !strings.HasPrefix(c.docs, "https://docs.aws.amazon.com/") || c.subject == "" {
			t.Errorf("check %q has the documentation %q, want a subject and a page of AWS", c.subject, c.docs)
		}
		cases := map[string]func(*fakeAccount){
			"(AccessDenied) when calling": func(f *fakeAccount) { f.errs[operations[c.permission]] = denied },
			"TooManyRequestsException":    func(f *fakeAccount) { f.errs[operations[c.permission]] = throttled },
		}
		// The check of service certificates reads only the names of parameters, so empty values do not matter to it.
		if change := empty[c.permission]; change != nil && c.subject != "The certificate of services" {
			cases[map[bool]string{
				true:  "is no version",
				false: "the reply is empty",
			}[c.permission == "ssm:GetParameters"]] = change
		}
		for want, change := range cases {
			f := readyAccount()
			f.status, f.protected = types.StackStatusRollbackComplete, true
			change(f)
			steps, output, err := f.run(t, fullTemplate, false)
			if err != nil || steps != "synth images deploy" {
				t.Errorf("%s, %s: steps = %q, error %v, want synth images deploy", c.subject, want, steps, err)
			}
			line := c.subject + " could not be checked, which needs " + c.permission + " ("
			_, reason, reported := strings.Cut(output, line)
			reason, _, _ = strings.Cut(reason, "\n")
			if !reported || !strings.Contains(reason, want) || !strings.HasSuffix(reason, "). The deployment goes on.") {
				t.Errorf("%s: output = %q, want a line %q with %q", c.subject, output, line, want)
			}
		}
	}
}

// TestDeployedResourcesAreNotCheckedAgain checks that resources that are already deployed do not prevent the next
// deployment, and that unnecessary operations are not called.
func TestDeployedResourcesAreNotCheckedAgain(t *testing.T) {
	moreReserved := strings.Replace(fullTemplate, `"ReservedConcurrentExecutions": 6`,
		`"ReservedConcurrentExecutions": 16`, 1)
	for name, tt := range map[string]struct {
		template   string
		unreserved int32
		want       string // the called operations, or a part of the refusal
	}{
		"unchanged template":                              {fullTemplate, 0, "ssm get-parameters"},
		"ten more reserved calls":                         {moreReserved, 110, "GetAccountSettings ssm get-parameters"},
		"ten more reserved calls with a capacity of nine": {moreReserved, 109, "functions would reserve 10 more"},
		"new domain name": {
			strings.Replace(fullTemplate, `"api.example.com"`, `"api2.example.com"`, 1), 0,
			"does not cover api2.example.com",
		},
	} {
		f := readyAccount()
		f.status, f.template, f.accountSettings = types.StackStatusUpdateComplete, fullTemplate, limits(1000, tt.unreserved)
		_, _, err := f.run(t, tt.template, false, func(d *deployment) { d.allowedRemovals = []string{"apiDomain"} })
		var got string
		if err != nil {
			got = err.Error()
		} else {
			commands := map[string]bool{}
			for _, operation := range f.operations {
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

// TestReleaseHookNeedsConcurrency checks that the account has enough concurrency for the hook of releases, which calls
// all new versions at the same time. A new account may have a quota that is too low.
func TestReleaseHookNeedsConcurrency(t *testing.T) {
	const template = `{"Resources": {
		"A": {"Type": "AWS::Lambda::Function", "Properties": {}}, "B": {"Type": "AWS::Lambda::Function", "Properties": {}},
		"ALive": {"Type": "AWS::Lambda::Alias", "Properties": {},
			"UpdatePolicy": {"CodeDeployLambdaAliasUpdate": {"BeforeAllowTrafficHook": "gatewright-dev-releasecheck"}}},
		"BLive": {"Type": "AWS::Lambda::Alias", "Properties": {},
			"UpdatePolicy": {"CodeDeployLambdaAliasUpdate": {"BeforeAllowTrafficHook": "gatewright-dev-releasecheck"}}}}}`
	const shortage = `Lambda runs at most 3 calls at once for this account in eu-west-1, and a release needs 4, because ` +
		`a hook calls each new version before it gets traffic: add "canary": false to infra/stages/dev.json until the ` +
		`account has a higher quota`
	for name, tt := range map[string]struct {
		deployed, planned string
		limit             int32
		want              string
	}{
		"first deployment":       {"", template, 3, ""},
		"too little concurrency": {template, template, 3, shortage},
		"enough concurrency":     {template, template, 4, ""},
		"without a hook":         {template, strings.ReplaceAll(template, "BeforeAllowTrafficHook", "Other"), 3, ""},
		"functions with reserved concurrency": {
			strings.Replace(template, `"Properties": {}`,
				`"Properties": {"ReservedConcurrentExecutions": 1}`, 1),
			strings.Replace(template, `"Properties": {}`, `"Properties": {"ReservedConcurrentExecutions": 1}`, 1), 3, "",
		},
		"new alias": {strings.Replace(template, `"BLive"`, `"CLive"`, 1), template, 3, ""},
	} {
		f := readyAccount()
		f.accountSettings = limits(tt.limit, tt.limit)
		if tt.deployed != "" {
			f.status, f.template = types.StackStatusUpdateComplete, tt.deployed
		}
		_, output, err := f.run(t, tt.planned, false, func(d *deployment) { d.allowedRemovals = []string{"CLive"} })
		if (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("%s: deploy() = %v, want %q; output %q", name, err, tt.want, output)
		}
	}
}
