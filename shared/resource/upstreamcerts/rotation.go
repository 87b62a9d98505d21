package upstreamcerts

import (
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// RotatedValues declares the values in the package's records that depend on the root key: the keys of certificates.
func RotatedValues(p installation.Parts) []rotation.SealedRecords {
	return []rotation.SealedRecords{rotation.ForValue(certificatePrefix, p.Sealer(),
		func(k store.Key, r record) ([]byte, string) {
			const accountIndex, nameIndex, partCount = 0, 1, 2
			parts := certificatePrefix.Parts(k.PK)
			if len(parts) != partCount {
				return nil, ""
			}
			return r.Key, sealContext(Project{Owner: auth.Owner{AccountID: parts[accountIndex]}, Name: parts[nameIndex]}, r.ID)
		}, store.At("key"))}
}
