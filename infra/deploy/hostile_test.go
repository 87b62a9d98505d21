package main

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/gatewright/gatewright/internal/deadline"
)

const (
	manifestOf = `{"artifacts": {"gatewright-%s": {"properties": {"templateFile": "t.json"}}}}`
	otherApp   = `{"Resources": {"Other": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": "nobody-was-shown-this"}}}}`
)

// asking runs something when the answer to the question is read.
type asking struct {
	meanwhile func()
	io.Reader
}

func (a *asking) Read(p []byte) (int, error) {
	if a.meanwhile != nil {
		a.meanwhile()
		a.meanwhile = nil
	}
	return a.Reader.Read(p)
}

// TestTemplatesThatSomebodyElseHasWrittenAreNotDeployed: make diff of another terminal writes the same folder while this one waits for its answer, and
// so does make destroy, and make deploy of another stage.
func TestTemplatesThatSomebodyElseHasWrittenAreNotDeployed(t *testing.T) {
	for name, stage := range map[string]string{"make diff of an edited file": "dev", "make diff STAGE=production": "production"} {
		t.Run(name, func(t *testing.T) {
			f := &fake{status: types.StackStatusUpdateComplete, template: with}
			steps, said, err := f.run(t, with, false, func(d *deployment) {
				d.yes, d.terminal = false, true
				d.in = &asking{Reader: strings.NewReader("yes\n"), meanwhile: func() {
					writeFile(t, d.output, "manifest.json", strings.ReplaceAll(manifestOf, "%s", stage))
					writeFile(t, d.output, "t.json", otherApp)
				}}
			})
			if !errors.Is(err, errRefused) || strings.HasSuffix(steps, "deploy") {
				t.Errorf("deploy() = %v after %q, want a refusal: the templates in the folder are not those that were shown (%s)", err, steps, said)
			}
		})
	}
}

// TestQuestionEndsWithTheProcess: Ctrl-C at the question, and SIGTERM, end it at once. main has both end a context, so that the process ends by nothing else.
func TestQuestionEndsWithTheProcess(t *testing.T) {
	f := &fake{status: types.StackStatusUpdateComplete, template: with}
	var d deployment
	_, _, _ = f.run(t, with, false, func(of *deployment) { d = *of })
	ctx, cancel := context.WithCancel(t.Context())
	in, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	d.yes, d.terminal, d.in = false, true, &asking{Reader: in, meanwhile: cancel}
	done := make(chan error, 1)
	go func() { done <- d.deploy(ctx) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("deploy() = nil, want an error")
		}
	case <-time.After(deadline.Long()):
		t.Error("the question still waits for an answer after its context has ended")
	}
}

// nestedFake is an account whose root stack still lists a nested stack that CloudFormation has deleted, as ListStackResources does after an update that
// was rolled back.
type nestedFake struct {
	*fake
	gone bool // the deleted stack is older than 90 days
}

func (f nestedFake) GetTemplate(_ context.Context, in *cloudformation.GetTemplateInput, _ ...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error) {
	switch id := aws.ToString(in.StackName); {
	case strings.HasSuffix(id, "/alarms"):
		return &cloudformation.GetTemplateOutput{TemplateBody: aws.String(`{"Resources": {"A": {"Type": "AWS::SNS::Topic"}}}`)}, nil
	case strings.HasSuffix(id, "/relay") && f.gone:
		return nil, errors.New("ValidationError: Stack with id arn:…/relay does not exist")
	case strings.HasSuffix(id, "/relay"):
		return &cloudformation.GetTemplateOutput{TemplateBody: aws.String(`{"Resources": {"Balancer": {"Type": "AWS::ElasticLoadBalancingV2::LoadBalancer"}, "Service": {"Type": "AWS::ECS::Service"}}}`)}, nil
	}
	return f.fake.GetTemplate(context.Background(), in)
}

