package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// sweepPatience is how long the sweep may take to come: it is scheduled every
// minute.
const sweepPatience = 3 * time.Minute

// schedules begins an operation whose worker dies at once, and waits until it
// goes on all the same: the stream does not deliver what somebody holds, so
// that only the sweep that its schedule starts can have taken it up. LocalStack
// accepts schedules and never fires them: there is nothing to wait for.
func (s *suite) schedules(ctx context.Context) error {
	if s.emulator != miniStack {
		return nil
	}
	table := store.New(store.NewDynamoDB(store.Connect(aws.Config{
		Region: region, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}, s.endpoint), s.out.Table), store.Options{Random: rand.Reader, Now: time.Now})
	engine, err := operation.New(table, keys.NewCascades(table).Definitions(), operation.Options{
		Now: time.Now, Random: rand.Reader, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("make an engine: %w", err)
	}
	// The deletion of a bucket that is not there has nothing to delete.
	const id = "stalled-by-the-suite"
	claim := engine.Claim(operation.Start{
		ID: id, Kind: "key-bucket-delete", Subject: "no bucket",
		Input: map[string]any{"accountId": "no account", "bucket": "no-bucket", "generation": 1},
	}, time.Second)
	if err := table.Commit(ctx, claim.Begin()); err != nil {
		return fmt.Errorf("begin the operation that stalls: %w", err)
	}
	began := time.Now()
	for time.Since(began) < sweepPatience {
		r, err := engine.Read(ctx, id)
		switch {
		case err != nil:
			return fmt.Errorf("read the operation that stalled: %w", err)
		case r.Status == operation.Failure:
			return fmt.Errorf("the operation that stalled has failed: %s", r.Message)
		case r.Steps > 0:
			if len(r.History) == 0 || r.History[0].Attempts < 2 {
				return errors.New("the operation that was to stall came through its first attempt: the test tests nothing")
			}
			fmt.Printf("%s: a stalled operation went on %.0f s later, by the sweep that its schedule started\n", s.emulator, time.Since(began).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
	return fmt.Errorf("no sweep has picked up the stalled operation within %s: the schedule does not fire", sweepPatience)
}
