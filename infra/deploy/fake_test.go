package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"
)

// fakeAccount fakes an AWS account in one region. It has at most one stack, and changes its state as CloudFormation
// does.
type fakeAccount struct {
	// checkAccount is the same account in the region of the synthetic check, nil for an installation without a check.
	// previousCheckAccount is the same account in the region that had the check before, or nil.
	checkAccount, previousCheckAccount *fakeAccount
	// region is the region of the check, "" for eu-west-1, the region of the installation. plannedTemplate is the
	// template that `cdk synth` writes for the check.
	region, plannedTemplate string
	// check has the services that only the check needs, nil for an installation without a check.
	check *checkServices
	// status is the status of the stack, "" for no stack. id changes with each stack that is created.
	status    types.StackStatus
	id        int
	protected bool
	template  string
	// nextTemplate replaces the template after the first read.
	nextTemplate string
	// stackResources has the resources that ListStackResources returns, by the ARN of their stack. Each page has one
	// resource.
	stackResources map[string][]types.StackResourceSummary

	accountSettings *lambda.GetAccountSettingsOutput
	parameters      map[string]string
	// certificate and roles are the outputs of `aws acm describe-certificate` and `aws iam list-roles`.
	certificate, roles string
	// logRole is the output of `aws apigateway get-account`, with the role under which API Gateway writes logs.
	logRole string
	// buckets and logs are the names of the existing buckets and log groups.
	buckets, logs []string
	// laterReplies has the outputs of the AWS command line from the second call of a command on. With it, a test can
	// make a new resource visible after a delay, as AWS does.
	laterReplies map[string]string
	// errs has the errors that operations return, by the command, or by the operation of CloudFormation or Lambda. With
	// an error for "create", the deployment of the check's stack fails.
	errs map[string]error
	// operations are the operations and commands that were called, in order.
	operations []string
}

// record records an operation, and returns its configured error.
func (f *fakeAccount) record(operation string) error {
	f.operations = append(f.operations, operation)
	return f.errs[operation]
}

// arn returns the ARN of the account's stack, which changes with each created stack.
func (f *fakeAccount) arn() string {
	if f.region != "" {
		return fmt.Sprintf("arn:aws:cloudformation:%s:000000000000:stack/gatewright-dev-check/%d", f.region, f.id)
	}
	return fmt.Sprintf("arn:aws:cloudformation:eu-west-1:000000000000:stack/gatewright-dev/%d", f.id)
}

func (f *fakeAccount) DescribeStacks(
	context.Context, *cloudformation.DescribeStacksInput, ...func(*cloudformation.Options),
) (*cloudformation.DescribeStacksOutput, error) {
	if err := f.record("DescribeStacks"); err != nil {
		return nil, err
	}
	if f.status == "" {
		return nil, &smithy.GenericAPIError{Code: "ValidationError", Message: "Stack with id gatewright-dev does not exist"}
	}
	id, protected := f.arn(), f.protected
	outputs := []types.Output{{OutputKey: aws.String("ApiAddress"), OutputValue: aws.String(apiAddress)}}
	return &cloudformation.DescribeStacksOutput{Stacks: []types.Stack{{
		StackId: &id, StackStatus: f.status,
		EnableTerminationProtection: &protected, Outputs: outputs,
	}}}, nil
}

func (f *fakeAccount) GetTemplate(
	context.Context, *cloudformation.GetTemplateInput, ...func(*cloudformation.Options),
) (*cloudformation.GetTemplateOutput, error) {
	text := f.template
	if f.nextTemplate != "" {
		f.template = f.nextTemplate
	}
	return &cloudformation.GetTemplateOutput{TemplateBody: &text}, f.record("GetTemplate")
}

func (f *fakeAccount) ListStackResources(
	_ context.Context, in *cloudformation.ListStackResourcesInput, _ ...func(*cloudformation.Options),
) (*cloudformation.ListStackResourcesOutput, error) {
	if err := f.record("ListStackResources"); err != nil {
		return nil, err
	}
	offset := 0
	if in.NextToken != nil {
		_, _ = fmt.Sscan(*in.NextToken, &offset)
	}
	all := f.stackResources[*in.StackName]
	if offset >= len(all) {
		return &cloudformation.ListStackResourcesOutput{}, nil
	}
	next := fmt.Sprint(offset + 1)
	return &cloudformation.ListStackResourcesOutput{StackResourceSummaries: all[offset : offset+1], NextToken: &next}, nil
}

func (f *fakeAccount) UpdateTerminationProtection(
	_ context.Context, in *cloudformation.UpdateTerminationProtectionInput, _ ...func(*cloudformation.Options),
) (*cloudformation.UpdateTerminationProtectionOutput, error) {
	if err := f.record("UpdateTerminationProtection"); err != nil {
		return nil, err
	}
	if f.status == "" || *in.StackName != f.arn() {
		return nil, &smithy.GenericAPIError{Code: "ValidationError", Message: "Stack [" + *in.StackName + "] does not exist"}
	}
	f.protected = *in.EnableTerminationProtection
	return &cloudformation.UpdateTerminationProtectionOutput{StackId: in.StackName}, nil
}

func (f *fakeAccount) GetAccountSettings(
	context.Context, *lambda.GetAccountSettingsInput, ...func(*lambda.Options),
) (*lambda.GetAccountSettingsOutput, error) {
	return f.accountSettings, f.record("GetAccountSettings")
}

