// Package codedeploy is what a hook of CodeDeploy needs: it looks up which versions of functions a deployment releases, calls one of
// them, and reports to CodeDeploy whether the deployment may go on.
//
// What it is not: it creates no deployments, which CloudFormation does. It does not repeat what fails, since its caller knows how much
// time is left (functions/releasecheck). It is a package of its own, and no part of cloud, so that only the hook links the clients of the
// SDK.
//
// Nothing of it was tried in AWS: its tests speak the documented format to a server of their own. The rules are those of the "AWS
// CodeDeploy API Reference" (https://docs.aws.amazon.com/codedeploy/latest/APIReference/) and of the "AWS Lambda API Reference".
package codedeploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"go.yaml.in/yaml/v3"
)

// ErrNoDeployment is the error for a deployment or a hook that CodeDeploy does not know. Repeating the request does not help.
var ErrNoDeployment = errors.New("codedeploy: there is no such deployment or hook")

// Version is a version of a function.
type Version struct{ Function, Number string }

// Result is how a call of a version ended.
type Result struct {
	// Payload is what the function returned. It is not set if the function failed.
	Payload []byte
	// FailedWith is the type of the function's error, "" if the function returned a value.
	FailedWith string
	// RequestID is the request's, by which the lines of the function's log are found.
	RequestID string
}

// Client calls CodeDeploy and Lambda. It is safe for concurrent use.
type Client struct {
	deployments *codedeploy.Client
	functions   *lambda.Client
}

// New returns a client of the services in a configuration.
func New(sdk aws.Config) *Client {
	sdk.RetryMaxAttempts = 1 // the caller repeats
	return &Client{codedeploy.NewFromConfig(sdk), lambda.NewFromConfig(sdk)}
}

// Versions returns the versions that a deployment releases: those of the AppSpec that CloudFormation has written for it. The targets of the
// deployment name them too, but AWS does not say whether they do before the hook BeforeAllowTraffic.
//
// GetDeployment names the AppSpec without its content, which GetApplicationRevision has.
func (c *Client) Versions(ctx context.Context, deployment string) ([]Version, error) {
	described, err := c.deployments.GetDeployment(ctx, &codedeploy.GetDeploymentInput{DeploymentId: &deployment})
	if err != nil {
		return nil, failed("read the deployment", err)
	}
	if described.DeploymentInfo == nil || described.DeploymentInfo.Revision == nil {
		return nil, errors.New("the deployment names no revision")
	}
	found, err := c.deployments.GetApplicationRevision(ctx, &codedeploy.GetApplicationRevisionInput{
		ApplicationName: described.DeploymentInfo.ApplicationName, Revision: described.DeploymentInfo.Revision,
	})
	if err != nil {
		return nil, failed("read the revision of the deployment", err)
	}
	return versions(found.Revision)
}

// versions reads an AppSpec of functions, which is YAML or JSON:
// https://docs.aws.amazon.com/codedeploy/latest/userguide/reference-appspec-file-structure-resources.html.
func versions(revision *types.RevisionLocation) (out []Version, err error) {
	text := ""
	if revision != nil && revision.AppSpecContent != nil {
		text = aws.ToString(revision.AppSpecContent.Content)
	}
	if revision != nil && text == "" {
		if earlier := revision.String_; earlier != nil { //nolint:staticcheck // SA1019: AWS still writes it
			text = aws.ToString(earlier.Content)
		}
	}
	var spec struct {
		Resources resources `yaml:"Resources"`
	}
	if err := yaml.Unmarshal([]byte(text), &spec); err != nil {
		return nil, fmt.Errorf("the revision of the deployment is no AppSpec: %w", err)
	}
	for _, r := range spec.Resources {
		v := Version{r.Properties.Name, r.Properties.TargetVersion}
		if v.Function == "" || v.Number == "" {
			return nil, errors.New("a resource of the revision has no function or no version")
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return nil, errors.New("the revision of the deployment has no resources")
	}
	return out, nil
}

// resource is a function in an AppSpec.
type resource struct {
	Properties struct {
		Name          string `yaml:"Name"`
		TargetVersion string `yaml:"TargetVersion"`
	} `yaml:"Properties"`
}

// resources are those of an AppSpec, which are a list of mappings with a name each, or one mapping.
type resources []resource

// UnmarshalYAML implements yaml.Unmarshaler.
func (r *resources) UnmarshalYAML(node *yaml.Node) error {
	each := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		each = node.Content
	}
	for _, n := range each {
		var named map[string]resource
		if err := n.Decode(&named); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(named)) {
			*r = append(*r, named[name])
		}
	}
	return nil
}

// Call calls a version and waits for its result. The error is that of the call, and not one of the function.
func (c *Client) Call(ctx context.Context, v Version, event []byte) (Result, error) {
	answer, err := c.functions.Invoke(ctx, &lambda.InvokeInput{FunctionName: &v.Function, Qualifier: &v.Number, Payload: event})
	if err != nil {
		return Result{}, fmt.Errorf("call the version: %w", err)
	}
	id, _ := middleware.GetRequestIDMetadata(answer.ResultMetadata)
	if answer.FunctionError == nil {
		return Result{Payload: answer.Payload, RequestID: id}, nil
	}
	// Its message may repeat anything that the function worked on: it is in the function's log, and stays there.
	var details struct {
		Type string `json:"errorType"`
	}
	if err := json.Unmarshal(answer.Payload, &details); err != nil || details.Type == "" || len(details.Type) > 64 {
		details.Type = *answer.FunctionError
	}
	return Result{FailedWith: details.Type, RequestID: id}, nil
}

// Report tells CodeDeploy whether the deployment may go on. A hook whose status was reported before keeps that status, which is no error.
func (c *Client) Report(ctx context.Context, deployment, hook string, passed bool) error {
	status := types.LifecycleEventStatusFailed
	if passed {
		status = types.LifecycleEventStatusSucceeded
	}
	_, err := c.deployments.PutLifecycleEventHookExecutionStatus(ctx, &codedeploy.PutLifecycleEventHookExecutionStatusInput{
		DeploymentId: &deployment, LifecycleEventHookExecutionId: &hook, Status: status,
	})
	if _, before := errors.AsType[*types.LifecycleEventAlreadyCompletedException](err); before {
		return nil
	}
	if err != nil {
		return failed("report the status of the hook", err)
	}
	return nil
}

func failed(doing string, err error) error {
	_, deployment := errors.AsType[*types.DeploymentDoesNotExistException](err)
	_, id := errors.AsType[*types.InvalidDeploymentIdException](err)
	_, hook := errors.AsType[*types.InvalidLifecycleEventHookExecutionIdException](err)
	if deployment || id || hook {
		return fmt.Errorf("%s: %w: %w", doing, ErrNoDeployment, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// Name returns the name of the version's function within an installation whose functions' names begin with prefix.
func (v Version) Name(prefix string) (name string, ok bool) {
	return strings.CutPrefix(v.Function[strings.LastIndex(v.Function, ":")+1:], prefix) // an ARN ends with the name
}
