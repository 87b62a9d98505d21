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

// fake is an AWS account with one stack at most, and keeps the state of it as CloudFormation does.
type fake struct {
	// there is the region of the synthetic check, with its stack and its planned template, and was the region that had it before; nil for none.
	there, was      *fake
	region, planned string
	check           *checkServices
	// status is the stack's, "" for no stack, and id changes with each stack that is created.
	status    types.StackStatus
	id        int
	protected bool
	template  string
	// then takes the place of the template when it was read once.
	then string
	// left are the resources that ListStackResources returns, on pages of one, by the id of their stack.
	left map[string][]types.StackResourceSummary

	limit       *lambda.GetAccountSettingsOutput
	parameters  map[string]string
	certificate string
	roles       string
	// logRole is the role under which API Gateway writes logs, as get-account prints it.
	logRole string
	// buckets and logs are the names that exist.
	buckets, logs []string
	// later are replies of the AWS command line that take the place of the first ones, by the command: what AWS shows only after a while.
	later map[string]string
	// fails are the errors of operations, by the command or by the operation of CloudFormation and Lambda.
	fails map[string]error
	// asked are the operations that were called.
	asked []string
}

// called notes an operation, and returns the error that it is to have.
func (f *fake) called(operation string) error {
	f.asked = append(f.asked, operation)
	return f.fails[operation]
}

func (f *fake) arn() string {
	if f.region != "" {
		return fmt.Sprintf("arn:aws:cloudformation:%s:000000000000:stack/gatewright-dev-check/%d", f.region, f.id)
	}
	return fmt.Sprintf("arn:aws:cloudformation:eu-west-1:000000000000:stack/gatewright-dev/%d", f.id)
}

func (f *fake) DescribeStacks(context.Context, *cloudformation.DescribeStacksInput, ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error) {
	if err := f.called("DescribeStacks"); err != nil {
		return nil, err
	}
	if f.status == "" {
		return nil, &smithy.GenericAPIError{Code: "ValidationError", Message: "Stack with id gatewright-dev does not exist"}
	}
	id, protected := f.arn(), f.protected
	outputs := []types.Output{{OutputKey: aws.String("ApiAddress"), OutputValue: aws.String(apiAddress)}}
	return &cloudformation.DescribeStacksOutput{Stacks: []types.Stack{{StackId: &id, StackStatus: f.status, EnableTerminationProtection: &protected, Outputs: outputs}}}, nil
}

func (f *fake) GetTemplate(context.Context, *cloudformation.GetTemplateInput, ...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error) {
	text := f.template
	if f.then != "" {
		f.template = f.then
	}
	return &cloudformation.GetTemplateOutput{TemplateBody: &text}, f.called("GetTemplate")
}

func (f *fake) ListStackResources(_ context.Context, in *cloudformation.ListStackResourcesInput, _ ...func(*cloudformation.Options)) (*cloudformation.ListStackResourcesOutput, error) {
	if err := f.called("ListStackResources"); err != nil {
		return nil, err
	}
	at := 0
	if in.NextToken != nil {
		_, _ = fmt.Sscan(*in.NextToken, &at)
	}
	all := f.left[*in.StackName]
	if at >= len(all) {
		return &cloudformation.ListStackResourcesOutput{}, nil
	}
	next := fmt.Sprint(at + 1)
	return &cloudformation.ListStackResourcesOutput{StackResourceSummaries: all[at : at+1], NextToken: &next}, nil
}

func (f *fake) UpdateTerminationProtection(_ context.Context, in *cloudformation.UpdateTerminationProtectionInput, _ ...func(*cloudformation.Options)) (*cloudformation.UpdateTerminationProtectionOutput, error) {
	if err := f.called("UpdateTerminationProtection"); err != nil {
		return nil, err
	}
	if f.status == "" || *in.StackName != f.arn() {
		return nil, &smithy.GenericAPIError{Code: "ValidationError", Message: "Stack [" + *in.StackName + "] does not exist"}
	}
	f.protected = *in.EnableTerminationProtection
	return &cloudformation.UpdateTerminationProtectionOutput{StackId: in.StackName}, nil
}

func (f *fake) GetAccountSettings(context.Context, *lambda.GetAccountSettingsInput, ...func(*lambda.Options)) (*lambda.GetAccountSettingsOutput, error) {
	return f.limit, f.called("GetAccountSettings")
}

