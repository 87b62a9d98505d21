package tunnels

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// RotatedValues declares the values in the package's records that depend on the root key: a tunnel's sealed token, and
// the token's hash. A tunnel is found by the hash of its token.
func RotatedValues(p installation.Parts) []rotation.SealedRecords {
	return []rotation.SealedRecords{{Prefix: tunnelPrefix, Attributes: []string{"sealed"}, Renew: Open(p).renew}}
}

// RotatedCredentialKey returns the table key that a token's record has when the token is hashed with the current root
// key of p. key is the record's present table key, and IsCredential(key) must be true.
func RotatedCredentialKey(ctx context.Context, p installation.Parts, key store.Key) (store.Key, error) {
	hash, ok := tokenPrefix.SinglePart(key)
	if !ok {
		return key, nil
	}
	renewed, _, err := p.Hasher(tokenPurpose).Renew(ctx, hash)
	if err != nil {
		return key, fmt.Errorf("renew the hash of a tunnel's token: %w", err)
	}
	return tokenKey(renewed), nil
}

// renew returns the writes that renew the tokens of the tunnels in items, a group for each tunnel. unreadable is the
// number of tunnels whose sealed token no root key can open.
func (s *Service) renew(ctx context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error) {
	for _, item := range items {
		var r record
		if err := store.Decode(item, &r); err != nil {
			return nil, 0, fmt.Errorf("decode a tunnel: %w", err)
		}
		change, ok, err := rotation.RenewValue(ctx, s.sealer, r.Sealed, r.sealContext(), store.At("sealed"))
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			unreadable++
		}
		hash, changed, err := s.tokens.Renew(ctx, r.Hash)
		if err != nil {
			return nil, 0, fmt.Errorf("renew the hash of the token of the tunnel %s: %w", r.ID, err)
		}
		// The new version makes a concurrent Rotate of the token read the tunnel again, because the hash in its earlier read
		// no longer exists.
		changes := []store.Change{store.Add(store.At("version"), 1)}
		if change != nil {
			changes = append(changes, *change)
		}
		var tokenWrites []store.Write
		if changed {
			changes = append(changes, store.Set(store.At("hash"), hash))
			after := r
			after.Hash = hash
			tokenWrites = []store.Write{
				store.Delete(tokenKey(r.Hash)).If(store.Equal(store.At("tunnelId"), r.ID)),
				after.tokenWrite(),
			}
		}
		if len(changes) > 1 {
			groups = append(groups, append([]store.Write{
				store.Update(store.KeyOf(item),
					changes...).If(store.Equal(store.At("version"), r.Version)).If(store.Equal(store.At("hash"), r.Hash)),
			}, tokenWrites...))
		}
	}
	return groups, unreadable, nil
}
