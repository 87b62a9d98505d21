package rollup_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatewright/gatewright/functions/rollup"
)

// job counts its calls.
type job struct {
	calls int
	err   error
}

func (j *job) Run(context.Context) (int, error) {
	j.calls++
	return 1, j.err
}

func TestScheduleAddsUp(t *testing.T) {
	j := &job{}
	handler := rollup.Handler(j)
	if err := handler(t.Context(), []byte(`{"schedule":"minutely"}`)); err != nil || j.calls != 1 {
		t.Errorf("it was called %d times, %v", j.calls, err)
	}
	j.err = errors.New("no store")
	if err := handler(t.Context(), nil); !errors.Is(err, j.err) {
		t.Errorf("a failure answers %v", err)
	}
}
