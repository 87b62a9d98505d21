package removals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"
)

// nested is the type of a stack within a stack.
const nested = "AWS::CloudFormation::Stack"

// CloudFormation is what is asked of AWS.
type CloudFormation interface {
	DescribeStacks(context.Context, *cloudformation.DescribeStacksInput, ...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error)
	GetTemplate(context.Context, *cloudformation.GetTemplateInput, ...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error)
	ListStackResources(context.Context, *cloudformation.ListStackResourcesInput, ...func(*cloudformation.Options)) (*cloudformation.ListStackResourcesOutput, error)
}

var _ CloudFormation = (*cloudformation.Client)(nil)

// ErrBusy is the error of a stack that somebody changes at the moment.
var ErrBusy = errors.New("the stack is being changed: wait until that has ended")

// ErrUndeleted is the error of a stack whose deletion failed, which CloudFormation does not update.
var ErrUndeleted = errors.New("CloudFormation could not delete all of it, and does not update it")

// ErrPaused is the error of a stack whose update or creation has stopped before its end. CloudFormation does not update it before it is rolled back.
var ErrPaused = errors.New("CloudFormation has stopped before its end, and does not update it")

// Deployed reads the stack of a name from AWS. A stack that does not exist, or whose creation failed, has no templates. The error is ErrBusy while the stack
// changes, ErrUndeleted if its deletion failed, and ErrPaused if it has to be rolled back first.
func Deployed(ctx context.Context, of CloudFormation, name string) (Stack, error) {
	out := Stack{Templates: map[string]Template{}}
	stacks, err := describe(ctx, of, name)
	if err != nil || len(stacks) == 0 {
		return out, err
	}
	stack := stacks[0]
	switch {
	case stack.StackStatus == types.StackStatusReviewInProgress, stack.StackStatus == types.StackStatusDeleteComplete:
		return out, nil // nothing was made, or all of it is gone
	case stack.StackStatus == types.StackStatusRollbackComplete, stack.StackStatus == types.StackStatusRollbackFailed:
		out.Failed = &Failed{ID: aws.ToString(stack.StackId), Status: string(stack.StackStatus), Protected: aws.ToBool(stack.EnableTerminationProtection)}
		return out, nil
	case stack.StackStatus == types.StackStatusDeleteFailed:
		return out, fmt.Errorf("%s is %s: %w", name, stack.StackStatus, ErrUndeleted)
	case slices.Contains([]types.StackStatus{types.StackStatusCreateFailed, types.StackStatusUpdateFailed, types.StackStatusUpdateRollbackFailed}, stack.StackStatus):
		return out, fmt.Errorf("%s is %s: %w", name, stack.StackStatus, ErrPaused)
	case strings.HasSuffix(string(stack.StackStatus), "_IN_PROGRESS"):
		return out, fmt.Errorf("%s is %s: %w", name, stack.StackStatus, ErrBusy)
	}
	out.Protected = aws.ToBool(stack.EnableTerminationProtection)
	return out, out.read(ctx, of, aws.ToString(stack.StackId), "")
}

// Exists reports whether AWS has a stack of a name, whatever its status.
func Exists(ctx context.Context, of CloudFormation, name string) (bool, error) {
	stacks, err := describe(ctx, of, name)
	return len(stacks) > 0, err
}

// describe returns the stacks of a name, which are one or none.
func describe(ctx context.Context, of CloudFormation, name string) ([]types.Stack, error) {
	described, err := of.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if api, is := errors.AsType[smithy.APIError](err); is && api.ErrorCode() == "ValidationError" && strings.Contains(api.ErrorMessage(), "does not exist") {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask AWS for the stack %s: %w", name, err)
	}
	if len(described.Stacks) != 1 {
		return nil, fmt.Errorf("AWS has %d stacks %s, and there can be one", len(described.Stacks), name)
	}
	return described.Stacks, nil
}

// OutputOf returns an output of a stack that is deployed.
func OutputOf(ctx context.Context, of CloudFormation, stack, name string) (string, error) {
	stacks, err := describe(ctx, of, stack)
	if err != nil {
		return "", err
	}
	for _, s := range stacks {
		for _, o := range s.Outputs {
			if aws.ToString(o.OutputKey) == name && aws.ToString(o.OutputValue) != "" {
				return *o.OutputValue, nil
			}
		}
	}
	return "", fmt.Errorf("the stack %s has no output %s", stack, name)
}

