package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// TestRestoreFinishesWhenAllRecordsAreProcessed checks that a restore does not finish if a function fails or accepts
// only some of the records, and that another run finishes it.
func TestRestoreFinishesWhenAllRecordsAreProcessed(t *testing.T) {
	accepted := map[string]any{"batchItemFailures": []any{}}
	for _, c := range []struct {
		name, failure string
		response      any
		want          string
	}{
		{"all records processed", "", accepted, ""},
		{"failing function", "Unhandled", accepted, "fails (Unhandled)"},
		{
			"part of the records processed", "",
			map[string]any{"batchItemFailures": []any{map[string]any{"itemIdentifier": "1"}}},
			"has not taken 1 of",
		},
	} {
		s, sc := newFakeAWS(), newScenario(t)
		w := newStopWork(t, s, sc, request{})
		if err := runTableSteps(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		pending, delivered, calls := 0, 0, 0
		for key := range sc.earlier.Items() {
			if audit.IsPending(key) {
				pending++
			}
		}
		s.streamARN, s.mappingState = "arn:aws:dynamodb:eu-west-1:000000000000:table/restored/stream/2026-11-25T14:02:00.000",
			"Enabled"
		for _, f := range s.functions {
			f.table = "restored"
		}
		failure, response := c.failure, c.response
		s.invoke = func(name string, in map[string]any) (string, any) {
			calls++
			if records, ok := in["Records"].([]any); ok && strings.HasSuffix(name, "auditchain") {
				delivered += len(records)
			}
			return failure, response
		}
		var logs bytes.Buffer
		w.console = console{strings.NewReader(""), io.Discard, &logs}
		p := testPlan()
		p.deployed = true
		err := w.finishRestore(t.Context(), p)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(logs.String(), "the restore is done") {
				t.Errorf("%s: finishRestore() = %v, want %q and no message that the restore is done; log %s", c.name, err, c.want,
					&logs)
			}
			failure, response, delivered = "", accepted, 0
			err = w.finishRestore(t.Context(), p)
		}
		if err != nil || !strings.Contains(logs.String(), "the restore is done") || stoppedCount(s) != 0 {
			t.Errorf("%s: finishRestore() = %v with %d functions stopped, want no error and 0; log %s", c.name, err,
				stoppedCount(s), &logs)
		}
		if delivered != pending || pending == 0 {
			t.Errorf("%s: %d audit records are delivered in %d calls, want %d and at least 1", c.name, delivered, calls, pending)
		}
	}
}

// TestRevivedCredentialsExcludeExpiredAndUnchanged checks that findRevived leaves out credentials that have expired by
// now, and credentials that are not valid for longer than in the old table.
func TestRevivedCredentialsExcludeExpiredAndUnchanged(t *testing.T) {
	now := time.Now()
	fromNow := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	for _, c := range []struct {
		name                       string
		restored                   *time.Time // the expiry in the restored table, nil for never
		existed                    bool       // whether the old table has the key
		before                     *time.Time // the expiry in the old table, nil for never
		wantRevived, wantOldExpiry bool
	}{
		{"deleted key without an expiry", nil, false, nil, true, false},
		{"deleted key with an expiry", fromNow(time.Hour), false, nil, true, false},
		{"deleted and expired key", fromNow(-time.Hour), false, nil, false, false},
		{"deleted key that expires now", &now, false, nil, false, false},
		{"unchanged key", fromNow(time.Hour), true, fromNow(time.Hour), false, false},
		{"key that expires later in the restored table", fromNow(time.Hour), true, fromNow(time.Minute), true, true},
		{"key that expires sooner in the restored table", fromNow(time.Minute), true, fromNow(time.Hour), false, false},
		{"key that got an expiry", nil, true, fromNow(time.Hour), true, true},
		{"key that lost its expiry", fromNow(time.Hour), true, nil, false, false},
	} {
		key := store.KeyPrefix("key").Key("one")
		restored := survey{credentials: map[store.Key]credential{key: {kind: consumerKey, expiresOn: c.restored}}}
		before := survey{credentials: map[store.Key]credential{}}
		if c.existed {
			before.credentials[key] = credential{kind: consumerKey, expiresOn: c.before}
		}
		w := &work{now: func() time.Time { return now }}
		revived := w.findRevived(restored, before, now.Add(-time.Hour))
		hasOldExpiry := len(revived) == 1 && revived[0].oldExpiry != nil
		if (len(revived) == 1) != c.wantRevived || hasOldExpiry != c.wantOldExpiry {
			t.Errorf("%s: findRevived() = %d credentials, with the old expiry: %v, want a credential: %v, with it: %v", c.name,
				len(revived), hasOldExpiry, c.wantRevived, c.wantOldExpiry)
		}
	}
}
