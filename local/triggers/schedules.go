package triggers

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/timetable"
)

// schedule calls a function regularly.
type schedule struct {
	function  Function
	event     trigger.Schedule
	timetable timetable.Timetable
}

// clockCheckInterval is the maximum time between two checks of the clock. Timers do not
// advance while a machine sleeps, so a timer for an hour would be late after a sleep.
const clockCheckInterval = time.Minute

// runSchedule calls the function at once, because calls can have been missed while this process did not run, and then
// whenever the schedule is due. If several calls are due, because a call took long or the machine slept, it makes only
// one.
func (r *Runner) runSchedule(ctx context.Context, s schedule) {
	for due := r.o.Now(); ; {
		if _, err := r.invoke(ctx, s.function, s.event); err != nil && ctx.Err() == nil {
			r.o.Log.ErrorContext(ctx, "scheduled call failed", "function", s.function.Name, "schedule", s.event.Name, "error",
				err)
		}
		due = s.timetable.Next(due)
		now := r.o.Now()
		for ; now.Before(due); now = r.o.Now() {
			// If the clock was set back, do not wait for the former time.
			if next := s.timetable.Next(now); next.Before(due) {
				due = next
			}
			if !sleep(ctx, min(due.Sub(now), clockCheckInterval)) {
				return
			}
		}
		if !now.Before(s.timetable.Next(due)) {
			due = now // more calls are due: make only one
		}
		if ctx.Err() != nil {
			return
		}
	}
}
