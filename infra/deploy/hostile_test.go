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

	"github.com/gatewright/gatewright/shared/testing/deadline"
)

const (
	// manifestFormat is the manifest of a synthesized app with the stack of a stage. otherApp is the template of a stack
	// that no user was shown.
	manifestFormat = `{"artifacts": {"gatewright-%s": {"properties": {"templateFile": "t.json"}}}}`
	otherApp       = `{"Resources": {"Other": {"Type": "AWS::SQS::Queue", ` +
		`"Properties": {"QueueName": "nobody-was-shown-this"}}}}`
)

// hookedReader is a Reader that calls beforeRead before its first read.
type hookedReader struct {
	beforeRead func()
	io.Reader
}

func (r *hookedReader) Read(p []byte) (int, error) {
	if r.beforeRead != nil {
		r.beforeRead()
		r.beforeRead = nil
	}
	return r.Reader.Read(p)
}

// TestTemplatesChangedDuringConfirmationAreNotDeployed changes the folder of the templates during the confirmation.
// make diff, make destroy, or make deploy of another stage in another terminal would do that.
func TestTemplatesChangedDuringConfirmationAreNotDeployed(t *testing.T) {
	for name, stage := range map[string]string{
		"make diff of an edited file": "dev",
		"make diff STAGE=production":  "production",
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAccount{status: types.StackStatusUpdateComplete, template: withACL}
			steps, output, err := f.run(t, withACL, false, func(d *deployment) {
				d.yes, d.terminal = false, true
				d.in = &hookedReader{Reader: strings.NewReader("yes\n"), beforeRead: func() {
					writeFile(t, d.output, "manifest.json", strings.ReplaceAll(manifestFormat, "%s", stage))
					writeFile(t, d.output, "t.json", otherApp)
				}}
			})
			if !errors.Is(err, errRefused) || strings.HasSuffix(steps, "deploy") {
				t.Errorf("deploy() = %v after %q, want a refusal: the templates in the folder are not those that were shown (%s)",
					err, steps, output)
			}
		})
	}
}

// TestConfirmationEndsWithItsContext checks that Ctrl-C and SIGTERM end the confirmation immediately. main cancels the
// context for both signals, so nothing else ends the process.
func TestConfirmationEndsWithItsContext(t *testing.T) {
	f := &fakeAccount{status: types.StackStatusUpdateComplete, template: withACL}
	var d deployment
	_, _, _ = f.run(t, withACL, false, func(src *deployment) { d = *src })
	ctx, cancel := context.WithCancel(t.Context())
	in, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	d.yes, d.terminal, d.in = false, true, &hookedReader{Reader: in, beforeRead: cancel}
	done := make(chan error, 1)
	go func() { done <- d.deploy(ctx) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("deploy() = nil, want an error")
		}
	case <-time.After(deadline.Timeout()):
		t.Error("deploy() still waits for the confirmation after its context has ended, want it to return")
	}
}

// nestedFake is an account whose root stack still lists a deleted nested stack, as CloudFormation does after an update
// that was rolled back.
type nestedFake struct {
	*fakeAccount
	expired bool // the nested stack was deleted more than 90 days ago
}

// GetTemplate returns the template of a nested stack, which CloudFormation keeps for 90 days after a deletion, or of
// the account's own stack.
func (f nestedFake) GetTemplate(
	_ context.Context, in *cloudformation.GetTemplateInput, _ ...func(*cloudformation.Options),
) (*cloudformation.GetTemplateOutput, error) {
	switch id := aws.ToString(in.StackName); {
	case strings.HasSuffix(id, "/alarms"):
		return &cloudformation.GetTemplateOutput{
			TemplateBody: aws.String(`{"Resources": {"A": {"Type": "AWS::SNS::Topic"}}}`),
		}, nil
	case strings.HasSuffix(id, "/relay") && f.expired:
		return nil, errors.New("ValidationError: Stack with id arn:…/relay does not exist")
	case strings.HasSuffix(id, "/relay"):
		return &cloudformation.GetTemplateOutput{
			TemplateBody: aws.String(
				`{"Resources": {"Balancer": {"Type": "AWS::ElasticLoadBalancingV2::LoadBalancer"}, ` +
					`"Service": {"Type": "AWS::ECS::Service"}}}`),
		}, nil
	}
	return f.fakeAccount.GetTemplate(context.Background(), in)
}

