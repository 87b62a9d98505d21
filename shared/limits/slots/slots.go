// Package slots counts what an account has under way over all processes, none of which knows of the others and each of which
// may be gone any moment: a Lambda runs one request at a time, so that no process of its own can count streams.
//
// An account has as many slots as its limit says, each an item of the table that one holder has until it gives it back, or
// until a moment after which the holder cannot be there any more. So the limit is never passed, a process that dies takes
// a slot with it for no longer than it may run, and nothing has to be repaired. It costs two writes for each holder, and a query
// of the account's slots for each that finds the one it has tried taken.
//
// What it is not: for what is short, or frequent: two writes would be more than the thing itself.
package slots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/bounded"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
)

// slotSpace has the slots: those of an account and a limit are a partition, by their numbers. Who finds one
// taken reads all.
const slotSpace store.Space = "account-slots"

// slot is one of them. It has no version: writes say themselves what they depend on.
type slot struct {
	store.Rest
	// Holder has it until Until, in milliseconds since 1970.
	Holder string `dynamodbav:"holder"`
	Until  int64  `dynamodbav:"until"`
	// TTL removes it some time later.
	TTL int64 `dynamodbav:"ttl"`
}

// late is how much later than its own clock says a holder may still be there, by another's.
const late = 5 * time.Second

// attempts bounds how often a slot is tried for that others have taken since it was seen free. Where as many try at once as there are
// slots, two in three get what they try for, each time.
const attempts = 32

// Options are what Slots are made of.
type Options struct {
	Table *store.Table
	Now   func() time.Time
	// Name gives a name that no other holder has.
	Name func() string
	// Limit is what is counted, and Most its value: 1 to 1,000, so that all slots are read at once.
	Limit limits.Limit
	Most  int64
}

// Slots are those of an installation's accounts, of one limit. It is safe for concurrent use.
type Slots struct {
	o    Options
	mu   sync.Mutex
	full map[string]refused // by account
}

// refused is what an account was told that had no slot, and when.
type refused struct {
	live int64
	at   time.Time
}

const (
	// patience is how long an account that was refused is so again without a look at its slots, and told to wait: who floods
	// does not have the table read as often.
	patience = time.Second
	// memory is for how long an account that was refused is so where the table cannot be asked: else who floods until the table
	// throttles has streams that nobody counts.
	memory = time.Minute
)

// maxFull is how many accounts are remembered so.
const maxFull = 1_000

// New makes Slots.
func New(o Options) *Slots { return &Slots{o: o, full: map[string]refused{}} }

// refusedFor tells how long ago an account was refused that had no slot, as far as this process knows of it.
func (s *Slots) refusedFor(accountID string) (live int64, ago time.Duration, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.full[accountID]
	ago = s.o.Now().Sub(was.at)
	return was.live, ago, known && ago < memory
}

func (s *Slots) remember(accountID string, live int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bounded.Put(s.full, accountID, refused{live, s.o.Now()}, maxFull)
}

func (s *Slots) forget(accountID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.full, accountID)
}

// errTaken says that another has the slot.
var errTaken = errors.New("slots: another has it")

