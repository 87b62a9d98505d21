package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
)

// plan describes what a restore will do.
type plan struct {
	stack stack
	// source is the table that was lost or corrupted. sourceExists reports whether it still exists.
	source       string
	sourceExists bool
	// target is the restored table.
	target string
	// started reports whether the restore of the table was started. deployed reports whether the stack uses the
	// restored table.
	started, deployed bool
	// backup is the ARN of the backup, or "" if the table is restored to a moment.
	backup string
	// isFinal says that the backup has the last state of the source, so no credential was revoked afterwards.
	isFinal bool
	// moment is the moment of the restored state. It is zero for the latest possible moment, and in a second run that has
	// no moment in its arguments.
	moment time.Time
}

// newPlan reads the state of the stack and of the tables, and changes nothing. Its error is one line.
func (w *work) newPlan(ctx context.Context) (p plan, err error) {
	if p.stack, err = w.stableStack(ctx); err != nil {
		return p, err
	}
	if err := w.checkKMSKey(ctx, p.stack.key); err != nil {
		return p, err
	}
	source, err := w.describe(ctx, p.stack.table)
	if err != nil {
		return p, err
	}
	p.source, p.sourceExists = p.stack.table, source != nil
	if w.at.IsZero() && !w.latest && w.backup == "" && p.stack.stream != "" && source != nil {
		// The first run had no moment in its arguments, because the table was deleted. This is the second run.
		p.target, p.deployed = p.stack.table, true
		return p, nil
	}
	if err := w.chooseMoment(ctx, &p); err != nil {
		return p, err
	}
	if p.target = w.targetTable(&p); p.target == p.stack.table {
		if p.stack.stream == "" {
			return p, fmt.Errorf("%s is the live table of %s, over which nothing is restored: name another by AS=, or "+
				"leave AS out", p.target, p.stack.name)
		}
		p.deployed = true
		return p, nil
	}
	return p, w.checkTarget(ctx, &p)
}

// chooseMoment sets the plan's moment, or its backup with the moment of the backup. It returns an error if DynamoDB
// cannot restore the table from it.
func (w *work) chooseMoment(ctx context.Context, p *plan) error {
	switch {
	case w.backup != "":
		return w.useBackup(ctx, p, w.backup)
	case w.at.IsZero() && !w.latest && p.sourceExists:
		return fmt.Errorf("the table %s is there: say how it shall be restored, by AT= with a moment before it was spoilt, "+
			"or by BACKUP=", p.source)
	case w.at.IsZero() && !w.latest:
		backupARN, err := w.systemBackup(ctx, p.source)
		if err != nil {
			return err
		}
		return w.useBackup(ctx, p, backupARN)
	case w.at.After(w.now()):
		return fmt.Errorf("AT=%s is yet to come", w.at.Format(time.RFC3339))
	}
	p.moment = w.at
	existing, err := w.describe(ctx, w.targetTable(p))
	switch {
	case err != nil || existing != nil: // the restore was started already, and its source may be deleted
		return err
	case !p.sourceExists:
		return fmt.Errorf("the table %s was deleted, and DynamoDB has it as it was at its end alone: leave AT out, or name "+
			"a backup by BACKUP=", p.source)
	}
	return w.checkRecoverable(ctx, p)
}

// targetTable returns the name that the restored table has or will have.
func (w *work) targetTable(p *plan) string {
	if w.targetName != "" {
		return w.targetName
	}
	return p.stack.name + "-" + p.moment.Format("20060102T150405Z")
}

