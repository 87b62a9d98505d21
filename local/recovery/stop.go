package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/local/transfer"
)

// stopOrStart does what is asked for with the stack of the stage.
func (w *work) stopOrStart(ctx context.Context) error {
	s, err := w.stillStack(ctx)
	switch {
	case err != nil:
		return err
	case w.stop:
		return w.stopAll(ctx, s)
	}
	return w.startAll(ctx, s)
}

// stopAll stops an installation, the gateway's function too, so that nothing of it changes while it is exported, and nobody reaches it before an
// import has ended. What it is to do is shown first, and a second call does what is missing.
func (w *work) stopAll(ctx context.Context, s stack) error {
	if err := w.notRestored(ctx, s); err != nil {
		return err
	}
	w.say("%s in %s: %d functions are stopped, the gateway's too. Management API and deployments answer 5xx, schedules and streams call nothing, until make start-aws", s.name, w.region, len(s.all()))
	w.tellServices(s, "stop them")
	if w.dryRun {
		w.say("nothing was changed")
		return nil
	}
	if !w.agreed {
		if err := w.agree("Shall this be done? Answer yes:\n"); err != nil {
			return err
		}
	}
	return w.fence(ctx, s.all(), stoppedTag)
}

// startAll opens what stopAll has stopped, once the root key opens and no import is half done, and verifies the audit logs.
func (w *work) startAll(ctx context.Context, s stack) error {
	if err := w.keyStands(ctx, s.key); err != nil {
		return err
	}
	parts := w.parts(s, s.table)
	if err := transfer.Ended(ctx, parts.Table); err != nil {
		return fmt.Errorf("%s stays stopped: %w", s.name, err)
	}
	p := plan{stack: s, target: s.table}
	if err := w.opens(ctx, p); err != nil {
		return err
	}
	n, err := w.open(ctx, s, stoppedTag)
	if err != nil {
		return err
	}
	w.say("%s in %s: %d functions are open again", s.name, w.region, n)
	w.tellServices(s, "where you have stopped them, start them")
	return w.verify(ctx, p)
}

// stillStack is the stack of the stage, unless CloudFormation is at work on it.
func (w *work) stillStack(ctx context.Context) (stack, error) {
	s, err := w.stackOf(ctx, w.stage)
	if err == nil && strings.HasSuffix(s.status, "_IN_PROGRESS") {
		err = fmt.Errorf("the stack %s is being changed (%s): run this again when that has ended", s.name, s.status)
	}
	return s, err
}

// notRestored refuses an installation that a restore has stopped: giving that up would open what is stopped here.
func (w *work) notRestored(ctx context.Context, s stack) error {
	for _, name := range s.all() {
		f, err := w.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
		if err != nil {
			return fmt.Errorf("look at the function %s: %w", name, err)
		}
		if _, there := f.Tags[closedTag]; there {
			return fmt.Errorf("a restore of %s goes on, and nothing was changed: end it, or give it up by make restore-aws LIFT=1", s.name)
		}
	}
	return nil
}

// tellServices says what becomes of services of ECS, which no concurrency stops.
func (w *work) tellServices(s stack, what string) {
	for _, service := range s.services {
		if at, err := arn.Parse(service); err == nil {
			if parts := strings.Split(at.Resource, "/"); len(parts) == 3 { // service/CLUSTER/NAME
				w.say("- tasks of %s are not: %s by aws ecs update-service --cluster %s --service %s --desired-count N", parts[2], what, parts[1], parts[2])
			}
		}
	}
}
