package rotation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// pageItems is how many items are read at a time, pages how many pages a step has at most.
	pageItems, pages = 500, 8
	// stepObjects is how many objects a step looks at.
	stepObjects = 100
)

// progress is how far the renewing is: the operation's data.
type progress struct {
	// Behind is the item that the next page is behind.
	Behind store.Key `json:"behind"`
	// Found counts the records of this pass that had something of the old root key, whether their renewal was committed or not.
	Found int `json:"found"`
	// Renewed counts those that were, in all passes; Objects those objects.
	Renewed int `json:"renewed"`
	Objects int `json:"objects"`
	// Unreadable counts the values of this pass, and the objects, that no root key opens. They are left as they are.
	Unreadable        int    `json:"unreadable"`
	UnreadableObjects int    `json:"unreadableObjects"`
	BehindObject      string `json:"behindObject,omitempty"`
}

// String says it to who rotates.
func (p progress) String() string {
	text := fmt.Sprintf("%d records and %d objects are under the new root key.", p.Renewed, p.Objects)
	if n := p.Unreadable + p.UnreadableObjects; n > 0 {
		text += fmt.Sprintf(" %d values are under neither key: they were unreadable before.", n)
	}
	return text
}

// turned refuses to renew before this process writes with the new root key: it would renew nothing.
func (s *Service) turned(ctx context.Context) error {
	if s.keys == nil {
		return errNotHere
	}
	its, err := s.keys.Status(ctx)
	if err != nil {
		return err
	}
	for range 2 {
		ring, err := s.keys.Ring(ctx)
		if err != nil {
			return err
		}
		if ring.Writing().Number == its.Number {
			return nil
		}
		s.keys.Forget()
	}
	return errors.New("rotation: the process does not come to the new root key")
}

// renew is a step of a pass over the table. A pass that has found something is followed by another one: a record that was
// changed meanwhile may have kept what was read of it before.
func (s *Service) renew(ctx context.Context, step operation.Step) (operation.Result, error) {
	var p progress
	if err := errors.Join(step.Data(&p), s.turned(ctx)); err != nil {
		return operation.Result{}, err
	}
	for range pages {
		items, last, err := s.parts.Table.Page(ctx, p.Behind, pageItems)
		if err != nil {
			return operation.Result{}, fmt.Errorf("read a page of the table: %w", err)
		}
		if err := s.renewItems(ctx, items, &p); err != nil {
			return operation.Result{}, err
		}
		if p.Behind = last; last == (store.Key{}) {
			again := p.Found > 0
			message := p.String()
			if p.Found = 0; again {
				p.Unreadable = 0
			}
			return operation.Result{Again: again, Data: p, Message: message}, nil
		}
	}
	return operation.Result{Again: true, Data: p, Message: p.String()}, nil
}

// renewItems renews what is on a page.
func (s *Service) renewItems(ctx context.Context, items []store.Item, p *progress) error {
	for _, kept := range s.kept {
		if kept.Renew == nil {
			continue
		}
		var its []store.Item
		for _, item := range items {
			if kept.Space.PartsOf(store.KeyOf(item).PK) != nil && !store.Expired(item, s.parts.Now()) {
				its = append(its, item)
			}
		}
		if len(its) == 0 {
			continue
		}
		groups, unreadable, err := kept.Renew(ctx, its)
		if err != nil {
			return fmt.Errorf("renew records of %s: %w", kept.Space, err)
		}
		p.Found += len(groups)
		p.Unreadable += unreadable
		done, err := s.commit(ctx, groups)
		p.Renewed += done
		if err != nil {
			return fmt.Errorf("store renewed records of %s: %w", kept.Space, err)
		}
	}
	return nil
}

// commit stores the groups, many in one transaction. Where a condition is false, all are stored one by one, to leave out only those
// whose record was changed meanwhile.
func (s *Service) commit(ctx context.Context, groups [][]store.Write) (done int, err error) {
	for len(groups) > 0 {
		n, size, bytes := 0, 0, 0
		for ; n < len(groups); n++ {
			its := 0
			for _, w := range groups[n] {
				its += store.Size(w.Item) + changeBytes
			}
			if n > 0 && (size+len(groups[n]) > store.MaxWrites || bytes+its > store.MaxTransactionBytes/2) {
				break
			}
			size, bytes = size+len(groups[n]), bytes+its
		}
		err := s.parts.Table.Commit(ctx, slices.Concat(groups[:n]...)...)
		switch {
		case err == nil:
			done += n
		case !lostTo(err):
			return done, err
		default:
			for _, g := range groups[:n] {
				if err := s.parts.Table.Commit(ctx, g...); err == nil {
					done++
				} else if !lostTo(err) {
					return done, err
				}
			}
		}
		groups = groups[n:]
	}
	return done, nil
}

// changeBytes is room for what a write has beside an item: a sealed value of the largest kind, an answer's part apart, which expires.
const changeBytes = 8 << 10

// lostTo reports whether a write did not hold: somebody has changed the record.
func lostTo(err error) bool {
	return errors.Is(err, store.ErrCondition) || errors.Is(err, store.ErrStale)
}

func isSealed(err error) bool { return errors.Is(err, seal.ErrSealed) }

func spelled(path store.Path) string { return strings.Join(path, ".") }

// renewObjects is a step over the objects, in the order of their keys.
func (s *Service) renewObjects(ctx context.Context, step operation.Step) (operation.Result, error) {
	var p progress
	if err := errors.Join(step.Data(&p), s.turned(ctx)); err != nil {
		return operation.Result{}, err
	}
	left := stepObjects
	for o, err := range s.parts.Bucket.List(ctx, s.prefix) {
		if err != nil {
			return operation.Result{}, fmt.Errorf("list the objects: %w", err)
		}
		if o.Key <= p.BehindObject {
			continue
		}
		if left == 0 {
			return operation.Result{Again: true, Data: p, Message: p.String()}, nil
		}
		left--
		renewed, ok, err := s.object(ctx, o.Key)
		if err != nil {
			return operation.Result{}, fmt.Errorf("renew the object %s: %w", o.Key, err)
		}
		if renewed {
			p.Objects++
		}
		if !ok {
			p.UnreadableObjects++
		}
		p.BehindObject = o.Key
	}
	return operation.Result{Data: p, Message: p.String()}, nil
}
