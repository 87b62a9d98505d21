package rollup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatewright/gatewright/functions/rollup"
)

// fakeRollup is a Rollup that counts its calls.
type fakeRollup struct {
	calls int
	err   error
}

func (r *fakeRollup) Run(context.Context) (int, error) {
	r.calls++
	return 1, r.err
}

func TestScheduleRunsRollup(t *testing.T) {
	j := &fakeRollup{}
	handler := rollup.Handler(j)
	if err := handler(t.Context(), []byte(`{"schedule":"minutely"}`)); err != nil || j.calls != 1 {
		t.Errorf("handler() = %v after %d calls, want no error after 1", err, j.calls)
	}
	j.err = errors.New("no store")
	if err := handler(t.Context(), nil); !errors.Is(err, j.err) {
		t.Errorf("handler() with a failing rollup: error = %v, want %v", err, j.err)
	}
}
