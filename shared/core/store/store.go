// Package store reads and writes the product's single table. Every record has a key that begins with a KeyPrefix,
// and every change goes through Table.Commit or Table.CommitDeferred, which make one DynamoDB transaction each.
//
// The package does not know any resource. A package that owns records declares their key prefixes and
// keys itself (for example shared/resource/accounts/table.go), so a new resource changes nothing here.
// The only exception is project.go, which explains why. Records are structs of those packages, encoded
// by their dynamodbav tags. Write.Else sets the error that Commit returns for a failed condition.
//
// Read store.go first, then write.go and condition.go. prefix.go builds keys, and schema.go defines the table.
// backend.go is the interface of a database. dynamo.go and packages memory and embedded implement it, and one
// test suite tests all of them. All backends share evaluate.go (the effect of a write on an item), size.go (its
// cost) and rules.go (what is refused before a backend is called). The rules are those of design, section 5.
//
// Why there is one table for everything: a change and its audit record are one transaction, and
// one stream starts operations. One query of a partition reads data for which several tables
// would need several round trips. The costs: keys have to be designed for each access pattern,
// requests cannot scan, and the traffic of one operation group can throttle another group.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/base/dryrun"
	"github.com/gatewright/gatewright/shared/base/ids"
)

// MaxWrites is the maximum number of writes in one transaction. It is one less
// than DynamoDB's limit, because Options.KeepTokens adds a write for the token.
const MaxWrites = 99

// MaxChange is the maximum number of writes in a request's change.
// It leaves space for the writes that Table.CommitDeferred adds.
const MaxChange = MaxWrites - 5

// MaxKeys is the maximum number of items that one Load reads (a limit of DynamoDB).
const MaxKeys = 100

// ErrNotFound is the error of Get for an item that does not exist or is past its ttl.
var ErrNotFound = errors.New("store: no such item")

// ErrCondition is wrapped by the error that Commit returns if the condition of a write is false and Write.Else has set
// no error for this write.
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
	backoff BackoffFunc
	tokens  *tokens // nil if the database keeps the tokens
}

// Options configure a Table. The zero value is not valid.
type Options struct {
	// Random is the source of the transactions' tokens: crypto/rand.Reader outside tests.
	Random io.Reader
	// Now returns the current time. Reads compare ttl attributes with it.
	Now func() time.Time
	// Backoff waits between repeats. nil means the function Backoff of this package.
	Backoff BackoffFunc
	// KeepTokens makes every commit also write its token into the table. It is for a database that
	// forgets tokens when it restarts, such as an emulator. DynamoDB remembers tokens for ten minutes.
	KeepTokens bool
}

// New returns a Table over a backend.
func New(b Backend, o Options) *Table {
	if o.Backoff == nil {
		o.Backoff = Backoff
	}
	t := &Table{backend: b, ids: ids.NewSource(o.Random, o.Now), now: o.Now, backoff: o.Backoff}
	if o.KeepTokens {
		const digits = 12 // enough that two processes do not get the same name, and so do not share slots (tokens.go)
		t.tokens = &tokens{process: t.ids.Digits(digits), now: o.Now}
	}
	return t
}

// Get reads one item consistently into record, a pointer to a struct. It returns
// ErrNotFound for an item that does not exist or is past its ttl.
func (t *Table) Get(ctx context.Context, key Key, record any) error {
	r := Get(key, record)
	if err := t.Load(ctx, r); err != nil {
		return err
	}
	if !r.Found {
		return ErrNotFound
	}
	return nil
}

// ReadRequest is a read request for one item, for Load.
type ReadRequest struct {
	// Found is whether the item exists and is not past its ttl. Load sets it.
	Found bool

	key    Key
	record any
	// unchecked is the reason why commits do not depend on the item. It is "" if they do.
	unchecked string
}

// Get returns a read request for the item at key, which Load decodes into
// record. If record is nil, Load only checks whether the item exists.
func Get(key Key, record any) *ReadRequest { return &ReadRequest{key: key, record: record} }

