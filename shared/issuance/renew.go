package issuance

import (
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
)

// Kept declares what of the root key the package's records have: the keys of accounts at authorities.
func Kept(p installation.Parts) []rotation.Kept {
	return []rotation.Kept{rotation.Values(accountSpace, p.Sealer(), func(k store.Key, r account) ([]byte, string) {
		directory, ok := accountSpace.PartOf(k)
		if !ok {
			return nil, ""
		}
		return r.Key, sealContext(directory)
	}, store.At("key"))}
}
