package relay

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// fieldResult is in each response of a relay to a request for a service. Its value is fromService for a response of
// the service, or the code of a failure. The relay overwrites the service's value of the field. A response without the
// field does not come from a relay.
const (
	fieldResult = "Gatewright-Relay-Answer"
	fromService = "service"
)

// failures are the failures that a relay reports instead of a service's response. An
// error that wraps two of them is reported as the later failure in this list.
var failures = []struct {
	code   string
	status int // informative: relays and gateways use only the code
	err    error
}{
	{"no-agent", http.StatusServiceUnavailable, tunnel.ErrNoAgent},
	{"busy", http.StatusServiceUnavailable, tunnel.ErrBusy},
	{"unavailable", http.StatusServiceUnavailable, tunnel.ErrUnavailable},
	{"refused", http.StatusUnauthorized, errPassRefused},
	{"broken", http.StatusBadGateway, tunnel.ErrBroken},
}

// tunnelFailures are the failures of package tunnel. The code of such a failure is its text.
var tunnelFailures = []tunnel.Failure{
	tunnel.UnknownService, tunnel.NotAllowed, tunnel.Unreachable, tunnel.TimedOut,
	tunnel.Unusable,
}

// errPassRefused is the error of a refused pass: no service was reached.
var errPassRefused = fmt.Errorf("%w: a relay refuses the pass: do the clocks differ, or the root keys?",
	tunnel.ErrUnavailable)

// writeFailure writes a failure. It writes an unknown error as ErrBroken: the service may have received the request.
func writeFailure(w http.ResponseWriter, err error) {
	code, status := "broken", http.StatusBadGateway
	if tunnelErr, ok := errors.AsType[*tunnel.Error](err); ok {
		code = string(tunnelErr.Failure)
	}
	for _, f := range failures {
		if errors.Is(err, f.err) {
			code, status = f.code, f.status
		}
	}
	clear(w.Header())
	w.Header().Set(fieldResult, code)
	w.WriteHeader(status)
}

// relayedError is a failure that a relay has reported.
type relayedError struct{ err error }

// Error implements error.
func (e *relayedError) Error() string { return "a relay answers: " + e.err.Error() }

func (e *relayedError) Unwrap() error { return e.err }

// readFailure returns the failure that a response reports, nil for a response of the service. It returns
// tunnel.ErrBroken if the response reports neither.
func readFailure(response *http.Response) error {
	code := response.Header.Get(fieldResult)
	if code == fromService {
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
