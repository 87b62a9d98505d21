package keys_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// fixedRequest returns the context of a request. Its audit record is the same in each run.
func fixedRequest(ctx context.Context, id string) context.Context {
	return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
		AccountID: accountID, Time: storetest.Epoch,
		RequestID: id,
	}))
}

// keysBefore is the number of alice's keys before a large change. keysInBulk is the number of keys that a bulk creation
// adds.
const keysBefore, keysInBulk = 41, 41

// largeChange is a change that needs several transactions.
type largeChange struct {
	name  string
	apply func(ctx context.Context, s *keys.Service) error
	// invariant, if not nil, checks the state that readers see between any two calls to the table. visible is the number
	// of alice's keys in a list. accepted is the number of old keys that the gateway accepts.
	invariant func(visible, accepted int) error
}

func largeChanges() []largeChange {
	return []largeChange{
		{"bulk", func(ctx context.Context, s *keys.Service) error {
			in := make([]keys.NewKey, keysInBulk)
			for i := range in {
				in[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
			}
			_, err := s.CreateKeys(ctx, consumerAt("alice"), in)
			return err
		}, func(visible, _ int) error {
			if visible != keysBefore && visible != keysBefore+keysInBulk {
				return fmt.Errorf("%d keys are visible, want %d or %d", visible, keysBefore, keysBefore+keysInBulk)
			}
			return nil
		}},
		{"roll", func(ctx context.Context, s *keys.Service) error {
			return s.RollKey(ctx, consumerAt("alice"), storetest.Epoch)
		}, func(visible, accepted int) error {
			if !(visible == keysBefore && accepted == keysBefore) && !(visible == keysBefore+1 && accepted == 0) {
				return fmt.Errorf("%d keys are visible and %d old keys accepted, want %d and %[3]d, or %d and 0",
					visible, accepted, keysBefore, keysBefore+1)
			}
			return nil
		}},
		{"metadata", func(ctx context.Context, s *keys.Service) error {
			_, err := s.UpdateConsumer(ctx, consumerAt("alice"),
				keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"new":1}`))})
			return err
		}, nil},
		{"delete consumer", func(ctx context.Context, s *keys.Service) error {
			return s.DeleteConsumer(ctx, consumerAt("alice"))
		}, func(visible, accepted int) error {
			if !(visible == keysBefore && accepted == keysBefore) && !(visible == 0 && accepted == 0) {
				return fmt.Errorf("%d keys are visible and %d old keys accepted, want %d or 0 of each",
					visible, accepted, keysBefore)
			}
			return nil
		}},
		{"delete bucket", func(ctx context.Context, s *keys.Service) error {
			return s.DeleteBucket(ctx, bucketAt(bucket))
		}, func(visible, accepted int) error {
			if !(visible == keysBefore && accepted == keysBefore) && !(visible == 0 && accepted == 0) {
				return fmt.Errorf("%d keys are visible and %d old keys accepted, want %d or 0 of each",
					visible, accepted, keysBefore)
			}
			return nil
		}},
	}
}

// TestLargeChangesSurviveFailures kills, repeats and reorders the calls of each change that needs several transactions.
// In the end, the change must be complete or have no effect. Readers must never see a part of it. This is not checked
// for the metadata, which has no invariant.
func TestLargeChangesSurviveFailures(t *testing.T) {
	t.Parallel()
	frozen := func() time.Time { return storetest.Epoch }
	for _, test := range largeChanges() {
		t.Run(test.name, func(t *testing.T) {
			operationtest.Simulate(t, func() operationtest.Scenario {
				random := storetest.Random(t)
				source := ids.NewSource(random, frozen)
				service := func(w *operationtest.Worker) *keys.Service {
					return keys.Open(installation.Parts{Table: w.Table, Key: testRootKey{}, IDs: source, Now: w.Now})
				}
				var old []keys.Key
				commits := &commitCounter{}
				return operationtest.Scenario{
					Definitions: func(w *operationtest.Worker) []operation.Definition {
						return keys.NewCascades(w.Table).Definitions()
					},
					Setup: func(ctx context.Context, w *operationtest.Worker) error {
						s := service(w)
						if _, err := s.CreateBucket(fixedRequest(ctx, "1"), owner, keys.NewBucket{Name: bucket}); err != nil {
							return err
						}
						if _, err := s.CreateConsumer(fixedRequest(ctx, "2"), bucketAt(bucket),
							keys.NewConsumer{Name: "alice", Tags: map[string]string{"a": "1"}}); err != nil {
							return err
						}
						for i := range 2 {
							half := make([]keys.NewKey, keysBefore/2+i*(keysBefore%2))
							created, err := s.CreateKeys(fixedRequest(ctx, fmt.Sprint("3", i)), consumerAt("alice"), half)
							if err != nil {
								return err
							}
							old = append(old, created...)
						}
						return nil
					},
					Request: func(ctx context.Context, w *operationtest.Worker) error {
						return test.apply(fixedRequest(ctx, "4"), service(w))
					},
					Invariant: func(ctx context.Context, table *store.Table) error {
						if test.invariant == nil || !commits.changed() {
							return nil
						}
						return checkReaders(ctx, table, old, test.invariant)
					},
					Corrupt: func(b store.Backend) store.Backend {
						return countingBackend{Backend: b, changes: commits}
					},
					Ignore: []string{"createdOn", "updatedOn", "deletedOn", "seq", "version", "token", "sealed", "timestamp", "ttl"},
				}
			}, runs)
		})
	}
}

// commitCounter counts transactions. Its method changed reports whether there was one since the previous call of
// changed, so that an unchanged state is not checked again.
type commitCounter struct{ commits, checked atomic.Int64 }

func (c *commitCounter) changed() bool {
	commits := c.commits.Load()
	return c.checked.Swap(commits) != commits
}

// countingBackend counts the transactions of a backend.
type countingBackend struct {
	store.Backend
	changes *commitCounter
}

func (b countingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	defer b.changes.commits.Add(1)
	return b.Backend.Transact(ctx, token, writes)
}

// checkReaders calls check with the number of alice's keys that a list shows, and with the number of keys in old that
// the gateway accepts. It verifies only 3 keys of old. The gateway must accept either all or none of these keys.
func checkReaders(
	ctx context.Context, table *store.Table, old []keys.Key, check func(visible, accepted int) error,
) error {
	now := func() time.Time { return storetest.Epoch }
	parts := installation.Parts{Table: table, Key: testRootKey{}, IDs: ids.NewSource(nil, now), Now: now}
	s := keys.Open(parts)
	got, _, _, err := s.ListKeys(ctx, consumerAt("alice"), all, keys.None)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	accepted := 0
	v := keys.OpenVerifier(parts)
	for _, i := range []int{0, len(old) / 2, len(old) - 1} {
		switch _, err := v.Verify(ctx, bucketRef(), old[i].Text); {
		case err == nil:
			accepted++
		case !fault.Is(err, fault.Unauthenticated):
			return err
		}
	}
	if accepted != 0 && accepted != 3 {
		return fmt.Errorf("gateway accepts %d of 3 old keys, want 0 or 3", accepted)
	}
	if accepted == 3 {
		accepted = len(old)
	}
	return check(len(got), accepted)
}
