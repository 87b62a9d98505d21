package issuance

import (
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// RotatedValues returns the package's sealed values for a rotation of the root key: the keys of ACME accounts.
func RotatedValues(p installation.Parts) []rotation.SealedRecords {
	return []rotation.SealedRecords{rotation.ForValue(accountPrefix, p.Sealer(),
		func(k store.Key, r account) ([]byte, string) {
			directory, ok := accountPrefix.SinglePart(k)
			if !ok {
				return nil, ""
			}
			return r.Key, sealContext(directory)
		}, store.At("key"))}
}