// TestNestedStackThatIsGoneIsNotDeployed: an update that added a relay failed and was rolled back. Nothing of the relay is there.
func TestNestedStackThatIsGoneIsNotDeployed(t *testing.T) {
	const root = `{"Resources": {"Alarms": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "alarms.json"}}}}`
	for name, gone := range map[string]bool{"lately": false, "more than 90 days ago": true} {
		t.Run(name, func(t *testing.T) {
			f := &fake{status: types.StackStatusUpdateRollbackComplete, template: root}
			summary := func(logical, physical string, status types.ResourceStatus) {
				kind := "AWS::CloudFormation::Stack"
				f.leave(f.arn(), types.StackResourceSummary{ResourceType: &kind, LogicalResourceId: &logical, PhysicalResourceId: &physical, ResourceStatus: status})
			}
			summary("Alarms", "arn:aws:cloudformation:eu-west-1:000000000000:stack/a/alarms", types.ResourceStatusCreateComplete)
			summary("Relay", "arn:aws:cloudformation:eu-west-1:000000000000:stack/r/relay", types.ResourceStatusDeleteComplete)
			steps, _, err := f.run(t, root, false, func(d *deployment) {
				writeFile(t, d.output, "alarms.json", `{"Resources": {"A": {"Type": "AWS::SNS::Topic"}}}`)
				d.aws = func(context.Context, string) (account, error) {
					return account{stacks: nestedFake{f, gone}, functions: f}, nil
				}
			})
			if err != nil || steps != "synth diff deploy" {
				t.Errorf("deploy() = %v after %q, want a deployment: the nested stack Relay is deleted, and the template does not have it", err, steps)
			}
		})
	}
}

// TestFindingIsKeptWhenTheRestOfItsCheckFails: a bucket that is certainly there stops the deployment, whether or not log groups may be listed.
func TestFindingIsKeptWhenTheRestOfItsCheckFails(t *testing.T) {
	f := ready()
	f.buckets = []string{"gatewright-dev-000000000000-eu-west-1"}
	f.fails["logs describe-log-groups"] = errors.New("ask the AWS command line (aws logs): exit status 254: An error occurred (AccessDeniedException) when calling the DescribeLogGroups operation: no")
	steps, said, err := f.run(t, whole, false)
	if !errors.Is(err, errRefused) || !strings.Contains(said, "the bucket gatewright-dev-000000000000-eu-west-1 exists") {
		t.Errorf("deploy() = %v after %q, want a refusal that names the bucket: %s", err, steps, said)
	}
}

// TestFindingIsKeptWhenItCannotBeReadAgain: what was found is not nothing because AWS throttles the second question.
func TestFindingIsKeptWhenItCannotBeReadAgain(t *testing.T) {
	f := ready()
	f.certificate = `{"Certificate": {"Status": "EXPIRED", "DomainName": "api.example.com"}}`
	steps, said, err := f.run(t, whole, false, func(d *deployment) {
		ask, asked := d.ask, 0
		d.ask = func(ctx context.Context, args ...string) (string, error) {
			if args[0] == "acm" {
				if asked++; asked == 2 {
					return "", errors.New("ask the AWS command line (aws acm): exit status 254: An error occurred (ThrottlingException) when calling the DescribeCertificate operation: Rate exceeded")
				}
			}
			return ask(ctx, args...)
		}
	})
	if !errors.Is(err, errRefused) {
		t.Errorf("deploy() = %v after %q, want a refusal: %s", err, steps, said)
	}
}

// TestForbiddenBucketIsNoFinding: 403 is what who has no s3:ListBucket gets, also by the policy of a VPC endpoint and also of a bucket that there is not.
// "If you may not read something, one line says so and the deployment goes on" (docs/aws.md).
func TestForbiddenBucketIsNoFinding(t *testing.T) {
	f := ready()
	f.fails["s3api head-bucket"] = errors.New("ask the AWS command line (aws s3api): exit status 254: An error occurred (403) when calling the HeadBucket operation: Forbidden")
	steps, said, err := f.run(t, whole, false)
	if err != nil || !strings.Contains(said, "could not be checked, which needs s3:ListBucket") {
		t.Errorf("deploy() = %v after %q, want a deployment that says what could not be checked: %s", err, steps, said)
	}
}

// TestRoleForLogsIsNotCheckedOfWhatIsDeployed: "Of what is already deployed, only the bootstrap stack and the certificates of services are checked
// again" (docs/aws.md).
func TestRoleForLogsIsNotCheckedOfWhatIsDeployed(t *testing.T) {
	const account = `{"Resources": {"Stage": {"Type": "AWS::ApiGateway::Stage", "Properties": {"AccessLogSetting": {"DestinationArn": "logs"}}}}}`
	f := ready()
	f.status, f.template, f.protected = types.StackStatusUpdateComplete, account, true
	steps, said, err := f.run(t, account, false)
	if err != nil {
		t.Errorf("deploy() = %v after %q, want a deployment of what has access logs already: %s", err, steps, said)
	}
}

// TestStackThatIsPausedIsRefusedBeforeAnythingIsUploaded: the CDK does not update these without a rollback first, which it asks for at a terminal that it
// does not have here.
func TestStackThatIsPausedIsRefusedBeforeAnythingIsUploaded(t *testing.T) {
	for _, status := range []types.StackStatus{types.StackStatusCreateFailed, types.StackStatusUpdateFailed, types.StackStatusUpdateRollbackFailed} {
		f := &fake{status: status, template: serving, protected: true}
		steps, _, err := f.run(t, serving, false)
		if !errors.Is(err, errRefused) || steps != "synth" {
			t.Errorf("%s: deploy() = %v after %q, want a refusal after synth that says how to roll it back", status, err, steps)
		}
	}
}

