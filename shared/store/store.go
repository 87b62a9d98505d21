// Package store reads and writes the product's single table. Every record
// has a key that begins with a Space, and every change goes through
// Table.Commit, which is one DynamoDB transaction.
//
// What it is not: it knows no resource. A package that owns records declares
// their spaces and keys itself (shared/accounts/table.go, for one), so that a
// new resource touches nothing here; project.go is the one exception and has
// the reason. Records are structs of those packages, encoded by their
// dynamodbav tags. What a failed condition means, the writer says with
// Write.Else.
//
// Read store.go first, then write.go and condition.go. space.go says how keys
// are made, schema.go what the table is. backend.go is the interface of a
// database: dynamo.go implements it, package memory does too, and one suite
// tests both. They share evaluate.go (what a write does to an item), size.go
// (what it costs) and rules.go (what is refused before any of them). The rules
// are those of design, section 5.
//
// Why one table for all: a change and its audit record are one transaction, one
// stream starts operations, and one query of a partition reads what several
// tables would need several round trips for. The price: keys are designed by
// access pattern, no request scans, a grant names the whole table, and one
// group's traffic can throttle another's.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/dryrun"
	"github.com/gatewright/gatewright/shared/ids"
)

// MaxWrites is how many items one transaction may touch: one less than
// DynamoDB's limit, for the token where Options.KeepTokens asks for one.
const MaxWrites = 99

// MaxChange is how many writes a request's change may have: what it was asked to
// be committed with (Table.Settle) has to fit in besides.
const MaxChange = MaxWrites - 5

// MaxKeys is how many items one Load may read (a limit of DynamoDB).
const MaxKeys = 100

// ErrNotFound is what Get answers for an item that is absent or past its ttl.
var ErrNotFound = errors.New("store: no such item")

// ErrCondition is what Commit answers when a condition failed whose write
// names no error of its own (Write.Else).
var ErrCondition = errors.New("store: a condition failed")

// Value is an encoded value of a record's attribute.
type Value = types.AttributeValue

// Item is an encoded record with its key.
type Item = map[string]Value

// Table is the product's table. It is safe for concurrent use.
type Table struct {
	backend Backend
	ids     *ids.Source
	now     func() time.Time
	pause   Pause
	tokens  *tokens // nil where the database keeps them
}

// Options are what a Table takes from outside. The zero value is no valid one.
type Options struct {
	// Random feeds the transactions' tokens: crypto/rand.Reader outside tests.
	Random io.Reader
	// Now is the clock that ttl attributes are compared with.
	Now func() time.Time
	// Pause waits between repeats; nil means Backoff.
	Pause Pause
	// KeepTokens has every commit write its token into the table too, for a
	// database that forgets tokens when it restarts, as the embedded one does.
	// DynamoDB remembers them for ten minutes by itself.
	KeepTokens bool
}

// New makes a Table over a backend.
func New(b Backend, o Options) *Table {
	if o.Pause == nil {
		o.Pause = Backoff
	}
	t := &Table{backend: b, ids: ids.NewSource(o.Random, o.Now), now: o.Now, pause: o.Pause}
	if o.KeepTokens {
		const digits = 12 // two processes never share a slot
		t.tokens = &tokens{process: t.ids.Digits(digits), now: o.Now}
	}
	return t
}

// Get reads one item into record, a pointer to a struct, consistently.
// It answers ErrNotFound for an item that is absent or past its ttl.
func (t *Table) Get(ctx context.Context, key Key, record any) error {
	w := Want(key, record)
	if err := t.Load(ctx, w); err != nil {
		return err
	}
	if !w.Found {
		return ErrNotFound
	}
	return nil
}

// Wanted is one item that Load shall read.
type Wanted struct {
	// Found is set by Load: whether the item exists and is not past its ttl.
	Found bool

	key  Key
	into any
	// unchecked is why no commit depends on the item, "" when one does.
	unchecked string
}

// Want asks Load for the item at key, decoded into record. A nil record asks
// only whether the item is there.
func Want(key Key, record any) *Wanted { return &Wanted{key: key, into: record} }

