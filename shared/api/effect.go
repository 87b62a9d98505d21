package api

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/effect"
)

// Effect is what the operation does, by its method where it does not say more.
func (d Declaration) Effect() effect.Effect {
	switch {
	case !d.Mutates():
		return effect.Reads
	case d.Method == http.MethodDelete:
		return effect.Removes
	case d.Replaces || d.Method != http.MethodPost:
		return effect.Replaces
	default:
		return effect.Adds
	}
}