// ask is the AWS command line.
func (f *fake) ask(ctx context.Context, args ...string) (string, error) {
	command := strings.Join(args[:2], " ")
	if at := slices.Index(args, "--region"); at >= 0 {
		if other := f.in(args[at+1]); other != nil {
			return other.ask(ctx, args...)
		}
	}
	if f.region != "" && args[0] == "cloudformation" {
		return "", f.deletes(args[1:])
	}
	if err := f.called(command); err != nil {
		return "", err
	}
	if reply, is := f.later[command]; is && slices.Contains(f.asked[:len(f.asked)-1], command) {
		return reply, nil
	}
	switch command {
	case "ssm get-parameters":
		reply := struct {
			Parameters        []map[string]string
			InvalidParameters []string
		}{[]map[string]string{}, []string{}}
		for _, name := range args[slices.Index(args, "--names")+1 : slices.Index(args, "--output")] {
			if value, is := f.parameters[name]; is {
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
			return "", errors.New("ask the AWS command line (aws s3api): exit status 254: An error occurred (404) when calling the HeadBucket operation: Not Found")
		}
		return "", nil
	case "logs describe-log-groups":
		found := slices.DeleteFunc(slices.Clone(f.logs), func(name string) bool {
			return !strings.HasPrefix(name, args[slices.Index(args, "--log-group-name-prefix")+1])
		})
		text, err := json.Marshal(append([]string{}, found...))
		return string(text), err
	case "cloudformation describe-type":
		return `{"TypeName": "AWS::Budgets::Budget"}`, nil
	}
	return "", fmt.Errorf("nobody should call aws %s", command)
}

// create does what the CDK and CloudFormation do for cdk deploy. A stack whose creation failed is deleted first, and termination protection
// is on before anything is created.
func (f *fake) create(template string, protected, failing bool) error {
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
	case failing && f.template == "":
		f.status = types.StackStatusRollbackComplete
		return errors.New("The stack named gatewright-dev failed creation")
	case failing:
		f.status = types.StackStatusUpdateRollbackComplete
		return errors.New("The stack named gatewright-dev failed to deploy")
	}
	f.status, f.template = types.StackStatusUpdateComplete, template
	return nil
}

// run runs a deployment of a protected template with YES=1, and returns the steps that it took and all that it has said.
func (f *fake) run(t *testing.T, template string, failing bool, changes ...func(*deployment)) (steps, said string, err error) {
	t.Helper()
	return f.runs(t, deployment.deploy, template, failing, changes...)
}

// runs is run for something else that the command does.
func (f *fake) runs(t *testing.T, do func(deployment, context.Context) error, template string, failing bool, changes ...func(*deployment)) (steps, said string, err error) {
	t.Helper()
	var did []string
	var out bytes.Buffer
	dir := t.TempDir()
	step := func(name string) { did = append(did, name) }
	d := deployment{
		stage: "dev", yes: true, out: &out, app: "dist/stacks", output: dir, ask: f.ask,
		aws:    f.account,
		region: func(context.Context) (string, error) { return "eu-west-1", nil },
		images: func(context.Context) error { step("images"); return nil },
		cdk: func(_ context.Context, args ...string) error {
			step(args[0])
			switch args[0] {
			case "synth":
				second := ""
				if f.there != nil {
					second = `, "gatewright-dev-check": {"properties": {"templateFile": "c.json", "terminationProtection": true}}`
					writeFile(t, dir, "c.json", f.there.planned)
				}
				writeFile(t, dir, "manifest.json", `{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "t.json", "terminationProtection": true}}`+second+`}}`)
				writeFile(t, dir, "t.json", template)
			case "deploy":
				if !slices.Contains(args, "--exclusively") {
					t.Errorf("cdk %q deploys the stacks that another one needs as well", args)
				}
				if slices.Contains(args, "gatewright-dev-check") {
					return f.createCheck(args)
				}
				return f.create(template, true, failing)
			}
			return nil
		},
	}
	for _, change := range changes {
		change(&d)
	}
	err = do(d, t.Context())
	said = out.String()
	if err != nil {
		said += err.Error()
	}
	return strings.Join(did, " "), said, err
}

func writeFile(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