// Load reads up to MaxKeys items in one round trip, each consistently. They are
// no snapshot: a transaction may commit between two of them. A commit of the same
// decision (Decide, Again) depends on all of them but those that are Unchecked.
func (t *Table) Load(ctx context.Context, wanted ...*Wanted) error {
	keys := make([]Key, 0, len(wanted))
	for _, w := range wanted {
		w.Found = false
		if err := w.key.valid(); err != nil {
			return err
		}
		if !slices.Contains(keys, w.key) {
			keys = append(keys, w.key)
		}
	}
	switch n := len(keys); {
	case n == 0:
		return nil
	case n > MaxKeys:
		return fmt.Errorf("store: a read of %d items, at most %d are possible", n, MaxKeys)
	}
	items, err := t.read(ctx, keys)
	if err != nil {
		return fmt.Errorf("read %d items: %w", len(keys), err)
	}
	notesOf(ctx).note(wanted, items)
	if err := decisionOf(ctx).note(wanted, items); err != nil {
		return err
	}
	for _, item := range items {
		key := KeyOf(item)
		if Expired(item, t.now()) {
			continue
		}
		for _, w := range wanted {
			if w.key != key {
				continue
			}
			w.Found = true
			if w.into == nil {
				continue
			}
			if err := decodeItem(item, w.into); err != nil {
				return fmt.Errorf("decode %s: %w", key.SK, err)
			}
		}
	}
	return nil
}

func (t *Table) read(ctx context.Context, keys []Key) (items []Item, err error) {
	if err := heldOf(ctx).lookBack(); err != nil {
		return nil, err
	}
	if n := recalledOf(ctx); n != nil {
		return n.read(keys)
	}
	err = t.repeat(ctx, reading, func() (err error) {
		items, err = t.over(ctx).Read(ctx, keys)
		return err
	})
	return items, err
}

// Commit applies all writes or none, in one transaction. Throttles, conflicts
// and lost replies are repeated here under one token, so that a commit whose
// reply was lost is neither made twice nor reported as failed.
//
// A false condition answers the Else of the first such write, or ErrCondition;
// a record that is another than the decision of ctx has read, ErrStale. A
// Throttled fault says that nothing was done; an Unanswered one that this is not
// known, so that the caller has to look before it repeats anything.
func (t *Table) Commit(ctx context.Context, writes ...Write) error {
	if len(writes) == 0 {
		return nil
	}
	d := decisionOf(ctx)
	writes, err := d.covered(writes)
	if err != nil {
		return err
	}
	h := heldOf(ctx)
	if held, err := h.take(d, writes); held {
		if err == nil {
			notesOf(ctx).made(writes)
		}
		return err
	}
	writes = h.reserving(writes)
	refused, err := t.transact(ctx, writes)
	switch {
	case err != nil:
		return err
	case refused != nil:
		return d.stale(refused)
	}
	d.made(writes)
	h.made()
	notesOf(ctx).made(writes)
	return nil
}

// transact makes a transaction. refused is what the first write says whose
// condition is false.
func (t *Table) transact(ctx context.Context, writes []Write) (refused, err error) {
	if err := valid(writes); err != nil {
		return nil, err
	}
	token := t.ids.UUID()
	guarded, action := writes, committing
	if dryrun.Active(ctx) {
		action = reading // whose failure leaves nothing unknown
	}
	if t.tokens != nil && action == committing {
		var done func()
		guarded, done = t.tokens.guard(token, writes)
		defer done()
	}
	err = t.repeat(ctx, action, func() error {
		return t.over(ctx).Transact(ctx, token, guarded)
	})
	if err == nil {
		return nil, nil
	}
	if failed, ok := errors.AsType[*ConditionError](err); ok && len(failed.Failed) > 0 {
		if action == committing && t.tokens.made(guarded, failed) {
			return nil, nil
		}
		w := writes[failed.Failed[0]]
		if w.otherwise != nil {
			return w.otherwise, nil
		}
		return fmt.Errorf("%w: %s %s", ErrCondition, w.Kind, w.Key.SK), nil
	}
	return nil, fmt.Errorf("commit %d writes: %w", len(writes), err)
}

// Expired reports whether the item is past its ttl. Nothing deletes on time,
// neither AWS nor an emulator, so every read asks.
func Expired(item Item, now time.Time) bool {
	n, ok := item[TTLAttribute].(*types.AttributeValueMemberN)
	if !ok {
		return false
	}
	var seconds int64
	if _, err := fmt.Sscan(n.Value, &seconds); err != nil {
		return false
	}
	return seconds <= now.Unix()
}
