// Package slots limits how many things of an account, such as streams, are in progress at the same
// time over all processes. A Lambda process has only one request at a time, so it cannot count an
// account's streams. The processes do not know each other, and each can end at any moment.
//
// An account has as many slots as its limit. Each slot is an item in the table. A holder has a slot until it
// returns the slot, or until a time after which the holder cannot exist any more. So the limit is not exceeded (unless
// it was lowered), and a process that dies occupies a slot for little longer than it was allowed to run. No repair is
// necessary. The cost is two writes for each holder, and a query of the account's slots if the first slot that it tries
// is taken.
//
// The package is not for short or frequent things, for which two writes would cost too much.
package slots

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
)

// slotPrefix is the key prefix of slots. The slots of an account and a limit are one partition,
// by their numbers. A process that finds a slot taken reads all slots of the partition.
const slotPrefix store.KeyPrefix = "account-slots"

// slot is the record of a slot. It has no version: the writes have their own conditions.
type slot struct {
	store.UnknownAttributes
	// Holder has the slot until Until, in milliseconds since 1970.
	Holder string `dynamodbav:"holder"`
	Until  int64  `dynamodbav:"until"`
	// TTL is when the item can be deleted: one hour after the Until with which the slot was taken.
	TTL int64 `dynamodbav:"ttl"`
}

// clockTolerance is added to the time until which a holder may exist, because the clocks of processes differ.
const clockTolerance = 5 * time.Second

// maxAttempts is the maximum number of attempts of Take. The first attempt fails if the slot, which is chosen at
// random, is taken. A later attempt fails if another process takes the slot after Take has found it free. If as
// many processes try at the same time as there are slots, two in three succeed in each attempt.
const maxAttempts = 32

// Options configure Slots.
type Options struct {
	Table *store.Table
	Now   func() time.Time
	// Name returns a new name for a holder, which no other holder has.
	Name func() string
	// Limit is the limit, and Max is its value. Max is from 1 to 1,000, so that one query can read all slots.
	Limit limits.Limit
	Max   int64
}

// Slots manages the slots of an installation's accounts, for one limit. It is safe for concurrent use.
type Slots struct {
	o        Options
	mu       sync.Mutex
	refusals map[string]lastRefusal // by account
}

// lastRefusal is the last refusal of an account.
type lastRefusal struct {
	inUse int64
	at    time.Time
}

const (
	// refusalTTL is how long after a refusal the account is refused again without reading its slots. It is also
	// the Retry-After. So a flood of requests reads the table about once per refusalTTL in each process.
	refusalTTL = time.Second
	// outageRefusalTTL is how long an account is refused after its last refusal while the table is unavailable.
	// Otherwise, if a flood of requests throttled the table, its requests would get streams that are not counted.
	outageRefusalTTL = time.Minute
)

// maxRefusals is the maximum number of remembered accounts.
const maxRefusals = 1_000

// New returns the Slots for a limit.
func New(o Options) *Slots { return &Slots{o: o, refusals: map[string]lastRefusal{}} }

// recentRefusal returns the last refusal of an account in this process, and its age.
// found is false if there was no refusal within outageRefusalTTL.
func (s *Slots) recentRefusal(accountID string) (inUse int64, age time.Duration, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, found := s.refusals[accountID]
	age = s.o.Now().Sub(last.at)
	return last.inUse, age, found && age < outageRefusalTTL
}

func (s *Slots) recordRefusal(accountID string, inUse int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bounded.Put(s.refusals, accountID, lastRefusal{inUse, s.o.Now()}, maxRefusals)
}

func (s *Slots) clearRefusal(accountID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.refusals, accountID)
}

// errTaken means that another holder has the slot.
var errTaken = errors.New("slots: another has it")

