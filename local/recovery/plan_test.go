package main

import (
	"strings"
	"testing"
	"time"
)

// backups are what DynamoDB tells of the backups of tables.
type backups struct {
	from, to time.Time
	off      bool
	of       string // the table of the one backup
	state    string
	kind     string
	on       time.Time
	listed   map[string]time.Time // system backups of the table, by their ARNs, in whose order they are told
}

func (b backups) tell(operation string, _ map[string]any) any {
	switch operation {
	case "DescribeContinuousBackups":
		d := map[string]any{"PointInTimeRecoveryStatus": "ENABLED", "EarliestRestorableDateTime": b.from.Unix(), "LatestRestorableDateTime": b.to.Unix()}
		if b.off {
			d = map[string]any{"PointInTimeRecoveryStatus": "DISABLED"}
		}
		return map[string]any{"ContinuousBackupsDescription": map[string]any{"ContinuousBackupsStatus": "ENABLED", "PointInTimeRecoveryDescription": d}}
	case "DescribeBackup":
		return map[string]any{"BackupDescription": map[string]any{
			"BackupDetails":      map[string]any{"BackupStatus": b.state, "BackupType": b.kind, "BackupCreationDateTime": b.on.Unix()},
			"SourceTableDetails": map[string]any{"TableName": b.of},
		}}
	case "ListBackups":
		var all []any
		for _, arn := range sortedNames(b.listed) {
			all = append(all, map[string]any{"BackupArn": arn, "BackupType": "SYSTEM", "BackupCreationDateTime": b.listed[arn].Unix()})
		}
		return map[string]any{"BackupSummaries": all}
	}
	return nil
}

const backupARN = "arn:aws:dynamodb:eu-west-1:000000000000:table/spoilt/backup/"

// TestMomentIsOneThatDynamoDBHas, or that of a whole backup of this table in this region; all else is one line, before anything is done.
func TestMomentIsOneThatDynamoDBHas(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	has := backups{
		from: now.Add(-24 * time.Hour), to: now.Add(-5 * time.Minute),
		of: "spoilt", state: "AVAILABLE", kind: "USER", on: now.Add(-time.Hour),
		listed: map[string]time.Time{backupARN + "3-old": now.Add(-3 * time.Hour), backupARN + "2-end": now.Add(-time.Hour), backupARN + "1-older": now.Add(-4 * time.Hour)},
	}
	for _, c := range []struct {
		name   string
		at     time.Time
		latest bool
		backup string
		change func(*backups)
		gone   bool // the table of before
		moment time.Time
		of     string // the backup
		ended  bool
		want   string // of the refusal
	}{
		{name: "the first second", at: has.from, moment: has.from},
		{name: "the last", at: has.to, moment: has.to},
		{name: "the latest", latest: true},
		{name: "before the first", at: has.from.Add(-time.Second), want: "is not between them"},
		{name: "behind the last", at: has.to.Add(time.Second), want: "is not between them"},
		{name: "to come", at: now.Add(time.Second), want: "is yet to come"},
		{name: "without recovery", at: has.from, change: func(b *backups) { b.off = true }, want: "no point-in-time recovery"},
		{name: "without a word", want: "AT="},
		{name: "a moment of what is gone", at: has.from, gone: true, want: "as it was at its end alone"},
		{name: "the end of what is gone", gone: true, change: func(b *backups) { b.kind = "SYSTEM" }, moment: has.on, of: backupARN + "2-end", ended: true},
		{name: "gone without a backup", gone: true, change: func(b *backups) { b.listed = nil }, want: "no backup of its end"},
		{name: "a backup", backup: backupARN + "one", moment: has.on, of: backupARN + "one"},
		{name: "a backup of its end", backup: backupARN + "2-end", change: func(b *backups) { b.kind = "SYSTEM" }, moment: has.on, of: backupARN + "2-end", ended: true},
		{name: "a backup that is being made", backup: backupARN + "one", change: func(b *backups) { b.state = "CREATING" }, want: "its state is CREATING"},
		{name: "a backup of another table", backup: backupARN + "one", change: func(b *backups) { b.of = "other" }, want: "is of the table other"},
		{name: "a backup of another region", backup: strings.Replace(backupARN, "eu-west-1", "us-east-1", 1) + "one", want: "is in us-east-1"},
	} {
		s, its := deployed(), has
		if c.change != nil {
			c.change(&its)
		}
		if s.also = its.tell; c.gone {
			delete(s.tables, "spoilt")
		}
		w := newWork(t, s, request{at: c.at, latest: c.latest, backup: c.backup, as: "restored"})
		w.now = func() time.Time { return now }
		p := planned()
		p.moment, p.there = time.Time{}, !c.gone
		err := w.chooseMoment(t.Context(), &p)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: it is answered %v", c.name, err)
			}
		case err != nil || !p.moment.Equal(c.moment) || p.backup != c.of || p.ended != c.ended:
			t.Errorf("%s: %s of the backup %q, the end: %t (%v)", c.name, p.moment, p.backup, p.ended, err)
		}
	}
}