// read reads the template of a stack, and those nested in it. A nested stack that the template does not have is not a part of the stack any more:
// CloudFormation may still list one that it has deleted, for example after an update that was rolled back.
func (s *Stack) read(ctx context.Context, of CloudFormation, id, path string) error {
	got, err := of.GetTemplate(ctx, &cloudformation.GetTemplateInput{StackName: &id, TemplateStage: types.TemplateStageOriginal})
	if err != nil {
		return fmt.Errorf("ask AWS for the template of %s: %w", id, err)
	}
	template, err := parse(aws.ToString(got.TemplateBody))
	if err != nil {
		return fmt.Errorf("the template of %s: %w", id, err)
	}
	s.Templates[path] = template
	if !template.nests() {
		return nil
	}
	pages := cloudformation.NewListStackResourcesPaginator(of, &cloudformation.ListStackResourcesInput{StackName: &id})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("ask AWS for the resources of %s: %w", id, err)
		}
		for _, r := range page.StackResourceSummaries {
			has := template.Resources[aws.ToString(r.LogicalResourceId)].Type == nested
			if !has || aws.ToString(r.ResourceType) != nested || aws.ToString(r.PhysicalResourceId) == "" || r.ResourceStatus == types.ResourceStatusDeleteComplete {
				continue
			}
			if err := s.read(ctx, of, aws.ToString(r.PhysicalResourceId), below(path, aws.ToString(r.LogicalResourceId))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t Template) nests() bool {
	for _, r := range t.Resources {
		if r.Type == nested {
			return true
		}
	}
	return false
}

func below(path, id string) string { return strings.TrimPrefix(path+"/"+id, "/") }

func parse(text string) (Template, error) {
	var t Template
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return t, fmt.Errorf("it is no JSON, as the CDK writes: %w", err)
	}
	if len(t.Resources) == 0 {
		return t, errors.New("it has no resources")
	}
	if t.Transform != nil {
		return t, errors.New("it has a Transform, so that nobody knows what becomes of it: the CDK writes none")
	}
	return t, nil
}

// Planned reads the stack of a name from what the CDK has made (cdk.out).
func Planned(assembly fs.FS, name string) (Stack, error) {
	out := Stack{Templates: map[string]Template{}}
	var manifest struct {
		Artifacts map[string]struct {
			Properties struct {
				TemplateFile          string `json:"templateFile"`
				TerminationProtection bool   `json:"terminationProtection"`
			} `json:"properties"`
		} `json:"artifacts"`
	}
	text, err := fs.ReadFile(assembly, "manifest.json")
	if err != nil {
		return out, fmt.Errorf("read what the CDK has made: %w", err)
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return out, fmt.Errorf("read the manifest of what the CDK has made: %w", err)
	}
	of := manifest.Artifacts[name].Properties
	if of.TemplateFile == "" {
		return out, fmt.Errorf("the CDK has made no stack %s", name)
	}
	out.Protected = of.TerminationProtection
	return out, out.load(assembly, of.TemplateFile, "")
}

func (s *Stack) load(assembly fs.FS, file, path string) error {
	text, err := fs.ReadFile(assembly, file)
	if err != nil {
		return fmt.Errorf("read what the CDK has made: %w", err)
	}
	template, err := parse(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	s.Templates[path] = template
	for id, r := range template.Resources {
		if r.Type != nested {
			continue
		}
		within, _ := r.Metadata["aws:asset:path"].(string)
		if within == "" {
			return fmt.Errorf("%s does not say which template the stack %s has", file, id)
		}
		if err := s.load(assembly, within, below(path, id)); err != nil {
			return err
		}
	}
	return nil
}

// Parameters are the names of what tasks read of Parameter Store before they start, each once: those of the one container that a task of ours has.
func (s Stack) Parameters() []string {
	names := map[string]bool{}
	for _, t := range s.Templates {
		for _, r := range t.Resources {
			arn, _ := at(r.Properties, "ContainerDefinitions.0.Secrets.0.ValueFrom.Fn::Sub").(string)
			if _, name, is := strings.Cut(arn, ":parameter/"); is {
				names["/"+name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Bootstrap returns the parameter of Parameter Store that contains the version of the CDK's bootstrap stack, and the lowest version that the template accepts.
// A template that asserts no version has no parameter. The CDK writes the rule that lists the versions that are too old:
// https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html.
func (s Stack) Bootstrap() (parameter string, minimum int) {
	root := s.Templates[""]
	for _, rule := range root.Rules {
		for _, assertion := range rule.Assertions {
			contains, _ := at(assertion.Assert, "Fn::Not.0.Fn::Contains").([]any)
			if len(contains) != 2 {
				continue
			}
			name, _ := at(contains[1], "Ref").(string)
			of := root.Parameters[name]
			versions, _ := contains[0].([]any)
			if !strings.HasPrefix(of.Type, "AWS::SSM::Parameter::Value<") {
				continue
			}
			for _, version := range versions {
				if n, err := strconv.Atoi(fmt.Sprint(version)); err == nil {
					minimum = max(minimum, n+1)
				}
			}
			parameter, _ = of.Default.(string)
		}
	}
	return parameter, minimum
}

// Serves reports whether the stack has services, whose images are uploaded before it is deployed.
func (s Stack) Serves() bool {
	for _, t := range s.Templates {
		for _, r := range t.Resources {
			if r.Type == "AWS::ECS::Service" {
				return true
			}
		}
	}
	return false
}
