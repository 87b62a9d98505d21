// Package trigger declares the functions that no route of the API calls: their events and their uses. The
// infrastructure, the local process and the tests are derived from these declarations, as they are from the
// declarations of operations.
//
// The package contains only the types of declarations. The declaration
// of a function and its handler are in the function's folder.
package trigger

import (
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Function is a function that is called by events rather than by routes.
type Function struct {
	// Name is the name of the folder and of the function.
	Name string
	// Description describes the function in one line.
	Description string
	// Events are the events that call the function.
	Events []Event
	// Uses are the function's accesses to resources outside its process.
	Uses []api.Use
	// TableAccess is the function's access to the table. The zero value means no access.
	TableAccess store.TableAccess
	// Timeout bounds one call.
	Timeout time.Duration
	// HighMemory reports whether the function gets so much memory that Lambda
	// assigns it whole processors. It is for functions that compile.
	HighMemory bool
	// Retries are the retries of a failed call by Schedule or ObjectCreated. These callers do not wait for
	// a response, so the platform stores the event. A function with only other events declares no retries.
	Retries Retries
}

// Retries are the retries of calls whose caller does not wait for a response.
type Retries struct {
	// MaxRetries is the number of retries of a failed call, 0 for none. Lambda allows at most 2.
	MaxRetries int
	// MaxAge is the maximum age of a call, including retries: whole
	// seconds between a minute and six hours. An older call is discarded.
	MaxAge time.Duration
	// DeadLetter reports whether a discarded call is moved to a queue with
	// an alarm. It is for calls whose work would otherwise never be done.
	DeadLetter bool
}

// Async reports whether the function has an event whose caller does not wait for a response.
func (f Function) Async() bool {
	for _, e := range f.Events {
		if e.Schedule != nil || e.ObjectCreated != "" {
			return true
		}
	}
	return false
}

// Event calls a function. Exactly one field is set, in addition to
// FilterPattern and BatchWindow, which belong to FromStream.
type Event struct {
	// ObjectCreated is a prefix of keys in the bucket. S3 calls
	// the function when an object with this prefix is created.
	ObjectCreated string
	// FromStream calls the function with batches of the table's stream (DynamoDB Streams). The function returns the
	// failed records of a batch.
	FromStream bool
	// FilterPattern is the pattern (of AWS's event filters, as JSON) that a record of the stream has to match; ""
	// matches all. The pattern only saves calls: the function has to ignore records that do not match, because not
	// every platform filters.
	FilterPattern string
	// BatchWindow is the time for which a batch of FromStream is collected, in whole seconds;
	// 0 sends available records at once. It saves calls of functions whose work is not urgent.
	BatchWindow time.Duration
	// Schedule calls the function at regular times.
	Schedule *Schedule
	// HTTP calls the function with every request to the deployments' host names.
	HTTP bool
	// Invoked reports whether callers with the platform's permission invoke the function directly.
	// Such a function has no public address, and defines the format of its event itself.
	Invoked bool
}

// Schedule is a regular call. Exactly one of Interval and Cron is set. Package timetable refuses other schedules, and
// computes the times.
type Schedule struct {
	// Name identifies the schedule among the schedules of a function. The event that calls the function contains it.
	Name string `json:"schedule"`
	// Interval is the time between calls, in whole minutes, counted from the deployment.
	Interval time.Duration `json:"-"`
	// Cron is the times of calls in UTC: the five fields of crontab(5), minute, hour, day of the month,
	// month and day of the week, as in "1 * * * *". The day of the month or the day of the week is "*".
	Cron string `json:"-"`
}
