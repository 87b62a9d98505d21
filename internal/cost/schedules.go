package cost

import (
	"fmt"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/resource/metering"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/timetable"
)

// scheduled is a schedule of a function. The schedule calls the function even if the installation has no clients.
type scheduled struct {
	function string
	// calls is the number of calls in a month.
	calls float64
	work
}

// work is the work of one call in an installation without clients.
type work struct {
	name string
	ms   float64
	// reads is in capacity units. A query without results reads half a unit.
	reads float64
}

// scheduleWork returns the work of each schedule by function and name.
func scheduleWork() map[string]work {
	return map[string]work{
		"operations sweep":  {"the sweep, each minute", sweepMS, 4 * 0.5},
		"quotareset hourly": {"the look for quota periods that have ended, each hour", resetMS, metering.DueShards * 0.5},
		"rollup minutely":   {"the roll-up of what gateways have counted, each minute", rollupMS, 0.5},
	}
}

// schedules returns the declared schedules in the order of their functions. A schedule without work, and work without a schedule, is an error.
func schedules(fs []functions.Function) (out []scheduled, err error) {
	remaining := scheduleWork()
	for _, f := range fs {
		for _, e := range f.Events {
			if e.Schedule == nil {
				continue
			}
			name := f.Name + " " + e.Schedule.Name
			w, ok := remaining[name]
			if !ok {
				return nil, fmt.Errorf("cost: the schedule %s has no work: add it to scheduleWork", name)
			}
			delete(remaining, name)
			calls, err := callsPerMonth(*e.Schedule)
			if err != nil {
				return nil, err
			}
			out = append(out, scheduled{f.Name, calls, w})
		}
	}
	for name := range remaining {
		return nil, fmt.Errorf("cost: no function declares the schedule %s: remove it from scheduleWork", name)
	}
	return out, nil
}

// callsPerMonth returns the number of calls of a schedule in a month.
func callsPerMonth(s trigger.Schedule) (calls float64, err error) {
	t, err := timetable.Parse(s)
	if err != nil {
		return 0, fmt.Errorf("count the calls: %w", err)
	}
	from := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	end := from.Add(hoursPerMonth * time.Hour)
	for at := t.Next(from); !at.After(end); at = t.Next(at) {
		calls++
	}
	return calls, nil
}

// item returns the item of the bill for a month's calls, without their traces.
func (s scheduled) item(memoryMB float64) item {
	return item{
		s.name, fmt.Sprintf("%s calls of %g ms with %g MB, %s read each", quantity(s.calls), s.ms, memoryMB,
			unitsRead(s.reads)),
		dollars(scheduleCall, s.calls) + dollars(lambdaRequest, s.calls) + lambdaTime(s.calls, s.ms, memoryMB) +
			dollars(readUnit, s.calls*s.reads) + dollars(logIntake, s.calls*scheduleLog/1e9),
	}
}

func unitsRead(n float64) string {
	if n == 0.5 {
		return "half a unit"
	}
	return formatNumber(n) + " units"
}