// TestCommandsToTypeNameTheRegion: make deploy AWS_REGION=eu-central-1, as docs/aws.md has it, sets no variable of the shell in which the command of a finding is
// typed. Without --region it acts in another region, where a healthy installation has the same names: its stack, and the logs of its functions.
func TestCommandsToTypeNameTheRegion(t *testing.T) {
	for name, of := range map[string]func(*fake){
		"a stack that could not be deleted": func(f *fake) { f.status = types.StackStatusDeleteFailed },
		"a log that a failed stack has left": func(f *fake) {
			remaining(f, types.ResourceStatusDeleteFailed, logGroupType, "RollupLogs", "/aws/lambda/gatewright-dev-rollup")
		},
		"a table that a failed stack has left": func(f *fake) {
			remaining(f, types.ResourceStatusDeleteFailed, "AWS::DynamoDB::Table", "Table", "gatewright-dev-Table-1")
		},
		"protection that cannot be switched off": func(f *fake) {
			f.status, f.protected = types.StackStatusRollbackComplete, true
			f.fails["UpdateTerminationProtection"] = errors.New("AccessDenied")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := ready()
			of(f)
			_, said, _ := f.run(t, whole, false)
			for _, command := range regexp.MustCompile(`aws (cloudformation|logs|dynamodb|kms|apigateway) [a-z-]+[^,&]*`).FindAllString(said, -1) {
				if !strings.Contains(command, "--region eu-west-1") {
					t.Errorf("%q names no region", command)
				}
			}
		})
	}
}

// TestProfileOfTheCDKAloneIsRefused: the checks would be about one account, and the CDK would deploy into another.
func TestProfileOfTheCDKAloneIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		file string // ~/.cdk.json
		want string // in the error, "" for none
	}{
		"no profile":                     {},
		"a file without a profile":       {file: `{"app": "x"}`},
		"the profile of the environment": {env: map[string]string{"AWS_PROFILE": "work"}, file: `{"profile": "work"}`},
		"another profile":                {env: map[string]string{"AWS_PROFILE": "home"}, file: `{"profile": "work"}`, want: ".cdk.json names the profile work"},
		"a profile, and keys":            {env: map[string]string{"AWS_PROFILE": "work", "AWS_ACCESS_KEY_ID": "id"}, file: `{"profile": "work"}`, want: "names the profile work"},
		"a variable of the CDK":          {env: map[string]string{"CDK_PROFILE": "work"}, want: "CDK_PROFILE names the profile work"},
		"a file that is not JSON":        {file: `profile: work`, want: "read the settings of the CDK"},
	} {
		home := t.TempDir()
		if tt.file != "" {
			writeFile(t, home, ".cdk.json", tt.file)
		}
		err := sameProfile(func(name string) string { return tt.env[name] }, home)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: sameProfile() = %v, want %q", name, err, tt.want)
		}
	}
}

// TestInstallationThatDoesNotExistIsNotDestroyed: the CDK says that it is destroyed, and the one that was meant goes on in another region.
func TestInstallationThatDoesNotExistIsNotDestroyed(t *testing.T) {
	const none = "there is no gatewright-dev in eu-west-1 of this AWS account"
	for name, tt := range map[string]struct {
		of   func() *fake
		want string
		kept bool // whether the parameter of the check stays
	}{
		"nothing":                  {func() *fake { return &fake{} }, none, false},
		"the parameter of a check": {func() *fake { f := withCheck(); f.check.parameters[checkKey] = ssm.PutParameterInput{}; return f }, none, false},
		"the check of another's region": {func() *fake {
			f := withCheck()
			f.check.parameters[checkKey] = ssm.PutParameterInput{}
			f.there.status = types.StackStatusCreateComplete
			return f
		}, none + ": check STAGE, AWS_REGION and AWS_PROFILE. There is a gatewright-dev-check in " + checkRegion, true},
	} {
		f := tt.of()
		template := with
		if f.there != nil {
			template = checked
		}
		steps, _, err := f.runs(t, deployment.destroy, template, false)
		if !errors.Is(err, errRefused) || steps != "synth" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: destroy() = %v after %q, want a refusal after synth with %q", name, err, steps, tt.want)
		}
		if f.check != nil {
			if _, kept := f.check.parameters[checkKey]; kept != tt.kept {
				t.Errorf("%s: the parameter is there: %v, want %v", name, kept, tt.kept)
			}
		}
	}
}
