package mtlscertificates

import (
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
)

// Kept declares what of the root key the package's records have: the keys of certificates.
func Kept(p installation.Parts) []rotation.Kept {
	return []rotation.Kept{rotation.Values(certificateSpace, p.Sealer(), func(k store.Key, r record) ([]byte, string) {
		const accountAt, nameAt, all = 0, 1, 2
		of := certificateSpace.PartsOf(k.PK)
		if len(of) != all {
			return nil, ""
		}
		return r.Key, sealContext(Project{Owner: auth.Owner{AccountID: of[accountAt]}, Name: of[nameAt]}, r.ID)
	}, store.At("key"))}
}