// TestDeletedNestedStackIsIgnored checks a deployment after an update that added a relay, failed, and was rolled back:
// the deleted relay must not count as a removal.
func TestDeletedNestedStackIsIgnored(t *testing.T) {
	const root = `{"Resources": {"Alarms": {"Type": "AWS::CloudFormation::Stack", ` +
		`"Metadata": {"aws:asset:path": "alarms.json"}}}}`
	for name, expired := range map[string]bool{"less than 90 days ago": false, "more than 90 days ago": true} {
		t.Run(name, func(t *testing.T) {
			f := &fakeAccount{status: types.StackStatusUpdateRollbackComplete, template: root}
			summary := func(logical, physical string, status types.ResourceStatus) {
				kind := "AWS::CloudFormation::Stack"
				f.addResource(f.arn(), types.StackResourceSummary{
					ResourceType: &kind, LogicalResourceId: &logical,
					PhysicalResourceId: &physical, ResourceStatus: status,
				})
			}
			summary("Alarms", "arn:aws:cloudformation:eu-west-1:000000000000:stack/a/alarms", types.ResourceStatusCreateComplete)
			summary("Relay", "arn:aws:cloudformation:eu-west-1:000000000000:stack/r/relay", types.ResourceStatusDeleteComplete)
			steps, _, err := f.run(t, root, false, func(d *deployment) {
				writeFile(t, d.output, "alarms.json", `{"Resources": {"A": {"Type": "AWS::SNS::Topic"}}}`)
				d.connectAWS = func(context.Context, string) (account, error) {
					return account{stacks: nestedFake{f, expired}, functions: f}, nil
				}
			})
			if err != nil || steps != "synth diff deploy" {
				t.Errorf("deploy() = %v after %q, want a deployment: the nested stack Relay is deleted, and the template "+
					"does not have it", err, steps)
			}
		})
	}
}

// TestFindingIsReportedWhenItsCheckFailsLater checks that an existing bucket stops the deployment even if the same
// check cannot list log groups.
func TestFindingIsReportedWhenItsCheckFailsLater(t *testing.T) {
	f := readyAccount()
	f.buckets = []string{"gatewright-dev-000000000000-eu-west-1"}
	f.errs["logs describe-log-groups"] = errors.New("ask the AWS command line (aws logs): exit status 254: An error " +
		"occurred (AccessDeniedException) when calling the DescribeLogGroups operation: no")
	steps, output, err := f.run(t, fullTemplate, false)
	if !errors.Is(err, errRefused) ||
		!strings.Contains(output, "the bucket gatewright-dev-000000000000-eu-west-1 exists") {
		t.Errorf("deploy() = %v after %q, want a refusal that names the bucket: %s", err, steps, output)
	}
}

// TestFindingIsReportedWhenTheSecondReadFails checks that a finding stops the deployment even if AWS throttles the read
// that should verify it again.
func TestFindingIsReportedWhenTheSecondReadFails(t *testing.T) {
	f := readyAccount()
	f.certificate = `{"Certificate": {"Status": "EXPIRED", "DomainName": "api.example.com"}}`
	steps, output, err := f.run(t, fullTemplate, false, func(d *deployment) {
		runAWS, calls := d.runAWS, 0
		d.runAWS = func(ctx context.Context, args ...string) (string, error) {
			if args[0] == "acm" {
				if calls++; calls == 2 {
					return "", errors.New("ask the AWS command line (aws acm): exit status 254: An error occurred " +
						"(ThrottlingException) when calling the DescribeCertificate operation: Rate exceeded")
				}
			}
			return runAWS(ctx, args...)
		}
	})
	if !errors.Is(err, errRefused) {
		t.Errorf("deploy() = %v after %q, want a refusal: %s", err, steps, output)
	}
}

