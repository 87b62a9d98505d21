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
	fake := &fakeRollup{}
	handler := rollup.Handler(fake)
	if err := handler(t.Context(), []byte(`{"schedule":"minutely"}`)); err != nil || fake.calls != 1 {
		t.Errorf("handler() = %v after %d calls, want no error after 1", err, fake.calls)
	}
	fake.err = errors.New("no store")
	if err := handler(t.Context(), nil); !errors.Is(err, fake.err) {
		t.Errorf("handler() with a failing rollup: error = %v, want %v", err, fake.err)
	}
}
