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

// plan is what will be done.
type plan struct {
	stack stack
	// source is the table that was lost or spoilt; there reports whether it is still there.
	source string
	there  bool
	// target is the restored table.
	target string
	// begun reports whether it was begun to be restored, adopted whether the stack goes on with it.
	begun, adopted bool
	// backup is the ARN of the backup of which it is restored, "" for a moment.
	backup string
	// ended says that the backup is of the source's last moment: nothing has ended since.
	ended bool
	// moment is how the table will be, zero for the latest that there is.
	moment time.Time
}

// planOf looks at everything first. What it refuses is one line, and nothing was changed.
func (w *work) planOf(ctx context.Context) (p plan, err error) {
	if p.stack, err = w.stillStack(ctx); err != nil {
		return p, err
	}
	if err := w.keyStands(ctx, p.stack.key); err != nil {
		return p, err
	}
	current, err := w.describe(ctx, p.stack.table)
	if err != nil {
		return p, err
	}
	p.source, p.there = p.stack.table, current != nil
	if w.at.IsZero() && !w.latest && w.backup == "" && p.stack.stream != "" && current != nil {
		// The words of the first time have had no moment: it was a table's end.
		p.target, p.adopted = p.stack.table, true
		return p, nil
	}
	if err := w.chooseMoment(ctx, &p); err != nil {
		return p, err
	}
	if p.target = w.target(&p); p.target == p.stack.table {
		if p.stack.stream == "" {
			return p, fmt.Errorf("%s is the live table of %s, over which nothing is restored: name another by AS=, or leave AS out", p.target, p.stack.name)
		}
		p.adopted = true
		return p, nil
	}
	return p, w.targetIsOurs(ctx, &p)
}

// chooseMoment finds of what the table is restored.
func (w *work) chooseMoment(ctx context.Context, p *plan) error {
	switch {
	case w.backup != "":
		return w.ofBackup(ctx, p, w.backup)
	case w.at.IsZero() && !w.latest && p.there:
		return fmt.Errorf("the table %s is there: say how it shall be restored, by AT= with a moment before it was spoilt, or by BACKUP=", p.source)
	case w.at.IsZero() && !w.latest:
		found, err := w.lastBackup(ctx, p.source)
		if err != nil {
			return err
		}
		return w.ofBackup(ctx, p, found)
	case w.at.After(w.now()):
		return fmt.Errorf("AT=%s is yet to come", w.at.Format(time.RFC3339))
	}
	p.moment = w.at
	begun, err := w.describe(ctx, w.target(p))
	switch {
	case err != nil || begun != nil: // what it was restored of may be gone
		return err
	case !p.there:
		return fmt.Errorf("the table %s was deleted, and DynamoDB has it as it was at its end alone: leave AT out, or name a backup by BACKUP=", p.source)
	}
	return w.recoverable(ctx, p)
}

// target is the restored table's name.
func (w *work) target(p *plan) string {
	if w.as != "" {
		return w.as
	}
	return p.stack.name + "-" + p.moment.Format("20060102T150405Z")
}

