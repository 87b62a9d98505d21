// Package codedeploy is the client that a CodeDeploy hook uses. It looks up the versions of functions that a deployment
// releases, calls a version, and reports to CodeDeploy whether the deployment may continue.
//
// The package creates no deployments; CloudFormation creates them. It does not retry, because its caller knows how much
// time is left (functions/releasecheck). It is not part of package cloud, so that only the hook links these clients of
// the SDK.
//
// The package has not been tried in AWS: its tests use a server with the documented format. The rules are in the "AWS
// CodeDeploy API Reference" (https://docs.aws.amazon.com/codedeploy/latest/APIReference/) and in the "AWS Lambda API
// Reference".
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

// ErrNoDeployment is the error for a deployment or a hook that CodeDeploy does not know. A retry does not help.
var ErrNoDeployment = errors.New("codedeploy: there is no such deployment or hook")

// Version is a version of a function.
type Version struct{ Function, Number string }

// Result is the result of a call of a version.
type Result struct {
	// Payload is what the function returned. It is not set if the function failed.
	Payload []byte
	// ErrorType is the type of the function's error, "" if the function returned a value.
	ErrorType string
	// RequestID is the id of the call. The call's lines in the function's log have this id.
	RequestID string
}

// Client calls CodeDeploy and Lambda. It is safe for concurrent use.
type Client struct {
	deployments *codedeploy.Client
	functions   *lambda.Client
}

// New returns a client that uses an SDK configuration.
func New(sdk aws.Config) *Client {
	sdk.RetryMaxAttempts = 1 // the caller retries
	return &Client{codedeploy.NewFromConfig(sdk), lambda.NewFromConfig(sdk)}
}

// Versions returns the versions that a deployment releases. It reads them from the AppSpec that CloudFormation has
// written for the deployment. The targets of the deployment have the versions too, but AWS does not document whether
// the targets exist before the hook BeforeAllowTraffic.
//
// GetDeployment returns a reference to the AppSpec, and GetApplicationRevision returns its content.
func (c *Client) Versions(ctx context.Context, deployment string) ([]Version, error) {
	info, err := c.deployments.GetDeployment(ctx, &codedeploy.GetDeploymentInput{DeploymentId: &deployment})
	if err != nil {
		return nil, wrapError("read the deployment", err)
	}
	if info.DeploymentInfo == nil || info.DeploymentInfo.Revision == nil {
		return nil, errors.New("the deployment names no revision")
	}
	revision, err := c.deployments.GetApplicationRevision(ctx, &codedeploy.GetApplicationRevisionInput{
		ApplicationName: info.DeploymentInfo.ApplicationName, Revision: info.DeploymentInfo.Revision,
	})
	if err != nil {
		return nil, wrapError("read the revision of the deployment", err)
	}
	return parseAppSpec(revision.Revision)
}

// parseAppSpec returns the versions in an AppSpec of functions, which is YAML or JSON:
// https://docs.aws.amazon.com/codedeploy/latest/userguide/reference-appspec-file-structure-resources.html.
func parseAppSpec(revision *types.RevisionLocation) (out []Version, err error) {
	text := ""
	if revision != nil && revision.AppSpecContent != nil {
		text = aws.ToString(revision.AppSpecContent.Content)
	}
	if revision != nil && text == "" {
		if legacy := revision.String_; legacy != nil { //nolint:staticcheck // SA1019: AWS still writes it
			text = aws.ToString(legacy.Content)
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

// resources are the functions in an AppSpec: a list of mappings with one name each, or one mapping.
type resources []resource

// UnmarshalYAML implements yaml.Unmarshaler.
func (r *resources) UnmarshalYAML(node *yaml.Node) error {
	nodes := []*yaml.Node{node}
	if node.Kind == yaml.SequenceNode {
		nodes = node.Content
	}
	for _, n := range nodes {
		var byName map[string]resource
		if err := n.Decode(&byName); err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(byName)) {
			*r = append(*r, byName[name])
		}
	}
	return nil
}

// Call calls a version and waits for its result. It returns an error if the call
// fails. If the function returns an error, Call returns a Result with its ErrorType.
func (c *Client) Call(ctx context.Context, v Version, event []byte) (Result, error) {
	resp, err := c.functions.Invoke(ctx, &lambda.InvokeInput{
		FunctionName: &v.Function, Qualifier: &v.Number,
		Payload: event,
	})
	if err != nil {
		return Result{}, fmt.Errorf("call the version: %w", err)
	}
	id, _ := middleware.GetRequestIDMetadata(resp.ResultMetadata)
	if resp.FunctionError == nil {
		return Result{Payload: resp.Payload, RequestID: id}, nil
	}
	// Only the type of the error is read. Its message can contain
	// any data of the function, and is in the function's log.
	var details struct {
		Type string `json:"errorType"`
	}
	if err := json.Unmarshal(resp.Payload, &details); err != nil || details.Type == "" || len(details.Type) > 64 {
		details.Type = *resp.FunctionError
	}
	return Result{ErrorType: details.Type, RequestID: id}, nil
}

// Report reports to CodeDeploy whether the deployment may continue. If the status
// of the hook has been reported before, that status stays, and Report returns nil.
func (c *Client) Report(ctx context.Context, deployment, hook string, passed bool) error {
	status := types.LifecycleEventStatusFailed
	if passed {
		status = types.LifecycleEventStatusSucceeded
	}
	_, err := c.deployments.PutLifecycleEventHookExecutionStatus(ctx,
		&codedeploy.PutLifecycleEventHookExecutionStatusInput{
			DeploymentId: &deployment, LifecycleEventHookExecutionId: &hook, Status: status,
		})
	if _, alreadyReported := errors.AsType[*types.LifecycleEventAlreadyCompletedException](err); alreadyReported {
		return nil
	}
	if err != nil {
		return wrapError("report the status of the hook", err)
	}
	return nil
}

// wrapError adds the action to err. If CodeDeploy does not know the deployment or the hook, the error also wraps
// ErrNoDeployment.
func wrapError(action string, err error) error {
	_, noDeployment := errors.AsType[*types.DeploymentDoesNotExistException](err)
	_, invalidID := errors.AsType[*types.InvalidDeploymentIdException](err)
	_, invalidHook := errors.AsType[*types.InvalidLifecycleEventHookExecutionIdException](err)
	if noDeployment || invalidID || invalidHook {
		return fmt.Errorf("%s: %w: %w", action, ErrNoDeployment, err)
	}
	return fmt.Errorf("%s: %w", action, err)
}

// Name returns the name of the version's function without prefix. The names of all functions of the installation begin
// with prefix. ok is false if the function's name does not begin with prefix.
func (v Version) Name(prefix string) (name string, ok bool) {
	return strings.CutPrefix(v.Function[strings.LastIndex(v.Function, ":")+1:], prefix) // an ARN ends with the name
}
