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

// nestedStackType is the type of a stack within a stack.
const nestedStackType = "AWS::CloudFormation::Stack"

// CloudFormation is the part of AWS's client that this package calls.
type CloudFormation interface {
	DescribeStacks(context.Context, *cloudformation.DescribeStacksInput,
		...func(*cloudformation.Options)) (*cloudformation.DescribeStacksOutput, error)
	GetTemplate(context.Context, *cloudformation.GetTemplateInput,
		...func(*cloudformation.Options)) (*cloudformation.GetTemplateOutput, error)
	ListStackResources(context.Context, *cloudformation.ListStackResourcesInput,
		...func(*cloudformation.Options)) (*cloudformation.ListStackResourcesOutput, error)
}

var _ CloudFormation = (*cloudformation.Client)(nil)

// ErrBusy is the error for a stack that is being changed.
var ErrBusy = errors.New("the stack is being changed: wait until that has ended")

// ErrDeleteFailed is the error for a stack whose deletion failed. CloudFormation does not update such a stack.
var ErrDeleteFailed = errors.New("CloudFormation could not delete all of it, and does not update it")

// ErrPaused is the error for a stack whose update or creation has stopped before its end. CloudFormation does not
// update such a stack before it is rolled back.
var ErrPaused = errors.New("CloudFormation has stopped before its end, and does not update it")

// Deployed reads the stack with a name from AWS. A stack that does not exist, or whose creation failed and was rolled
// back, has no templates. The error is ErrBusy while the stack changes, ErrDeleteFailed if its deletion failed, and
// ErrPaused if it must be rolled back first.
func Deployed(ctx context.Context, client CloudFormation, name string) (Stack, error) {
	out := Stack{Templates: map[string]Template{}}
	stacks, err := describe(ctx, client, name)
	if err != nil || len(stacks) == 0 {
		return out, err
	}
	stack := stacks[0]
	switch {
	case stack.StackStatus == types.StackStatusReviewInProgress, stack.StackStatus == types.StackStatusDeleteComplete:
		return out, nil // nothing was created, or everything that was created has been deleted
	case stack.StackStatus == types.StackStatusRollbackComplete, stack.StackStatus == types.StackStatusRollbackFailed:
		out.Failed = &Failed{
			ID: aws.ToString(stack.StackId), Status: string(stack.StackStatus),
			Protected: aws.ToBool(stack.EnableTerminationProtection),
		}
		return out, nil
	case stack.StackStatus == types.StackStatusDeleteFailed:
		return out, fmt.Errorf("%s is %s: %w", name, stack.StackStatus, ErrDeleteFailed)
	case slices.Contains([]types.StackStatus{
		types.StackStatusCreateFailed, types.StackStatusUpdateFailed,
		types.StackStatusUpdateRollbackFailed,
	}, stack.StackStatus):
		return out, fmt.Errorf("%s is %s: %w", name, stack.StackStatus, ErrPaused)
	case strings.HasSuffix(string(stack.StackStatus), "_IN_PROGRESS"):
		return out, fmt.Errorf("%s is %s: %w", name, stack.StackStatus, ErrBusy)
	}
	out.Protected = aws.ToBool(stack.EnableTerminationProtection)
	return out, out.read(ctx, client, aws.ToString(stack.StackId), "")
}

// Exists reports whether AWS has a stack with a name, in any status.
func Exists(ctx context.Context, client CloudFormation, name string) (bool, error) {
	stacks, err := describe(ctx, client, name)
	return len(stacks) > 0, err
}

