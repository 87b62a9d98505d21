package removals_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/infra/removals"
)

// fakeCloudFormation is a CloudFormation client with fixed stacks. The keys of its maps are the ids of stacks.
type fakeCloudFormation struct {
	status    types.StackStatus // "" if there is no stack
	templates map[string]string
	nested    map[string][]string // the nested stacks of a stack: logical and physical ids
	err       error
}

func (f fakeCloudFormation) DescribeStacks(
	_ context.Context, in *cloudformation.DescribeStacksInput, _ ...func(*cloudformation.Options),
) (*cloudformation.DescribeStacksOutput, error) {
	switch {
	case f.err != nil:
		return nil, f.err
	case f.status == "":
		return nil, &smithy.GenericAPIError{
			Code:    "ValidationError",
			Message: "Stack with id " + *in.StackName + " does not exist",
		}
	}
	id, protected := "arn:root", true
	return &cloudformation.DescribeStacksOutput{Stacks: []types.Stack{{
		StackId: &id, StackStatus: f.status,
		EnableTerminationProtection: &protected,
	}}}, nil
}

func (f fakeCloudFormation) GetTemplate(
	_ context.Context, in *cloudformation.GetTemplateInput, _ ...func(*cloudformation.Options),
) (*cloudformation.GetTemplateOutput, error) {
	text := f.templates[*in.StackName]
	return &cloudformation.GetTemplateOutput{TemplateBody: &text}, nil
}

func (f fakeCloudFormation) ListStackResources(
	_ context.Context, in *cloudformation.ListStackResourcesInput, _ ...func(*cloudformation.Options),
) (*cloudformation.ListStackResourcesOutput, error) {
	// Each page has one resource. CloudFormation has several pages for a stack with more than a hundred resources.
	ids := f.nested[*in.StackName]
	offset := 0 // of the logical id, which the physical id follows
	if in.NextToken != nil {
		_, _ = fmt.Sscan(*in.NextToken, &offset)
	}
	out := &cloudformation.ListStackResourcesOutput{}
	kind := "AWS::CloudFormation::Stack"
	out.StackResourceSummaries = []types.StackResourceSummary{{
		LogicalResourceId:  &ids[offset],
		PhysicalResourceId: &ids[offset+1], ResourceType: &kind,
	}}
	if offset+2 < len(ids) {
		next := fmt.Sprint(offset + 2)
		out.NextToken = &next
	}
	return out, nil
}

// TestDeployedStackEqualsThePlannedOne checks that Deployed and Planned return the same stack for the same templates,
// with two nested stacks. HasServices finds the services in the nested stacks.
func TestDeployedStackEqualsThePlannedOne(t *testing.T) {
	twoNested := strings.Replace(fullTemplate, `"RelayNestedStack"`,
		`"CallsNestedStack": {"Type": "AWS::CloudFormation::Stack", "Metadata": {"aws:asset:path": "relay.json"}}, `+
			`"RelayNestedStack"`, 1)
	client := fakeCloudFormation{
		status:    types.StackStatusUpdateComplete,
		templates: map[string]string{"arn:root": twoNested, "arn:relay": relayTemplate, "arn:calls": relayTemplate},
		nested:    map[string][]string{"arn:root": {"CallsNestedStack", "arn:calls", "RelayNestedStack", "arn:relay"}},
	}
	got, err := removals.Deployed(t.Context(), client, "gatewright-dev")
	if err != nil {
		t.Fatal(err)
	}
	want := newPlan(t, twoNested, relayTemplate, true)
	if !got.Protected || !slices.Equal(slices.Sorted(maps.Keys(got.Templates)),
		[]string{"", "CallsNestedStack", "RelayNestedStack"}) || toJSON(t, got) != toJSON(t, want) {
		t.Errorf("Deployed() = %s, want the protected plan %s", toJSON(t, got), toJSON(t, want))
	}
	if !got.HasServices() || (removals.Stack{}).HasServices() {
		t.Errorf("HasServices() = %v, of an empty stack %v, want true and false", got.HasServices(),
			removals.Stack{}.HasServices())
	}
}

