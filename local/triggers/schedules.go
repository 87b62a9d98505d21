package triggers

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/timetable"
)

// schedule is what calls a function regularly.
type schedule struct {
	function Function
	event    trigger.Schedule
	table    timetable.Timetable
}

// lookInterval is the longest time between two looks at the clock. A timer does
// not count the time that a machine sleeps: one for the next hour would be late
// by it.
const lookInterval = time.Minute

// keep calls the function at once, because a call may have been missed while
// this process was not there, and then whenever the schedule is due. Those that
// were missed since, because a call took long or the machine slept, are one call.
func (r *Runner) keep(ctx context.Context, s schedule) {
	for due := r.o.Now(); ; {
		if _, err := r.invoke(ctx, s.function, s.event); err != nil && ctx.Err() == nil {
			r.o.Log.ErrorContext(ctx, "scheduled call failed", "function", s.function.Name, "schedule", s.event.Name, "error", err)
		}
		due = s.table.Next(due)
		now := r.o.Now()
		for ; now.Before(due); now = r.o.Now() {
			// A clock that was set back must not put the next call off by as much.
			if next := s.table.Next(now); next.Before(due) {
				due = next
			}
			if !pause(ctx, min(due.Sub(now), lookInterval)) {
				return
			}
		}
		if !now.Before(s.table.Next(due)) {
			due = now
		}
		if ctx.Err() != nil {
			return
		}
	}
}