// TestForbiddenBucketIsNoFinding checks that status 403 does not stop the deployment. S3 returns it to callers without
// the permission s3:ListBucket, even for a bucket that does not exist. The policy of a VPC endpoint can also cause it.
// "If you may not read something, one line says so and the deployment goes on" (docs/aws.md).
func TestForbiddenBucketIsNoFinding(t *testing.T) {
	f := readyAccount()
	f.errs["s3api head-bucket"] = errors.New("ask the AWS command line (aws s3api): exit status 254: An error occurred " +
		"(403) when calling the HeadBucket operation: Forbidden")
	steps, output, err := f.run(t, fullTemplate, false)
	if err != nil || !strings.Contains(output, "could not be checked, which needs s3:ListBucket") {
		t.Errorf("deploy() = %v after %q, want a deployment that says what could not be checked: %s", err, steps, output)
	}
}

// TestDeployedLogRoleIsNotCheckedAgain deploys a template with access logs again, although API Gateway has no role for
// them. docs/aws.md says: "Of what is already deployed, only the bootstrap stack and the certificates of services are
// checked again".
func TestDeployedLogRoleIsNotCheckedAgain(t *testing.T) {
	const deployedTemplate = `{"Resources": {"Stage": {"Type": "AWS::ApiGateway::Stage", ` +
		`"Properties": {"AccessLogSetting": {"DestinationArn": "logs"}}}}}`
	f := readyAccount()
	f.status, f.template, f.protected = types.StackStatusUpdateComplete, deployedTemplate, true
	steps, output, err := f.run(t, deployedTemplate, false)
	if err != nil {
		t.Errorf("deploy() = %v after %q, want a deployment, since the stack already has access logs: %s", err, steps, output)
	}
}

// TestPausedStackIsRefusedBeforeUploads checks stacks that the CDK updates only after a rollback. The CDK would prompt
// for the rollback, but its input is not a terminal here.
func TestPausedStackIsRefusedBeforeUploads(t *testing.T) {
	for _, status := range []types.StackStatus{
		types.StackStatusCreateFailed, types.StackStatusUpdateFailed,
		types.StackStatusUpdateRollbackFailed,
	} {
		f := &fakeAccount{status: status, template: serviceTemplate, protected: true}
		steps, _, err := f.run(t, serviceTemplate, false)
		if !errors.Is(err, errRefused) || steps != "synth" {
			t.Errorf("%s: deploy() = %v after %q, want a refusal after synth", status, err, steps)
		}
	}
}

// TestSuggestedCommandsNameTheRegion checks that each command of a regional service in a finding has --region: make
// deploy AWS_REGION=eu-central-1, as in docs/aws.md, sets no variable in the user's shell. Without --region, the
// command would run in another region, where a healthy installation can have a stack and logs with the same names.
func TestSuggestedCommandsNameTheRegion(t *testing.T) {
	for name, setUp := range map[string]func(*fakeAccount){
		"a stack that could not be deleted": func(f *fakeAccount) { f.status = types.StackStatusDeleteFailed },
		"log of a failed stack": func(f *fakeAccount) {
			addLeftover(f, types.ResourceStatusDeleteFailed, logGroupType, "RollupLogs", "/aws/lambda/gatewright-dev-rollup")
		},
		"table of a failed stack": func(f *fakeAccount) {
			addLeftover(f, types.ResourceStatusDeleteFailed, "AWS::DynamoDB::Table", "Table", "gatewright-dev-Table-1")
		},
		"protection that cannot be disabled": func(f *fakeAccount) {
			f.status, f.protected = types.StackStatusRollbackComplete, true
			f.errs["UpdateTerminationProtection"] = errors.New("AccessDenied")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := readyAccount()
			setUp(f)
			_, output, _ := f.run(t, fullTemplate, false)
			commands := regexp.MustCompile(`aws (cloudformation|logs|dynamodb|kms|apigateway) [a-z-]+[^,&]*`).
				FindAllString(output, -1)
			if len(commands) == 0 {
				t.Errorf("deploy() output = %q, want a command in it", output)
			}
			for _, command := range commands {
				if !strings.Contains(command, "--region eu-west-1") {
					t.Errorf("suggested command %q, want one with --region eu-west-1", command)
				}
			}
		})
	}
}

