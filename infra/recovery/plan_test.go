package main

import (
	"strings"
	"testing"
	"time"
)

// backups has the point-in-time recovery and the backups that DynamoDB returns.
type backups struct {
	from, to      time.Time
	disabled      bool
	table         string // the source table of each backup
	state         string
	kind          string
	createdAt     time.Time
	systemBackups map[string]time.Time // creation times of system backups, by ARN
}

// handle returns the response to a request about recovery or backups, and nil for any other request.
func (b backups) handle(operation string, _ map[string]any) any {
	switch operation {
	case "DescribeContinuousBackups":
		d := map[string]any{
			"PointInTimeRecoveryStatus": "ENABLED", "EarliestRestorableDateTime": b.from.Unix(),
			"LatestRestorableDateTime": b.to.Unix(),
		}
		if b.disabled {
			d = map[string]any{"PointInTimeRecoveryStatus": "DISABLED"}
		}
		return map[string]any{"ContinuousBackupsDescription": map[string]any{
			"ContinuousBackupsStatus":        "ENABLED",
			"PointInTimeRecoveryDescription": d,
		}}
	case "DescribeBackup":
		return map[string]any{"BackupDescription": map[string]any{
			"BackupDetails": map[string]any{
				"BackupStatus": b.state, "BackupType": b.kind,
				"BackupCreationDateTime": b.createdAt.Unix(),
			},
			"SourceTableDetails": map[string]any{"TableName": b.table},
		}}
	case "ListBackups":
		var all []any
		for _, arn := range sortedKeys(b.systemBackups) {
			all = append(all, map[string]any{
				"BackupArn": arn, "BackupType": "SYSTEM",
				"BackupCreationDateTime": b.systemBackups[arn].Unix(),
			})
		}
		return map[string]any{"BackupSummaries": all}
	}
	return nil
}

const backupARN = "arn:aws:dynamodb:eu-west-1:000000000000:table/damaged/backup/"

// TestMomentMustBeRestorable checks that chooseMoment accepts only a restorable moment, or a complete backup of this
// table in this region. It refuses anything else with an error of one line.
func TestMomentMustBeRestorable(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	base := backups{
		from: now.Add(-24 * time.Hour), to: now.Add(-5 * time.Minute),
		table: "damaged", state: "AVAILABLE", kind: "USER", createdAt: now.Add(-time.Hour),
		systemBackups: map[string]time.Time{
			backupARN + "3-old": now.Add(-3 * time.Hour),
			backupARN + "2-end": now.Add(-time.Hour), backupARN + "1-older": now.Add(-4 * time.Hour),
		},
	}
	for _, c := range []struct {
		name          string
		at            time.Time
		latest        bool
		backup        string
		change        func(*backups)
		sourceDeleted bool // whether the source table was deleted
		moment        time.Time
		wantBackup    string // the ARN of the chosen backup
		wantFinal     bool   // whether the backup has the last state of the table
		want          string // a part of the error
	}{
		{name: "first restorable second", at: base.from, moment: base.from},
		{name: "last restorable second", at: base.to, moment: base.to},
		{name: "latest moment", latest: true},
		{name: "moment before the first", at: base.from.Add(-time.Second), want: "is not between them"},
		{name: "moment after the last", at: base.to.Add(time.Second), want: "is not between them"},
		{name: "moment in the future", at: now.Add(time.Second), want: "is yet to come"},
		{name: "table without recovery", at: base.from, change: func(b *backups) {
			b.disabled = true
		}, want: "no point-in-time recovery"},
		{name: "no moment", want: "AT="},
		{name: "moment of a deleted table", at: base.from, sourceDeleted: true, want: "as it was at its end alone"},
		{name: "end of a deleted table", sourceDeleted: true, change: func(b *backups) {
			b.kind = "SYSTEM"
		}, moment: base.createdAt, wantBackup: backupARN + "2-end", wantFinal: true},
		{name: "deleted table without a backup", sourceDeleted: true, change: func(b *backups) {
			b.systemBackups = nil
		}, want: "no backup of its end"},
		{name: "backup", backup: backupARN + "one", moment: base.createdAt, wantBackup: backupARN + "one"},
		{name: "backup of the end of a table", backup: backupARN + "2-end", change: func(b *backups) {
			b.kind = "SYSTEM"
		}, moment: base.createdAt, wantBackup: backupARN + "2-end", wantFinal: true},
		{name: "backup in progress", backup: backupARN + "one", change: func(b *backups) {
			b.state = "CREATING"
		}, want: "its state is CREATING"},
		{name: "a backup of another table", backup: backupARN + "one", change: func(b *backups) {
			b.table = "other"
		}, want: "is of the table other"},
		{
			name: "a backup of another region", backup: strings.Replace(backupARN, "eu-west-1", "us-east-1", 1) + "one",
			want: "is in us-east-1",
		},
	} {
		s, variant := newFakeAWS(), base
		if c.change != nil {
			c.change(&variant)
		}
		if s.handleTable = variant.handle; c.sourceDeleted {
			delete(s.tables, "damaged")
		}
		w := newWork(t, s, request{at: c.at, latest: c.latest, backup: c.backup, targetName: "restored"})
		w.now = func() time.Time { return now }
		p := testPlan()
		p.moment, p.sourceExists = time.Time{}, !c.sourceDeleted
		err := w.chooseMoment(t.Context(), &p)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: chooseMoment() = %v, want one line with %q", c.name, err, c.want)
			}
		case err != nil || !p.moment.Equal(c.moment) || p.backup != c.wantBackup || p.isFinal != c.wantFinal:
			t.Errorf("%s: chooseMoment() = %v, plan with %s, backup %q, final: %t, want %s, %q, %t", c.name, err, p.moment,
				p.backup, p.isFinal, c.moment, c.wantBackup, c.wantFinal)
		}
	}
}

