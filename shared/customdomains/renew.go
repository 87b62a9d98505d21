package customdomains

import (
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
)

// Kept declares what of the root key the package's records have: the keys of the certificates of hostnames, and those of orders, which
// are done with or given up long before a challenge expires. A gateway that remembers a hostname as it was before looks again
// when the key that it remembers does not open.
func Kept(p installation.Parts) []rotation.Kept {
	return []rotation.Kept{
		rotation.Values(hostSpace, p.Sealer(), func(_ store.Key, h host) ([]byte, string) {
			if h.Certificate == nil {
				return nil, ""
			}
			return h.Certificate.Key, sealContext(h)
		}, store.At("certificate", "key")),
		rotation.Expiring(challengeSpace, challengeLife, "pending"),
	}
}
