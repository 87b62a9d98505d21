package main

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/core/store"
)

// restoredTag is the tag of a restored table whose value says what the table was restored from (plan.origin).
const restoredTag = "gatewright:restored-of"

// recoveryDays is the period of the restored table's point-in-time recovery, in days. Package infra sets the same
// number for the stack's own table.
const recoveryDays = 35

// latestLag is the maximum delay of DynamoDB's latest restorable moment, according to its documentation.
const latestLag = 5 * time.Minute

// protectSource protects the corrupted table from deletion, because it has the changes since the moment. Otherwise
// CloudFormation would delete the table of an unprotected stack when the stack uses another table.
func (w *work) protectSource(ctx context.Context, p plan) error {
	d, err := w.describe(ctx, p.source)
	if err != nil || d == nil || aws.ToBool(d.DeletionProtectionEnabled) {
		return err
	}
	if _, err := w.tables.UpdateTable(ctx, &dynamodb.UpdateTableInput{
		TableName:                 &p.source,
		DeletionProtectionEnabled: aws.Bool(true),
	}); err != nil {
		return fmt.Errorf("protect the table %s: %w", p.source, err)
	}
	_, err = w.waitActive(ctx, p.source)
	return err
}

// startTableRestore makes DynamoDB start the restore of the table, unless an earlier run has started it.
func (w *work) startTableRestore(ctx context.Context, p plan) error {
	if p.started {
		return nil
	}
	var err error
	if p.backup != "" {
		_, err = w.tables.RestoreTableFromBackup(ctx, &dynamodb.RestoreTableFromBackupInput{
			BackupArn:       &p.backup,
			TargetTableName: &p.target,
		})
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
	w.logf("DynamoDB restores the table %s, which takes at least 20 minutes, as AWS says, and may take hours", p.target)
	return nil
}

// waitActive waits until a table and its indexes are usable, and logs that it waits. It does not wait for an index
// without a state, which emulators return.
func (w *work) waitActive(ctx context.Context, table string) (*types.TableDescription, error) {
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
			w.logf("waiting for the table %s, whose state is %s", table, d.TableStatus)
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(w.poll):
		}
	}
}

// configureTable sets what a restored table lacks: tags, the stream, the expiry, point-in-time recovery and deletion
// protection. configureTable creates the stream before anything is written to the table.
func (w *work) configureTable(ctx context.Context, p plan) (*types.TableDescription, error) {
	d, err := w.waitActive(ctx, p.target)
	if err != nil {
		return nil, err
	}
	if err := checkIndexes(d); err != nil {
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
		if _, err := w.tables.UpdateTable(ctx, &dynamodb.UpdateTableInput{
			TableName: &p.target,
			StreamSpecification: &types.StreamSpecification{
				StreamEnabled: aws.Bool(true), StreamViewType: store.Schema().Stream,
			},
		}); err != nil {
			return nil, fmt.Errorf("begin the stream of %s: %w", p.target, err)
		}
		if d, err = w.waitActive(ctx, p.target); err != nil {
			return nil, err
		}
	}
	if d.StreamSpecification == nil || d.StreamSpecification.StreamViewType != store.Schema().Stream ||
		aws.ToString(d.LatestStreamArn) == "" {
		return nil, fmt.Errorf("the table %s has a stream of another kind than %s: disable it, and run this again", p.target,
			store.Schema().Stream)
	}
	if err := w.enableExpiry(ctx, p.target); err != nil {
		return nil, err
	}
	if err := w.enableRecovery(ctx, p.target); err != nil {
		return nil, err
	}
	if !aws.ToBool(d.DeletionProtectionEnabled) {
		if _, err := w.tables.UpdateTable(ctx, &dynamodb.UpdateTableInput{
			TableName:                 &p.target,
			DeletionProtectionEnabled: aws.Bool(true),
		}); err != nil {
			return nil, fmt.Errorf("protect the table %s: %w", p.target, err)
		}
	}
	if d, err = w.waitActive(ctx, p.target); err != nil {
		return nil, err
	}
	w.logf("the table %s is restored, with its stream, expiry, point-in-time recovery and protection", p.target)
	return d, nil
}

// checkIndexes returns an error for a table without the product's indexes, without which due records cannot be found.
func checkIndexes(d *types.TableDescription) error {
	schema := store.Schema()
	missing := map[string]bool{}
	for _, i := range schema.Indexes {
		missing[string(i.Name)] = true
	}
	for _, i := range d.GlobalSecondaryIndexes {
		delete(missing, aws.ToString(i.IndexName))
	}
	for name := range missing {
		return fmt.Errorf("the table %s was restored without the index %s: it is none of this release's",
			aws.ToString(d.TableName), name)
	}
	return nil
}

func (w *work) enableExpiry(ctx context.Context, table string) error {
	out, err := w.tables.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("look at the expiry of %s: %w", table, err)
	}
	if d := out.TimeToLiveDescription; d != nil && (d.TimeToLiveStatus == types.TimeToLiveStatusEnabled ||
		d.TimeToLiveStatus == types.TimeToLiveStatusEnabling) {
		return nil
	}
	_, err = w.tables.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: &table,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(store.Schema().TTL), Enabled: aws.Bool(true),
		},
	})
	if err != nil {
		return fmt.Errorf("begin the expiry of %s: %w", table, err)
	}
	return nil
}

func (w *work) enableRecovery(ctx context.Context, table string) error {
	out, err := w.tables.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
	if err != nil {
		return fmt.Errorf("look at the backups of %s: %w", table, err)
	}
	d := out.ContinuousBackupsDescription
	if d != nil && d.PointInTimeRecoveryDescription != nil &&
		d.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled {
		return nil
	}
	_, err = w.tables.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
		TableName: &table,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: aws.Bool(true), RecoveryPeriodInDays: aws.Int32(recoveryDays),
		},
	})
	if err != nil {
		return fmt.Errorf("begin the point-in-time recovery of %s: %w", table, err)
	}
	return nil
}

// tagsOf returns a table's tags.
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

// span returns the earliest and the latest time that the restored state can have. An object that existed at any time
// between the two is restored. The times differ only for AT=latest, if DynamoDB returns no exact time.
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
