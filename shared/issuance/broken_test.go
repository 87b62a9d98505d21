package issuance_test

import (
	"context"

	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/fault"
)

// broken is an authority that refuses all.
type broken struct{ customdomains.Authority }

func (broken) Order(context.Context, string, bool) (customdomains.Order, error) {
	return customdomains.Order{}, fault.New(fault.Conflict, "The authority refuses.")
}
