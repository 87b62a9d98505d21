package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// A stopped function has the tag restoreTag if a restore has stopped it, and stoppedTag if stop-aws has. The value is
// the function's earlier reserved concurrency, or noReservation. In an installation that stop-aws has stopped, a
// restore records the concurrency 0, so its functions stay stopped at the end of the restore.
const (
	restoreTag    = "gatewright:closed-for-restore"
	stoppedTag    = "gatewright:stopped"
	noReservation = "none"
)

// functionsToStop returns the functions that a restore stops: all except the gateway, and the gateway too if gatewayToo
// is set.
func (w *work) functionsToStop(s stack) []string {
	if w.gatewayToo {
		return s.allFunctions()
	}
	return s.functions
}

// allFunctions returns the functions of a stack, including the gateway's.
func (s stack) allFunctions() []string {
	if s.gateway == "" {
		return s.functions
	}
	return append(append([]string{}, s.functions...), s.gateway)
}

// stopFunctions sets the reserved concurrency of functions to 0, so that nothing can call them. It first records the
// earlier value in the tag, unless an earlier run has already recorded it. So an interruption does not lose the value.
func (w *work) stopFunctions(ctx context.Context, names []string, tag string) error {
	for _, name := range names {
		f, err := w.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
		if err != nil {
			return fmt.Errorf("look at the function %s: %w", name, err)
		}
		previous := noReservation
		if f.Concurrency != nil && f.Concurrency.ReservedConcurrentExecutions != nil {
			previous = strconv.Itoa(int(*f.Concurrency.ReservedConcurrentExecutions))
		}
		if _, ok := f.Tags[tag]; !ok {
			_, err := w.functions.TagResource(ctx, &lambda.TagResourceInput{
				Resource: f.Configuration.FunctionArn, Tags: map[string]string{tag: previous},
			})
			if err != nil {
				return fmt.Errorf("note what was reserved for the function %s: %w", name, err)
			}
		}
		if previous == "0" {
			continue
		}
		if _, err := w.functions.PutFunctionConcurrency(ctx, &lambda.PutFunctionConcurrencyInput{
			FunctionName: &name, ReservedConcurrentExecutions: aws.Int32(0),
		}); err != nil {
			return fmt.Errorf("stop the function %s: %w", name, err)
		}
	}
	w.logf("%d functions are stopped", len(names))
	return nil
}

// startFunctions restores the reserved concurrency of the functions with a tag, removes the tag, and returns the number
// of these functions.
func (w *work) startFunctions(ctx context.Context, s stack, tag string) (n int, err error) {
	for _, name := range s.allFunctions() {
		f, err := w.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
		if err != nil {
			return n, fmt.Errorf("look at the function %s: %w", name, err)
		}
		previous, ok := f.Tags[tag]
		if !ok {
			continue
		}
		n++
		if previous == noReservation {
			_, err = w.functions.DeleteFunctionConcurrency(ctx, &lambda.DeleteFunctionConcurrencyInput{FunctionName: &name})
		} else {
			var reserved int
			if reserved, err = strconv.Atoi(previous); err == nil {
				_, err = w.functions.PutFunctionConcurrency(ctx, &lambda.PutFunctionConcurrencyInput{
					FunctionName: &name, ReservedConcurrentExecutions: aws.Int32(int32(reserved)), //nolint:gosec // G115: it was one
				})
			}
		}
		if err != nil {
			return n, fmt.Errorf("open the function %s: %w", name, err)
		}
		if _, err := w.functions.UntagResource(ctx, &lambda.UntagResourceInput{
			Resource: f.Configuration.FunctionArn, TagKeys: []string{tag},
		}); err != nil {
			return n, fmt.Errorf("take the note off the function %s: %w", name, err)
		}
	}
	return n, nil
}
