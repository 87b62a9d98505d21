package integrity

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// How often, and how fast, the data are checked in the background.
const (
	// Every is the time from the end of one check to the begin of the next one.
	Every = 24 * time.Hour
	// FirstDelay is the time from a start to a check that is due, so that a start is not slower for it.
	FirstDelay = 5 * time.Minute
	// retryDelay is the time to the next attempt after a check that could not end.
	retryDelay = time.Hour

	// minRate is how many bytes a second are read, and longest how long a check may take: of more data than
	// minRate reads in that time, more are read.
	minRate = 4 << 20
	longest = 6 * time.Hour

	// maxLines bounds the log lines of one check.
	maxLines = 20
)

// DailyRate returns how many bytes a second the daily check of so many bytes reads.
func DailyRate(bytes int64) int64 {
	return max(minRate, bytes/int64(longest/time.Second))
}

// Last is the check that ended last. The zero Last is none.
type Last struct {
	EndedOn time.Time `json:"endedOn"`
	// Damaged is how many damaged parts it found.
	Damaged int `json:"damaged"`
}

// Notes keep when the last check ended, so that a product that is restarted each day is checked too.
type Notes interface {
	Note(key string) ([]byte, error)
	SetNotes(set map[string][]byte, remove ...string) error
}

// lastNote is the key of the note.
const lastNote = "last-check"

// Daily checks the data once a day. All fields are needed.
type Daily struct {
	// Check makes one check.
	Check func(ctx context.Context) (Report, error)
	Notes Notes
	Log   *slog.Logger
	// Ended is called with the last check at the start, if there was one, and with each that ends.
	Ended func(Last)
}

// Run checks until ctx ends, which ends a check that is under way.
func (d Daily) Run(ctx context.Context) {
	last := d.last(ctx)
	if !last.EndedOn.IsZero() {
		d.Ended(last)
	}
	for delay := d.untilDue(last); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
		report, err := d.Check(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.Log.WarnContext(ctx, "the check of the data could not end, trying again later", "error", err)
			delay = retryDelay
		default:
			d.ended(ctx, report)
			delay = Every
		}
	}
}

// untilDue returns the time until the next check. A clock that was set back makes it a day at most.
func (d Daily) untilDue(last Last) time.Duration {
	if last.EndedOn.IsZero() {
		return FirstDelay
	}
	return min(max(time.Until(last.EndedOn.Add(Every)), FirstDelay), Every)
}

// last reads the note of the last check. One that cannot be read is as none: the next check is due.
func (d Daily) last(ctx context.Context) (out Last) {
	raw, err := d.Notes.Note(lastNote)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		d.Log.WarnContext(ctx, "when the data were checked last cannot be read, checking them soon", "error", err)
		return Last{}
	}
	return out
}

// ended logs a report and notes its end.
func (d Daily) ended(ctx context.Context, r Report) {
	for i, err := range r.Damage {
		if i == maxLines {
			break
		}
		d.Log.ErrorContext(ctx, "the data are damaged: restore the last backup into another data directory, and keep this one", "error", err, "damaged", len(r.Damage))
	}
	if len(r.Damage) == 0 {
		d.Log.InfoContext(ctx, "the data were checked, and nothing is damaged", "storeBytes", r.StoreBytes, "objects", r.Objects, "objectBytes", r.ObjectBytes)
	}
	last := Last{EndedOn: time.Now().UTC(), Damaged: len(r.Damage)}
	d.Ended(last)
	raw, err := json.Marshal(last)
	if err == nil {
		err = d.Notes.SetNotes(map[string][]byte{lastNote: raw})
	}
	if err != nil {
		d.Log.WarnContext(ctx, "that the data were checked cannot be noted", "error", err)
	}
}
