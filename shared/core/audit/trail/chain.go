package trail

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/store"
)

// head is the item with the end of an account's chain.
type head struct {
	store.UnknownAttributes

	// ID and Version identify the state of the head (store.WithReadSet).
	ID      string `dynamodbav:"id"`
	Version int64  `dynamodbav:"version"`
	// Seq, Hash and TTL are those of the last record. In an empty chain they are 0 and "".
	Seq  int64  `dynamodbav:"seq"`
	Hash string `dynamodbav:"hash"`
	TTL  int64  `dynamodbav:"lastTtl"` // the head itself never expires
	// Signature is the signature over Seq and Hash. It differs from the record's
	// own signature, so that a record cannot pass as an end.
	Signature string `dynamodbav:"signature"`
	// SearchedOn is the time of the last search for records that the stream has not delivered, in seconds since 1970.
	SearchedOn int64 `dynamodbav:"lookedOn"`
}

// HandleStream chains the records that changes have written. It returns the indexes, in ascending
// order, of the stream records that have to be delivered again because chaining them failed.
//
// The stream can deliver records twice, late and in any order, to several workers at once, and workers can be killed at
// any point. Nevertheless each record is chained once, in the order of arrival; records that arrive together are
// chained oldest first. The content is taken from the stream, not from the table. So a record that was removed or
// altered in the table meanwhile is chained as it was written. Only records that the stream has not delivered are read
// from the table (chainLate).
func (t *Trail) HandleStream(ctx context.Context, records []store.StreamRecord) (failed []int) {
	var accounts []string
	found := map[string][]audit.Entry{}
	indexes := map[string][]int{}
	for i, r := range records {
		if !audit.IsPending(r.Key) || r.Old != nil || r.New == nil {
			continue // an update or a deletion, either by this package or unauthorized
		}
		accountID, e, ok := audit.Decode(r.New)
		if !ok {
			// Do not report this record as failed: a repeat would fail too, and would block all later records.
			t.log.ErrorContext(ctx, "what stands among the audit records is none, and is not chained", "key", r.Key.SK)
			continue
		}
		if indexes[accountID] == nil {
			accounts = append(accounts, accountID)
		}
		indexes[accountID], found[accountID] = append(indexes[accountID], i), append(found[accountID], e)
	}
	for _, accountID := range accounts {
		if err := t.Chain(ctx, accountID, found[accountID]); err != nil {
			t.log.ErrorContext(ctx, "audit records are not chained yet", "accountId", accountID, "error", err)
			failed = append(failed, indexes[accountID]...)
		}
	}
	slices.Sort(failed)
	return failed
}

// lateSearchInterval is the time without searches after a search for records that the stream has not
// delivered, if the search found none. minLateAge is the minimum age of such records.
const (
	lateSearchInterval = time.Hour
	minLateAge         = time.Hour
)

// Chain chains records of an account. It skips records that are already chained. Afterwards
// it searches for records that the stream has not delivered (chainLate).
func (t *Trail) Chain(ctx context.Context, accountID string, entries []audit.Entry) error {
	entries = slices.Clone(entries)
	slices.SortFunc(entries, oldestFirst)
	entries = slices.CompactFunc(entries, func(a, b audit.Entry) bool { return oldestFirst(a, b) == 0 })
	for len(entries) > 0 {
		taken := 0
		err := t.table.RunInTx(ctx, func(ctx context.Context) (err error) {
			taken, err = t.chainBatch(ctx, accountID, entries)
			return err
		})
		if err != nil {
			return err
		}
		entries = entries[taken:]
	}
	return t.chainLate(ctx, accountID)
}

func oldestFirst(a, b audit.Entry) int { return newestFirst(b, a) }

// These are the limits of one transaction. Each record takes two writes, plus
// the writes of the counters that no earlier record of the transaction changes.
const (
	maxBatchRecords = 45
	maxBatchBytes   = 1 << 20
	maxBatchWrites  = store.MaxWrites - 1 // one more write is for the head
)

