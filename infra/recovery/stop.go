package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/shared/core/installation"
)

// stopOrStart stops or starts the stack of the stage.
func (w *work) stopOrStart(ctx context.Context) error {
	s, err := w.stableStack(ctx)
	switch {
	case err != nil:
		return err
	case w.stop:
		return w.stopAll(ctx, s)
	}
	return w.startAll(ctx, s)
}

// stopAll stops the functions of an installation, including the gateway's, so that nothing changes while it is
// exported, and no client reaches it before an import has ended. It does not stop the tasks of ECS, but logs the
// commands that stop them. It first shows its steps and requests a confirmation. A second run stops the functions that
// still run.
func (w *work) stopAll(ctx context.Context, s stack) error {
	if err := w.checkNotRestoring(ctx, s); err != nil {
		return err
	}
	w.logf("%s in %s: %d functions are stopped, the gateway's too. Management API and deployments answer 5xx, schedules "+
		"and streams call nothing, until make start-aws", s.name, w.region, len(s.allFunctions()))
	w.logServices(s, "stop them")
	if w.dryRun {
		w.logf("nothing was changed")
		return nil
	}
	if !w.confirmed {
		if err := w.confirm("Shall this be done? Answer yes:\n"); err != nil {
			return err
		}
	}
	return w.stopFunctions(ctx, s.allFunctions(), stoppedTag)
}

// startAll starts the functions that stopAll has stopped, and verifies the audit logs. It returns an error, and starts
// nothing, if a restore is in progress, the KMS key is not usable, the root key cannot be unwrapped or an import is
// incomplete.
func (w *work) startAll(ctx context.Context, s stack) error {
	if err := w.checkNotRestoring(ctx, s); err != nil {
		return err
	}
	if err := w.checkKMSKey(ctx, s.key); err != nil {
		return err
	}
	parts := w.parts(s, s.table)
	if err := installation.CheckNoUnfinishedImport(ctx, parts.Table); err != nil {
		return fmt.Errorf("%s stays stopped: %w", s.name, err)
	}
	p := plan{stack: s, target: s.table}
	if err := w.checkRootKey(ctx, p); err != nil {
		return err
	}
	n, err := w.startFunctions(ctx, s, stoppedTag)
	if err != nil {
		return err
	}
	w.logf("%s in %s: %d functions are open again", s.name, w.region, n)
	w.logServices(s, "where you have stopped them, start them")
	return w.verifyAuditLogs(ctx, p)
}

// stableStack returns the stack of the stage, or an error while CloudFormation changes it.
func (w *work) stableStack(ctx context.Context) (stack, error) {
	s, err := w.stackOf(ctx, w.stage)
	if err == nil && strings.HasSuffix(s.status, "_IN_PROGRESS") {
		err = fmt.Errorf("the stack %s is being changed (%s): run this again when that has ended", s.name, s.status)
	}
	return s, err
}

// checkNotRestoring returns an error for an installation that a restore has stopped. stopAll is refused because giving
// up the restore would start its functions again. startAll is refused because functions would write during the restore.
func (w *work) checkNotRestoring(ctx context.Context, s stack) error {
	for _, name := range s.allFunctions() {
		f, err := w.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
		if err != nil {
			return fmt.Errorf("look at the function %s: %w", name, err)
		}
		if _, ok := f.Tags[restoreTag]; ok {
			return fmt.Errorf("a restore of %s goes on, and nothing was changed: end it, or give it up by make "+
				"restore-aws LIFT=1", s.name)
		}
	}
	return nil
}

// logServices logs, for each ECS service, the command that stops or starts its tasks. The reserved concurrency of
// functions has no effect on tasks.
func (w *work) logServices(s stack, instruction string) {
	for _, service := range s.services {
		if parsed, err := arn.Parse(service); err == nil {
			if parts := strings.Split(parsed.Resource, "/"); len(parts) == 3 { // service/CLUSTER/NAME
				w.logf("- tasks of %s are not: %s by aws ecs update-service --cluster %s --service %s --desired-count N", parts[2],
					instruction, parts[1], parts[2])
			}
		}
	}
}
