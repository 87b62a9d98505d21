package trail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/store"
)

// Verify goes along an account's whole chain in the table. The error says that it
// could not be read; what is wrong with it is the Report's Break.
func (t *Trail) Verify(ctx context.Context, accountID string, noted proof.Commitment) (proof.Report, error) {
	v := proof.Verify(t.now(), noted)
	key, err := t.PublicKey(ctx)
	if err != nil {
		return proof.Report{}, err
	}
	fresh, err := audit.New(ctx, t.table, accountID)
	if err != nil {
		return proof.Report{}, err
	}
	v.Waiting = len(fresh)
	before, err := t.end(ctx, accountID)
	if err != nil {
		return proof.Report{}, err
	}
	var steps []proof.Step // 200 bytes for each record
	if err := t.each(ctx, key, accountID, func(_ store.Key, s proof.Step) { steps = append(steps, s) }); err != nil {
		return proof.Report{}, err
	}
	after, err := t.end(ctx, accountID)
	if err != nil {
		return proof.Report{}, err
	}
	slices.SortStableFunc(steps, func(a, b proof.Step) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, s := range steps {
		if s.Seq <= before.Seq || s.Seq > after.Seq { // what was chained meanwhile is left for the next time
			v.Add(s)
		}
	}
	if before.Seq > 0 && !key.Holds(proof.Head, accountID, before.Seq, before.Hash, before.Signature) {
		v.Broken(before.Seq, "is not the end of the chain: what says so is not signed by this installation")
	}
	return v.End(proof.Commitment{Seq: before.Seq, Hash: before.Hash}, time.Unix(before.TTL, 0)), nil
}

// end reads the end of a chain.
func (t *Trail) end(ctx context.Context, accountID string) (h head, err error) {
	if err := t.table.Get(ctx, headKey(accountID), &h); err != nil && !errors.Is(err, store.ErrNotFound) {
		return head{}, fmt.Errorf("read the end of an audit chain: %w", err)
	}
	return h, nil
}

// each visits an account's chained records, shard by shard.
func (t *Trail) each(ctx context.Context, key proof.PublicKey, accountID string, visit func(store.Key, proof.Step)) error {
	for shard := range audit.ChainedShards {
		err := t.table.Each(ctx, store.Query{PK: audit.Chained(accountID, shard)}, func(item store.Item) (bool, error) {
			var l Link
			unread := store.Decode(item, &l)
			s := key.Step(accountID, l.proved())
			e, err := l.entry()
			switch {
			case unread != nil:
				s.Wrong = "was altered: it cannot be read"
			case s.Wrong == "" && (err != nil || audit.ChainedKey(accountID, e) != store.KeyOf(item)):
				s.Wrong = "was moved or copied: it stands where another record belongs"
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