// chainBatch chains as many of the first entries as fit into one transaction, and returns their number.
func (t *Trail) chainBatch(ctx context.Context, accountID string, entries []audit.Entry) (taken int, err error) {
	entries = entries[:min(len(entries), maxBatchRecords)]
	h := head{ID: accountID}
	chained := make([]*store.ReadRequest, len(entries))
	requests := []*store.ReadRequest{store.Get(headKey(accountID), &h)}
	for i, e := range entries {
		chained[i] = store.Get(audit.ChainedKey(accountID, e),
			nil).Unchecked("a chained record stays, and its creation is on the condition that there is none")
		requests = append(requests, chained[i])
	}
	if err := t.table.Load(ctx, requests...); err != nil {
		return 0, fmt.Errorf("read the end of an audit chain: %w", err)
	}
	key, err := t.signer.key(ctx)
	if err != nil {
		return 0, err
	}
	previous, bytes := h, 0
	additions := counters{}
	var writes []store.Write
	for i, e := range entries {
		at, err := e.Time()
		if err != nil {
			return 0, err
		}
		text, err := encodeEntry(e)
		if err != nil {
			return 0, err
		}
		if extra := len(additions) + len(actors(e))*len(levels); taken > 0 && (len(writes)+2+extra > maxBatchWrites ||
			bytes+len(text) > maxBatchBytes) {
			break
		}
		taken, bytes = i+1, bytes+len(text)
		writes = append(writes, store.Delete(audit.PendingKey(accountID, e)))
		if chained[i].Found {
			continue // delivered twice
		}
		l := h.link(accountID, string(text), expiry(at, t.now()), key)
		writes = append(writes, store.Create(audit.ChainedKey(accountID, e), l).Else(store.ErrStale))
		additions.Count(accountID, e, at)
		h.Seq, h.Hash, h.TTL = l.Seq, l.Hash, l.TTL
	}
	if h != previous {
		h.Version++
		h.Signature = proof.Head.Sign(key, accountID, h.Seq, h.Hash)
		writes = append(append(writes, additions.Writes()...), store.Put(headKey(accountID), h))
	}
	if err := t.table.Commit(ctx, writes...); err != nil {
		return 0, fmt.Errorf("chain %d audit records: %w", taken, err)
	}
	if h != previous {
		// This line is evidence outside the table: see docs/audit-logs.md. As in the log
		// lines of operations, the status "success" marks successful background work.
		t.log.InfoContext(ctx, "audit records chained", "accountId", accountID, "seq", h.Seq, "hash", h.Hash, "status",
			"success")
	}
	return taken, nil
}

// expiry returns when a record expires. at is the time at which the record was written. If at is in the future, which
// the product does not write, expiry uses now instead: otherwise the record would delay the expiry of all later
// records.
func expiry(at, now time.Time) int64 {
	if at.After(now) {
		at = now
	}
	return at.Add(audit.Retention).Unix()
}

// link returns the next record of the chain.
func (h head) link(accountID, entry string, ttl int64, key ed25519.PrivateKey) Link {
	l := proof.Link{Seq: h.Seq + 1, Entry: entry, TTL: max(ttl, h.TTL), Previous: h.Hash, PreviousTTL: h.TTL}
	l.Hash = l.Digest(accountID)
	l.Signature = proof.Record.Sign(key, accountID, l.Seq, l.Hash)
	return fromProof(l)
}

// chainLate searches for records that are older than an hour and that the stream has not delivered, and chains the
// oldest of them. The reason: the stream drops records that fail too often, and keeps none for more than a day. After a
// search without a result, chainLate does not search again for lateSearchInterval.
func (t *Trail) chainLate(ctx context.Context, accountID string) error {
	now := t.now()
	var h head
	if err := t.table.Get(ctx, headKey(accountID), &h); err != nil ||
		now.Sub(time.Unix(h.SearchedOn, 0)) < lateSearchInterval {
		return err
	}
	var late []audit.Entry
	for n := range audit.Shards {
		q := store.Query{
			PK: audit.PendingPartition(accountID, n), UpTo: audit.Timestamp(now.Add(-minLateAge)),
			Limit: maxBatchRecords,
		}
		found, err := audit.ListPendingInShard(ctx, t.table, q)
		if err != nil {
			return err
		}
		late = append(late, found...)
	}
	slices.SortFunc(late, oldestFirst)
	late = late[:min(len(late), maxBatchRecords)]
	if len(late) == 0 {
		return t.table.RunInTx(ctx, func(ctx context.Context) error { return t.recordSearch(ctx, accountID, now) })
	}
	// The next record triggers the search for more of them, until there are none.
	t.log.WarnContext(ctx, "audit records are chained late: the stream has not told of them", "accountId", accountID,
		"records", len(late))
	return t.table.RunInTx(ctx, func(ctx context.Context) error {
		_, err := t.chainBatch(ctx, accountID, late)
		return err
	})
}

// recordSearch records that a search found no late records.
func (t *Trail) recordSearch(ctx context.Context, accountID string, now time.Time) error {
	var h head
	if err := t.table.Get(ctx, headKey(accountID), &h); err != nil {
		return err
	}
	h.Version++
	h.SearchedOn = now.Unix()
	return t.table.Commit(ctx, store.Put(headKey(accountID), h))
}
