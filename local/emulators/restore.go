package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// restoring is a story of an installation that is spoilt, loses its table, and is restored by the operator's own
// commands (docs/aws.md, "Restore").
type restoring struct {
	*suite
	tables    *dynamodb.Client
	functions *lambda.Client
	command   string // the binary of local/recovery

	backup, adopted string // the backup's ARN, and the restored table's stream
}

// restores is the story. MiniStack restores of a backup what was in the table when it was made, which stands here for a
// moment; of a point in time it restores what is there now.
func (s *suite) restores(ctx context.Context) error {
	r := &restoring{suite: s}
	r.tables = s.dynamoDB()
	r.functions = s.lambdaClient()
	for _, step := range []step{
		{"build of the command", func(ctx context.Context) (err error) {
			r.command, err = built(ctx, "recovery")
			return err
		}},
		{"filling", r.fill},
		{"refusals", r.refusals},
		{"spoiling", r.spoil},
		{"restore", r.restore},
		{"loss and deployment", r.lose},
		{"what is there again", r.check},
		{"a latest moment", r.latest},
	} {
		if err := timed(s.emulator, step.name, func() error { return step.do(ctx) }); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// fill makes what shall be there again, and a backup of it, at a moment at which an audit record is not chained yet.
func (r *restoring) fill(ctx context.Context) error {
	if r.kept == "" { // which has not come here from elsewhere
		if err := r.furnish(ctx); err != nil {
			return err
		}
	}
	if err := r.answers(ctx, map[string]bool{r.kept: true, r.gone: true, "": false}); err != nil {
		return err
	}
	if err := r.recoverable(ctx); err != nil {
		return err
	}
	if err := r.chains(ctx, false); err != nil {
		return err
	}
	if _, err := r.consumer(ctx, "unchained"); err != nil {
		return err
	}
	if n, err := r.unchained(ctx, r.out.Table); err != nil || n == 0 {
		return fmt.Errorf("no audit record waits to be chained (%w)", err)
	}
	out, err := r.tables.CreateBackup(ctx, &dynamodb.CreateBackupInput{TableName: &r.out.Table, BackupName: aws.String("the-moment")})
	if err != nil {
		return err
	}
	r.backup = aws.ToString(out.BackupDetails.BackupArn)
	return r.chains(ctx, true)
}

// longest is how long anything takes that is waited for.
const longest = time.Minute

// until asks until it is so.
func until(ctx context.Context, what string, is func() (bool, error)) error {
	for began := time.Now(); time.Since(began) < longest; {
		done, err := is()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s: not within %s", what, longest)
}
