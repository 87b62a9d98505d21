package variables

import (
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
)

// Kept declares what of the root key the package's records have: the values of variables.
func Kept(p installation.Parts) []rotation.Kept {
	return []rotation.Kept{rotation.Values(variableSpace, p.Sealer(), func(k store.Key, r record) ([]byte, string) {
		const accountAt, projectAt, branchAt, all = 0, 1, 2, 3
		of := variableSpace.PartsOf(k.PK)
		if len(of) != all {
			return nil, ""
		}
		return r.Sealed, sealContext(Branch{Owner: auth.Owner{AccountID: of[accountAt]}, Project: of[projectAt], Branch: of[branchAt]}, r.Name)
	}, store.At("sealed"))}
}
