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

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// sweepTimeout is the maximum time until the sweep, or the rollup, has done its work. Both are scheduled every minute.
const sweepTimeout = 3 * time.Minute

// abandoned is the name of a deployment that has a source and an artifact, but no items in the table.
const abandoned = "abandoned-by-the-suite"

// testSchedules waits until each schedule has done its work. LocalStack
// accepts schedules but never fires them, so testSchedules does nothing there.
func (s *suite) testSchedules(ctx context.Context) error {
	if s.emulator != miniStack {
		return nil
	}
	table := s.table()
	return errors.Join(s.testSweep(ctx, table), s.testPeriodEnd(ctx, table), s.testRollup(ctx))
}

// testRollup waits until the rollup job has aggregated the calls that gateways have counted. As its
// last step, the job deletes the counts; testRollup waits for that request in the record of uses.
func (s *suite) testRollup(ctx context.Context) error {
	const done = `{"function":"gatewright-` + stage + `-rollup","action":"dynamodb:DeleteItem"`
	for start := time.Now(); time.Since(start) < sweepTimeout; {
		uses, err := os.ReadFile(s.usesFile())
		if err != nil {
			return fmt.Errorf("read what was recorded: %w", err)
		}
		if strings.Contains(string(uses), done) {
			fmt.Fprintf(os.Stderr, "%s: calls were added up %.0f s later, by the job that its schedule started\n", s.emulator,
				time.Since(start).Seconds())
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

// table returns the installation's table.
func (s *suite) table() *store.Table {
	return store.New(store.NewDynamoDB(store.Connect(s.awsConfig(), s.endpoint), s.out.Table),
		store.Options{Random: rand.Reader, Now: time.Now})
}

func (s *suite) awsConfig() aws.Config {
	return aws.Config{Region: s.region, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
}

// dynamoDB returns a client of the emulator's DynamoDB, with the SDK's default retries.
func (s *suite) dynamoDB() *dynamodb.Client {
	return dynamodb.NewFromConfig(s.awsConfig(), func(o *dynamodb.Options) { o.BaseEndpoint = &s.endpoint })
}

// lambdaClient returns a client of the emulator's Lambda.
func (s *suite) lambdaClient() *lambda.Client {
	return lambda.NewFromConfig(s.awsConfig(), func(o *lambda.Options) { o.BaseEndpoint = &s.endpoint })
}

// testSweep begins an operation that deletes a deployment's objects, claimed by a worker that does not exist, and waits
// until the objects are deleted. The stream does not start an operation that a worker has claimed, so only the
// scheduled sweep can continue it.
func (s *suite) testSweep(ctx context.Context, table *store.Table) error {
	bucket := blob.New(s.awsConfig(), blob.Options{Name: s.out.Bucket, Endpoint: s.endpoint})
	for _, key := range []string{blob.SourceKey(abandoned + "/x"), blob.ArtifactKey(abandoned + "/x")} {
		if err := bucket.Put(ctx, key, strings.NewReader("x")); err != nil {
			return err
		}
	}
	if err := beginClaimedOperation(ctx, table); err != nil {
		return err
	}
	start := time.Now()
	for time.Since(start) < sweepTimeout {
		remaining, err := countObjects(ctx, bucket, abandoned)
		if err != nil {
			return err
		}
		if remaining == 0 {
			fmt.Fprintf(os.Stderr, "%s: a stalled operation went on %.0f s later, by the sweep that its schedule started\n",
				s.emulator, time.Since(start).Seconds())
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

// beginClaimedOperation begins the operation with the claim of a worker that does not exist.
func beginClaimedOperation(ctx context.Context, table *store.Table) error {
	const first = "remove"
	engine, err := operation.New(table, []operation.Definition{{
		Kind: deployments.Clean, First: first,
		States: map[string]operation.State{first: {
			Next: operation.Succeed,
			Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, errors.New("the worker that is to die works")
			},
		}},
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

// countObjects returns the number of objects of a deployment.
func countObjects(ctx context.Context, bucket *blob.Bucket, deployment string) (n int, err error) {
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
