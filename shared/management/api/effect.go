package api

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/management/openapiext"
)

// Effect returns the effect of the operation. An operation without Audit reads. For other operations, the method
// determines the effect, unless a POST has Replaces.
func (d Declaration) Effect() openapiext.Effect {
	switch {
	case !d.Mutates():
		return openapiext.Reads
	case d.Method == http.MethodDelete:
		return openapiext.Removes
	case d.Replaces || d.Method != http.MethodPost:
		return openapiext.Replaces
	default:
		return openapiext.Adds
	}
}
