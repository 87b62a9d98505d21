package mtlscertificates

import "github.com/gatewright/gatewright/shared/store"

// Key is the key of a certificate, for tests that change its record.
func (p Project) Key(id string) store.Key { return p.key(id) }
