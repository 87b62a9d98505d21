package cloud

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/shared/management/api"
)

// TestSuccessfulScheduledCallIsLogged checks that only successful calls by
// a schedule are logged. An alarm is raised if their lines are missing.
func TestSuccessfulScheduledCallIsLogged(t *testing.T) {
	for name, tt := range map[string]struct {
		payload string
		fails   bool
		logged  bool
	}{
		"a scheduled call":         {`{"schedule":"sweep"}`, false, true},
		"a failed scheduled call":  {`{"schedule":"sweep"}`, true, false},
		"a batch of the stream":    {`{"Records":[{"eventName":"INSERT"}]}`, false, false},
		"an operator's request":    {`{"do":"list"}`, false, false},
		"a schedule without name":  {`{"schedule":""}`, false, false},
		"a number as the schedule": {`{"schedule":7}`, false, false},
		"no JSON":                  {`schedule`, false, false},
		"an empty payload":         {``, false, false},
		"a large payload with a schedule": {
			`{"schedule":"sweep","x":"` + strings.Repeat("x", maxScheduleBytes) + `"}`, false,
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := logScheduled(func(context.Context, json.RawMessage) (string, error) {
				if tt.fails {
					return "", errors.New("no table")
				}
				return "answer", nil
			}, slog.New(slog.NewJSONHandler(&log, nil)), func() time.Time {
				return time.UnixMilli(1_700_000_000_000)
			}, "gatewright-dev-operations").(lambda.Handler)
			resp, err := h.Invoke(t.Context(), []byte(tt.payload))
			switch {
			case !json.Valid([]byte(tt.payload)): // the function's own handler refuses it
			case (err != nil) != tt.fails || !tt.fails && string(resp) != `"answer"`:
				t.Errorf("Invoke() = %s, %v, want \"answer\", or an error: %v", resp, err, tt.fails)
			}
			var line struct {
				Schedule      string `json:"schedule"`
				ScheduledRuns int    `json:"scheduledRuns"`
				AWS           struct {
					CloudWatchMetrics []struct {
						Namespace  string
						Dimensions [][]string
						Metrics    []struct{ Name string }
					}
				} `json:"_aws"`
			}
			if !tt.logged {
				if log.Len() > 0 {
					t.Errorf("log = %s, want none", log.String())
				}
				return
			}
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("log = %s, want one JSON line (%v)", log.String(), err)
			}
			metrics := line.AWS.CloudWatchMetrics
			if line.Schedule != "gatewright-dev-operations/sweep" || line.ScheduledRuns != 1 || len(metrics) != 1 {
				t.Fatalf("log line = %s, want one run of gatewright-dev-operations/sweep with one metric", log.String())
			}
			m := metrics[0]
			if m.Namespace != "Gatewright" || m.Dimensions[0][0] != "schedule" || m.Metrics[0].Name != "scheduledRuns" {
				t.Errorf("metric = %+v, want scheduledRuns of Gatewright by schedule", m)
			}
		})
	}
}

// TestRequestHandlersAreNotWrapped checks that a handler of API requests is not wrapped, because no schedule calls it.
func TestRequestHandlersAreNotWrapped(t *testing.T) {
	if _, isEdge := logScheduled(api.LambdaHandler(nil), nil, nil, "").(api.LambdaHandler); !isEdge {
		t.Error("logScheduled(an Edge) wraps the handler, want it unchanged")
	}
}
