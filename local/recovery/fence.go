package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// A function that is stopped has a tag, of a restore or of who stopped the installation, which says what concurrency was reserved for it before,
// or none. The one knows nothing of the other: what is stopped twice is open when both have opened it.
const (
	closedTag  = "gatewright:closed-for-restore"
	stoppedTag = "gatewright:stopped"
	none       = "none"
)

// closed are the functions that are stopped: all that change something by themselves or for
// the management API, and the gateway if it is asked for.
func (w *work) closed(s stack) []string {
	if w.gatewayToo {
		return s.all()
	}
	return s.functions
}

// all are the functions of a stack with the gateway's.
func (s stack) all() []string {
	if s.gateway == "" {
		return s.functions
	}
	return append(append([]string{}, s.functions...), s.gateway)
}

// fence stops functions by a reserved concurrency of 0: nothing calls them then, whatever triggers it. The tag
// comes first, so that a kill in between loses nothing.
func (w *work) fence(ctx context.Context, names []string, tag string) error {
	for _, name := range names {
		f, err := w.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
		if err != nil {
			return fmt.Errorf("look at the function %s: %w", name, err)
		}
		before := none
		if f.Concurrency != nil && f.Concurrency.ReservedConcurrentExecutions != nil {
			before = strconv.Itoa(int(*f.Concurrency.ReservedConcurrentExecutions))
		}
		if _, there := f.Tags[tag]; !there {
			_, err := w.functions.TagResource(ctx, &lambda.TagResourceInput{
				Resource: f.Configuration.FunctionArn, Tags: map[string]string{tag: before},
			})
			if err != nil {
				return fmt.Errorf("note what was reserved for the function %s: %w", name, err)
			}
		}
		if before == "0" {
			continue
		}
		if _, err := w.functions.PutFunctionConcurrency(ctx, &lambda.PutFunctionConcurrencyInput{
			FunctionName: &name, ReservedConcurrentExecutions: aws.Int32(0),
		}); err != nil {
			return fmt.Errorf("stop the function %s: %w", name, err)
		}
	}
	w.say("%d functions are stopped", len(names))
	return nil
}

// open gives functions with a tag back what was reserved for them before, and tells how many were stopped.
func (w *work) open(ctx context.Context, s stack, tag string) (n int, err error) {
	for _, name := range s.all() {
		f, err := w.functions.GetFunction(ctx, &lambda.GetFunctionInput{FunctionName: &name})
		if err != nil {
			return n, fmt.Errorf("look at the function %s: %w", name, err)
		}
		before, there := f.Tags[tag]
		if !there {
			continue
		}
		n++
		if before == none {
			_, err = w.functions.DeleteFunctionConcurrency(ctx, &lambda.DeleteFunctionConcurrencyInput{FunctionName: &name})
		} else {
			var reserved int
			if reserved, err = strconv.Atoi(before); err == nil {
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