// Take takes a slot of an account, which is free again once given back, or soon after until. Who has more slots than a
// lowered limit keeps them. A refusal says that all are taken, or were less than a second ago, or that others were faster each time. An error, be it
// a fault of any kind, says that nobody knows: giveBack is there then too where a slot may have been taken, since a reply can be lost, and nil
// where none was.
func (s *Slots) Take(ctx context.Context, accountID string, until time.Time) (giveBack func(context.Context) error, refusal *fault.Fault, err error) {
	live, ago, known := s.refusedFor(accountID)
	if known && ago < patience {
		return nil, s.refusal(live), nil
	}
	partition, holder := slotSpace.Partition(accountID, s.o.Limit.Name), s.o.Name()
	number := rand.Int64N(s.o.Most) //nolint:gosec // G404: which one is tried first is no secret
	look := known                   // who had none most likely has none: a look is half of what a write costs that is refused
	for range attempts {
		if look {
			n, taken, err := s.free(ctx, partition)
			switch {
			case err != nil && known:
				return nil, s.refusal(live), nil
			case err != nil:
				return nil, nil, fmt.Errorf("look for a slot of the limit %s: %w", s.o.Limit.Name, err)
			case n < 0:
				s.remember(accountID, taken)
				return nil, s.refusal(taken), nil
			}
			number, live, known = n, taken, false
		}
		look = true
		key := store.In(partition, strconv.FormatInt(number, 10))
		giveBack = func(ctx context.Context) error {
			s.forget(accountID)
			return s.giveBack(ctx, key, holder)
		}
		switch err := s.claim(ctx, key, holder, until.Add(late)); {
		case err == nil:
			s.forget(accountID)
			return giveBack, nil, nil
		case errors.Is(err, errTaken):
		case fault.Is(err, fault.Throttled): // so that nothing was done
			return nil, nil, fmt.Errorf("take a slot of the limit %s: %w", s.o.Limit.Name, err)
		default:
			return giveBack, nil, fmt.Errorf("take a slot of the limit %s: %w", s.o.Limit.Name, err)
		}
	}
	return nil, s.refusal(live), nil
}

func (s *Slots) refusal(live int64) *fault.Fault {
	return s.o.Limit.Refusal(live, s.o.Most, patience)
}

// claim writes that the slot is the holder's, who may have written it already: a reply can be lost.
func (s *Slots) claim(ctx context.Context, key store.Key, holder string, until time.Time) error {
	now := s.o.Now()
	return s.o.Table.Commit(store.Undecided(ctx, "the slot's own record says whose it is"),
		store.Upsert(key,
			store.Set(store.At("holder"), holder), store.Set(store.At("until"), until.UnixMilli()),
			store.Set(store.At(store.TTLAttribute), until.Add(time.Hour).Unix()),
		).If(store.Or(store.Lacks(store.At("until")), store.AtMost(store.At("until"), now.UnixMilli()), store.Equal(store.At("holder"), holder))).Else(errTaken))
}

// giveBack frees a slot that is still the holder's.
func (s *Slots) giveBack(ctx context.Context, key store.Key, holder string) error {
	err := s.o.Table.Commit(store.Undecided(ctx, "the slot's own record says whose it is"),
		store.Update(key, store.Set(store.At("until"), int64(0))).If(store.Equal(store.At("holder"), holder)).Else(errTaken))
	if err != nil && !errors.Is(err, errTaken) && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("give a slot of the limit %s back: %w", s.o.Limit.Name, err)
	}
	return nil
}

// free gives the number of a slot that nobody has, any of them, or -1 for none, and how many are taken of those that there are: of a limit
// that was lowered, those beyond it are no more.
func (s *Slots) free(ctx context.Context, partition string) (number, live int64, err error) {
	now := s.o.Now().UnixMilli()
	taken := map[int64]bool{}
	err = s.o.Table.Each(ctx, store.Query{PK: partition, Unchecked: "the write that takes a slot says itself what it depends on"}, func(item store.Item) (bool, error) {
		var one slot
		if err := store.Decode(item, &one); err != nil {
			return false, err
		}
		n, err := strconv.ParseInt(store.KeyOf(item).SK, 10, 64)
		if err == nil && n < s.o.Most && one.Until > now {
			taken[n] = true
		}
		return true, nil
	})
	if err != nil {
		return -1, 0, err
	}
	live = int64(len(taken))
	from := rand.Int64N(s.o.Most) //nolint:gosec // G404: which one is tried is no secret
	for i := range s.o.Most {
		if n := (from + i) % s.o.Most; !taken[n] {
			return n, live, nil
		}
	}
	return -1, live, nil
}
