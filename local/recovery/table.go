package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/store"
)

// restoredTag says of what a table was restored: its source and the moment, or the backup.
const restoredTag = "gatewright:restored-of"

// recoveryDays is how far back the restored table can be restored: as infra has it of the stack's own.
const recoveryDays = 35

// latestLag is how far DynamoDB's latest moment is behind, at most as its documentation has it.
const latestLag = 5 * time.Minute

// protect keeps the table that was spoilt: it has what was changed since the moment, and CloudFormation
// removes it otherwise when a stack that is not protected goes on with another.
func (w *work) protect(ctx context.Context, p plan) error {
	d, err := w.describe(ctx, p.source)
	if err != nil || d == nil || aws.ToBool(d.DeletionProtectionEnabled) {
		return err
	}
	if _, err := w.tables.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &p.source, DeletionProtectionEnabled: aws.Bool(true)}); err != nil {
		return fmt.Errorf("protect the table %s: %w", p.source, err)
	}
	_, err = w.active(ctx, p.source)
	return err
}

// restore begins the restored table, unless it is there.
func (w *work) restore(ctx context.Context, p plan) error {
	if p.begun {
		return nil
	}
	var err error
	if p.backup != "" {
		_, err = w.tables.RestoreTableFromBackup(ctx, &dynamodb.RestoreTableFromBackupInput{BackupArn: &p.backup, TargetTableName: &p.target})
	} else {
		in := &dynamodb.RestoreTableToPointInTimeInput{SourceTableName: &p.source, TargetTableName: &p.target}
		if p.moment.IsZero() {
			in.UseLatestRestorableTime = aws.Bool(true)
		} else {
			in.RestoreDateTime = &p.moment
		}
		_, err = w.tables.RestoreTableToPointInTime(ctx, in)
	}
	if err != nil {
		return fmt.Errorf("restore the table %s: %w", p.target, err)
	}
	w.say("DynamoDB restores the table %s, which takes at least 20 minutes, as AWS says, and may take hours", p.target)
	return nil
}

// active waits until a table and its indexes can be used, and says so where that is not at once. An index of no state, as an emulator has them, is
// none that is waited for.
func (w *work) active(ctx context.Context, table string) (*types.TableDescription, error) {
	for waited := false; ; waited = true {
		d, err := w.describe(ctx, table)
		if err != nil {
			return nil, err
		}
		if d == nil {
			return nil, fmt.Errorf("the table %s is gone while it was waited for", table)
		}
		ready := d.TableStatus == types.TableStatusActive
		for _, i := range d.GlobalSecondaryIndexes {
			ready = ready && (i.IndexStatus == types.IndexStatusActive || i.IndexStatus == "")
		}
		if ready {
			return d, nil
		}
		if !waited {
			w.say("waiting for the table %s, whose state is %s", table, d.TableStatus)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(w.poll):
		}
	}
}

