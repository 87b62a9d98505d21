package trail

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/store"
)

// head is the end of an account's chain.
type head struct {
	store.Rest

	// ID and Version tell its states apart (store.Decide).
	ID      string `dynamodbav:"id"`
	Version int64  `dynamodbav:"version"`
	// Seq, Hash and TTL are those of the last record; 0 and "" before the first.
	Seq  int64  `dynamodbav:"seq"`
	Hash string `dynamodbav:"hash"`
	TTL  int64  `dynamodbav:"lastTtl"` // the head itself never expires
	// Signature is over them: it differs from the record's own, so that no record
	// passes as an end.
	Signature string `dynamodbav:"signature"`
	// LookedOn is when it was last looked for records of which the stream has not
	// told, in seconds since 1970.
	LookedOn int64 `dynamodbav:"lookedOn"`
}

// HandleStream chains the records that changes have written. It answers the
// indexes of the stream's records, in rising order, that have to be delivered
// again because the store did not answer.
//
// Records may come twice, late and in any order, to several workers at once, which
// may be killed anywhere: each is chained once, in the order in which it came. What
// is chained is what the stream tells and not what the table has, so that one which
// was removed or altered meanwhile is in the chain as it was written.
func (t *Trail) HandleStream(ctx context.Context, records []store.StreamRecord) (failed []int) {
	var accounts []string
	found := map[string][]audit.Entry{}
	places := map[string][]int{}
	for i, r := range records {
		if !audit.IsNew(r.Key) || r.Old != nil || r.New == nil {
			continue // what is not new is of our own making, or somebody's who should not
		}
		accountID, e, ok := audit.Decode(r.New)
		if !ok {
			// It would not be better the next time, and would hold up all behind it.
			t.log.ErrorContext(ctx, "what stands among the audit records is none, and is not chained", "key", r.Key.SK)
			continue
		}
		if places[accountID] == nil {
			accounts = append(accounts, accountID)
		}
		places[accountID], found[accountID] = append(places[accountID], i), append(found[accountID], e)
	}
	for _, accountID := range accounts {
		if err := t.Chain(ctx, accountID, found[accountID]); err != nil {
			t.log.ErrorContext(ctx, "audit records are not chained yet", "accountId", accountID, "error", err)
			failed = append(failed, places[accountID]...)
		}
	}
	slices.Sort(failed)
	return failed
}

// lookEvery is how often, at most, an account's new records are looked at for those
// that the stream has not told of; lateAfter is how old they have to be.
const (
	lookEvery = time.Hour
	lateAfter = time.Hour
)

// Chain takes over records of an account, whatever is already chained of them.
func (t *Trail) Chain(ctx context.Context, accountID string, entries []audit.Entry) error {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, oldestFirst)
	entries = slices.CompactFunc(entries, func(a, b audit.Entry) bool { return oldestFirst(a, b) == 0 })
	for len(entries) > 0 {
		taken := 0
		err := t.table.Again(ctx, func(ctx context.Context) (err error) {
			taken, err = t.take(ctx, accountID, entries)
			return err
		})
		if err != nil {
			return err
		}
		entries = entries[taken:]
	}
	return t.lookForLate(ctx, accountID)
}

func oldestFirst(a, b audit.Entry) int { return newestFirst(b, a) }

// Bounds of one transaction. Each record takes two writes and those counters that
// none before it has touched.
const (
	maxTaken      = 45
	maxTakenBytes = 1 << 20
	maxTakeWrites = store.MaxWrites - 1 // the head
)

