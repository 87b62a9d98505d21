package cloud

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/management/api"
)

// logScheduled returns a handler that logs each successful call by a schedule. An alarm is raised if there is no such
// line for a long time. Handlers of API requests, and handlers that stream, are returned unchanged, because no schedule
// calls them.
func logScheduled(handler any, log *slog.Logger, now func() time.Time, function string) any {
	if _, isEdge := handler.(api.LambdaHandler); isEdge || isStreaming(handler) {
		return handler
	}
	return &scheduleLogger{Handler: lambda.NewHandler(handler), log: log, now: now, function: function}
}

type scheduleLogger struct {
	lambda.Handler
	log      *slog.Logger
	now      func() time.Time
	function string
}

// maxScheduleBytes is larger than the event of any schedule. Larger events are
// not decoded here, because a batch of the table's stream can have megabytes.
const maxScheduleBytes = 512

// Invoke implements lambda.Handler.
func (s *scheduleLogger) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	resp, err := s.Handler.Invoke(ctx, payload)
	if err != nil || len(payload) > maxScheduleBytes {
		return resp, err
	}
	var event struct {
		Schedule string `json:"schedule"` // the name in trigger.Schedule, a package that most functions do not link
	}
	if json.Unmarshal(payload, &event) == nil && event.Schedule != "" {
		s.log.LogAttrs(ctx, slog.LevelInfo, "a call by a schedule was done",
			slog.String("schedule", telemetry.ScheduleDimension(s.function, event.Schedule)),
			slog.Int(telemetry.ScheduledRuns, 1), telemetry.Count(s.now(), telemetry.ScheduledRuns, "schedule"))
	}
	return resp, err
}