// TestProfileOnlyForTheCDKIsRefused checks that a profile that only the CDK uses is refused, because the checks would
// use another account.
func TestProfileOnlyForTheCDKIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		env  map[string]string
		file string // content of ~/.cdk.json
		want string // a part of the error, "" for none
	}{
		"no profile":                     {},
		"a file without a profile":       {file: `{"app": "x"}`},
		"the profile of the environment": {env: map[string]string{"AWS_PROFILE": "work"}, file: `{"profile": "work"}`},
		"another profile": {
			env: map[string]string{"AWS_PROFILE": "home"}, file: `{"profile": "work"}`,
			want: ".cdk.json names the profile work",
		},
		"profile and keys in the environment": {
			env:  map[string]string{"AWS_PROFILE": "work", "AWS_ACCESS_KEY_ID": "id"},
			file: `{"profile": "work"}`, want: "names the profile work",
		},
		"profile in a variable of the CDK": {
			env:  map[string]string{"CDK_PROFILE": "work"},
			want: "CDK_PROFILE names the profile work",
		},
		"a file that is not JSON": {file: `profile: work`, want: "read the settings of the CDK"},
	} {
		home := t.TempDir()
		if tt.file != "" {
			writeFile(t, home, ".cdk.json", tt.file)
		}
		err := checkProfile(func(name string) string { return tt.env[name] }, home)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: checkProfile() = %v, want an error with %q, or none if it is empty", name, err, tt.want)
		}
	}
}

// TestMissingInstallationIsNotDestroyed checks that destroying a missing installation is an error. The CDK would report
// success, while the intended installation continues in another region. The parameter of a check is deleted unless the
// stack of the check exists.
func TestMissingInstallationIsNotDestroyed(t *testing.T) {
	const notFound = "there is no gatewright-dev in eu-west-1 of this AWS account"
	for name, tt := range map[string]struct {
		newFake      func() *fakeAccount
		want         string
		hasParameter bool // the parameter of the check still exists after the call
	}{
		"no stack": {func() *fakeAccount { return &fakeAccount{} }, notFound, false},
		"parameter of a check": {func() *fakeAccount {
			f := newFakeWithCheck()
			f.check.parameters[checkKey] = ssm.PutParameterInput{}
			return f
		}, notFound, false},
		"check in another region": {func() *fakeAccount {
			f := newFakeWithCheck()
			f.check.parameters[checkKey] = ssm.PutParameterInput{}
			f.checkAccount.status = types.StackStatusCreateComplete
			return f
		}, notFound + ": check STAGE, AWS_REGION and AWS_PROFILE. There is a gatewright-dev-check in " + checkRegion, true},
	} {
		f := tt.newFake()
		template := withACL
		if f.checkAccount != nil {
			template = checkedTemplate
		}
		steps, _, err := f.runAction(t, deployment.destroy, template, false)
		if !errors.Is(err, errRefused) || steps != "synth" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: destroy() = %v after %q, want a refusal after synth with %q", name, err, steps, tt.want)
		}
		if f.check != nil {
			if _, hasParameter := f.check.parameters[checkKey]; hasParameter != tt.hasParameter {
				t.Errorf("%s: the parameter exists after destroy(): %v, want %v", name, hasParameter, tt.hasParameter)
			}
		}
	}
}