// TestTableOfAnotherMomentIsNotGoneOnWith, whatever restored it: nor one with a tag of another restore.
func TestTableOfAnotherMomentIsNotGoneOnWith(t *testing.T) {
	of := planned().moment
	for _, c := range []struct {
		name   string
		moment time.Time // that AWS tells, zero for none
		tag    string
		ours   bool
	}{
		{"of the moment", of, "", true},
		{"of another", of.Add(time.Second), "", false},
		{"of which AWS tells nothing, with our tag", time.Time{}, "spoilt@2026-11-25T14:02:00Z", true},
		{"of which AWS tells nothing, with the tag of another", time.Time{}, "spoilt@2026-11-25T14:03:00Z", false},
		{"of which nobody tells anything", time.Time{}, "", false},
	} {
		s := deployed()
		s.tables["restored"] = &fakeTable{Tags: map[string]string{restoredTag: c.tag}}
		s.also = func(operation string, in map[string]any) any {
			if operation != "DescribeTable" || c.moment.IsZero() {
				return nil
			}
			return map[string]any{"Table": map[string]any{
				"TableName": in["TableName"], "TableStatus": "ACTIVE", "TableArn": "arn:aws:dynamodb:eu-west-1:000000000000:table/restored",
				"RestoreSummary": map[string]any{"SourceTableArn": "arn:aws:dynamodb:eu-west-1:000000000000:table/spoilt", "RestoreDateTime": c.moment.Unix(), "RestoreInProgress": false},
			}}
		}
		p := planned()
		if err := newWork(t, s, request{at: of}).targetIsOurs(t.Context(), &p); (err == nil) != c.ours || p.begun != true {
			t.Errorf("a table %s is answered %v", c.name, err)
		}
	}
}

// TestNoteThatSaysNothingOpensNothing: a function whose note somebody has changed stays as it is, with the note.
func TestNoteThatSaysNothingOpensNothing(t *testing.T) {
	s := deployed()
	zero := 0
	f := s.functions["gatewright-dev-builder"]
	f.reserved, f.tags[stoppedTag] = &zero, "seven"
	n, err := newWork(t, s, request{}).open(t.Context(), planned().stack, stoppedTag)
	if err == nil || strings.Contains(err.Error(), "\n") || n != 1 || f.tags[stoppedTag] != "seven" || f.reserved == nil {
		t.Errorf("%d are open, %v: %s", n, err, f.state())
	}
	f.tags[stoppedTag] = "7"
	if n, err := newWork(t, s, request{}).open(t.Context(), planned().stack, stoppedTag); err != nil || n != 1 || *f.reserved != 7 {
		t.Errorf("%d are open, %v: %s", n, err, f.state())
	}
}
