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
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy"
	"github.com/aws/aws-sdk-go-v2/service/codedeploy/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// ErrNoDeployment is the error for a deployment or a hook that CodeDeploy does not know. Repeating the request does not help.
var ErrNoDeployment = errors.New("codedeploy: there is no such deployment or hook")

// maxTargets is how many targets BatchGetDeploymentTargets takes. A deployment of functions has one.
const maxTargets = 25

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

// Versions returns the versions that a deployment releases. It is an error if CodeDeploy names none yet.
func (c *Client) Versions(ctx context.Context, deployment string) ([]Version, error) {
	listed, err := c.deployments.ListDeploymentTargets(ctx, &codedeploy.ListDeploymentTargetsInput{DeploymentId: &deployment})
	if err != nil {
		return nil, failed("list the targets of the deployment", err)
	}
	if n := len(listed.TargetIds); n == 0 || n > maxTargets {
		return nil, fmt.Errorf("the deployment has %d targets, want 1 to %d", n, maxTargets)
	}
	found, err := c.deployments.BatchGetDeploymentTargets(ctx, &codedeploy.BatchGetDeploymentTargetsInput{DeploymentId: &deployment, TargetIds: listed.TargetIds})
	if err != nil {
		return nil, failed("read the targets of the deployment", err)
	}
	var out []Version
	for _, t := range found.DeploymentTargets {
		if t.LambdaTarget == nil || t.LambdaTarget.LambdaFunctionInfo == nil {
			return nil, errors.New("a target of the deployment names no function")
		}
		info := t.LambdaTarget.LambdaFunctionInfo
		v := Version{aws.ToString(info.FunctionName), aws.ToString(info.TargetVersion)}
		if v.Function == "" || v.Number == "" {
			return nil, errors.New("a target of the deployment names no function or no version")
		}
		out = append(out, v)
	}
	if len(out) != len(listed.TargetIds) {
		return nil, fmt.Errorf("CodeDeploy describes %d targets of %d", len(out), len(listed.TargetIds))
	}
	return out, nil
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
