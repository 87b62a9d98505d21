package allowance

import "github.com/gatewright/gatewright/shared/store"

// space has the allowances (a rate limit's window, a quota's period) by name
// and period: one item takes the leases of all instances. In its partition is
// one more item for each lease that was given back, so that none is twice.
const space store.Space = "allowance"

func (p period) key() store.Key { return space.Key(p.name, p.String()) }

func (p period) returnKey(id string) store.Key { return store.In(p.key().PK, "return", id) }