// checkRecoverable checks that DynamoDB can restore the source to the requested moment.
func (w *work) checkRecoverable(ctx context.Context, p *plan) error {
	out, err := w.tables.DescribeContinuousBackups(ctx, &dynamodb.DescribeContinuousBackupsInput{TableName: &p.source})
	if err != nil {
		return fmt.Errorf("look at the backups of %s: %w", p.source, err)
	}
	d := out.ContinuousBackupsDescription.PointInTimeRecoveryDescription
	if d == nil || d.PointInTimeRecoveryStatus != types.PointInTimeRecoveryStatusEnabled {
		return fmt.Errorf("the table %s has no point-in-time recovery: name a backup by BACKUP=", p.source)
	}
	from, to := aws.ToTime(d.EarliestRestorableDateTime).UTC(), aws.ToTime(d.LatestRestorableDateTime).UTC()
	if !w.latest && (w.at.Before(from.Truncate(time.Second)) || w.at.After(to)) {
		return fmt.Errorf("the table %s can be restored as it was between %s and %s, and AT=%s is not between them", p.source,
			from.Format(time.RFC3339), to.Format(time.RFC3339), w.at.Format(time.RFC3339))
	}
	return nil
}

// useBackup checks a backup, and sets the plan's backup, moment and isFinal.
func (w *work) useBackup(ctx context.Context, p *plan, backupARN string) error {
	if parsed, err := arn.Parse(backupARN); err == nil && parsed.Region != w.region {
		return fmt.Errorf("the backup is in %s, and the installation in %s: a table is restored in its own region "+
			"(docs/aws.md, \"Move to another region\")", parsed.Region, w.region)
	}
	out, err := w.tables.DescribeBackup(ctx, &dynamodb.DescribeBackupInput{BackupArn: &backupARN})
	switch {
	case isNotFound(err) || errorCode(err) == "ValidationException":
		return fmt.Errorf("DynamoDB has no backup %s: `aws dynamodb list-backups` shows those that there are", backupARN)
	case err != nil:
		return fmt.Errorf("look at the backup: %w", err)
	}
	d, source := out.BackupDescription.BackupDetails, out.BackupDescription.SourceTableDetails
	if table := aws.ToString(source.TableName); table != p.source && p.stack.stream == "" {
		return fmt.Errorf("the backup is of the table %s, and the installation's is %s", table, p.source)
	}
	if d.BackupStatus != types.BackupStatusAvailable {
		return fmt.Errorf("the backup is not there whole: its state is %s", d.BackupStatus)
	}
	p.backup, p.moment = backupARN, aws.ToTime(d.BackupCreationDateTime).UTC().Truncate(time.Second)
	p.isFinal = d.BackupType == types.BackupTypeSystem
	return nil
}

// systemBackup returns the ARN of the newest backup that DynamoDB created because a table of this name was deleted.
func (w *work) systemBackup(ctx context.Context, table string) (string, error) {
	out, err := w.tables.ListBackups(ctx, &dynamodb.ListBackupsInput{
		TableName:  &table,
		BackupType: types.BackupTypeFilterSystem,
	})
	if err != nil {
		return "", fmt.Errorf("list the backups of %s: %w", table, err)
	}
	var newest types.BackupSummary
	for _, b := range out.BackupSummaries {
		if b.BackupType == types.BackupTypeSystem &&
			aws.ToTime(b.BackupCreationDateTime).After(aws.ToTime(newest.BackupCreationDateTime)) {
			newest = b
		}
	}
	if newest.BackupArn == nil {
		return "", fmt.Errorf("the table %s was deleted, and DynamoDB has kept no backup of its end: name one by BACKUP=",
			table)
	}
	return *newest.BackupArn, nil
}

// checkTarget sets started if the target exists. It returns an error if the existing target was not restored from the
// plan's backup, or from the plan's source to the plan's moment.
func (w *work) checkTarget(ctx context.Context, p *plan) error {
	d, err := w.describe(ctx, p.target)
	if err != nil || d == nil {
		return err
	}
	p.started = true
	if summary := d.RestoreSummary; summary != nil {
		sameBackup := p.backup != "" && aws.ToString(summary.SourceBackupArn) == p.backup
		sameMoment := p.backup == "" && strings.HasSuffix(aws.ToString(summary.SourceTableArn), ":table/"+p.source) &&
			(w.latest || aws.ToTime(summary.RestoreDateTime).Equal(p.moment))
		if sameBackup || sameMoment {
			return nil
		}
	}
	tags, err := w.tagsOf(ctx, aws.ToString(d.TableArn))
	if err != nil {
		return err
	}
	if tags[restoredTag] == p.origin() {
		return nil
	}
	return fmt.Errorf("a table %s is there, and it was not restored for this: nothing is restored over it. Name "+
		"another by AS=", p.target)
}

