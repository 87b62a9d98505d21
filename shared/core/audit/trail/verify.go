package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Verify verifies an account's whole chain in the table. An error means that the
// chain could not be read. The Report's Break says what is wrong with the chain.
func (t *Trail) Verify(ctx context.Context, accountID string, expected proof.Commitment) (proof.Report, error) {
	v := proof.NewVerifier(t.now(), expected)
	key, err := t.PublicKey(ctx)
	if err != nil {
		return proof.Report{}, err
	}
	pending, err := audit.ListPending(ctx, t.table, accountID)
	if err != nil {
		return proof.Report{}, err
	}
	v.Waiting = len(pending)
	before, err := t.readHead(ctx, accountID)
	if err != nil {
		return proof.Report{}, err
	}
	var links []proof.CheckedLink // 200 bytes for each record
	if err := t.visitLinks(ctx, key, accountID, func(_ store.Key, s proof.CheckedLink) {
		links = append(links, s)
	}); err != nil {
		return proof.Report{}, err
	}
	after, err := t.readHead(ctx, accountID)
	if err != nil {
		return proof.Report{}, err
	}
	slices.SortStableFunc(links, func(a, b proof.CheckedLink) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, s := range links {
		// ignore records that were chained during this verification
		if s.Seq <= before.Seq || s.Seq > after.Seq {
			v.Add(s)
		}
	}
	if before.Seq > 0 && !key.Verify(proof.Head, accountID, before.Seq, before.Hash, before.Signature) {
		v.RecordBreak(before.Seq, "is not the end of the chain: what says so is not signed by this installation")
	}
	return v.Finish(proof.Commitment{Seq: before.Seq, Hash: before.Hash}, time.Unix(before.TTL, 0)), nil
}

// readHead reads the head of an account's chain.
func (t *Trail) readHead(ctx context.Context, accountID string) (h head, err error) {
	if err := t.table.Get(ctx, headKey(accountID), &h); err != nil && !errors.Is(err, store.ErrNotFound) {
		return head{}, fmt.Errorf("read the end of an audit chain: %w", err)
	}
	return h, nil
}

// visitLinks checks each of an account's chained records alone and passes it to visit, shard by shard.
func (t *Trail) visitLinks(
	ctx context.Context, key proof.PublicKey, accountID string, visit func(store.Key, proof.CheckedLink),
) error {
	for shard := range audit.ChainedShards {
		err := t.table.Each(ctx, store.Query{PK: audit.ChainedPartition(accountID, shard)},
			func(item store.Item) (bool, error) {
				var l Link
				decodeErr := store.Decode(item, &l)
				s := key.CheckLink(accountID, l.toProof())
				e, err := l.entry()
				switch {
				case decodeErr != nil:
					s.Problem = "was altered: it cannot be read"
				case s.Problem == "" && (err != nil || audit.ChainedKey(accountID, e) != store.KeyOf(item)):
					s.Problem = "was moved or copied: it stands where another record belongs"
				}
				visit(store.KeyOf(item), s)
				return true, nil
			})
		if err != nil {
			return fmt.Errorf("read an audit chain: %w", err)
		}
	}
	return nil
}
