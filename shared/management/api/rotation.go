package api

import "github.com/gatewright/gatewright/shared/core/rotation"

// SealedRecords declares the records of the package that depend
// on the root key: stored responses, which expire after a day.
func SealedRecords() []rotation.SealedRecords {
	return []rotation.SealedRecords{rotation.ForExpiring(responsePrefix, responseLifetime, "sealed")}
}
