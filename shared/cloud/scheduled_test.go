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

	"github.com/gatewright/gatewright/shared/api"
)

// TestCallByAScheduleIsToldWhenItIsDone, and no other: an alarm rings where nothing is told.
func TestCallByAScheduleIsToldWhenItIsDone(t *testing.T) {
	for name, tt := range map[string]struct {
		payload string
		fails   bool
		told    bool
	}{
		"by a schedule":            {`{"schedule":"sweep"}`, false, true},
		"and it fails":             {`{"schedule":"sweep"}`, true, false},
		"a batch of the stream":    {`{"Records":[{"eventName":"INSERT"}]}`, false, false},
		"who asks":                 {`{"do":"list"}`, false, false},
		"a schedule without name":  {`{"schedule":""}`, false, false},
		"no text":                  {`{"schedule":7}`, false, false},
		"no JSON":                  {`schedule`, false, false},
		"nothing":                  {``, false, false},
		"a large one that says it": {`{"schedule":"sweep","x":"` + strings.Repeat("x", mostScheduleBytes) + `"}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			h := scheduled(func(context.Context, json.RawMessage) (string, error) {
				if tt.fails {
					return "", errors.New("no table")
				}
				return "answer", nil
			}, slog.New(slog.NewJSONHandler(&log, nil)), func() time.Time { return time.UnixMilli(1_700_000_000_000) }, "gatewright-dev-operations").(lambda.Handler)
			answer, err := h.Invoke(t.Context(), []byte(tt.payload))
			switch {
			case !json.Valid([]byte(tt.payload)): // which its own handler refuses
			case (err != nil) != tt.fails || !tt.fails && string(answer) != `"answer"`:
				t.Errorf("it answers %s and %v", answer, err)
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
			if !tt.told {
				if log.Len() > 0 {
					t.Errorf("it is told: %s", log.String())
				}
				return
			}
			if err := json.Unmarshal(log.Bytes(), &line); err != nil {
				t.Fatalf("%v: %s", err, log.String())
			}
			if line.Schedule != "gatewright-dev-operations/sweep" || line.ScheduledRuns != 1 || len(line.AWS.CloudWatchMetrics) != 1 ||
				line.AWS.CloudWatchMetrics[0].Namespace != "Gatewright" || line.AWS.CloudWatchMetrics[0].Dimensions[0][0] != "schedule" || line.AWS.CloudWatchMetrics[0].Metrics[0].Name != "scheduledRuns" {
				t.Errorf("it is told as %s", log.String())
			}
		})
	}
}

// TestHandlersOfRequestsAreLeftAlone: no schedule calls them.
func TestHandlersOfRequestsAreLeftAlone(t *testing.T) {
	if _, same := scheduled(api.Edge(nil), nil, nil, "").(api.Edge); !same {
		t.Error("it is another one")
	}
}
