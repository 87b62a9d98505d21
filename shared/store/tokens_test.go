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

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// forgetful is a database that restarts after each commit: the reply is lost,
// and the token forgotten.
type forgetful struct {
	*memory.Backend

	mu       sync.Mutex
	restarts int // still to come
	calls    int
}

func (f *forgetful) Transact(ctx context.Context, token string, writes []store.Write) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	err := f.Backend.Transact(ctx, fmt.Sprint(token, f.calls), writes)
	if err == nil && f.restarts > 0 {
		f.restarts--
		return fmt.Errorf("%w: %w: connection reset", store.ErrRepeat, store.ErrLost)
	}
	return err
}

func keepTokens(o *store.Options) { o.KeepTokens = true }

func TestKeptTokenTellsThatACommitWasMade(t *testing.T) {
	for name, keep := range map[string]bool{"kept": true, "forgotten": false} {
		t.Run(name, func(t *testing.T) {
			f := &forgetful{Backend: memory.New(), restarts: 2}
			table := storetest.Over(t, f, func(o *store.Options) { o.KeepTokens = keep })
			err := table.Commit(t.Context(), store.Upsert(key("counter"), store.Add(store.At("count"), 1)))
			got := get(t, table, key("counter"))
			if keep && (err != nil || got.Count != 1) {
				t.Errorf("answered %v, and the effect happened %d times", err, got.Count)
			}
			// Without it the double shows, or this test would prove nothing.
			if !keep && got.Count != 3 {
				t.Errorf("the effect happened %d times, want 3", got.Count)
			}
		})
	}
}

func TestKeptTokenHidesNoFalseCondition(t *testing.T) {
	f := &forgetful{Backend: memory.New()}
	table := storetest.Over(t, f, keepTokens)
	errTaken := errors.New("taken")
	create := store.Create(key("a"), thing{}).Else(errTaken)
	f.restarts = 1
	if err := table.Commit(t.Context(), create); err != nil {
		t.Errorf("the first commit: %v", err)
	}
	if err := table.Commit(t.Context(), create); !errors.Is(err, errTaken) {
		t.Errorf("the second commit: %v", err)
	}
}

// restarting is a client whose database dies after a commit, before it answers.
type restarting struct {
	store.Client
	emulator *storetest.Dynoxide
	left     int
}

func (r *restarting) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	out, err := r.Client.TransactWriteItems(ctx, in)
	if err == nil && r.left > 0 {
		r.left--
		r.emulator.Restart()
		return nil, &smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}
	}
	return out, err
}

// The embedded database forgets tokens when it restarts (the second case, for
// which tokens are kept), and no commit that it had made.
func TestKeptTokenSurvivesTheDeathOfTheEmbeddedDatabase(t *testing.T) {
	for name, keep := range map[string]bool{"kept": true, "forgotten": false} {
		t.Run(name, func(t *testing.T) {
			emulator := storetest.StartDynoxide(t, filepath.Join(t.TempDir(), "table.db"))
			client := store.Connect(storetest.Config(), emulator.Endpoint)
			if err := store.CreateTable(t.Context(), client, "table"); err != nil {
				t.Fatal(err)
			}
			r := &restarting{client, emulator, 2}
			table := storetest.Over(t, store.NewDynamoDB(r, "table"), func(o *store.Options) { o.KeepTokens = keep })
			count := store.Upsert(key("counter"), store.Add(store.At("count"), 1))
			err := table.Commit(t.Context(), count, store.Create(key("a"), thing{}))
			if keep && err != nil || !keep && !errors.Is(err, store.ErrCondition) {
				t.Errorf("answered %v", err)
			}
			if got := get(t, table, key("counter")); got.Count != 1 {
				t.Errorf("the effect happened %d times", got.Count)
			}
			if err := table.Commit(t.Context(), count); err != nil {
				t.Fatal(err)
			}
			want := int64(2)
			if !keep { // one restart is left, and no condition guards the sum
				want = 3
			}
			if got := get(t, table, key("counter")); got.Count != want {
				t.Errorf("the effect of two commits happened %d times, want %d", got.Count, want)
			}
		})
	}
}

func TestTokensAreAsManyAsCommitsRunAtATime(t *testing.T) {
	f := &forgetful{Backend: memory.New()}
	table := storetest.Over(t, f, keepTokens)
	const workers, rounds = 4, 50
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range rounds {
				commit(t, table, store.Upsert(key("counter"), store.Add(store.At("count"), 1)))
			}
		})
	}
	wg.Wait()
	if got := get(t, table, key("counter")); got.Count != workers*rounds {
		t.Errorf("counted %d, want %d", got.Count, workers*rounds)
	}
	slots := 0
	for k := range f.Items() {
		if strings.HasPrefix(k.PK, "commit-token#") {
			slots++
		}
	}
	if slots < 1 || slots > workers {
		t.Errorf("%d tokens are kept, want at most %d", slots, workers)
	}
}

func TestTransactionOfAllWritesHasRoomForItsToken(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	table := storetest.Over(t, store.NewDynamoDB(client, name), keepTokens)
	var writes []store.Write
	for i := range store.MaxWrites {
		writes = append(writes, store.Put(key("p", i), thing{}))
	}
	commit(t, table, writes...)
}

func TestBackoffGrowsWithFullJitterToASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for attempt, most := range map[int]time.Duration{1: 10 * time.Millisecond, 4: 80 * time.Millisecond, 9: time.Second, 500: time.Second} {
			var longest time.Duration
			for range 200 {
				start := time.Now()
				if err := store.Backoff(t.Context(), attempt); err != nil {
					t.Fatal(err)
				}
				longest = max(longest, time.Since(start))
			}
			if longest > most || longest < most/2 {
				t.Errorf("before repeat %d at most %v were waited, want up to %v", attempt, longest, most)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
		defer cancel()
		if err := store.Backoff(ctx, 500); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an ended context is answered %v", err)
		}
	})
}
