package keys_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// fixed is a request's context whose audit record is the same in each run.
func fixed(ctx context.Context, id string) context.Context {
	return store.Decide(audit.With(ctx, &audit.Request{AccountID: accountID, Time: storetest.Epoch, RequestID: id}))
}

// TestLargeChangesSurviveEverything kills, repeats and re-orders each change
// that spans transactions: in the end all of it is there or nothing, and at no
// time may a reader see a part of it.
func TestLargeChangesSurviveEverything(t *testing.T) {
	t.Parallel()
	const before, batch = 41, 41
	frozen := func() time.Time { return storetest.Epoch }
	for _, test := range []struct {
		name string
		act  func(ctx context.Context, s *keys.Service) error
		// always checks what is visible between any two calls.
		always func(visible, open int) error
	}{
		{"bulk", func(ctx context.Context, s *keys.Service) error {
			in := make([]keys.NewKey, batch)
			for i := range in {
				in[i].Text = fmt.Sprintf("custom-key-number-%04d", i)
			}
			_, err := s.CreateKeys(ctx, of("alice"), in)
			return err
		}, func(visible, _ int) error {
			if visible != before && visible != before+batch {
				return fmt.Errorf("%d keys are visible", visible)
			}
			return nil
		}},
		{"roll", func(ctx context.Context, s *keys.Service) error {
			return s.RollKey(ctx, of("alice"), storetest.Epoch)
		}, func(visible, open int) error {
			if !(visible == before && open == before) && !(visible == before+1 && open == 0) {
				return fmt.Errorf("%d keys are visible, %d of the old ones open", visible, open)
			}
			return nil
		}},
		{"metadata", func(ctx context.Context, s *keys.Service) error {
			_, err := s.UpdateConsumer(ctx, of("alice"), keys.ConsumerPatch{Metadata: store.PatchTo(json.RawMessage(`{"new":1}`))})
			return err
		}, nil},
		{"delete consumer", func(ctx context.Context, s *keys.Service) error {
			return s.DeleteConsumer(ctx, of("alice"))
		}, func(visible, open int) error {
			if !(visible == before && open == before) && !(visible == 0 && open == 0) {
				return fmt.Errorf("%d keys are visible, %d open", visible, open)
			}
			return nil
		}},
		{"delete bucket", func(ctx context.Context, s *keys.Service) error {
			return s.DeleteBucket(ctx, in(bucket))
		}, func(visible, open int) error {
			if !(visible == before && open == before) && !(visible == 0 && open == 0) {
				return fmt.Errorf("%d keys are visible, %d open", visible, open)
			}
			return nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			operationtest.Simulate(t, func() operationtest.Scenario {
				random := storetest.Random(t)
				source := ids.NewSource(random, frozen)
				service := func(w *operationtest.Worker) *keys.Service {
					return keys.Open(installation.Parts{Table: w.Table, Key: root{}, IDs: source, Now: w.Now})
				}
				var old []keys.Key
				changed := &changes{}
				return operationtest.Scenario{
					Definitions: func(w *operationtest.Worker) []operation.Definition {
						return keys.NewCascades(w.Table).Definitions()
					},
					Arrange: func(ctx context.Context, w *operationtest.Worker) error {
						s := service(w)
						if _, err := s.CreateBucket(fixed(ctx, "1"), owner, keys.NewBucket{Name: bucket}); err != nil {
							return err
						}
						if _, err := s.CreateConsumer(fixed(ctx, "2"), in(bucket), keys.NewConsumer{Name: "alice", Tags: map[string]string{"a": "1"}}); err != nil {
							return err
						}
						for i := range 2 {
							half := make([]keys.NewKey, before/2+i*(before%2))
							made, err := s.CreateKeys(fixed(ctx, fmt.Sprint("3", i)), of("alice"), half)
							if err != nil {
								return err
							}
							old = append(old, made...)
						}
						return nil
					},
					Act: func(ctx context.Context, w *operationtest.Worker) error {
						return test.act(fixed(ctx, "4"), service(w))
					},
					Always: func(ctx context.Context, table *store.Table) error {
						if test.always == nil || !changed.since() {
							return nil
						}
						return checkReaders(ctx, table, old, test.always)
					},
					Sabotage: func(b store.Backend) store.Backend {
						return watched{Backend: b, changes: changed}
					},
					Ignore: []string{"createdOn", "updatedOn", "deletedOn", "seq", "version", "token", "sealed", "timestamp", "ttl"},
				}
			}, runs)
		})
	}
}

// changes tells whether anything was committed since it was last asked, which
// saves checking again what is the same.
type changes struct{ made, checked atomic.Int64 }

func (c *changes) since() bool {
	made := c.made.Load()
	return c.checked.Swap(made) != made
}

// watched counts the commits.
type watched struct {
	store.Backend
	changes *changes
}

func (w watched) Transact(ctx context.Context, token string, writes []store.Write) error {
	defer w.changes.made.Add(1)
	return w.Backend.Transact(ctx, token, writes)
}

// checkReaders counts what a reader sees of alice's keys, and which of old the gateway
// lets in.
func checkReaders(ctx context.Context, table *store.Table, old []keys.Key, judge func(visible, open int) error) error {
	now := func() time.Time { return storetest.Epoch }
	parts := installation.Parts{Table: table, Key: root{}, IDs: ids.NewSource(nil, now), Now: now}
	s := keys.Open(parts)
	got, _, _, err := s.ListKeys(ctx, of("alice"), all, keys.None)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	open := 0
	v := keys.OpenVerifier(parts)
	for _, i := range []int{0, len(old) / 2, len(old) - 1} {
		switch _, err := v.Verify(ctx, ref(), old[i].Text); {
		case err == nil:
			open++
		case !fault.Is(err, fault.Unauthenticated):
			return err
		}
	}
	if open != 0 && open != 3 {
		return fmt.Errorf("%d of 3 keys open", open)
	}
	if open == 3 {
		open = len(old)
	}
	return judge(len(got), open)
}