// origin returns the value of restoredTag: the backup, or the source and the moment.
func (p plan) origin() string {
	if p.backup != "" {
		return p.backup
	}
	if p.moment.IsZero() {
		return p.source
	}
	return p.source + "@" + p.moment.Format(time.RFC3339)
}

// describe returns the description of a table. It returns nil if the table does not exist or is being deleted.
func (w *work) describe(ctx context.Context, table string) (*types.TableDescription, error) {
	out, err := w.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	switch {
	case isNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at the table %s: %w", table, err)
	case out.Table.TableStatus == types.TableStatusDeleting:
		return nil, nil
	}
	return out.Table, nil
}

// These are the states of a KMS key, as KMS names them.
const (
	keyEnabled         = "Enabled"
	keyPendingDeletion = "PendingDeletion"
	keyDisabled        = "Disabled"
)

// checkKMSKey returns an error if the KMS key is unusable: this key wraps the root key, without which no secret can be
// unsealed and no credential can be recognized.
func (w *work) checkKMSKey(ctx context.Context, id string) error {
	out, err := w.kms.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &id})
	if isNotFound(err) {
		return fmt.Errorf("KMS has no key %s in %s, and without it nothing of the installation opens: an export "+
			"(docs/aws.md, \"Move to another region\") is the way back", id, w.region)
	}
	if err != nil {
		return fmt.Errorf("look at the KMS key %s: %w", id, err)
	}
	switch k := out.KeyMetadata; k.KeyState {
	case keyEnabled:
		return nil
	case keyPendingDeletion:
		return fmt.Errorf("KMS deletes the key %s on %s, and nothing of the installation opens without it: `aws kms "+
			"cancel-key-deletion --key-id %s`, and `aws kms enable-key --key-id %s`",
			id, aws.ToTime(k.DeletionDate).UTC().Format(time.RFC3339), id, id)
	case keyDisabled:
		return fmt.Errorf("the KMS key %s is disabled, and nothing of the installation opens without it: `aws kms "+
			"enable-key --key-id %s`", id, id)
	default:
		return fmt.Errorf("the KMS key %s cannot be used: its state is %s", id, k.KeyState)
	}
}

// logPlan shows a plan.
func (w *work) logPlan(p plan) {
	origin := "as it was at " + p.moment.Format(time.RFC3339)
	if p.moment.IsZero() {
		origin = "as it was last, some five minutes ago"
	}
	if p.backup != "" {
		origin += ", of the backup " + p.backup
	}
	w.logf("%s in %s:", p.stack.name, w.region)
	if p.deployed {
		w.logf("- it goes on with the restored table %s: that is checked, and what was closed is opened again", p.target)
		return
	}
	stoppedText := fmt.Sprintf("%d functions are stopped, and the management API answers 5xx; the gateway goes on "+
		"with what it has", len(p.stack.functions))
	if w.gatewayToo {
		stoppedText = fmt.Sprintf("%d functions are stopped, the gateway's too; tasks of ECS are not",
			len(p.stack.functions)+1)
	}
	if p.sourceExists {
		w.logf("- the table %s stays as it is, protected against deletion", p.source)
	} else {
		w.logf("- the table %s is gone", p.source)
	}
	w.logf("- %s", stoppedText)
	if p.started {
		w.logf("- the table %s, which was begun to be restored %s, is gone on with", p.target, origin)
	} else {
		w.logf("- a table %s is restored %s, with stream, expiry, point-in-time recovery and protection", p.target, origin)
	}
	w.logf("- what was deleted from the bucket %s since then comes back", p.stack.bucket)
	switch w.revivedPolicy {
	case revoke:
		w.logf("- keys and tokens that had ended since then are revoked again")
	case keep:
		w.logf("- keys and tokens that had ended since then open it again")
	default:
		w.logf("- keys and tokens that had ended since then are listed, for you to say what becomes of them")
	}
	w.logf("- what was changed since then is not in it, and stays in the table of before alone")
}
