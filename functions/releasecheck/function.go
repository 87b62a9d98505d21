// Package releasecheck is the hook BeforeAllowTraffic of releases in AWS: CodeDeploy calls it before a new version of a function gets
// traffic. It calls the version once with an event that has no effects, and ends the deployment if the answer is wrong. The alarms that
// watch a canary see too few calls to notice a broken version of a function that has one request a minute.
//
// What it is not: a part of the server, which has no such releases. Only infra knows it, and no emulator has CodeDeploy. Read Open, then
// probes.go for the events and the answers to them. The decision is docs/decisions/0082-a-hook-calls-each-version-before-its-traffic.md.
package releasecheck

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/cloud/codedeploy"
	"github.com/gatewright/gatewright/shared/trigger"
)

// Function declares what calls this function. It uses nothing of the installation; what it may ask of CodeDeploy and Lambda is in infra.
//
// CodeDeploy gives a hook an hour. Within Timeout, the causes that pass by themselves have passed: a role that does not work yet, a
// version that is not active yet, a throttle.
var Function = trigger.Function{
	Name:    "releasecheck",
	Does:    "Calls a new version of a function before it gets traffic, and ends the deployment if the answer is wrong.",
	On:      []trigger.Event{{Invoked: true}},
	Timeout: 5 * time.Minute,
}

const (
	// reportTime is the part of a call's time that is kept for the report: without one, CodeDeploy waits for an hour.
	reportTime = time.Minute
	// callTime bounds an attempt. A function behind API Gateway takes 29 seconds at most.
	callTime = 35 * time.Second
	// firstPause and maxPause are the times between attempts: each is twice as long as the one before.
	firstPause, maxPause = time.Second, 15 * time.Second
)

// Releases are CodeDeploy and Lambda. Package codedeploy has them.
type Releases interface {
	// Versions returns the versions that a deployment releases.
	Versions(ctx context.Context, deployment string) ([]codedeploy.Version, error)
	// Call calls a version and waits for its result.
	Call(ctx context.Context, v codedeploy.Version, event []byte) (codedeploy.Result, error)
	// Report tells CodeDeploy whether a deployment may go on. It returns no error for a hook whose status was reported before.
	Report(ctx context.Context, deployment, hook string, passed bool) error
}

var _ Releases = (*codedeploy.Client)(nil)

// Event is what CodeDeploy calls a hook with.
type Event struct {
	Deployment string `json:"DeploymentId"`
	Hook       string `json:"LifecycleEventHookExecutionId"`
}

// Check is the hook. It is safe for concurrent use: CodeDeploy releases all functions at the same time.
type Check struct {
	Releases Releases
	// Probes returns the probes of all functions. It is called with each event.
	Probes func() (Probes, error)
	// Prefix is what the names of the installation's functions begin with.
	Prefix string
	Log    *slog.Logger
	// Pause is the time before the second attempt, 0 for a second.
	Pause time.Duration
}

// Handle is the function's handler, as lambda.Start takes it. CodeDeploy and Lambda may call it more than once for the same event: a
// check has no effects, and a status that was reported before stays.
//
// Its error is one of the report. A version that fails its check is no error of the hook.
func (c *Check) Handle(ctx context.Context, e Event) error {
	if e.Deployment == "" || e.Hook == "" {
		return errors.New("the event has no DeploymentId or no LifecycleEventHookExecutionId: only CodeDeploy calls this function")
	}
	log := c.Log.With("deployment", e.Deployment)
	checking, done := earlier(ctx, reportTime)
	defer done()
	err := c.check(checking, log, e.Deployment)
	if errors.Is(err, codedeploy.ErrNoDeployment) {
		return err
	}
	if err != nil {
		log.ErrorContext(ctx, "a version gets no traffic, and its deployment ends", "error", err)
	}
	return c.repeat(ctx, log, func(ctx context.Context) error { return c.Releases.Report(ctx, e.Deployment, e.Hook, err == nil) })
}

// earlier returns a context that ends some time before another one does.
func earlier(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-by))
}

// check returns why a deployment must not go on, nil if it may.
func (c *Check) check(ctx context.Context, log *slog.Logger, deployment string) error {
	probes, err := c.Probes()
	if err != nil {
		return err
	}
	var versions []codedeploy.Version
	if err := c.repeat(ctx, log, func(ctx context.Context) (err error) {
		versions, err = c.Releases.Versions(ctx, deployment)
		return err
	}); err != nil {
		return err
	}
	for _, v := range versions {
		name, ours := v.Name(c.Prefix)
		probe, known := probes[name]
		if !ours || !known {
			return fmt.Errorf("the function %s is none of this installation's", v.Function)
		}
		var result codedeploy.Result
		if err := c.repeat(ctx, log, func(ctx context.Context) (err error) {
			result, err = c.Releases.Call(ctx, v, probe.Event)
			return err
		}); err != nil {
			return fmt.Errorf("version %s of %s: %w", v.Number, v.Function, err)
		}
		if err := judge(probe, result); err != nil {
			return fmt.Errorf("version %s of %s, request %s: %w", v.Number, v.Function, result.RequestID, err)
		}
		log.InfoContext(ctx, "a version has answered and may get traffic", "function", v.Function, "version", v.Number, "requestId", result.RequestID)
	}
	return nil
}

// judge compares a result with what a probe wants.
func judge(p Probe, r codedeploy.Result) error {
	if r.FailedWith != "" {
		return fmt.Errorf("it fails with %q: look for the request in its log", r.FailedWith)
	}
	return p.Judge(r.Payload)
}

// repeat calls do until it succeeds or there is no time left.
func (c *Check) repeat(ctx context.Context, log *slog.Logger, do func(context.Context) error) error {
	pause := firstPause
	if c.Pause > 0 {
		pause = c.Pause
	}
	for {
		attempt, done := context.WithTimeout(ctx, callTime)
		err := do(attempt)
		done()
		if err == nil || errors.Is(err, codedeploy.ErrNoDeployment) {
			return err
		}
		log.WarnContext(ctx, "CodeDeploy or Lambda did not answer as they should; the request is repeated", "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("there is no time left: %w", err)
		}
		pause = min(2*pause, maxPause)
	}
}