// Load reads up to MaxKeys items in one round trip, each consistently. They are not a
// snapshot: a transaction can commit between two of the reads. A commit with the same read
// set (WithReadSet, RunInTx) depends on all of these items, except items that are Unchecked. If one
// of them has changed since an earlier read of this read set, Load returns an error that wraps ErrStale.
func (t *Table) Load(ctx context.Context, requests ...*ReadRequest) error {
	keys := make([]Key, 0, len(requests))
	for _, r := range requests {
		r.Found = false
		if err := r.key.valid(); err != nil {
			return err
		}
		if !slices.Contains(keys, r.key) {
			keys = append(keys, r.key)
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
	readCacheOf(ctx).add(requests, items)
	if err := readSetOf(ctx).add(requests, items); err != nil {
		return err
	}
	for _, item := range items {
		key := KeyOf(item)
		if Expired(item, t.now()) {
			continue
		}
		for _, r := range requests {
			if r.key != key {
				continue
			}
			r.Found = true
			if r.record == nil {
				continue
			}
			if err := decodeItem(item, r.record); err != nil {
				return fmt.Errorf("decode %s: %w", key.SK, err)
			}
		}
	}
	return nil
}

func (t *Table) read(ctx context.Context, keys []Key) (items []Item, err error) {
	if err := deferredCommitOf(ctx).checkReadable(); err != nil {
		return nil, err
	}
	if cache := cacheOnlyOf(ctx); cache != nil {
		return cache.read(keys)
	}
	err = t.retry(ctx, reading, func() (err error) {
		items, err = t.backendFor(ctx).Read(ctx, keys)
		return err
	})
	return items, err
}

// Commit applies all writes or none, in one transaction. It repeats throttled calls, conflicts and lost
// replies under one token. So a commit whose reply was lost is not made twice, and is not reported as failed.
// Under the context of DeferCommit, Commit only keeps the writes of a deciding commit (Write.Final).
//
// If a condition is false, Commit returns the error that Else has set for the first such write, or an error that wraps
// ErrCondition. If a record has changed since it was read under ctx, Commit returns ErrStale within RunInTx, and
// otherwise a Throttled fault (WithReadSet). A Throttled fault means that nothing was done. A DatabaseUnavailable fault
// means that the outcome is unknown: the caller must read the records before it repeats the commit.
func (t *Table) Commit(ctx context.Context, writes ...Write) error {
	if len(writes) == 0 {
		return nil
	}
	reads := readSetOf(ctx)
	writes, err := reads.withConditions(writes)
	if err != nil {
		return err
	}
	change := deferredCommitOf(ctx)
	if deferred, err := change.deferWrites(reads, writes); deferred {
		if err == nil {
			readCacheOf(ctx).update(writes)
		}
		return err
	}
	writes = change.withReservation(writes)
	refused, err := t.transact(ctx, writes)
	switch {
	case err != nil:
		return err
	case refused != nil:
		return reads.stale(refused)
	}
	reads.forget(writes)
	change.markReserved()
	readCacheOf(ctx).update(writes)
	return nil
}

// transact makes a transaction. If a condition is false, refused is the error that Else has set for the
// first such write, or an error that wraps ErrCondition. err is any other error. A transaction that
// was made has neither.
func (t *Table) transact(ctx context.Context, writes []Write) (refused, err error) {
	if err := valid(writes); err != nil {
		return nil, err
	}
	token := t.ids.UUID()
	withToken, action := writes, committing
	if dryrun.Active(ctx) {
		action = reading // a dry run only reads, so its outcome is never unknown
	}
	if t.tokens != nil && action == committing {
		var release func()
		withToken, release = t.tokens.withToken(token, writes)
		defer release()
	}
	err = t.retry(ctx, action, func() error {
		return t.backendFor(ctx).Transact(ctx, token, withToken)
	})
	if err == nil {
		return nil, nil
	}
	if failed, ok := errors.AsType[*ConditionError](err); ok && len(failed.Failed) > 0 {
		if action == committing && t.tokens.alreadyCommitted(withToken, failed) {
			return nil, nil
		}
		w := writes[failed.Failed[0]]
		if w.elseErr != nil {
			return w.elseErr, nil
		}
		return fmt.Errorf("%w: %s %s", ErrCondition, w.Kind, w.Key.SK), nil
	}
	return nil, fmt.Errorf("commit %d writes: %w", len(writes), err)
}

// Expired reports whether the item is past its ttl. Neither AWS nor an emulator deletes items on time, so every read
// checks.
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
