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

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/local/triggers"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/store/stream"
	"github.com/gatewright/gatewright/shared/trigger"
)

// TestEngineDrivesFunctions lets three processes follow the engine's changes, one after the other. The changes reach the function in order,
// and a change that the function refuses reaches it again. The function ends each process during the call with the last record of the
// process. The next process continues after that record.
func TestEngineDrivesFunctions(t *testing.T) {
	fs := vfs.NewMem()
	var mu sync.Mutex
	var told []string
	var end context.CancelFunc // ends this process; the function calls it for the last record
	last := 0
	refused := false
	function := triggers.Function{
		Function: trigger.Function{Name: "operations", On: []trigger.Event{{StreamRecords: true}}},
		Handler: handler(func(_ context.Context, payload []byte) ([]byte, error) {
			var e events.DynamoDBEvent
			if err := json.Unmarshal(payload, &e); err != nil {
				return nil, err
			}
			var answer events.DynamoDBEventResponse
			mu.Lock()
			defer mu.Unlock()
			for _, r := range e.Records {
				record, err := stream.FromLambda(r)
				if err != nil {
					return nil, err
				}
				if record.Key.SK == "3" && !refused {
					refused = true
					answer.BatchItemFailures = []events.DynamoDBBatchItemFailure{{ItemIdentifier: r.Change.SequenceNumber}}
					break
				}
				told = append(told, r.EventName+" "+record.Key.SK)
			}
			if len(told) >= last {
				end()
			}
			return json.Marshal(answer)
		}),
	}
	var want []string
	for life := range 3 {
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: "store", FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		runner, err := triggers.New(triggers.Options{
			Functions: []triggers.Function{function}, Feed: triggers.Embedded(engine), Checkpoints: triggers.InEngine(engine, slog.New(slog.DiscardHandler)),
			Objects: &fakeObjects{}, IDs: idSource(t), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		const commits = 5
		ctx, cancel := context.WithTimeout(t.Context(), deadline.Long()) // changes that never come fail the comparison below
		mu.Lock()
		end, last = cancel, len(want)+2*commits
		mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			runner.Run(ctx)
		}()
		table := storetest.Over(t, engine)
		for n := range commits {
			sk := fmt.Sprint(n)
			key := store.Key{PK: "p", SK: sk}
			for _, w := range []store.Write{store.Put(key, map[string]any{"life": life}), store.Delete(key)} {
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
	if !slices.Equal(told, want) {
		t.Errorf("changes that reached the function = %v, want %v", told, want)
	}
}
