package keys

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// Kept declares what of the root key the package's records have.
func Kept(p installation.Parts) []rotation.Kept {
	r := renewer{table: p.Table, sealer: p.Sealer(), hash: p.Hasher(hashPurpose)}
	return []rotation.Kept{
		rotation.Values(bucketSpace, p.Sealer(), func(_ store.Key, b bucketRecord) ([]byte, string) {
			return b.Token, tokenContext(b.ID)
		}, store.At("token"), store.Add(store.At("version"), 1)),
		{Space: consumerKeySpace, Attributes: []string{"sealed"}, Renew: r.keys},
	}
}

// CredentialUnder gives where an API key whose record IsCredential has told would be known under the root key of p that writes: one key of
// a bucket is known by another hash after each rotation.
func CredentialUnder(ctx context.Context, p installation.Parts, at store.Key) (store.Key, error) {
	hash, ok := keyHashSpace.PartOf(at)
	if !ok {
		return at, nil
	}
	renewed, _, err := p.Hasher(hashPurpose).Renew(ctx, hash)
	if err != nil {
		return at, fmt.Errorf("renew the hash of an API key: %w", err)
	}
	return keyHashKey(renewed), nil
}

// renewer renews API keys: the sealed text, and the hash by which the gateway finds the key, which needs no text.
type renewer struct {
	table  *store.Table
	sealer *seal.Sealer
	hash   *seal.Hasher
}

// renewal is a key that is to be renewed.
type renewal struct {
	at      store.Key
	record  keyRecord
	hash    string // the new one, "" for one that stays
	changes []store.Change
	// found is the gateway's record, as it is.
	found map[string]any
}

func (r renewer) keys(ctx context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error) {
	var all []*renewal
	for _, item := range items {
		its := &renewal{at: store.KeyOf(item)}
		if err := store.Decode(item, &its.record); err != nil {
			return nil, 0, fmt.Errorf("decode an API key: %w", err)
		}
		ok, err := r.plan(ctx, its)
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			unreadable++
		}
		if len(its.changes) > 0 {
			all = append(all, its)
		}
	}
	if err := r.find(ctx, all); err != nil {
		return nil, 0, err
	}
	for _, its := range all {
		groups = append(groups, its.writes())
	}
	return groups, unreadable, nil
}

// plan says what of a key is to be renewed; not ok is a text that no root key opens, whose hash is renewed all the same.
func (r renewer) plan(ctx context.Context, its *renewal) (ok bool, err error) {
	ok = true
	if its.record.Sealed != nil {
		var change *store.Change
		if change, ok, err = rotation.Value(ctx, r.sealer, its.record.Sealed, sealContext(its.record.ID), store.At("sealed")); err != nil {
			return false, err
		}
		if change != nil {
			its.changes = append(its.changes, *change)
		}
	}
	renewed, other, err := r.hash.Renew(ctx, its.record.Hash)
	if err != nil {
		return false, fmt.Errorf("renew the hash of API key %s: %w", its.record.ID, err)
	}
	if other {
		its.hash = renewed
		its.changes = append(its.changes, store.Set(store.At("hash"), renewed))
	}
	return ok, nil
}

// find reads the gateway's records of keys whose hash is to be renewed.
func (r renewer) find(ctx context.Context, all []*renewal) error {
	moving := slices.DeleteFunc(slices.Clone(all), func(its *renewal) bool { return its.hash == "" })
	for portion := range slices.Chunk(moving, store.MaxKeys) {
		wanted := make([]*store.Wanted, len(portion))
		for i, its := range portion {
			wanted[i] = store.Want(keyHashKey(its.record.Hash), &its.found).Unchecked("the writes hold for what was read")
		}
		if err := r.table.Load(ctx, wanted...); err != nil {
			return fmt.Errorf("read API keys as the gateway sees them: %w", err)
		}
	}
	return nil
}

// maybe are the attributes of the gateway's record that are not always there: one that has come meanwhile is none that was read.
var maybe = []string{"expiresOn", "batch", "since", "metadata"}

// writes bring a key under the root key that writes. Nobody ever sees it without a hash that leads to it: the gateway's record
// moves in the same transaction.
func (r *renewal) writes() []store.Write {
	// A Put of what was read would undo nothing here: it checks the gateway's record under the old hash, which is gone.
	key := store.Update(r.at, r.changes...).If(store.Equal(store.At("id"), r.record.ID)).If(store.Equal(store.At("hash"), r.record.Hash))
	if r.record.Sealed != nil {
		key = key.If(store.Equal(store.At("sealed"), r.record.Sealed))
	}
	if r.hash == "" {
		return []store.Write{key}
	}
	old := keyHashKey(r.record.Hash)
	if r.found == nil || r.found["keyId"] != r.record.ID { // its text was freed for another: this key opens nothing
		return []store.Write{key, store.Check(old, store.Or(store.Absent(), store.NotEqual(store.At("keyId"), r.record.ID)))}
	}
	record := maps.Clone(r.found)
	delete(record, "pk")
	delete(record, "sk")
	gone := store.Delete(old)
	for name, value := range record {
		gone = gone.If(store.Equal(store.At(name), value))
	}
	for _, name := range maybe {
		if _, there := record[name]; !there {
			gone = gone.If(store.Lacks(store.At(name)))
		}
	}
	return []store.Write{key, gone, store.Create(keyHashKey(r.hash), record)}
}
