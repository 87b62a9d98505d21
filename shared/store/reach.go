package store

import (
	"context"
	"fmt"
	"slices"
)

// Reach is which spaces of the table a part of the product asks for. In AWS its role is held to them
// (dynamodb:LeadingKeys), and everywhere else its Table is (Within): what the role would refuse fails
// in each test and on each laptop.
type Reach struct {
	// Reads are spaces of which it gets and queries items, Writes those that it puts, updates, deletes and
	// checks. An index is no part of it: it has keys alone, and a grant of its own.
	Reads, Writes []Space
}

// Within gives the table held to a reach. A call that names a partition of another space asks nothing of the
// database; its error names the space, and no part of a key.
func (t *Table) Within(r Reach) *Table {
	held := *t
	held.backend = &fence{t.backend, r}
	return &held
}

// fence is a Backend that is asked for what is within a reach alone.
type fence struct {
	Backend
	reach Reach
}

// Read implements Backend.
func (f *fence) Read(ctx context.Context, keys []Key) ([]Item, error) {
	for _, k := range keys {
		if err := beyond("reads", f.reach.Reads, k.PK); err != nil {
			return nil, err
		}
	}
	return f.Backend.Read(ctx, keys)
}

// Query implements Backend.
func (f *fence) Query(ctx context.Context, q Query) ([]Item, string, error) {
	if q.Index == "" {
		if err := beyond("queries", f.reach.Reads, q.PK); err != nil {
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
