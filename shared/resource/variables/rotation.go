package variables

import (
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// RotatedValues declares the values in the package's records that depend on the root key: the values of variables.
func RotatedValues(p installation.Parts) []rotation.SealedRecords {
	return []rotation.SealedRecords{rotation.ForValue(variablePrefix, p.Sealer(),
		func(k store.Key, r record) ([]byte, string) {
			const accountIndex, projectIndex, branchIndex, partCount = 0, 1, 2, 3
			parts := variablePrefix.Parts(k.PK)
			if len(parts) != partCount {
				return nil, ""
			}
			return r.Sealed, sealContext(Branch{
				Owner: auth.Owner{AccountID: parts[accountIndex]}, Project: parts[projectIndex],
				Branch: parts[branchIndex],
			}, r.Name)
		}, store.At("sealed"))}
}
