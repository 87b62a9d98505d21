package cloud

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// scheduled gives the handler of a function that says of each call by a schedule that it was done: an alarm rings where none was for
// long. A call that fails says nothing. Handlers of requests, and those that stream, are left alone: no schedule calls them.
func scheduled(handler any, log *slog.Logger, now func() time.Time, function string) any {
	if _, edge := handler.(api.Edge); edge || streams(handler) {
		return handler
	}
	return &telling{Handler: lambda.NewHandler(handler), log: log, now: now, function: function}
}

type telling struct {
	lambda.Handler
	log      *slog.Logger
	now      func() time.Time
	function string
}

// mostScheduleBytes is more than the event of any schedule, and less than to look for one in is worth: a batch of the stream has megabytes.
const mostScheduleBytes = 512

// Invoke implements lambda.Handler.
func (h *telling) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	answer, err := h.Handler.Invoke(ctx, payload)
	if err != nil || len(payload) > mostScheduleBytes {
		return answer, err
	}
	var by struct {
		Schedule string `json:"schedule"` // as trigger.Schedule has it, which only functions that something calls link
	}
	if json.Unmarshal(payload, &by) == nil && by.Schedule != "" {
		h.log.LogAttrs(ctx, slog.LevelInfo, "a call by a schedule was done", slog.String("schedule", telemetry.ScheduleOf(h.function, by.Schedule)),
			slog.Int(telemetry.ScheduledRuns, 1), telemetry.Count(h.now(), telemetry.ScheduledRuns, "schedule"))
	}
	return answer, err
}
