package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/store"
)

// TestRestoreEndsWhenAllHaveTakenWhatTheyAreTold, and is not done where a function fails, or takes a part of it; run again, it goes on.
func TestRestoreEndsWhenAllHaveTakenWhatTheyAreTold(t *testing.T) {
	took := map[string]any{"batchItemFailures": []any{}}
	for _, c := range []struct {
		name, failure string
		answer        any
		want          string
	}{
		{"all is taken", "", took, ""},
		{"it fails", "Unhandled", took, "fails (Unhandled)"},
		{"it takes a part", "", map[string]any{"batchItemFailures": []any{map[string]any{"itemIdentifier": "1"}}}, "has not taken 1 of"},
	} {
		s, of := deployed(), tell(t)
		w := stopping(t, s, of, request{})
		if err := part(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		waiting, told, calls := 0, 0, 0
		for key := range of.then.Items() {
			if audit.IsNew(key) {
				waiting++
			}
		}
		s.told, s.mapping = "arn:aws:dynamodb:eu-west-1:000000000000:table/restored/stream/2026-11-25T14:02:00.000", "Enabled"
		for _, f := range s.functions {
			f.table = "restored"
		}
		failure, answer := c.failure, c.answer
		s.called = func(name string, in map[string]any) (string, any) {
			calls++
			if records, ok := in["Records"].([]any); ok && strings.HasSuffix(name, "auditchain") {
				told += len(records)
			}
			return failure, answer
		}
		var said bytes.Buffer
		w.console = console{strings.NewReader(""), io.Discard, &said}
		p := planned()
		p.adopted = true
		err := w.after(t.Context(), p)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(said.String(), "the restore is done") {
				t.Errorf("%s: it answers %v", c.name, err)
			}
			failure, answer, told = "", took, 0
			err = w.after(t.Context(), p)
		}
		if err != nil || told != waiting || waiting == 0 || stopped(s) != 0 || !strings.Contains(said.String(), "the restore is done") {
			t.Errorf("%s: of %d audit records the function is told of %d, in %d calls; %d functions are stopped (%v)", c.name, waiting, told, calls, stopped(s), err)
		}
	}
}

// TestOnlyWhatOpensSomethingComesAlive: nothing that has expired meanwhile, nor what opens for as long as before or shorter.
func TestOnlyWhatOpensSomethingComesAlive(t *testing.T) {
	now := time.Now()
	in := func(d time.Duration) *time.Time { return new(now.Add(d)) }
	for _, c := range []struct {
		name           string
		restored       *time.Time // nil for never
		there          bool       // in the table of before
		before         *time.Time
		alive, shorter bool
	}{
		{"for ever, and gone", nil, false, nil, true, false},
		{"for a while, and gone", in(time.Hour), false, nil, true, false},
		{"expired, and gone", in(-time.Hour), false, nil, false, false},
		{"expired this moment", &now, false, nil, false, false},
		{"as it was", in(time.Hour), true, in(time.Hour), false, false},
		{"ends later than it would", in(time.Hour), true, in(time.Minute), true, true},
		{"ends sooner than it would", in(time.Minute), true, in(time.Hour), false, false},
		{"was for ever, and ends", nil, true, in(time.Hour), true, true},
		{"ends, and was made for ever", in(time.Hour), true, nil, false, false},
	} {
		at := store.Space("key").Key("one")
		restored := survey{credentials: map[store.Key]credential{at: {kind: consumerKey, expiresOn: c.restored}}}
		before := survey{credentials: map[store.Key]credential{}}
		if c.there {
			before.credentials[at] = credential{kind: consumerKey, expiresOn: c.before}
		}
		w := &work{now: func() time.Time { return now }}
		found := w.revivedIn(restored, before, now.Add(-time.Hour))
		if (len(found) == 1) != c.alive || c.alive && (found[0].until != nil) != c.shorter {
			t.Errorf("%s: %+v comes alive", c.name, found)
		}
	}
}
