package allowance

import (
	"context"

	"github.com/gatewright/gatewright/shared/store"
)

// Used reads how many units of an allowance are used, those included that an instance has leased
// and not given back. It is for who shows them.
func Used(ctx context.Context, table *store.Table, a Allowance) (int64, error) {
	return ledger{table}.granted(ctx, a.period())
}
