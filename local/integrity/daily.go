package integrity

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"
)

// The interval and the speed of the check in the background.
const (
	// Interval is the time from the end of one check to the beginning of the next one.
	Interval = 24 * time.Hour
	// FirstDelay is the minimum time from a start to the first check, so that the check does not slow down the start.
	FirstDelay = 5 * time.Minute
	// retryDelay is the time until the next attempt if a check did not finish.
	retryDelay = time.Hour

	// minRate is the minimum of DailyRate, in bytes per second. If the check would take longer than maxDuration at this
	// rate, DailyRate is higher.
	minRate     = 4 << 20
	maxDuration = 6 * time.Hour

	// maxLines is the maximum number of log lines about damage in one check.
	maxLines = 20
)

// DailyRate returns the maximum number of bytes that the daily check reads per second, for data of this size.
func DailyRate(bytes int64) int64 {
	return max(minRate, bytes/int64(maxDuration/time.Second))
}

// LastCheck describes the last finished check. The zero LastCheck means that no check has finished yet.
type LastCheck struct {
	EndedOn time.Time `json:"endedOn"`
	// Damaged is the number of damaged parts that the check found.
	Damaged int `json:"damaged"`
}

// Notes stores the result of the last check, so that the data is also checked daily if the product restarts often.
type Notes interface {
	Note(key string) ([]byte, error)
	SetNotes(set map[string][]byte, remove ...string) error
}

// lastCheckKey is the key of the note with the LastCheck.
const lastCheckKey = "last-check"

// Daily checks the data once a day. All fields are required.
type Daily struct {
	// Check checks the data once.
	Check func(ctx context.Context) (Report, error)
	Notes Notes
	Log   *slog.Logger
	// OnFinished is called with each finished check. At its start,
	// Run also calls it with the stored last check, if there is one.
	OnFinished func(LastCheck)
}

// Run checks the data once a day, and an hour after a check that did not finish. It returns when ctx ends, which also
// cancels a running check.
func (d Daily) Run(ctx context.Context) {
	last := d.loadLast(ctx)
	if !last.EndedOn.IsZero() {
		d.OnFinished(last)
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
			d.finish(ctx, report)
			delay = Interval
		}
	}
}

// untilDue returns the time until the next check. It is at least
// FirstDelay, and at most Interval even if the clock was set back.
func (d Daily) untilDue(last LastCheck) time.Duration {
	if last.EndedOn.IsZero() {
		return FirstDelay
	}
	return min(max(time.Until(last.EndedOn.Add(Interval)), FirstDelay), Interval)
}

// loadLast returns the stored last check. If it cannot be read,
// loadLast returns the zero LastCheck, so that a check is due.
func (d Daily) loadLast(ctx context.Context) (out LastCheck) {
	raw, err := d.Notes.Note(lastCheckKey)
	if err == nil && raw != nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil {
		d.Log.WarnContext(ctx, "cannot read when the data were last checked: the next check is due", "error", err)
		return LastCheck{}
	}
	return out
}

// finish logs the report of a check and stores the check as the last one.
func (d Daily) finish(ctx context.Context, r Report) {
	for i, err := range r.Damage {
		if i == maxLines {
			break
		}
		d.Log.ErrorContext(ctx,
			"the data are damaged: restore the last backup into another data directory, and keep this one", "error", err,
			"damaged", len(r.Damage))
	}
	if len(r.Damage) == 0 {
		d.Log.InfoContext(ctx, "the data were checked, and nothing is damaged", "storeBytes", r.StoreBytes, "objects",
			r.Objects, "objectBytes", r.ObjectBytes)
	}
	last := LastCheck{EndedOn: time.Now().UTC(), Damaged: len(r.Damage)}
	d.OnFinished(last)
	raw, err := json.Marshal(last)
	if err == nil {
		err = d.Notes.SetNotes(map[string][]byte{lastCheckKey: raw})
	}
	if err != nil {
		d.Log.WarnContext(ctx, "cannot save the time of the last check", "error", err)
	}
}
