package issuance_test

import (
	"context"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// refusingAuthority is a customdomains.Authority that refuses all orders.
type refusingAuthority struct{ customdomains.Authority }

func (refusingAuthority) Order(context.Context, string, bool) (customdomains.Order, error) {
	return customdomains.Order{}, fault.New(fault.Conflict, "The authority refuses.")
}
