package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// restartingBackend is a database that never recognizes a repeated token, as after a restart.
// The replies to its first commits (remainingRestarts) are also lost.
type restartingBackend struct {
	*memory.Backend

	mu                sync.Mutex
	remainingRestarts int // how many more replies are lost
	calls             int
}

func (b *restartingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	err := b.Backend.Transact(ctx, fmt.Sprint(token, b.calls), writes)
	if err == nil && b.remainingRestarts > 0 {
		b.remainingRestarts--
		return fmt.Errorf("%w: %w: connection reset", store.ErrRetryable, store.ErrOutcomeUnknown)
	}
	return err
}

func keepTokens(o *store.Options) { o.KeepTokens = true }

// TestKeptTokenPreventsSecondCommit checks that a commit whose replies are lost takes effect once if tokens are kept.
func TestKeptTokenPreventsSecondCommit(t *testing.T) {
	for name, keep := range map[string]bool{"kept": true, "forgotten": false} {
		t.Run(name, func(t *testing.T) {
			backend := &restartingBackend{Backend: memory.New(), remainingRestarts: 2}
			table := storetest.NewWithBackend(t, backend, func(o *store.Options) { o.KeepTokens = keep })
			err := table.Commit(t.Context(), store.Upsert(key("counter"), store.Add(store.At("count"), 1)))
			got := get(t, table, key("counter"))
			if keep && (err != nil || got.Count != 1) {
				t.Errorf("Commit() with kept tokens = %v with %d effects, want success with 1", err, got.Count)
			}
			// Without kept tokens the effect must happen several times. Otherwise this test would prove nothing.
			if !keep && got.Count != 3 {
				t.Errorf("Commit() without kept tokens takes effect %d times, want 3", got.Count)
			}
		})
	}
}

func TestKeptTokenReportsFalseCondition(t *testing.T) {
	backend := &restartingBackend{Backend: memory.New()}
	table := storetest.NewWithBackend(t, backend, keepTokens)
	errTaken := errors.New("taken")
	create := store.Create(key("a"), thing{}).Else(errTaken)
	backend.remainingRestarts = 1
	if err := table.Commit(t.Context(), create); err != nil {
		t.Errorf("first Commit() = %v, want nil", err)
	}
	if err := table.Commit(t.Context(), create); !errors.Is(err, errTaken) {
		t.Errorf("second Commit() = %v, want %v", err, errTaken)
	}
}

// restartingClient is a client whose database restarts after each of the first commits
// (remainingRestarts). The reply to such a commit is lost.
type restartingClient struct {
	store.Client
	emulator          *storetest.Dynoxide
	remainingRestarts int
}

func (r *restartingClient) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	out, err := r.Client.TransactWriteItems(ctx, in)
	if err == nil && r.remainingRestarts > 0 {
		r.remainingRestarts--
		r.emulator.Restart()
		return nil, &smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}
	}
	return out, err
}

// TestKeptTokenSurvivesEmulatorRestart checks that a commit is made once although the emulator restarts.
// The second case, without kept tokens, shows that the emulator forgets tokens when it restarts.
func TestKeptTokenSurvivesEmulatorRestart(t *testing.T) {
	for name, keep := range map[string]bool{"kept": true, "forgotten": false} {
		t.Run(name, func(t *testing.T) {
			emulator := storetest.StartDynoxide(t, filepath.Join(t.TempDir(), "table.db"))
			client := store.Connect(storetest.Config(), emulator.Endpoint)
			if err := store.CreateTable(t.Context(), client, "table"); err != nil {
				t.Fatal(err)
			}
			r := &restartingClient{client, emulator, 2}
			table := storetest.NewWithBackend(t, store.NewDynamoDB(r, "table"), func(o *store.Options) { o.KeepTokens = keep })
			count := store.Upsert(key("counter"), store.Add(store.At("count"), 1))
			err := table.Commit(t.Context(), count, store.Create(key("a"), thing{}))
			if keep && err != nil || !keep && !errors.Is(err, store.ErrCondition) {
				t.Errorf("Commit() with kept tokens %t = %v, want success with them and otherwise %v",
					keep, err, store.ErrCondition)
			}
			if got := get(t, table, key("counter")); got.Count != 1 {
				t.Errorf("counter after one commit = %d, want 1", got.Count)
			}
			if err := table.Commit(t.Context(), count); err != nil {
				t.Fatalf("second Commit() = %v, want success", err)
			}
			want := int64(2)
			if !keep { // after the second restart, the repeat adds to the counter again
				want = 3
			}
			if got := get(t, table, key("counter")); got.Count != want {
				t.Errorf("counter after two commits = %d, want %d", got.Count, want)
			}
		})
	}
}

// TestTokenSlotsAreReused checks that a process keeps its tokens in at most as many slots as it has concurrent commits.
func TestTokenSlotsAreReused(t *testing.T) {
	backend := &restartingBackend{Backend: memory.New()}
	table := storetest.NewWithBackend(t, backend, keepTokens)
	const workers, rounds = 4, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				if err := table.Commit(t.Context(), store.Upsert(key("counter"), store.Add(store.At("count"), 1))); err != nil {
					t.Errorf("Commit() of a worker = %v, want success", err)
				}
			}
		})
	}
	wg.Wait()
	if got := get(t, table, key("counter")); got.Count != workers*rounds {
		t.Errorf("counter after the commits of all workers = %d, want %d", got.Count, workers*rounds)
	}
	slots := 0
	for k := range backend.Items() {
		if strings.HasPrefix(k.PK, "commit-token#") {
			slots++
		}
	}
	if slots < 1 || slots > workers {
		t.Errorf("slots with a token = %d, want 1 to %d", slots, workers)
	}
}

func TestMaxWritesLeaveCapacityForToken(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	table := storetest.NewWithBackend(t, store.NewDynamoDB(client, name), keepTokens)
	var writes []store.Write
	for i := range store.MaxWrites {
		writes = append(writes, store.Put(key("p", i), thing{}))
	}
	commit(t, table, writes...)
}

func TestBackoffIsBoundedWithFullJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for attempt, limit := range map[int]time.Duration{
			1: 10 * time.Millisecond, 4: 80 * time.Millisecond, 9: time.Second,
			500: time.Second,
		} {
			shortest, longest := limit, time.Duration(0)
			for range 200 {
				start := time.Now()
				if err := store.Backoff(t.Context(), attempt); err != nil {
					t.Fatalf("Backoff(%d) = %v, want success", attempt, err)
				}
				shortest, longest = min(shortest, time.Since(start)), max(longest, time.Since(start))
			}
			if shortest > limit/2 {
				t.Errorf("shortest of 200 waits of Backoff(%d) = %v, want at most %v", attempt, shortest, limit/2)
			}
			if longest > limit || longest < limit/2 {
				t.Errorf("longest of 200 waits of Backoff(%d) = %v, want %v to %v", attempt, longest, limit/2, limit)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		if err := store.Backoff(ctx, 500); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Backoff() with an expired context = %v, want %v or success", err, context.DeadlineExceeded)
		}
	})
}
