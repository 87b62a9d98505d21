package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// restoreScenario damages the data of an installation and deletes its table, and restores both with the operator's own
// commands (docs/aws.md, "Restore").
type restoreScenario struct {
	*suite
	tables    *dynamodb.Client
	functions *lambda.Client
	command   string // the path of the command infra/recovery

	backup, newStream string // the ARN of the backup and the stream of the restored table
}

// testRestore runs the scenario. When MiniStack restores a point in time, the new table has the present
// content. So the scenario restores a backup instead, which has the content at the time of the backup.
func (s *suite) testRestore(ctx context.Context) error {
	r := &restoreScenario{suite: s}
	r.tables = s.dynamoDB()
	r.functions = s.lambdaClient()
	for _, step := range []step{
		{"build of the command", func(ctx context.Context) (err error) {
			r.command, err = buildCommand(ctx, "recovery")
			return err
		}},
		{"test data and backup", r.createTestState},
		{"refusals", r.checkRefusals},
		{"damaged data", r.corrupt},
		{"restore", r.restore},
		{"deleted table and deployment", r.loseTable},
		{"restored data", r.check},
		{"restore of the latest point in time", r.restoreLatest},
	} {
		if err := timed(s.emulator, step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// createTestState creates the data that must exist after the restore. It
// creates the backup while an audit record is not chained yet.
func (r *restoreScenario) createTestState(ctx context.Context) error {
	if r.keptKey == "" { // no data was moved here by testMove
		if err := r.createTestData(ctx); err != nil {
			return err
		}
	}
	if err := r.checkKeys(ctx, map[string]bool{r.keptKey: true, r.deletedKey: true, "": false}); err != nil {
		return err
	}
	if err := r.enableRecovery(ctx); err != nil {
		return err
	}
	if err := r.setChaining(ctx, false); err != nil {
		return err
	}
	if _, err := r.createConsumer(ctx, "unchained"); err != nil {
		return err
	}
	if n, err := r.countUnchained(ctx, r.out.Table); err != nil || n == 0 {
		return fmt.Errorf("audit records that are not chained = %d, error %w, want at least 1", n, err)
	}
	out, err := r.tables.CreateBackup(ctx, &dynamodb.CreateBackupInput{
		TableName:  &r.out.Table,
		BackupName: aws.String("the-moment"),
	})
	if err != nil {
		return err
	}
	r.backup = aws.ToString(out.BackupDetails.BackupArn)
	return r.setChaining(ctx, true)
}

// waitTimeout is the maximum duration of a call of waitUntil.
const waitTimeout = time.Minute

// waitUntil calls cond until it returns true or an error, but not longer than waitTimeout.
func waitUntil(ctx context.Context, description string, cond func() (bool, error)) error {
	for start := time.Now(); time.Since(start) < waitTimeout; {
		done, err := cond()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: not within %s", description, waitTimeout)
}
