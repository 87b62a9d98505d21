package probe_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
)

// TestOnlyTheProbeCallsTheCheck checks that a probe calls only the check, and that every other event calls only the
// function, even if the event is similar.
func TestOnlyTheProbeCallsTheCheck(t *testing.T) {
	for _, tt := range []struct {
		event string
		want  string
	}{
		{probe.Event, probe.Response},
		{"{ \"probe\" : true }\n", probe.Response},
		{`{"probe":false}`, "null"},
		{`{"probe":"true"}`, "null"},
		{`{"schedule":"probe"}`, "null"},
		{`{}`, "null"},
		{`null`, "null"},
		{`[true]`, "null"},
		{`{"probe":true,"Records":[` + strings.Repeat(" ", 100) + `]}`, "null"},
	} {
		events, checks := 0, 0
		h := probe.Handler(func(context.Context, any) error {
			events++
			return nil
		}, func(context.Context) error {
			checks++
			return nil
		})
		got, err := h.Invoke(t.Context(), []byte(tt.event))
		if err != nil || strings.TrimSpace(string(got)) != tt.want {
			t.Errorf("Invoke(%s) = %s, %v, want %s", tt.event, got, err, tt.want)
		}
		if want := map[string]int{"null": 1}[tt.want]; events != want || checks != 1-want {
			t.Errorf("Invoke(%s) calls the function %d times and the check %d times, want %d and %d", tt.event, events, checks,
				want, 1-want)
		}
	}
}

func TestAFailedCheckIsAnError(t *testing.T) {
	h := probe.Handler(func(context.Context) error {
		return nil
	}, func(context.Context) error { return errors.New("no table") })
	if _, err := h.Invoke(t.Context(), []byte(probe.Event)); err == nil || !strings.Contains(err.Error(), "no table") {
		t.Errorf("Invoke(Event) error = %v, want one that contains %q", err, "no table")
	}
}

// unreachable is a backend whose reads fail.
type unreachable struct{ store.Backend }

// Read implements store.Backend.
func (unreachable) Read(context.Context, []store.Key) ([]store.Item, error) {
	return nil, errors.New("AccessDeniedException")
}

func TestTableCheckFailsIfTheTableIsUnreadable(t *testing.T) {
	access := store.TableAccess{Reads: []store.KeyPrefix{"operation"}}
	if err := probe.TableCheck(storetest.New(t).Restrict(access), access)(t.Context()); err != nil {
		t.Errorf("TableCheck(empty table) = %v, want nil", err)
	}
	if err := probe.TableCheck(storetest.NewWithBackend(t, unreachable{}), access)(t.Context()); err == nil {
		t.Error("TableCheck(unreadable table) = nil, want an error")
	}
}
