package relay

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// fieldAnswer is in each answer of a relay to who asks, and says whose answer it is: ofService,
// or a failure's code. The relay writes it over whatever a service says there, and an answer
// without it is no relay's.
const (
	fieldAnswer = "Gatewright-Relay-Answer"
	ofService   = "service"
)

// failures are what a relay tells those who ask, in place of a service's answer. What wraps
// two of them is the later one.
var failures = []struct {
	code   string
	status int // for who looks at the wire: a client goes by the code
	err    error
}{
	{"no-agent", http.StatusServiceUnavailable, tunnel.ErrNoAgent},
	{"busy", http.StatusServiceUnavailable, tunnel.ErrBusy},
	{"unavailable", http.StatusServiceUnavailable, tunnel.ErrUnavailable},
	{"refused", http.StatusUnauthorized, errRefused},
	{"broken", http.StatusBadGateway, tunnel.ErrBroken},
}

// tunnelFailures are those of package tunnel, whose codes are their texts.
var tunnelFailures = []tunnel.Failure{tunnel.UnknownService, tunnel.NotAllowed, tunnel.Unreachable, tunnel.Late, tunnel.Unusable}

// errRefused says that a relay did not take a pass: nothing reached a service.
var errRefused = fmt.Errorf("%w: a relay refuses the pass: do the clocks differ, or the root keys?", tunnel.ErrUnavailable)

// fail answers a failure. One that is none of those above is answered as ErrBroken, which
// promises nothing.
func fail(w http.ResponseWriter, err error) {
	code, status := "broken", http.StatusBadGateway
	if its, ok := errors.AsType[*tunnel.Error](err); ok {
		code = string(its.Failure)
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			code, status = f.code, f.status
		}
	}
	clear(w.Header())
	w.Header().Set(fieldAnswer, code)
	w.WriteHeader(status)
}

// relayedError is a failure of which a relay has told.
type relayedError struct{ err error }

// Error implements error.
func (e *relayedError) Error() string { return "a relay answers: " + e.err.Error() }

func (e *relayedError) Unwrap() error { return e.err }

// failed gives the failure that an answer tells of, nil for one that is the service's.
func failed(response *http.Response) error {
	code := response.Header.Get(fieldAnswer)
	if code == ofService {
		return nil
	}
	for _, f := range failures {
		if code == f.code {
			return &relayedError{f.err}
		}
	}
	if slices.Contains(tunnelFailures, tunnel.Failure(code)) {
		return &tunnel.Error{Failure: tunnel.Failure(code)}
	}
	return fmt.Errorf("%w: what answers there is no relay of this version", tunnel.ErrBroken)
}
