package tunnel

import (
	"github.com/gatewright/gatewright/shared/lazy"
)

// Scheme is that of the addresses by which routes ask services: service://<name>/path
// (contract 2.8).
const Scheme = "service"

// NameForm says what services may be called.
const NameForm = "3 to 24 of the characters a-z, A-Z, 0-9 and -"

var namePattern = lazy.Regexp(`^[a-zA-Z0-9-]{3,24}$`)

// IsName reports whether a service may be called so (contract 1.4). Names are told apart
// by each letter's case.
func IsName(text string) bool { return namePattern().MatchString(text) }
