package rotation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// pageItems is the number of items that are read at a time. maxPages is the maximum number of pages in a step.
	pageItems, maxPages = 500, 8
	// maxObjects is the maximum number of objects in a step.
	maxObjects = 100
)

// progress is the progress of the renewal. It is the operation's data.
type progress struct {
	// After is the key after which the next page begins.
	After store.Key `json:"behind"`
	// Found is the number of records in this pass with values under the old root key, whether or not their renewal was committed.
	Found int `json:"found"`
	// Renewed is the number of renewed records in all passes. Objects is the number of renewed objects.
	Renewed int `json:"renewed"`
	Objects int `json:"objects"`
	// Unreadable is the number of values in this pass that no root key opens,
	// and UnreadableObjects the number of such objects. They are left unchanged.
	Unreadable        int `json:"unreadable"`
	UnreadableObjects int `json:"unreadableObjects"`
	// AfterObject is the key of the last object that was handled, "" for none.
	AfterObject string `json:"behindObject,omitempty"`
}

// String returns a message about the progress for the operator.
func (p progress) String() string {
	text := fmt.Sprintf("%d records and %d objects are under the new root key.", p.Renewed, p.Objects)
	if n := p.Unreadable + p.UnreadableObjects; n > 0 {
		text += fmt.Sprintf(" %d values are under neither key: they were unreadable before.", n)
	}
	return text
}

// checkNewKeyInUse returns an error until this process writes with
// the new root key. Before that, the process would renew nothing.
func (s *Service) checkNewKeyInUse(ctx context.Context) error {
	if s.keys == nil {
		return errNotRotatable
	}
	status, err := s.keys.Status(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		ring, err := s.keys.Ring(ctx)
		if err != nil {
			return err
		}
		if ring.Primary().Number == status.Number {
			return nil
		}
		s.keys.Expire()
	}
	return errors.New("rotation: the process does not come to the new root key")
}

// renew is a step of a pass over the table: it renews at most maxPages pages. If a pass found values under the old root
// key, another pass follows. The reason: a process may have read such a value before it was renewed, and written it
// again afterwards.
func (s *Service) renew(ctx context.Context, step operation.Step) (operation.Result, error) {
	var p progress
	if err := errors.Join(step.Data(&p), s.checkNewKeyInUse(ctx)); err != nil {
		return operation.Result{}, err
	}
	for range maxPages {
		items, last, err := s.parts.Table.Page(ctx, p.After, pageItems)
		if err != nil {
			return operation.Result{}, fmt.Errorf("read a page of the table: %w", err)
		}
		if err := s.renewItems(ctx, items, &p); err != nil {
			return operation.Result{}, err
		}
		if p.After = last; last == (store.Key{}) {
			repeat := p.Found > 0
			message := p.String()
			if p.Found = 0; repeat {
				p.Unreadable = 0
			}
			return operation.Result{Repeat: repeat, Data: p, Message: message}, nil
		}
	}
	return operation.Result{Repeat: true, Data: p, Message: p.String()}, nil
}

// renewItems renews the items of a page.
func (s *Service) renewItems(ctx context.Context, items []store.Item, p *progress) error {
	for _, records := range s.records {
		if records.Renew == nil {
			continue
		}
		var matching []store.Item
		for _, item := range items {
			if records.Prefix.Parts(store.KeyOf(item).PK) != nil && !store.Expired(item, s.parts.Now()) {
				matching = append(matching, item)
			}
		}
		if len(matching) == 0 {
			continue
		}
		groups, unreadable, err := records.Renew(ctx, matching)
		if err != nil {
			return fmt.Errorf("renew records of %s: %w", records.Prefix, err)
		}
		p.Found += len(groups)
		p.Unreadable += unreadable
		done, err := s.commit(ctx, groups)
		p.Renewed += done
		if err != nil {
			return fmt.Errorf("store renewed records of %s: %w", records.Prefix, err)
		}
	}
	return nil
}

// commit commits the groups, many in one transaction. If a condition is false, it commits the groups one by
// one, to skip only groups whose records were changed meanwhile. done is the number of committed groups.
func (s *Service) commit(ctx context.Context, groups [][]store.Write) (done int, err error) {
	for len(groups) > 0 {
		n, size, bytes := 0, 0, 0
		for ; n < len(groups); n++ {
			groupBytes := 0
			for _, w := range groups[n] {
				groupBytes += store.Size(w.Item) + changeBytes
			}
			if n > 0 && (size+len(groups[n]) > store.MaxWrites || bytes+groupBytes > store.MaxTransactionBytes/2) {
				break
			}
			size, bytes = size+len(groups[n]), bytes+groupBytes
		}
		err := s.parts.Table.Commit(ctx, slices.Concat(groups[:n]...)...)
		switch {
		case err == nil:
			done += n
		case !isConflict(err):
			return done, err
		default:
			for _, g := range groups[:n] {
				if err := s.parts.Table.Commit(ctx, g...); err == nil {
					done++
				} else if !isConflict(err) {
					return done, err
				}
			}
		}
		groups = groups[n:]
	}
	return done, nil
}

// changeBytes is the size that a write needs in addition to its item: the largest sealed value that is
// renewed. Larger values, which are parts of stored responses, are not renewed because they expire.
const changeBytes = 8 << 10

// isConflict reports whether a write failed because another process changed the record.
func isConflict(err error) bool {
	return errors.Is(err, store.ErrCondition) || errors.Is(err, store.ErrStale)
}

// isUnreadable reports whether no root key opens a value.
func isUnreadable(err error) bool { return errors.Is(err, seal.ErrSealed) }

func joinPath(path store.Path) string { return strings.Join(path, ".") }

// renewObjects is a step that renews objects, in the order of their keys.
func (s *Service) renewObjects(ctx context.Context, step operation.Step) (operation.Result, error) {
	var p progress
	if err := errors.Join(step.Data(&p), s.checkNewKeyInUse(ctx)); err != nil {
		return operation.Result{}, err
	}
	remaining := maxObjects
	for o, err := range s.parts.Bucket.List(ctx, s.prefix) {
		if err != nil {
			return operation.Result{}, fmt.Errorf("list the objects: %w", err)
		}
		if o.Key <= p.AfterObject {
			continue
		}
		if remaining == 0 {
			return operation.Result{Repeat: true, Data: p, Message: p.String()}, nil
		}
		remaining--
		renewed, ok, err := s.renewObject(ctx, o.Key)
		if err != nil {
			return operation.Result{}, fmt.Errorf("renew the object %s: %w", o.Key, err)
		}
		if renewed {
			p.Objects++
		}
		if !ok {
			p.UnreadableObjects++
		}
		p.AfterObject = o.Key
	}
	return operation.Result{Data: p, Message: p.String()}, nil
}
