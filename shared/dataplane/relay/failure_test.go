package relay_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestFailuresRoundTrip checks that readFailure returns the failure that writeFailure has written, even if
// other errors wrap it. An unknown failure becomes tunnel.ErrBroken: the service may have received the request.
func TestFailuresRoundTrip(t *testing.T) {
	all := []error{tunnel.ErrNoAgent, tunnel.ErrBusy, tunnel.ErrUnavailable, tunnel.ErrBroken}
	failures := []tunnel.Failure{
		tunnel.UnknownService, tunnel.NotAllowed, tunnel.Unreachable, tunnel.TimedOut, tunnel.Unusable,
	}
	// failureOf returns the texts of the failures that err wraps.
	failureOf := func(err error) (texts string) {
		for _, failureErr := range all {
			if errors.Is(err, failureErr) {
				texts += failureErr.Error()
			}
		}
		if tunnelErr, ok := errors.AsType[*tunnel.Error](err); ok {
			texts += string(tunnelErr.Failure)
		}
		return texts
	}
	roundTrip := func(err error) error {
		w := httptest.NewRecorder()
		relay.WriteFailure(w, err)
		return relay.ReadFailure(w.Result())
	}
	errs := append([]error{relay.ErrPassRefused}, all...)
	for _, failure := range failures {
		errs = append(errs, &tunnel.Error{Failure: failure})
	}
	for _, err := range errs {
		for _, err := range []error{err, fmt.Errorf("wrapped: %w", err), errors.Join(errors.New("another"), err)} {
			if got := roundTrip(err); failureOf(got) != failureOf(err) {
				t.Errorf("failure of %v after the round trip = %v, want the same", err, got)
			}
		}
	}
	if got := roundTrip(errors.New("another")); failureOf(got) != failureOf(tunnel.ErrBroken) {
		t.Errorf("failure of another error after the round trip = %v, want %v", got, tunnel.ErrBroken)
	}
	for _, responseHeader := range []http.Header{
		{},
		{relay.FieldResult: {""}},
		{relay.FieldResult: {"future-code"}},
		{relay.FieldResult: {"Service"}},
		{relay.FieldResult: {"future-code", "service"}},
	} {
		if got := relay.ReadFailure(&http.Response{StatusCode: http.StatusOK, Header: responseHeader}); failureOf(
			got) != failureOf(tunnel.ErrBroken) {
			t.Errorf("ReadFailure(%v) = %v, want %v", responseHeader, got, tunnel.ErrBroken)
		}
	}
	if err := relay.ReadFailure(&http.Response{Header: http.Header{relay.FieldResult: {"service"}}}); err != nil {
		t.Errorf("ReadFailure(a service's response) = %v, want nil", err)
	}
}
