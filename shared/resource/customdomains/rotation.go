package customdomains

import (
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// RotatedValues declares the values in the package's records that depend on the root key: the private keys of
// hostnames' certificates and those of orders. Keys of orders are not sealed again, because their records expire before
// a rotation ends (challengeLifetime). If a gateway cannot open a cached key after a rotation, it reads the record
// again.
func RotatedValues(p installation.Parts) []rotation.SealedRecords {
	return []rotation.SealedRecords{
		rotation.ForValue(hostPrefix, p.Sealer(), func(_ store.Key, h host) ([]byte, string) {
			if h.Certificate == nil {
				return nil, ""
			}
			return h.Certificate.Key, sealContext(h)
		}, store.At("certificate", "key")),
		rotation.ForExpiring(challengePrefix, challengeLifetime, "pending"),
	}
}
