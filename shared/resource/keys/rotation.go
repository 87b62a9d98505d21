package keys

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// RotatedValues returns the package's values that depend on the root key, for a rotation: bucket tokens, and the hashes
// and sealed texts of API keys.
func RotatedValues(p installation.Parts) []rotation.SealedRecords {
	r := rotator{table: p.Table, sealer: p.Sealer(), hash: p.Hasher(hashPurpose)}
	return []rotation.SealedRecords{
		rotation.ForValue(bucketPrefix, p.Sealer(), func(_ store.Key, b bucketRecord) ([]byte, string) {
			return b.Token, tokenContext(b.ID)
		}, store.At("token"), store.Add(store.At("version"), 1)),
		{Prefix: consumerKeyPrefix, Attributes: []string{"sealed"}, Renew: r.renewKeys},
	}
}

// RotatedCredentialKey returns the table key that an API key's hash record has when it is hashed with the current root
// key of p. key is the record's present table key, and IsCredential(key) must be true. Each rotation of the root key
// changes the hashes of API keys and thereby these table keys.
func RotatedCredentialKey(ctx context.Context, p installation.Parts, key store.Key) (store.Key, error) {
	hash, ok := keyHashPrefix.SinglePart(key)
	if !ok {
		return key, nil
	}
	renewed, _, err := p.Hasher(hashPurpose).Renew(ctx, hash)
	if err != nil {
		return key, fmt.Errorf("renew the hash of an API key: %w", err)
	}
	return keyHashKey(renewed), nil
}

// rotator renews API keys for a new root key: the sealed text and the hash. Gateways find a key by its hash. The hash
// is renewed without the text.
type rotator struct {
	table  *store.Table
	sealer *seal.Sealer
	hash   *seal.Hasher
}

// keyRotation is a key that is to be renewed.
type keyRotation struct {
	key     store.Key
	record  keyRecord
	hash    string // the new hash, "" if it does not change
	changes []store.Change
	// found has the attributes of the hash record as it was read.
	found map[string]any
}

// renewKeys returns the writes that renew the API keys in items, a group for each key. unreadable is the number of keys
// whose sealed text no root key can open.
func (r rotator) renewKeys(
	ctx context.Context, items []store.Item,
) (groups [][]store.Write, unreadable int, err error) {
	var all []*keyRotation
	for _, item := range items {
		k := &keyRotation{key: store.KeyOf(item)}
		if err := store.Decode(item, &k.record); err != nil {
			return nil, 0, fmt.Errorf("decode an API key: %w", err)
		}
		ok, err := r.plan(ctx, k)
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			unreadable++
		}
		if len(k.changes) > 0 {
			all = append(all, k)
		}
	}
	if err := r.find(ctx, all); err != nil {
		return nil, 0, err
	}
	for _, k := range all {
		groups = append(groups, k.writes())
	}
	return groups, unreadable, nil
}

// plan decides which parts of a key are renewed, and stores the changes in k. ok is false if no root key can open the
// sealed text. The hash is renewed nevertheless.
func (r rotator) plan(ctx context.Context, k *keyRotation) (ok bool, err error) {
	ok = true
	if k.record.Sealed != nil {
		var change *store.Change
		if change, ok, err = rotation.RenewValue(ctx, r.sealer, k.record.Sealed, sealContext(k.record.ID),
			store.At("sealed")); err != nil {
			return false, err
		}
		if change != nil {
			k.changes = append(k.changes, *change)
		}
	}
	renewed, changed, err := r.hash.Renew(ctx, k.record.Hash)
	if err != nil {
		return false, fmt.Errorf("renew the hash of API key %s: %w", k.record.ID, err)
	}
	if changed {
		k.hash = renewed
		k.changes = append(k.changes, store.Set(store.At("hash"), renewed))
	}
	return ok, nil
}

// find reads the hash records of the keys whose hash is to be renewed.
func (r rotator) find(ctx context.Context, all []*keyRotation) error {
	moving := slices.DeleteFunc(slices.Clone(all), func(k *keyRotation) bool { return k.hash == "" })
	for chunk := range slices.Chunk(moving, store.MaxKeys) {
		gets := make([]*store.ReadRequest, len(chunk))
		for i, k := range chunk {
			gets[i] = store.Get(keyHashKey(k.record.Hash), &k.found).Unchecked("the writes check each attribute that was read")
		}
		if err := r.table.Load(ctx, gets...); err != nil {
			return fmt.Errorf("read API keys as the gateway sees them: %w", err)
		}
	}
	return nil
}

// optionalAttributes are the optional attributes of a hash record. If one of them was added since the record was read,
// the record has changed.
var optionalAttributes = []string{"expiresOn", "batch", "since", "metadata"}

// writes returns the writes that change a key to the new root key. The hash record is replaced in the same transaction,
// so gateways can find the key at any time.
func (r *keyRotation) writes() []store.Write {
	// This is an update of single attributes. A store.Put of the whole record would be safe only together with the
	// write of the hash record, which fails if the key has changed.
	key := store.Update(r.key, r.changes...).If(store.Equal(store.At("id"), r.record.ID)).If(store.Equal(store.At("hash"),
		r.record.Hash))
	if r.record.Sealed != nil {
		key = key.If(store.Equal(store.At("sealed"), r.record.Sealed))
	}
	if r.hash == "" {
		return []store.Write{key}
	}
	old := keyHashKey(r.record.Hash)
	if r.found == nil || r.found["keyId"] != r.record.ID { // the key is invalid, and another key may have its text
		return []store.Write{key, store.Check(old, store.Or(store.Absent(), store.NotEqual(store.At("keyId"), r.record.ID)))}
	}
	record := maps.Clone(r.found)
	delete(record, "pk")
	delete(record, "sk")
	deletion := store.Delete(old)
	for name, value := range record {
		deletion = deletion.If(store.Equal(store.At(name), value))
	}
	for _, name := range optionalAttributes {
		if _, exists := record[name]; !exists {
			deletion = deletion.If(store.Lacks(store.At(name)))
		}
	}
	return []store.Write{key, deletion, store.Create(keyHashKey(r.hash), record)}
}
