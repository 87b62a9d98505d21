package variables

import "github.com/gatewright/gatewright/shared/core/store"

// Key returns the table key of a branch's variable, for tests that change its record.
func (b Branch) Key(name string) store.Key { return b.key(name) }