// runAWS fakes the AWS command line: it returns the output of the command with these arguments.
func (f *fakeAccount) runAWS(ctx context.Context, args ...string) (string, error) {
	command := strings.Join(args[:2], " ")
	if i := slices.Index(args, "--region"); i >= 0 {
		if other := f.inRegion(args[i+1]); other != nil {
			return other.runAWS(ctx, args...)
		}
	}
	if f.region != "" && args[0] == "cloudformation" {
		return "", f.checkStackCommand(args[1:])
	}
	if err := f.record(command); err != nil {
		return "", err
	}
	if reply, ok := f.laterReplies[command]; ok && slices.Contains(f.operations[:len(f.operations)-1], command) {
		return reply, nil
	}
	switch command {
	case "ssm get-parameters":
		reply := struct {
			Parameters        []map[string]string
			InvalidParameters []string
		}{[]map[string]string{}, []string{}}
		for _, name := range args[slices.Index(args, "--names")+1 : slices.Index(args, "--output")] {
			if value, ok := f.parameters[name]; ok {
				reply.Parameters = append(reply.Parameters, map[string]string{"Name": name, "Value": value})
			} else {
				reply.InvalidParameters = append(reply.InvalidParameters, name)
			}
		}
		text, err := json.Marshal(reply)
		return string(text), err
	case "acm describe-certificate":
		return f.certificate, nil
	case "iam list-roles":
		return f.roles, nil
	case "apigateway get-account":
		return f.logRole, nil
	case "sts get-caller-identity":
		return `"000000000000"`, nil
	case "s3api head-bucket":
		if !slices.Contains(f.buckets, args[slices.Index(args, "--bucket")+1]) {
			return "", errors.New("ask the AWS command line (aws s3api): exit status 254: An error occurred (404) when " +
				"calling the HeadBucket operation: Not Found")
		}
		return "", nil
	case "logs describe-log-groups":
		names := slices.DeleteFunc(slices.Clone(f.logs), func(name string) bool {
			return !strings.HasPrefix(name, args[slices.Index(args, "--log-group-name-prefix")+1])
		})
		text, err := json.Marshal(append([]string{}, names...))
		return string(text), err
	case "cloudformation describe-type":
		return `{"TypeName": "AWS::Budgets::Budget"}`, nil
	}
	return "", fmt.Errorf("unexpected command: aws %s", command)
}

// deployStack fakes `cdk deploy`: it creates or updates the stack. Like the CDK, it first deletes a stack whose
// creation failed. It sets the termination protection before it creates or updates the stack.
func (f *fakeAccount) deployStack(template string, protected, fail bool) error {
	if f.status == types.StackStatusRollbackComplete || f.status == types.StackStatusRollbackFailed {
		if f.protected {
			return errors.New("Stack [gatewright-dev] cannot be deleted while TerminationProtection is enabled")
		}
		f.status = ""
	}
	if f.status == "" {
		f.id++
	}
	f.protected = protected
	switch {
	case fail && f.template == "":
		f.status = types.StackStatusRollbackComplete
		return errors.New("The stack named gatewright-dev failed creation")
	case fail:
		f.status = types.StackStatusUpdateRollbackComplete
		return errors.New("The stack named gatewright-dev failed to deploy")
	}
	f.status, f.template = types.StackStatusUpdateComplete, template
	return nil
}

// run runs a deployment of a protected stack with YES=1. It returns the steps that were executed, and the output
// followed by the error's text. If fail is true, CloudFormation fails to create or update the stack. changes modify the
// deployment first.
func (f *fakeAccount) run(
	t *testing.T, template string, fail bool, changes ...func(*deployment),
) (steps, output string, err error) {
	t.Helper()
	return f.runAction(t, deployment.deploy, template, fail, changes...)
}

// runAction is like run, but runs action in place of deployment.deploy.
func (f *fakeAccount) runAction(
	t *testing.T, action func(deployment, context.Context) error, template string, fail bool, changes ...func(*deployment),
) (steps, output string, err error) {
	t.Helper()
	var executed []string
	var out bytes.Buffer
	dir := t.TempDir()
	step := func(name string) { executed = append(executed, name) }
	d := deployment{
		stage: "dev", yes: true, out: &out, app: "dist/stacks", output: dir, runAWS: f.runAWS,
		connectAWS:   f.account,
		region:       func(context.Context) (string, error) { return "eu-west-1", nil },
		uploadImages: func(context.Context) error { step("images"); return nil },
		cdk: func(_ context.Context, args ...string) error {
			step(args[0])
			switch args[0] {
			case "synth":
				checkArtifact := ""
				if f.checkAccount != nil {
					checkArtifact = `, "gatewright-dev-check": {"properties": {"templateFile": "c.json", ` +
						`"terminationProtection": true}}`
					writeFile(t, dir, "c.json", f.checkAccount.plannedTemplate)
				}
				writeFile(t, dir, "manifest.json",
					`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "t.json", "terminationProtection": true}}`+
						checkArtifact+`}}`)
				writeFile(t, dir, "t.json", template)
			case "deploy":
				if !slices.Contains(args, "--exclusively") {
					t.Errorf("cdk %q deploys dependencies too, want --exclusively", args)
				}
				if slices.Contains(args, "gatewright-dev-check") {
					return f.createCheck(args)
				}
				return f.deployStack(template, true, fail)
			}
			return nil
		},
	}
	for _, change := range changes {
		change(&d)
	}
	err = action(d, t.Context())
	output = out.String()
	if err != nil {
		output += err.Error()
	}
	return strings.Join(executed, " "), output, err
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