// Take takes a slot of an account. The slot is free again when release was called, or soon after until. If the limit
// is lowered, holders keep their slots. A refusal means that all slots are taken, or were taken less than a second
// ago (less than a minute ago if the table is unavailable now), or that other holders were faster in every attempt. An
// error of any kind, including a fault, means that Take could not decide. After an error release is not nil if a slot
// may have been taken, because the reply was lost.
func (s *Slots) Take(
	ctx context.Context, accountID string, until time.Time,
) (release func(context.Context) error, refusal *fault.Fault, err error) {
	inUse, age, known := s.recentRefusal(accountID)
	if known && age < refusalTTL {
		return nil, s.refusal(inUse), nil
	}
	partition, holder := slotPrefix.Partition(accountID, s.o.Limit.Name), s.o.Name()
	number := rand.Int64N(s.o.Max) //nolint:gosec // G404: which one is tried first is not secret
	// After a refusal probably no slot is free. So read the slots
	// first: a read costs half as much as a write that is refused.
	search := known
	for range maxAttempts {
		if search {
			n, taken, err := s.findFree(ctx, partition)
			switch {
			case err != nil && known:
				return nil, s.refusal(inUse), nil
			case err != nil:
				return nil, nil, fmt.Errorf("look for a slot of the limit %s: %w", s.o.Limit.Name, err)
			case n < 0:
				s.recordRefusal(accountID, taken)
				return nil, s.refusal(taken), nil
			}
			number, inUse, known = n, taken, false
		}
		search = true
		key := store.KeyIn(partition, strconv.FormatInt(number, 10))
		release = func(ctx context.Context) error {
			s.clearRefusal(accountID)
			return s.release(ctx, key, holder)
		}
		switch err := s.claim(ctx, key, holder, until.Add(clockTolerance)); {
		case err == nil:
			s.clearRefusal(accountID)
			return release, nil, nil
		case errors.Is(err, errTaken):
		case fault.Is(err, fault.Throttled): // nothing was done
			return nil, nil, fmt.Errorf("take a slot of the limit %s: %w", s.o.Limit.Name, err)
		default:
			return release, nil, fmt.Errorf("take a slot of the limit %s: %w", s.o.Limit.Name, err)
		}
	}
	return nil, s.refusal(inUse), nil
}

func (s *Slots) refusal(inUse int64) *fault.Fault {
	return s.o.Limit.Refusal(inUse, s.o.Max, refusalTTL)
}

// claim writes that the holder has the slot. It also succeeds if the holder
// has the slot already, because the reply to an earlier attempt can be lost.
func (s *Slots) claim(ctx context.Context, key store.Key, holder string, until time.Time) error {
	now := s.o.Now()
	return s.o.Table.Commit(store.WithoutReadSet(ctx, "the slot's own record says whose it is"),
		store.Upsert(key,
			store.Set(store.At("holder"), holder), store.Set(store.At("until"), until.UnixMilli()),
			store.Set(store.At(store.TTLAttribute), until.Add(time.Hour).Unix()),
		).If(store.Or(store.Lacks(store.At("until")), store.AtMost(store.At("until"), now.UnixMilli()),
			store.Equal(store.At("holder"), holder))).Else(errTaken))
}

// release frees a slot if the holder still has it.
func (s *Slots) release(ctx context.Context, key store.Key, holder string) error {
	err := s.o.Table.Commit(store.WithoutReadSet(ctx, "the slot's own record says whose it is"),
		store.Update(key, store.Set(store.At("until"), int64(0))).If(store.Equal(store.At("holder"), holder)).Else(errTaken))
	if err != nil && !errors.Is(err, errTaken) && !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("give a slot of the limit %s back: %w", s.o.Limit.Name, err)
	}
	return nil
}

// findFree returns the number of a random free slot, or -1 if there is none, and the
// number of taken slots. If the limit was lowered, slots beyond it are not counted.
func (s *Slots) findFree(ctx context.Context, partition string) (number, inUse int64, err error) {
	now := s.o.Now().UnixMilli()
	taken := map[int64]bool{}
	err = s.o.Table.Each(ctx, store.Query{PK: partition, Unchecked: "the write that takes a slot says itself what " +
		"it depends on"}, func(item store.Item) (bool, error) {
		var record slot
		if err := store.Decode(item, &record); err != nil {
			return false, err
		}
		n, err := strconv.ParseInt(store.KeyOf(item).SK, 10, 64)
		if err == nil && n < s.o.Max && record.Until > now {
			taken[n] = true
		}
		return true, nil
	})
	if err != nil {
		return -1, 0, err
	}
	inUse = int64(len(taken))
	from := rand.Int64N(s.o.Max) //nolint:gosec // G404: which one is tried is not secret
	for i := range s.o.Max {
		if n := (from + i) % s.o.Max; !taken[n] {
			return n, inUse, nil
		}
	}
	return -1, inUse, nil
}
