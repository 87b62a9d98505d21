package triggers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/core/store/stream"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// TestEngineDrivesFunctions runs three processes, one after the other, that follow the engine's changes. The function
// must receive the changes in order, and must receive a failed change again. It ends a process during the call with the
// process's last record. The next process must continue after that record.
func TestEngineDrivesFunctions(t *testing.T) {
	fs := vfs.NewMem()
	var mu sync.Mutex
	var received []string
	var stop context.CancelFunc // ends the current process; the function calls it for the last record
	target := 0
	failedOnce := false
	function := triggers.Function{
		Function: trigger.Function{Name: "operations", Events: []trigger.Event{{FromStream: true}}},
		Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
			var e events.DynamoDBEvent
			if err := json.Unmarshal(payload, &e); err != nil {
				return nil, err
			}
			var resp events.DynamoDBEventResponse
			mu.Lock()
			defer mu.Unlock()
			for _, r := range e.Records {
				record, err := stream.FromLambda(r)
				if err != nil {
					return nil, err
				}
				if record.Key.SK == "3" && !failedOnce {
					failedOnce = true
					resp.BatchItemFailures = []events.DynamoDBBatchItemFailure{{ItemIdentifier: r.Change.SequenceNumber}}
					break
				}
				received = append(received, r.EventName+" "+record.Key.SK)
			}
			if len(received) >= target {
				stop()
			}
			return json.Marshal(resp)
		}),
	}
	var want []string
	for run := range 3 {
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "store", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		runner, err := triggers.New(triggers.Options{
			Functions: []triggers.Function{function}, Feed: triggers.NewEngineFeed(engine),
			Checkpoints: triggers.NewEngineCheckpoints(engine, slog.New(slog.DiscardHandler)),
			Objects:     &fakeObjects{}, IDs: idSource(t), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		const commits = 5
		ctx, cancel := context.WithTimeout(t.Context(), deadline.Timeout()) // the comparison below reports missing changes
		mu.Lock()
		stop, target = cancel, len(want)+2*commits
		mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			runner.Run(ctx)
		}()
		table := storetest.NewWithBackend(t, engine)
		for n := range commits {
			sk := fmt.Sprint(n)
			key := store.Key{PK: "p", SK: sk}
			for _, w := range []store.Write{store.Put(key, map[string]any{"life": run}), store.Delete(key)} {
				if err := table.Commit(t.Context(), w); err != nil {
					t.Fatal(err)
				}
			}
			want = append(want, "INSERT "+sk, "REMOVE "+sk)
		}
		<-done
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(received, want) {
		t.Errorf("changes that reached the function = %v, want %v", received, want)
	}
}
