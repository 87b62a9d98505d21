package tunnels

import (
	"context"
	"fmt"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
)

// Kept declares what of the root key the package's records have: a tunnel's token, sealed, and the hash that leads to
// the tunnel.
func Kept(p installation.Parts) []rotation.Kept {
	return []rotation.Kept{{Space: tunnelSpace, Attributes: []string{"sealed"}, Renew: Open(p).renew}}
}

// CredentialUnder gives where a token whose record IsCredential has told would be known under the root key of p that writes.
func CredentialUnder(ctx context.Context, p installation.Parts, at store.Key) (store.Key, error) {
	hash, ok := tokenSpace.PartOf(at)
	if !ok {
		return at, nil
	}
	renewed, _, err := p.Hasher(tokenPurpose).Renew(ctx, hash)
	if err != nil {
		return at, fmt.Errorf("renew the hash of a tunnel's token: %w", err)
	}
	return tokenKey(renewed), nil
}

func (s *Service) renew(ctx context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error) {
	for _, item := range items {
		var r record
		if err := store.Decode(item, &r); err != nil {
			return nil, 0, fmt.Errorf("decode a tunnel: %w", err)
		}
		change, ok, err := rotation.Value(ctx, s.sealer, r.Sealed, r.sealContext(), store.At("sealed"))
		if err != nil {
			return nil, 0, err
		}
		if !ok {
			unreadable++
		}
		hash, other, err := s.tokens.Renew(ctx, r.Hash)
		if err != nil {
			return nil, 0, fmt.Errorf("renew the hash of the token of the tunnel %s: %w", r.ID, err)
		}
		// The version has who rotates the token meanwhile look again: what they read leads to a hash that is gone.
		changes := []store.Change{store.Add(store.At("version"), 1)}
		if change != nil {
			changes = append(changes, *change)
		}
		var moved []store.Write
		if other {
			changes = append(changes, store.Set(store.At("hash"), hash))
			after := r
			after.Hash = hash
			moved = []store.Write{store.Delete(tokenKey(r.Hash)).If(store.Equal(store.At("tunnelId"), r.ID)), after.found()}
		}
		if len(changes) > 1 {
			groups = append(groups, append([]store.Write{
				store.Update(store.KeyOf(item), changes...).If(store.Equal(store.At("version"), r.Version)).If(store.Equal(store.At("hash"), r.Hash)),
			}, moved...))
		}
	}
	return groups, unreadable, nil
}