// describe returns the stack with a name, or none.
func describe(ctx context.Context, client CloudFormation, name string) ([]types.Stack, error) {
	described, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" &&
		strings.Contains(api.ErrorMessage(), "does not exist") {
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

// StackOutput returns the value of an output of a deployed stack. An empty value is an error, like a missing output.
func StackOutput(ctx context.Context, client CloudFormation, stack, name string) (string, error) {
	stacks, err := describe(ctx, client, stack)
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

// read reads the template of a stack and those of its nested stacks from AWS. path is the path of the stack. read
// ignores nested stacks that are not in the template: CloudFormation may still list a nested stack that it has deleted,
// for example after an update that was rolled back.
func (s *Stack) read(ctx context.Context, client CloudFormation, id, path string) error {
	out, err := client.GetTemplate(ctx, &cloudformation.GetTemplateInput{
		StackName:     &id,
		TemplateStage: types.TemplateStageOriginal,
	})
	if err != nil {
		return fmt.Errorf("ask AWS for the template of %s: %w", id, err)
	}
	template, err := parse(aws.ToString(out.TemplateBody))
	if err != nil {
		return fmt.Errorf("the template of %s: %w", id, err)
	}
	s.Templates[path] = template
	if !template.hasNestedStacks() {
		return nil
	}
	pages := cloudformation.NewListStackResourcesPaginator(client, &cloudformation.ListStackResourcesInput{StackName: &id})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return fmt.Errorf("ask AWS for the resources of %s: %w", id, err)
		}
		for _, r := range page.StackResourceSummaries {
			isNested := template.Resources[aws.ToString(r.LogicalResourceId)].Type == nestedStackType
			if !isNested || aws.ToString(r.ResourceType) != nestedStackType || aws.ToString(r.PhysicalResourceId) == "" ||
				r.ResourceStatus == types.ResourceStatusDeleteComplete {
				continue
			}
			if err := s.read(ctx, client, aws.ToString(r.PhysicalResourceId),
				joinPath(path, aws.ToString(r.LogicalResourceId))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t Template) hasNestedStacks() bool {
	for _, r := range t.Resources {
		if r.Type == nestedStackType {
			return true
		}
	}
	return false
}

// joinPath returns the path of a nested stack: the logical ids from the root, which is "", joined by slashes.
func joinPath(path, id string) string { return strings.TrimPrefix(path+"/"+id, "/") }

// parse reads a template, and refuses one that cannot be compared.
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

// Planned reads the stack with a name from the output of the CDK (cdk.out).
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
	properties := manifest.Artifacts[name].Properties
	if properties.TemplateFile == "" {
		return out, fmt.Errorf("the CDK has made no stack %s", name)
	}
	out.Protected = properties.TerminationProtection
	return out, out.load(assembly, properties.TemplateFile, "")
}

// load reads the template in a file of the assembly and those of its nested stacks. path is the path of the template's
// stack.
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
		if r.Type != nestedStackType {
			continue
		}
		nestedFile, _ := r.Metadata["aws:asset:path"].(string)
		if nestedFile == "" {
			return fmt.Errorf("%s does not say which template the stack %s has", file, id)
		}
		if err := s.load(assembly, nestedFile, joinPath(path, id)); err != nil {
			return err
		}
	}
	return nil
}

// SecretParameters returns the names of the parameters in Parameter Store that tasks read before they start, without
// duplicates. It reads only the first secret of the first container of each task definition.
func (s Stack) SecretParameters() []string {
	names := map[string]bool{}
	for _, t := range s.Templates {
		for _, r := range t.Resources {
			arn, _ := valueAt(r.Properties, "ContainerDefinitions.0.Secrets.0.ValueFrom.Fn::Sub").(string)
			if _, name, ok := strings.Cut(arn, ":parameter/"); ok {
				names["/"+name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// BootstrapVersion returns the parameter of Parameter Store with the version of the CDK's bootstrap stack, and the
// lowest version that the template accepts. For a template that requires no version, parameter is "". The CDK writes a
// rule into the template that lists the versions that are too old:
// https://docs.aws.amazon.com/cdk/v2/guide/bootstrapping-env.html.
func (s Stack) BootstrapVersion() (parameter string, minimum int) {
	root := s.Templates[""]
	for _, rule := range root.Rules {
		for _, assertion := range rule.Assertions {
			contains, _ := valueAt(assertion.Assert, "Fn::Not.0.Fn::Contains").([]any)
			if len(contains) != 2 {
				continue
			}
			name, _ := valueAt(contains[1], "Ref").(string)
			param := root.Parameters[name]
			versions, _ := contains[0].([]any)
			if !strings.HasPrefix(param.Type, "AWS::SSM::Parameter::Value<") {
				continue
			}
			for _, version := range versions {
				if n, err := strconv.Atoi(fmt.Sprint(version)); err == nil {
					minimum = max(minimum, n+1)
				}
			}
			parameter, _ = param.Default.(string)
		}
	}
	return parameter, minimum
}

// HasServices reports whether the stack has services, whose images are uploaded before it is deployed.
func (s Stack) HasServices() bool {
	for _, t := range s.Templates {
		for _, r := range t.Resources {
			if r.Type == "AWS::ECS::Service" {
				return true
			}
		}
	}
	return false
}
