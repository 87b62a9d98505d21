package upstreamcerts

import "github.com/gatewright/gatewright/shared/core/store"

// Key returns the table key of a certificate, for tests that change its record.
func (p Project) Key(id string) store.Key { return p.key(id) }