// recoverable asks whether DynamoDB has the source at the moment.
func (w *work) recoverable(ctx context.Context, p *plan) error {
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

// ofBackup reads a backup's moment.
func (w *work) ofBackup(ctx context.Context, p *plan, name string) error {
	if parsed, err := arn.Parse(name); err == nil && parsed.Region != w.region {
		return fmt.Errorf("the backup is in %s, and the installation in %s: a table is restored in its own region (docs/aws.md, \"Move to another region\")", parsed.Region, w.region)
	}
	out, err := w.tables.DescribeBackup(ctx, &dynamodb.DescribeBackupInput{BackupArn: &name})
	switch {
	case missing(err) || code(err) == "ValidationException":
		return fmt.Errorf("DynamoDB has no backup %s: `aws dynamodb list-backups` shows those that there are", name)
	case err != nil:
		return fmt.Errorf("look at the backup: %w", err)
	}
	d, of := out.BackupDescription.BackupDetails, out.BackupDescription.SourceTableDetails
	if table := aws.ToString(of.TableName); table != p.source && p.stack.stream == "" {
		return fmt.Errorf("the backup is of the table %s, and the installation's is %s", table, p.source)
	}
	if d.BackupStatus != types.BackupStatusAvailable {
		return fmt.Errorf("the backup is not there whole: its state is %s", d.BackupStatus)
	}
	p.backup, p.moment = name, aws.ToTime(d.BackupCreationDateTime).UTC().Truncate(time.Second)
	p.ended = d.BackupType == types.BackupTypeSystem
	return nil
}

// lastBackup finds the backup that DynamoDB makes of a table that is deleted.
func (w *work) lastBackup(ctx context.Context, table string) (string, error) {
	out, err := w.tables.ListBackups(ctx, &dynamodb.ListBackupsInput{TableName: &table, BackupType: types.BackupTypeFilterSystem})
	if err != nil {
		return "", fmt.Errorf("list the backups of %s: %w", table, err)
	}
	var newest types.BackupSummary
	for _, b := range out.BackupSummaries {
		if b.BackupType == types.BackupTypeSystem && aws.ToTime(b.BackupCreationDateTime).After(aws.ToTime(newest.BackupCreationDateTime)) {
			newest = b
		}
	}
	if newest.BackupArn == nil {
		return "", fmt.Errorf("the table %s was deleted, and DynamoDB has kept no backup of its end: name one by BACKUP=", table)
	}
	return *newest.BackupArn, nil
}

// targetIsOurs refuses a table that was not restored for this.
func (w *work) targetIsOurs(ctx context.Context, p *plan) error {
	d, err := w.describe(ctx, p.target)
	if err != nil || d == nil {
		return err
	}
	p.begun = true
	if of := d.RestoreSummary; of != nil {
		ofBackup := p.backup != "" && aws.ToString(of.SourceBackupArn) == p.backup
		ofMoment := p.backup == "" && strings.HasSuffix(aws.ToString(of.SourceTableArn), ":table/"+p.source) &&
			(w.latest || aws.ToTime(of.RestoreDateTime).Equal(p.moment))
		if ofBackup || ofMoment {
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
	return fmt.Errorf("a table %s is there, and it was not restored for this: nothing is restored over it. Name another by AS=", p.target)
}

// origin is what the restored table's tag says.
func (p plan) origin() string {
	if p.backup != "" {
		return p.backup
	}
	if p.moment.IsZero() {
		return p.source
	}
	return p.source + "@" + p.moment.Format(time.RFC3339)
}

// describe looks at a table, nil for none.
func (w *work) describe(ctx context.Context, table string) (*types.TableDescription, error) {
	out, err := w.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	switch {
	case missing(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look at the table %s: %w", table, err)
	case out.Table.TableStatus == types.TableStatusDeleting:
		return nil, nil
	}
	return out.Table, nil
}

// The states of a KMS key, as KMS calls them.
const (
	keyEnabled         = "Enabled"
	keyPendingDeletion = "PendingDeletion"
	keyDisabled        = "Disabled"
)

// keyStands refuses what could never be opened: all secrets, and what keys are known by, are
// under the root key, which this KMS key wraps.
func (w *work) keyStands(ctx context.Context, id string) error {
	out, err := w.keys.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &id})
	if missing(err) {
		return fmt.Errorf("KMS has no key %s in %s, and without it nothing of the installation opens: an export (docs/aws.md, \"Move to another region\") is the way back", id, w.region)
	}
	if err != nil {
		return fmt.Errorf("look at the KMS key %s: %w", id, err)
	}
	switch k := out.KeyMetadata; k.KeyState {
	case keyEnabled:
		return nil
	case keyPendingDeletion:
		return fmt.Errorf("KMS deletes the key %s on %s, and nothing of the installation opens without it: `aws kms cancel-key-deletion --key-id %s`, and `aws kms enable-key --key-id %s`",
			id, aws.ToTime(k.DeletionDate).UTC().Format(time.RFC3339), id, id)
	case keyDisabled:
		return fmt.Errorf("the KMS key %s is disabled, and nothing of the installation opens without it: `aws kms enable-key --key-id %s`", id, id)
	default:
		return fmt.Errorf("the KMS key %s cannot be used: its state is %s", id, k.KeyState)
	}
}

// tell shows a plan.
func (w *work) tell(p plan) {
	how := "as it was at " + p.moment.Format(time.RFC3339)
	if p.moment.IsZero() {
		how = "as it was last, some five minutes ago"
	}
	if p.backup != "" {
		how += ", of the backup " + p.backup
	}
	w.say("%s in %s:", p.stack.name, w.region)
	if p.adopted {
		w.say("- it goes on with the restored table %s: that is checked, and what was closed is opened again", p.target)
		return
	}
	stopped := fmt.Sprintf("%d functions are stopped, and the management API answers 5xx; the gateway goes on with what it has", len(p.stack.functions))
	if w.gatewayToo {
		stopped = fmt.Sprintf("%d functions are stopped, the gateway's too; tasks of ECS are not", len(p.stack.functions)+1)
	}
	if p.there {
		w.say("- the table %s stays as it is, protected against deletion", p.source)
	} else {
		w.say("- the table %s is gone", p.source)
	}
	w.say("- %s", stopped)
	if p.begun {
		w.say("- the table %s, which was begun to be restored %s, is gone on with", p.target, how)
	} else {
		w.say("- a table %s is restored %s, with stream, expiry, point-in-time recovery and protection", p.target, how)
	}
	w.say("- what was deleted from the bucket %s since then comes back", p.stack.bucket)
	switch w.revived {
	case revoke:
		w.say("- keys and tokens that had ended since then are revoked again")
	case keep:
		w.say("- keys and tokens that had ended since then open it again")
	default:
		w.say("- keys and tokens that had ended since then are listed, for you to say what becomes of them")
	}
	w.say("- what was changed since then is not in it, and stays in the table of before alone")
}