// settle gives the restored table what DynamoDB restores none with: tags, the stream, the expiry, its
// own point-in-time recovery and protection. The stream is there before anything is written.
func (w *work) settle(ctx context.Context, p plan) (*types.TableDescription, error) {
	d, err := w.active(ctx, p.target)
	if err != nil {
		return nil, err
	}
	if err := fits(d); err != nil {
		return nil, err
	}
	stage := w.stage
	_, err = w.tables.TagResource(ctx, &dynamodb.TagResourceInput{ResourceArn: d.TableArn, Tags: []types.Tag{
		{Key: aws.String(restoredTag), Value: aws.String(p.origin())},
		{Key: aws.String("product"), Value: aws.String("gatewright")},
		{Key: aws.String("stage"), Value: &stage},
	}})
	if err != nil {
		return nil, fmt.Errorf("tag the table %s: %w", p.target, err)
	}
	if d.StreamSpecification == nil || !aws.ToBool(d.StreamSpecification.StreamEnabled) {
		if _, err := w.tables.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &p.target, StreamSpecification: &types.StreamSpecification{
			StreamEnabled: aws.Bool(true), StreamViewType: store.Schema().Stream,
		}}); err != nil {
			return nil, fmt.Errorf("begin the stream of %s: %w", p.target, err)
		}
		if d, err = w.active(ctx, p.target); err != nil {
			return nil, err
		}
	}
	if d.StreamSpecification == nil || d.StreamSpecification.StreamViewType != store.Schema().Stream || aws.ToString(d.LatestStreamArn) == "" {
		return nil, fmt.Errorf("the table %s has a stream of another kind than %s: disable it, and run this again", p.target, store.Schema().Stream)
	}
	if err := w.settleExpiry(ctx, p.target); err != nil {
		return nil, err
	}
	if err := w.settleRecovery(ctx, p.target); err != nil {
		return nil, err
	}
	if !aws.ToBool(d.DeletionProtectionEnabled) {
		if _, err := w.tables.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: &p.target, DeletionProtectionEnabled: aws.Bool(true)}); err != nil {
			return nil, fmt.Errorf("protect the table %s: %w", p.target, err)
		}
	}
	if d, err = w.active(ctx, p.target); err != nil {
		return nil, err
	}
	w.say("the table %s is restored, with its stream, expiry, point-in-time recovery and protection", p.target)
	return d, nil
}

// fits refuses a table that is none of the product's: without its index nothing that is due is found.
func fits(d *types.TableDescription) error {
	schema := store.Schema()
	wanted := map[string]bool{}
	for _, i := range schema.Indexes {
		wanted[string(i.Name)] = true
	}
	for _, i := range d.GlobalSecondaryIndexes {
		delete(wanted, aws.ToString(i.IndexName))
	}
	for name := range wanted {
		return fmt.Errorf("the table %s was restored without the index %s: it is none of this release's", aws.ToString(d.TableName), name)
	}
	return nil
}

func (w *work) settleExpiry(ctx context.Context, table string) error {
	out, err := w.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("look at the expiry of %s: %w", table, err)
	}
	if d := out.TimeToLiveDescription; d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled || d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		return nil
	}
	_, err = w.tables.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: &table, TimeToLiveSpecification: &types.TimeToLiveSpecification{
		AttributeName: aws.String(store.Schema().TTL), Enabled: aws.Bool(true),
	}})
	if err != nil {
		return fmt.Errorf("begin the expiry of %s: %w", table, err)
	}
	return nil
}

func (w *work) settleRecovery(ctx context.Context, table string) error {
	out, err := w.tables.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("look at the backups of %s: %w", table, err)
	}
	d := out.ContinuousBackupsDescription
	if d != nil && d.PointInTimeRecoveryDescription != nil && d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled {
		return nil
	}
	_, err = w.tables.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: &table, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{
		PointInTimeRecoveryEnabled: aws.Bool(true), RecoveryPeriodInDays: aws.Int32(recoveryDays),
	}})
	if err != nil {
		return fmt.Errorf("begin the point-in-time recovery of %s: %w", table, err)
	}
	return nil
}

// tagsOf reads a table's tags.
func (w *work) tagsOf(ctx context.Context, arn string) (map[string]string, error) {
	tags := map[string]string{}
	in := &dynamodb.ListTagsOfResourceInput{ResourceArn: &arn}
	for {
		out, err := w.tables.ListTagsOfResource(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("read the tags of %s: %w", arn, err)
		}
		for _, t := range out.Tags {
			tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return tags, nil
		}
	}
}

// span is when an object has to have been there to come back: from is the earliest moment that the table
// may be of, to the latest. They differ for the latest moment alone, of which DynamoDB tells
// no more.
func (p plan) span(d *types.TableDescription) (from, to time.Time) {
	if !p.moment.IsZero() {
		return p.moment, p.moment
	}
	if d.RestoreSummary != nil && d.RestoreSummary.RestoreDateTime != nil {
		return d.RestoreSummary.RestoreDateTime.UTC(), d.RestoreSummary.RestoreDateTime.UTC()
	}
	to = aws.ToTime(d.CreationDateTime).UTC()
	return to.Add(-latestLag), to
}
