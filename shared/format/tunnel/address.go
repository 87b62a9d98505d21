package tunnel

import (
	"github.com/gatewright/gatewright/shared/base/lazy"
)

// Scheme is the URL scheme of services in routes: service://<name>/path (contract 2.8).
const Scheme = "service"

// NameRule describes valid names of services.
const NameRule = "3 to 24 of the characters a-z, A-Z, 0-9 and -"

var namePattern = lazy.Regexp(`^[a-zA-Z0-9-]{3,24}$`)

// IsName reports whether a text is a valid name of a service (contract 1.4). Names are case-sensitive.
func IsName(text string) bool { return namePattern().MatchString(text) }