func toJSON(t *testing.T, s removals.Stack) string {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestStackWhoseCreationFailedIsNamed checks that Deployed reports a stack as failed if its creation failed, and only then.
func TestStackWhoseCreationFailedIsNamed(t *testing.T) {
	for status, want := range map[types.StackStatus]*removals.Failed{
		types.StackStatusRollbackComplete: {ID: "arn:root", Status: "ROLLBACK_COMPLETE", Protected: true},
		types.StackStatusRollbackFailed:   {ID: "arn:root", Status: "ROLLBACK_FAILED", Protected: true},
		"":                                nil, types.StackStatusReviewInProgress: nil, types.StackStatusUpdateComplete: nil,
		types.StackStatusUpdateRollbackComplete: nil,
	} {
		got, err := removals.Deployed(t.Context(), fakeCloudFormation{
			status:    status,
			templates: map[string]string{"arn:root": relayTemplate},
		}, "gatewright-dev")
		if err != nil || !reflect.DeepEqual(got.Failed, want) {
			t.Errorf("Deployed() of a stack that is %s = %+v, error %v, want %+v", status, got.Failed, err, want)
		}
	}
}

// TestBootstrapVersionIsReadFromTheRule checks that BootstrapVersion finds the lowest accepted version in a rule that
// lists the older versions.
func TestBootstrapVersionIsReadFromTheRule(t *testing.T) {
	const (
		parameter = `"Parameters": {"BootstrapVersion": {"Type": "AWS::SSM::Parameter::Value<String>", ` +
			`"Default": "/cdk-bootstrap/other/version"}}`
		rule = `"Rules": {"CheckBootstrapVersion": {"Assertions": [{"Assert": {"Fn::Not": [{"Fn::Contains": ` +
			`[["1", "2", "10"], {"Ref": "BootstrapVersion"}]}]}}]}}`
		resources = `"Resources": {"F": {"Type": "AWS::Lambda::Function"}}`
	)
	for name, tt := range map[string]struct {
		template, want string
		minimum        int
	}{
		"rule for the version":       {parameter + ", " + rule + ", " + resources, "/cdk-bootstrap/other/version", 11},
		"no rule":                    {parameter + ", " + resources, "", 0},
		"rule without the parameter": {rule + ", " + resources, "", 0},
	} {
		if got, minimum := newPlan(t, "{"+tt.template+"}", relayTemplate, false).BootstrapVersion(); got != tt.want ||
			minimum != tt.minimum {
			t.Errorf("%s: BootstrapVersion() = %q, %d, want %q, %d", name, got, minimum, tt.want, tt.minimum)
		}
	}
}

// TestMissingStacksHaveNoRemovals checks that Deployed returns no templates for a missing stack, and an error for a
// stack that cannot be read, because its removals are unknown.
func TestMissingStacksHaveNoRemovals(t *testing.T) {
	for status, want := range map[types.StackStatus]string{
		"": "", types.StackStatusRollbackComplete: "", types.StackStatusReviewInProgress: "",
		types.StackStatusDeleteComplete:   "",
		types.StackStatusUpdateInProgress: "wait until that has ended", types.StackStatusDeleteInProgress: "wait until",
		types.StackStatusUpdateRollbackCompleteCleanupInProgress: "wait until",
		types.StackStatusUpdateComplete:                          "it is no JSON",
		types.StackStatusDeleteFailed: "gatewright-dev is DELETE_FAILED: CloudFormation could " +
			"not delete all of it",
	} {
		got, err := removals.Deployed(t.Context(), fakeCloudFormation{status: status}, "gatewright-dev")
		if want == "" && (err != nil || len(got.Templates) > 0) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Deployed(status %q) = %v, error %v, want error text %q (if it is empty, neither an error nor templates)",
				status, got, err, want)
		}
	}
	denied := errors.New("AccessDenied")
	if _, err := removals.Deployed(t.Context(), fakeCloudFormation{err: denied}, "gatewright-dev"); !errors.Is(err,
		denied) {
		t.Errorf("Deployed(denied) error = %v, want %v", err, denied)
	}
	other := &smithy.GenericAPIError{Code: "ValidationError", Message: "1 validation error detected"}
	if _, err := removals.Deployed(t.Context(), fakeCloudFormation{err: other}, "gatewright-dev"); err == nil {
		t.Error("Deployed(another ValidationError) error = nil, want one")
	}
	if _, err := removals.Deployed(t.Context(), fakeCloudFormation{
		status:    types.StackStatusUpdateComplete,
		templates: map[string]string{"arn:root": `{"Resources": {}}`},
	}, "gatewright-dev"); err == nil {
		t.Error("Deployed(a template without resources) error = nil, want one")
	}
}

// TestUnreadablePlannedStackIsAnError checks that Planned returns an error for templates from which it cannot determine
// all resources.
func TestUnreadablePlannedStackIsAnError(t *testing.T) {
	for name, files := range map[string]fstest.MapFS{
		"no files":      {},
		"missing stack": {"manifest.json": {Data: []byte(`{"artifacts": {}}`)}},
		"missing template": {
			"manifest.json": {Data: []byte(`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "x.json"}}}}`)},
		},
		"template with a transform": {
			"manifest.json": {Data: []byte(`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "x.json"}}}}`)},
			"x.json": {
				Data: []byte(`{"Transform": "AWS::Serverless-2016-10-31", "Resources": {"N": {"Type": "AWS::SNS::Topic"}}}`),
			},
		},
		"nested stack without a path": {
			"manifest.json": {Data: []byte(`{"artifacts": {"gatewright-dev": {"properties": {"templateFile": "x.json"}}}}`)},
			"x.json":        {Data: []byte(`{"Resources": {"N": {"Type": "AWS::CloudFormation::Stack"}}}`)},
		},
	} {
		if _, err := removals.Planned(files, "gatewright-dev"); err == nil {
			t.Errorf("Planned(%s) error = nil, want one", name)
		}
	}
}
