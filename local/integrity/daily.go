package integrity

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// How often, and how fast, the data are checked in the background.
const (
	// Every is the time from the end of one check to the beginning of the next one.
	Every = 24 * time.Hour
	// FirstDelay is the shortest time from a start to a check, so that the check does not slow the start.
	FirstDelay = 5 * time.Minute
	// retryDelay is the time to the next attempt after a check that did not finish.
	retryDelay = time.Hour

	// minRate is the number of bytes that a check reads in a second. longest is how long a check may take: if it would
	// take longer at minRate, it reads faster.
	minRate = 4 << 20
	longest = 6 * time.Hour

	// maxLines bounds the log lines of one check.
	maxLines = 20
)

// DailyRate returns the number of bytes that the daily check reads in a second, for data of this size in bytes.
func DailyRate(bytes int64) int64 {
	return max(minRate, bytes/int64(longest/time.Second))
}

// Last is the check that ended last. The zero Last is none.
type Last struct {
	EndedOn time.Time `json:"endedOn"`
	// Damaged is how many damaged parts it found.
	Damaged int `json:"damaged"`
}

// Notes store the time at which the last check ended, so that a product that restarts each day is checked too.
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
	// Run calls Ended with the last check when it starts, if there was one, and with each check that ends.
	Ended func(Last)
}

// Run checks the data until ctx ends. The end of ctx also ends a check that is under way.
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
			d.Log.WarnContext(ctx, "the check of the data did not finish: the next attempt is in an hour", "error", err)
			delay = retryDelay
		default:
			d.ended(ctx, report)
			delay = Every
		}
	}
}

// untilDue returns the time until the next check: a day at most, even if the clock was set back.
func (d Daily) untilDue(last Last) time.Duration {
	if last.EndedOn.IsZero() {
		return FirstDelay
	}
	return min(max(time.Until(last.EndedOn.Add(Every)), FirstDelay), Every)
}

// last reads the note of the last check. If the note cannot be read, last returns the zero Last, and a check is due.
func (d Daily) last(ctx context.Context) (out Last) {
	raw, err := d.Notes.Note(lastNote)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		d.Log.WarnContext(ctx, "cannot read when the data were last checked: the next check is due", "error", err)
		return Last{}
	}
	return out
}

// ended logs a report and stores the time at which the check ended.
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
		d.Log.WarnContext(ctx, "cannot save the time of the last check", "error", err)
	}
}
