package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// sweepTimeout is how long the sweep may take to come: it is scheduled every
// minute.
const sweepTimeout = 3 * time.Minute

// abandoned is a deployment that nobody knows, with an object of each kind.
const abandoned = "abandoned-by-the-suite"

// schedules waits until each schedule has done what it is there for. LocalStack
// accepts schedules and never fires them: there is nothing to wait for.
func (s *suite) schedules(ctx context.Context) error {
	if s.emulator != miniStack {
		return nil
	}
	table := s.table()
	return errors.Join(s.sweeps(ctx, table), s.boundaries(ctx, table), s.addsUp(ctx))
}

// addsUp waits until what gateways have counted of the suite's calls is added up: the last that is done for it is
// that the counts are removed, which the function records as it does all else.
func (s *suite) addsUp(ctx context.Context) error {
	const done = `{"function":"gatewright-` + stage + `-rollup","action":"dynamodb:DeleteItem"`
	for began := time.Now(); time.Since(began) < sweepTimeout; {
		uses, err := os.ReadFile(s.uses())
		if err != nil {
			return fmt.Errorf("read what was recorded: %w", err)
		}
		if strings.Contains(string(uses), done) {
			fmt.Fprintf(os.Stderr, "%s: calls were added up %.0f s later, by the job that its schedule started\n", s.emulator, time.Since(began).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return fmt.Errorf("nobody has added up the calls within %s: the schedule does not fire", sweepTimeout)
}

// table is the installation's.
func (s *suite) table() *store.Table {
	return store.New(store.NewDynamoDB(store.Connect(s.sdk(), s.endpoint), s.out.Table), store.Options{Random: rand.Reader, Now: time.Now})
}

func (s *suite) sdk() aws.Config {
	return aws.Config{Region: s.region, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
}

// dynamoDB is the emulator's, asked again where it is slow or stumbles, as AWS's own programs do.
func (s *suite) dynamoDB() *dynamodb.Client {
	return dynamodb.NewFromConfig(s.sdk(), func(o *dynamodb.Options) { o.BaseEndpoint = &s.endpoint })
}

// lambdaClient asks the emulator's Lambda.
func (s *suite) lambdaClient() *lambda.Client {
	return lambda.NewFromConfig(s.sdk(), func(o *lambda.Options) { o.BaseEndpoint = &s.endpoint })
}

// sweeps begins the removal of a deployment's objects as a worker that dies
// at once, and waits until they are gone all the same: the stream does not
// deliver what somebody holds, so that only the sweep that its schedule starts
// can have taken it up.
func (s *suite) sweeps(ctx context.Context, table *store.Table) error {
	bucket := blob.New(s.sdk(), blob.Options{Name: s.out.Bucket, Endpoint: s.endpoint})
	for _, key := range []string{blob.SourceKey(abandoned + "/x"), blob.ArtifactKey(abandoned + "/x")} {
		if err := bucket.Put(ctx, key, strings.NewReader("x")); err != nil {
			return err
		}
	}
	if err := stall(ctx, table); err != nil {
		return err
	}
	began := time.Now()
	for time.Since(began) < sweepTimeout {
		left, err := objects(ctx, bucket, abandoned)
		if err != nil {
			return err
		}
		if left == 0 {
			fmt.Fprintf(os.Stderr, "%s: a stalled operation went on %.0f s later, by the sweep that its schedule started\n", s.emulator, time.Since(began).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return fmt.Errorf("no sweep has picked up the stalled operation within %s: the schedule does not fire", sweepTimeout)
}

// stall commits the operation with a hold on it that nobody makes use of.
func stall(ctx context.Context, table *store.Table) error {
	const first = "remove"
	engine, err := operation.New(table, []operation.Definition{{
		Kind: deployments.Clean, First: first,
		States: map[string]operation.State{first: {Next: operation.Succeed, Task: func(context.Context, operation.Step) (operation.Result, error) {
			return operation.Result{}, errors.New("the worker that is to die works")
		}}},
	}}, operation.Options{Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("make an engine: %w", err)
	}
	claim := engine.Claim(operation.Start{
		ID: "stalled-by-the-suite", Kind: deployments.Clean, Subject: abandoned,
		Input: deployments.CleanInput{Deployment: abandoned, All: true},
	}, time.Second)
	if err := table.Commit(ctx, claim.Begin()); err != nil {
		return fmt.Errorf("begin the operation that stalls: %w", err)
	}
	return nil
}

// objects counts what a deployment has.
func objects(ctx context.Context, bucket *blob.Bucket, deployment string) (n int, err error) {
	for _, prefix := range []string{blob.SourceKey(deployment + "/"), blob.ArtifactKey(deployment + "/")} {
		for _, err := range bucket.List(ctx, prefix) {
			if err != nil {
				return 0, fmt.Errorf("list what the deployment has: %w", err)
			}
			n++
		}
	}
	return n, nil
}