// take chains the first of entries, as many as one transaction has room for, and
// tells how many.
func (t *Trail) take(ctx context.Context, accountID string, entries []audit.Entry) (taken int, err error) {
	entries = entries[:min(len(entries), maxTaken)]
	h := head{ID: accountID}
	chained := make([]*store.Wanted, len(entries))
	wanted := []*store.Wanted{store.Want(headKey(accountID), &h)}
	for i, e := range entries {
		chained[i] = store.Want(audit.ChainedKey(accountID, e), nil).Unchecked("a chained record stays, and its creation is on the condition that there is none")
		wanted = append(wanted, chained[i])
	}
	if err := t.table.Load(ctx, wanted...); err != nil {
		return 0, fmt.Errorf("read the end of an audit chain: %w", err)
	}
	key, err := t.signer.key(ctx)
	if err != nil {
		return 0, err
	}
	before, bytes := h, 0
	count := counters{}
	var writes []store.Write
	for i, e := range entries {
		at, err := e.Time()
		if err != nil {
			return 0, err
		}
		text, err := textOf(e)
		if err != nil {
			return 0, err
		}
		if more := len(count) + len(actors(e))*len(levels); taken > 0 && (len(writes)+2+more > maxTakeWrites || bytes+len(text) > maxTakenBytes) {
			break
		}
		taken, bytes = i+1, bytes+len(text)
		writes = append(writes, store.Delete(audit.WaitingKey(accountID, e)))
		if chained[i].Found {
			continue // told twice
		}
		l := h.link(accountID, string(text), expiry(at, t.now()), key)
		writes = append(writes, store.Create(audit.ChainedKey(accountID, e), l).Else(store.ErrStale))
		count.Count(accountID, e, at)
		h.Seq, h.Hash, h.TTL = l.Seq, l.Hash, l.TTL
	}
	if h != before {
		h.Version++
		h.Signature = proof.Head.Sign(key, accountID, h.Seq, h.Hash)
		writes = append(append(writes, count.Writes()...), store.Put(headKey(accountID), h))
	}
	if err := t.table.Commit(ctx, writes...); err != nil {
		return 0, fmt.Errorf("chain %d audit records: %w", taken, err)
	}
	if h != before {
		// A witness outside the table: see docs/audit-logs.md. Its status is that of
		// operations, which says whom it concerns.
		t.log.InfoContext(ctx, "audit records chained", "accountId", accountID, "seq", h.Seq, "hash", h.Hash, "status", "success")
	}
	return taken, nil
}

// expiry is when a record expires. One of the future, which nobody here writes,
// would hold back all that come behind it.
func expiry(at, now time.Time) int64 {
	if at.After(now) {
		at = now
	}
	return at.Add(audit.Retention).Unix()
}

// link makes the next record of the chain.
func (h head) link(accountID, entry string, ttl int64, key ed25519.PrivateKey) Link {
	l := proof.Link{Seq: h.Seq + 1, Entry: entry, TTL: max(ttl, h.TTL), Previous: h.Hash, PreviousTTL: h.TTL}
	l.Hash = l.Digest(accountID)
	l.Signature = proof.Record.Sign(key, accountID, l.Seq, l.Hash)
	return stored(l)
}

// lookForLate chains what the stream has not told of for an hour: it gives up what
// fails too often, and keeps nothing for more than a day.
func (t *Trail) lookForLate(ctx context.Context, accountID string) error {
	now := t.now()
	var h head
	if err := t.table.Get(ctx, headKey(accountID), &h); err != nil || now.Sub(time.Unix(h.LookedOn, 0)) < lookEvery {
		return err
	}
	var late []audit.Entry
	for n := range audit.Shards {
		q := store.Query{PK: audit.Waiting(accountID, n), UpTo: audit.Timestamp(now.Add(-lateAfter)), Limit: maxTaken}
		found, err := audit.NewOf(ctx, t.table, q)
		if err != nil {
			return err
		}
		late = append(late, found...)
	}
	slices.SortFunc(late, oldestFirst)
	late = late[:min(len(late), maxTaken)]
	if len(late) == 0 {
		return t.table.Again(ctx, func(ctx context.Context) error { return t.looked(ctx, accountID, now) })
	}
	// The next record has the next of them looked for, until there are none.
	t.log.WarnContext(ctx, "audit records are chained late: the stream has not told of them", "accountId", accountID, "records", len(late))
	return t.table.Again(ctx, func(ctx context.Context) error {
		_, err := t.take(ctx, accountID, late)
		return err
	})
}

// looked remembers that there was nothing late.
func (t *Trail) looked(ctx context.Context, accountID string, now time.Time) error {
	var h head
	if err := t.table.Get(ctx, headKey(accountID), &h); err != nil {
		return err
	}
	h.Version++
	h.LookedOn = now.Unix()
	return t.table.Commit(ctx, store.Put(headKey(accountID), h))
}
