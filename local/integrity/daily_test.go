package integrity

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// notes keep the notes of one run for the next run.
type notes map[string][]byte

func (n notes) Note(key string) ([]byte, error) { return n[key], nil }

func (n notes) SetNotes(set map[string][]byte, _ ...string) error {
	maps.Copy(n, set)
	return nil
}

// run runs d for the given time.
func (d Daily) runFor(t *testing.T, how time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), how)
	defer cancel()
	begun := time.Now()
	d.Run(ctx)
	if took := time.Since(begun); took != how {
		t.Errorf("Run() ended after %v, want %v: it ends with its context", took, how)
	}
}

// TestDataAreCheckedDailyAcrossRestarts: however often the product restarts, there is one check a day.
func TestDataAreCheckedDailyAcrossRestarts(t *testing.T) {
	const days = 10
	for name, up := range map[string]time.Duration{"each hour": time.Hour, "each 12 hours": 12 * time.Hour, "never": days * Every} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kept, checks := notes{}, 0
				for range int(days * Every / up) {
					Daily{
						Check: func(context.Context) (Report, error) { checks++; return Report{}, nil },
						Notes: kept, Log: slog.New(slog.DiscardHandler), Ended: func(Last) {},
					}.runFor(t, up)
				}
				if checks < days-1 || checks > days {
					t.Errorf("checks in %d days, restarted %s = %d, want %d or %d", days, name, checks, days-1, days)
				}
			})
		})
	}
}

// TestDamageIsLoggedAndCounted: the check logs and counts damage, and a restart reports the count at once.
func TestDamageIsLoggedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var last Last
		d := Daily{
			Check: func(context.Context) (Report, error) {
				return Report{Damage: []error{errors.New("a table"), errors.New("an object")}}, nil
			},
			Notes: notes{}, Log: slog.New(slog.NewJSONHandler(&log, nil)), Ended: func(l Last) { last = l },
		}
		d.runFor(t, time.Hour)
		if n := strings.Count(log.String(), `"level":"ERROR"`); n != 2 || !strings.Contains(log.String(), `"error":"an object","damaged":2`) {
			t.Errorf("log = %s, want an error line for each damage", log.String())
		}
		want := last
		if want.Damaged != 2 || want.EndedOn.IsZero() {
			t.Errorf("last check = %+v, want 2 damaged parts and its end", want)
		}
		last = Last{}
		d.runFor(t, time.Second)
		if last != want {
			t.Errorf("last check after a restart = %+v, want %+v", last, want)
		}
	})
}

// TestCheckThatCannotEndIsRepeated: a check that did not finish is repeated on the same day, and reports no damage.
func TestCheckThatCannotEndIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, ended := 0, 0
		Daily{
			Check: func(context.Context) (Report, error) {
				if checks++; checks < 3 {
					return Report{}, errors.New("no space left on device")
				}
				return Report{}, nil
			},
			Notes: notes{lastNote: []byte("no JSON")}, Log: slog.New(slog.DiscardHandler), Ended: func(Last) { ended++ },
		}.runFor(t, 4*time.Hour)
		if checks != 3 || ended != 1 {
			t.Errorf("checks, ended = %d, %d, want 3, 1", checks, ended)
		}
	})
}

// TestCheckIsPaced: a check reads no faster than its rate, and ends at once when it is canceled.
func TestCheckIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bytesPerSecond, seconds = 4 << 20, 10
		begun := time.Now()
		if _, err := io.Copy(io.Discard, newPace(t.Context(), bytesPerSecond).reader(io.LimitReader(zeros{}, bytesPerSecond*seconds))); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took < (seconds-1)*time.Second || took > (seconds+1)*time.Second {
			t.Errorf("reading %d s of bytes took %v, want %d s", seconds, took, seconds)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		_, err := io.Copy(io.Discard, newPace(ctx, 1).reader(zeros{}))
		if took := time.Since(begun); err == nil || took > time.Second {
			t.Errorf("reading with a context of 1 s = %v after %v, want an error within 1 s", err, took)
		}
	})
	if got, want := DailyRate(1<<40), int64((1<<40)/(6*60*60)); got != want {
		t.Errorf("DailyRate(1 TiB) = %d, want %d: a check takes 6 hours at most", got, want)
	}
	if got := DailyRate(1 << 30); got != minRate {
		t.Errorf("DailyRate(1 GiB) = %d, want %d", got, minRate)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
