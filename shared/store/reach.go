package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/dryrun"
)

// Reach is which spaces of the table a part of the product asks for. In AWS its role is held to them
// (dynamodb:LeadingKeys), and everywhere else its Table is (Within): what the role would refuse fails
// in each test and on each laptop.
type Reach struct {
	// Reads are spaces of which it gets and queries items, Writes those that it puts, updates, deletes and
	// checks. An index is no part of it: it has keys alone, and a grant of its own.
	Reads, Writes []Space
	// Scans says that it reads all of the table besides (Table.Page), whatever the space: a Scan names no partition, so
	// that no role can be held to some of one. It is for work on everything that there is, which no request does.
	Scans bool
	// Tries are spaces that it reads besides in a dry run, which reads also what its change would write. Dry runs are made
	// in the function alone that carries the operations of all others (Tried).
	Tries []Space
}

// And returns what is within any of the reaches: each space once, sorted.
func (r Reach) And(others ...Reach) Reach {
	var all Reach
	for _, one := range append([]Reach{r}, others...) {
		all.Reads, all.Writes, all.Tries = append(all.Reads, one.Reads...), append(all.Writes, one.Writes...), append(all.Tries, one.Tries...)
		all.Scans = all.Scans || one.Scans
	}
	for _, spaces := range []*[]Space{&all.Reads, &all.Writes, &all.Tries} {
		slices.Sort(*spaces)
		*spaces = slices.Compact(*spaces)
	}
	return all
}

// Tried gives the reach of what makes dry runs too.
func (r Reach) Tried() Reach {
	return r.And(Reach{Reads: slices.Concat(r.Writes, r.Tries)})
}

// Within gives the table held to a reach. A call that names a partition of another space asks nothing of the
// database; its error names the space, and no part of a key.
func (t *Table) Within(r Reach) *Table {
	held := *t
	f := &fence{t.backend, r, r.Tried().Reads}
	held.backend = f
	if pages, ok := t.backend.(Pager); ok && r.Scans {
		held.backend = &scanningFence{f, pages}
	}
	return &held
}

// scanningFence is a fence that gives pages of all items besides.
type scanningFence struct {
	*fence
	Pager
}

// fence is a Backend that is asked for what is within a reach alone.
type fence struct {
	Backend
	reach Reach
	// tried is what it may read in a dry run.
	tried []Space
}

// reads are the spaces that it may read.
func (f *fence) reads(ctx context.Context) []Space {
	if dryrun.Active(ctx) {
		return f.tried
	}
	return f.reach.Reads
}

// Read implements Backend.
func (f *fence) Read(ctx context.Context, keys []Key) ([]Item, error) {
	for _, k := range keys {
		if err := beyond("reads", f.reads(ctx), k.PK); err != nil {
			return nil, err
		}
	}
	return f.Backend.Read(ctx, keys)
}

// Query implements Backend.
func (f *fence) Query(ctx context.Context, q Query) ([]Item, string, error) {
	if q.Index == "" {
		if err := beyond("queries", f.reads(ctx), q.PK); err != nil {
			return nil, "", err
		}
	}
	return f.Backend.Query(ctx, q)
}

// Transact implements Backend.
func (f *fence) Transact(ctx context.Context, token string, writes []Write) error {
	for _, w := range writes {
		if IsToken(w.Key) {
			continue // which a table keeps for itself, and none in AWS does
		}
		if err := beyond("writes", f.reach.Writes, w.Key.PK); err != nil {
			return err
		}
	}
	return f.Backend.Transact(ctx, token, writes)
}

func beyond(does string, reach []Space, partition string) error {
	if space := SpaceOf(partition); !slices.Contains(reach, space) {
		return fmt.Errorf("store: %s the space %q, which it is not declared to reach: add it to its Reach", does, space)
	}
	return nil
}
