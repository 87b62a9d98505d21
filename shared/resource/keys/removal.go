package keys

import (
	"context"
	"fmt"
	"maps"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
)

// removalCounts has the numbers of resources that a deletion removes, by their type (store.ReportRemovals). It counts
// only visible keys: keys that an operation still has to remove were counted when their consumer was deleted.
type removalCounts map[string]int

func newRemovalCounts() removalCounts {
	return removalCounts{"keyBuckets": 0, "consumers": 0, "apiKeys": 0, "managers": 0, "managerInvites": 0}
}

func (rc removalCounts) add(c consumerRecord) {
	rc["consumers"]++
	rc["apiKeys"] += c.KeyCount
	rc["managers"] += len(c.Managers)
	rc["managerInvites"] += len(c.Invites)
}

// countContents adds a bucket and its contents to n.
func (s *Service) countContents(ctx context.Context, b bucketRecord, n removalCounts) error {
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

// CountDefaultBuckets returns the numbers of resources that the deletion of a project removes with the project's
// default buckets (RemoveDefaultBuckets), for store.ReportRemovals.
func (s *Service) CountDefaultBuckets(ctx context.Context, accountID, project string) (map[string]int, error) {
	d := s.DefaultBuckets(auth.Owner{AccountID: accountID}, project)
	if err := s.table.Load(ctx, d.ReadRequests()...); err != nil {
		return nil, err
	}
	n := newRemovalCounts()
	for b := range d.ownedBy(project) {
		if err := s.countContents(ctx, b, n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// reportRemovals reports to a dry run what the deletion of a bucket removes.
func (s *Service) reportRemovals(ctx context.Context, b bucketRecord) error {
	return store.ReportRemovals(ctx, func(ctx context.Context) (map[string]int, error) {
		n := newRemovalCounts()
		return n, s.countContents(ctx, b, n)
	})
}

// reportRemovals reports to a dry run what the deletion of a consumer removes.
func (c consumerRecord) reportRemovals(ctx context.Context) error {
	return store.ReportRemovals(ctx, func(context.Context) (map[string]int, error) {
		n := newRemovalCounts()
		n.add(c)
		maps.DeleteFunc(n, func(name string, _ int) bool { return name == "keyBuckets" })
		return n, nil
	})
}
