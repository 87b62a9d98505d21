package relay_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestFailuresCrossTheWire and are on the other side what they were, whatever has wrapped them. Of what nobody
// knows, only the worst is known: that the request may have been seen.
func TestFailuresCrossTheWire(t *testing.T) {
	all := []error{tunnel.ErrNoAgent, tunnel.ErrBusy, tunnel.ErrUnavailable, tunnel.ErrBroken}
	failures := []tunnel.Failure{tunnel.UnknownService, tunnel.NotAllowed, tunnel.Unreachable, tunnel.Late}
	is := func(err error) (which string) {
		for _, one := range all {
			if errors.Is(err, one) {
				which += one.Error()
			}
		}
		if its, ok := errors.AsType[*tunnel.Error](err); ok {
			which += string(its.Failure)
		}
		return which
	}
	crossed := func(err error) error {
		w := httptest.NewRecorder()
		relay.Fail(w, err)
		return relay.Failed(w.Result())
	}
	errs := append([]error{relay.ErrRefused}, all...)
	for _, failure := range failures {
		errs = append(errs, &tunnel.Error{Failure: failure})
	}
	for _, err := range errs {
		for _, err := range []error{err, fmt.Errorf("asked: %w", err), errors.Join(errors.New("another"), err)} {
			if got := crossed(err); is(got) != is(err) {
				t.Errorf("%v comes as %v", err, got)
			}
		}
	}
	if got := crossed(errors.New("another")); is(got) != is(tunnel.ErrBroken) {
		t.Errorf("what is no failure comes as %v", got)
	}
	for _, answer := range []http.Header{{}, {relay.FieldAnswer: {""}}, {relay.FieldAnswer: {"some-day"}}, {relay.FieldAnswer: {"Service"}}, {relay.FieldAnswer: {"some-day", "service"}}} {
		if got := relay.Failed(&http.Response{StatusCode: http.StatusOK, Header: answer}); is(got) != is(tunnel.ErrBroken) {
			t.Errorf("the answer %v is %v", answer, got)
		}
	}
	if err := relay.Failed(&http.Response{Header: http.Header{relay.FieldAnswer: {"service"}}}); err != nil {
		t.Errorf("a service's answer is %v", err)
	}
}
