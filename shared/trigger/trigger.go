// Package trigger declares the functions that no route of the API calls: what
// calls them, and what they use. The infrastructure, the local process and the
// tests derive from these declarations, as they do from those of operations.
//
// It holds data only; the function's folder holds its declaration and handler.
package trigger

import (
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/store"
)

// Function is what is called by events rather than by routes.
type Function struct {
	// Name is the folder's, and the function's.
	Name string
	// Does says what it is for, in one line.
	Does string
	// On lists what calls it.
	On []Event
	// Uses is what it does outside its process.
	Uses []api.Use
	// Reach is which spaces of the table it asks for. One without any is held to none.
	Reach store.Reach
	// Timeout bounds one call.
	Timeout time.Duration
	// Heavy functions get the memory of whole processors: those that compile.
	Heavy bool
	// Retries is what becomes of a call by a schedule or of an object that fails: these wait for no answer, so that the platform
	// keeps them. A function that something else calls has none to declare.
	Retries Retries
}

// Retries are those of calls that wait for no answer.
type Retries struct {
	// Attempts is how often a call that failed is made again, 0 for never: 2 at most, as Lambda has it.
	Attempts int
	// MaxAge is how long a call may wait for its turn, retries included, whole seconds between a minute and six hours; one that is older is given up.
	MaxAge time.Duration
	// Keep has a call that is given up kept in a queue, with an alarm: where nothing else brings about what it asked for.
	Keep bool
}

// Async reports whether something calls the function that waits for no answer.
func (f Function) Async() bool {
	for _, e := range f.On {
		if e.Schedule != nil || e.ObjectCreated != "" {
			return true
		}
	}
	return false
}

// Event calls a function. Exactly one field is set, FilterPattern and
// Gather apart.
type Event struct {
	// ObjectCreated is a prefix of the bucket's keys: S3's ObjectCreated event of
	// each object written below it calls the function.
	ObjectCreated string
	// StreamRecords calls it with batches of the table's stream (DynamoDB
	// Streams); it answers which records of a batch failed.
	StreamRecords bool
	// FilterPattern is the pattern (of AWS's event filters, as JSON) that a record
	// of the stream has to match, "" for all of them. It saves calls and no more:
	// the function passes over what does not match, since not every platform
	// filters.
	FilterPattern string
	// Gather is how long a batch of StreamRecords is gathered, whole seconds; 0
	// sends at once what there is. Where it matters to nobody when the function is
	// called, it saves calls.
	Gather time.Duration
	// Schedule calls it again and again.
	Schedule *Schedule
	// HTTP calls it with every request to the deployments' host names.
	HTTP bool
	// Invoked says that it is invoked directly, by those whom the platform's
	// permissions allow to: it has no public address. Its event is of its own
	// making.
	Invoked bool
}

// Schedule is a regular call. Exactly one of Every and Cron is set; package
// timetable refuses the others, and says when one is due.
type Schedule struct {
	// Name tells schedules of a function apart; the function's event carries it.
	Name string `json:"schedule"`
	// Every is the time between calls, whole minutes, counted from the deployment.
	Every time.Duration `json:"-"`
	// Cron is when it calls by the clock of UTC: the five fields of crontab(5),
	// minute, hour, day of the month, month and day of the week, as in
	// "1 * * * *". One of the days is "*".
	Cron string `json:"-"`
}
