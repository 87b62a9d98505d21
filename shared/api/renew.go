package api

import "github.com/gatewright/gatewright/shared/rotation"

// Kept declares what of the root key the package's records have: answers that are given again, for a day.
func Kept() []rotation.Kept {
	return []rotation.Kept{rotation.Expiring(answerSpace, answerLifetime, "sealed")}
}
