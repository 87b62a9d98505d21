package keys

import (
	"context"
	"fmt"
	"maps"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/store"
)

// tally is what a bucket's deletion takes away, by the names of the API's lists
// (store.Removes). Keys are counted as they are seen: those of deleted consumers, which
// operations still remove, went with their consumers.
type tally map[string]int

func newTally() tally {
	return tally{"keyBuckets": 0, "consumers": 0, "apiKeys": 0, "managers": 0, "managerInvites": 0}
}

func (n tally) add(c consumerRecord) {
	n["consumers"]++
	n["apiKeys"] += c.KeyCount
	n["managers"] += len(c.Managers)
	n["managerInvites"] += len(c.Invites)
}

// count adds a bucket with all that is in it.
func (s *Service) count(ctx context.Context, b bucketRecord, n tally) error {
	n["keyBuckets"]++
	g := qualifiedName{b.AccountID, b.Name}.generation(b.Generation)
	err := store.Visit(ctx, s.table, store.Query{PK: consumerPartition(g)}, func(c consumerRecord) bool {
		n.add(c)
		return true
	})
	if err != nil {
		return fmt.Errorf("count what is in a key bucket: %w", err)
	}
	return nil
}

// DefaultsRemoved counts what goes with those default buckets of a project that its
// deletion takes along (RemoveDefaultBuckets), for store.Removes.
func (s *Service) DefaultsRemoved(ctx context.Context, accountID, project string) (map[string]int, error) {
	d := s.DefaultBuckets(auth.Owner{AccountID: accountID}, project)
	if err := s.table.Load(ctx, d.Wanted()...); err != nil {
		return nil, err
	}
	n := newTally()
	for b := range d.placedAt(project) {
		if err := s.count(ctx, b, n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// removes tells a dry run of the deletion of a bucket.
func (s *Service) removes(ctx context.Context, b bucketRecord) error {
	return store.Removes(ctx, func(ctx context.Context) (map[string]int, error) {
		n := newTally()
		return n, s.count(ctx, b, n)
	})
}

// removed tells a dry run of the deletion of a consumer.
func (c consumerRecord) removed(ctx context.Context) error {
	return store.Removes(ctx, func(context.Context) (map[string]int, error) {
		n := newTally()
		n.add(c)
		maps.DeleteFunc(n, func(of string, _ int) bool { return of == "keyBuckets" })
		return n, nil
	})
}
