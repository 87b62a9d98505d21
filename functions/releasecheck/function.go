// Package releasecheck is the hook BeforeAllowTraffic of releases in AWS: CodeDeploy calls it before a new version of a
// function gets traffic. The hook calls the version with an event that has no effects. It repeats the call if Lambda
// could not run it. If the response is wrong, the hook makes CodeDeploy end the deployment. The alarms of a canary
// release cannot detect that a version is broken if the function has only one request per minute.
//
// gatewright-server has no such releases, so it does not contain this package. Only infra uses it: emulators do not
// support CodeDeploy. Read Check first, then probes.go for the events and their expected responses. The decision is
// docs/decisions/0082-a-hook-calls-each-version-before-its-traffic.md.
package releasecheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/runtime/cloud/codedeploy"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
)

// Function declares the events that call this function. The function does not use the table, the bucket or the root
// key. infra declares its permissions for CodeDeploy and Lambda.
//
// CodeDeploy waits an hour for a hook. Timeout is longer than temporary problems usually last: a role that is not
// effective yet, a version that is not active yet, or a throttled request.
var Function = trigger.Function{
	Name: "releasecheck",
	Description: "Calls a new version of a function before it gets traffic, and ends the deployment if the " +
		"answer is wrong.",
	Events:  []trigger.Event{{Invoked: true}},
	Timeout: 5 * time.Minute,
}

const (
	// reportReserve is the part of the function's timeout that is reserved for the report. Without a report, CodeDeploy
	// waits for an hour.
	reportReserve = time.Minute
	// callTimeout is the maximum time of one attempt of a request to CodeDeploy or Lambda. A function behind API Gateway
	// takes at most 29 seconds.
	callTimeout = 35 * time.Second
	// minBackoff and maxBackoff limit the time between two attempts, which doubles after each attempt.
	minBackoff, maxBackoff = time.Second, 15 * time.Second
)

// Releases sends requests to CodeDeploy and Lambda. Package codedeploy implements it.
type Releases interface {
	// Versions returns the versions that a deployment releases.
	Versions(ctx context.Context, deployment string) ([]codedeploy.Version, error)
	// Call calls a version and waits for its result.
	Call(ctx context.Context, v codedeploy.Version, event []byte) (codedeploy.Result, error)
	// Report reports to CodeDeploy whether a deployment can continue. It returns no error if the status of the hook was
	// reported before.
	Report(ctx context.Context, deployment, hook string, passed bool) error
}

var _ Releases = (*codedeploy.Client)(nil)

// Event is the event with which CodeDeploy calls a hook.
type Event struct {
	Deployment string `json:"DeploymentId"`
	Hook       string `json:"LifecycleEventHookExecutionId"`
}

// Check is the hook. It is safe for concurrent use, because CodeDeploy releases all functions at the same time.
type Check struct {
	Releases Releases
	// Probes returns the probes of all functions. Check calls it for each event.
	Probes func() (Probes, error)
	// Prefix is the prefix of the names of the installation's functions.
	Prefix string
	Log    *slog.Logger
	// Backoff is the time before the second attempt. 0 means one second.
	Backoff time.Duration
}

// Handle is the function's handler, for lambda.Start. CodeDeploy and Lambda can call it more than once for the same
// event. That does no harm: a check has no effects, and a status that was reported before does not change.
//
// Handle returns an error if the event is incomplete, if the report fails, or if CodeDeploy does not know the
// deployment in the event. If a version fails its check, Handle reports that and returns no error.
func (c *Check) Handle(ctx context.Context, e Event) error {
	if e.Deployment == "" || e.Hook == "" {
		return errors.New("the event has no DeploymentId or no LifecycleEventHookExecutionId: only CodeDeploy calls " +
			"this function")
	}
	log := c.Log.With("deployment", e.Deployment)
	checkCtx, cancel := withEarlierDeadline(ctx, reportReserve)
	defer cancel()
	err := c.check(checkCtx, log, e.Deployment)
	if errors.Is(err, codedeploy.ErrNoDeployment) {
		return err
	}
	if err != nil {
		log.ErrorContext(ctx, "a version gets no traffic, and its deployment ends", "error", err)
	}
	return c.retry(ctx, log, func(ctx context.Context) error {
		return c.Releases.Report(ctx, e.Deployment, e.Hook, err == nil)
	})
}

// withEarlierDeadline returns a context whose deadline is earlier than that of ctx by reserve. If ctx has no deadline,
// it returns ctx.
func withEarlierDeadline(ctx context.Context, reserve time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-reserve))
}

// check calls and checks each version of a deployment. It returns an error that says why the deployment must not
// continue, or nil if the deployment can continue.
func (c *Check) check(ctx context.Context, log *slog.Logger, deployment string) error {
	probes, err := c.Probes()
	if err != nil {
		return err
	}
	var versions []codedeploy.Version
	if err := c.retry(ctx, log, func(ctx context.Context) (err error) {
		versions, err = c.Releases.Versions(ctx, deployment)
		return err
	}); err != nil {
		return err
	}
	for _, v := range versions {
		name, hasPrefix := v.Name(c.Prefix)
		probe, ok := probes[name]
		if !hasPrefix || !ok {
			return fmt.Errorf("the function %s is none of this installation's", v.Function)
		}
		var result codedeploy.Result
		if err := c.retry(ctx, log, func(ctx context.Context) (err error) {
			result, err = c.Releases.Call(ctx, v, probe.Event)
			return err
		}); err != nil {
			return fmt.Errorf("version %s of %s: %w", v.Number, v.Function, err)
		}
		if err := evaluate(probe, result); err != nil {
			return fmt.Errorf("version %s of %s, request %s: %w", v.Number, v.Function, result.RequestID, err)
		}
		log.InfoContext(ctx, "a version has answered and may get traffic", "function", v.Function, "version", v.Number,
			"requestId", result.RequestID)
	}
	return nil
}

// evaluate returns an error if a version has failed or if it has not returned the response that the probe expects.
func evaluate(p Probe, r codedeploy.Result) error {
	if r.ErrorType != "" {
		return fmt.Errorf("it fails with %q: look for the request in its log", r.ErrorType)
	}
	return p.Evaluate(r.Payload)
}

// retry calls f until it succeeds, until CodeDeploy reports that there is no such deployment, or until ctx ends.
func (c *Check) retry(ctx context.Context, log *slog.Logger, f func(context.Context) error) error {
	backoff := minBackoff
	if c.Backoff > 0 {
		backoff = c.Backoff
	}
	for {
		attemptCtx, cancel := context.WithTimeout(ctx, callTimeout)
		err := f(attemptCtx)
		cancel()
		if err == nil || errors.Is(err, codedeploy.ErrNoDeployment) {
			return err
		}
		log.WarnContext(ctx, "CodeDeploy or Lambda did not answer as they should; the request is repeated", "error", err)
		timer := time.NewTimer(backoff)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("there is no time left: %w", err)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}