// TestTableOfAnotherRestoreIsNotContinued checks that a target table from another restore is refused. If AWS returns no
// summary of the table's restore, the table's tag decides.
func TestTableOfAnotherRestoreIsNotContinued(t *testing.T) {
	restoredAt := testPlan().moment
	for _, c := range []struct {
		name         string
		moment       time.Time // the moment that AWS returns, zero for none
		tag          string
		wantAccepted bool
	}{
		{"table of the moment", restoredAt, "", true},
		{"table of another moment", restoredAt.Add(time.Second), "", false},
		{"table without a summary and with the tag of the restore", time.Time{}, "damaged@2026-11-25T14:02:00Z", true},
		{"table without a summary and with the tag of another restore", time.Time{}, "damaged@2026-11-25T14:03:00Z", false},
		{"table without a summary and a tag", time.Time{}, "", false},
	} {
		s := newFakeAWS()
		s.tables["restored"] = &fakeTable{Tags: map[string]string{restoredTag: c.tag}}
		s.handleTable = func(operation string, in map[string]any) any {
			if operation != "DescribeTable" || c.moment.IsZero() {
				return nil
			}
			return map[string]any{"Table": map[string]any{
				"TableName": in["TableName"], "TableStatus": "ACTIVE",
				"TableArn": "arn:aws:dynamodb:eu-west-1:000000000000:table/restored",
				"RestoreSummary": map[string]any{
					"SourceTableArn":  "arn:aws:dynamodb:eu-west-1:000000000000:table/damaged",
					"RestoreDateTime": c.moment.Unix(), "RestoreInProgress": false,
				},
			}}
		}
		p := testPlan()
		if err := newWork(t, s, request{at: restoredAt}).checkTarget(t.Context(), &p); (err == nil) != c.wantAccepted ||
			p.started != true {
			t.Errorf("%s: checkTarget() = %v, started: %v, want the table accepted: %v, started: true", c.name, err,
				p.started, c.wantAccepted)
		}
	}
}

// TestInvalidTagKeepsTheFunctionStopped checks that a function with an invalid tag stays stopped and keeps the tag.
// With a valid tag it gets its concurrency again.
func TestInvalidTagKeepsTheFunctionStopped(t *testing.T) {
	s := newFakeAWS()
	zero := 0
	f := s.functions["gatewright-dev-builder"]
	f.reserved, f.tags[stoppedTag] = &zero, "seven"
	n, err := newWork(t, s, request{}).startFunctions(t.Context(), testPlan().stack, stoppedTag)
	if err == nil || strings.Contains(err.Error(), "\n") || n != 1 {
		t.Errorf("startFunctions(invalid tag) = %d, %v, want 1 and an error of one line", n, err)
	}
	if f.tags[stoppedTag] != "seven" || f.reserved == nil {
		t.Errorf("startFunctions(invalid tag) leaves the function %s, want it stopped with its tag", f.state())
	}
	f.tags[stoppedTag] = "7"
	if n, err := newWork(t, s, request{}).startFunctions(t.Context(), testPlan().stack, stoppedTag); err != nil ||
		n != 1 || *f.reserved != 7 {
		t.Errorf("startFunctions(valid tag) = %d, %v, function %s, want 1, no error and a concurrency of 7", n, err,
			f.state())
	}
}
