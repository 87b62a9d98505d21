package gateway

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits"
)

// streamCounter implements Streams with a counter.
type streamCounter struct {
	started, finished int
	refusal           *fault.Fault
	err               error
}

func (c *streamCounter) Begin(context.Context, string) (func(), *fault.Fault, error) {
	if c.err != nil || c.refusal != nil {
		return nil, c.refusal, c.err
	}
	c.started++
	return func() { c.finished++ }, nil, nil
}

// TestRequestHoldsOneStreamAtATime checks that a request counts as one stream even if
// beginStream is called several times. It also checks that no stream begins after the request
// has ended: a timer can call beginStream late, and then nothing would end the stream.
func TestRequestHoldsOneStreamAtATime(t *testing.T) {
	const begin, end, closeFinal = "begin", "end", "over"
	for _, c := range []struct {
		name              string
		account           string
		steps             []string
		started, finished int
	}{
		{"started twice", "acme", []string{begin, begin}, 1, 0},
		{"started and ended", "acme", []string{begin, end}, 1, 1},
		{"started and ended, and the request closed twice", "acme", []string{begin, end, closeFinal, closeFinal}, 1, 1},
		{"two streams", "acme", []string{begin, end, begin, closeFinal}, 2, 2},
		{"started after the request's end", "acme", []string{closeFinal, begin}, 0, 0},
		{"started again after the request's end", "acme", []string{begin, closeFinal, end, begin}, 1, 1},
		{"no account", "", []string{begin, closeFinal}, 0, 0},
	} {
		counted := &streamCounter{}
		r := &request{g: &Gateway{config: Config{Streams: counted, Log: slog.New(slog.DiscardHandler)}}}
		r.stream.setAccount(c.account)
		for _, step := range c.steps {
			switch step {
			case begin:
				if refusal := r.beginStream(t.Context()); refusal != nil {
					t.Errorf("%s: beginStream() = %v, want nil", c.name, refusal)
				}
			default:
				r.stream.close(step == closeFinal)
			}
		}
		if counted.started != c.started || counted.finished != c.finished {
			t.Errorf("%s: streams started = %d, finished = %d, want %d and %d", c.name, counted.started, counted.finished,
				c.started, c.finished)
		}
	}
}

// TestReleasedRequestIsNotCounted checks that no stream begins after releaseSlot.
func TestReleasedRequestIsNotCounted(t *testing.T) {
	counted := &streamCounter{}
	r := &request{g: &Gateway{config: Config{Streams: counted}}}
	r.stream.setAccount("acme")
	r.releaseSlot()
	if refusal := r.beginStream(t.Context()); refusal != nil || counted.started != 0 {
		t.Errorf("beginStream() after releaseSlot() = %v, counted %d times, want nil and 0", refusal, counted.started)
	}
}

// TestStreamCountErrorsDoNotRefuse checks that a stream is allowed if Streams.Begin returns an error
// of any kind, because the count is unknown then. Only a refusal of Begin must refuse the stream.
func TestStreamCountErrorsDoNotRefuse(t *testing.T) {
	limitFault := limits.FunctionStreams.Refusal(3, 3, time.Second)
	for _, c := range []streamCounter{
		{refusal: limitFault},
		{err: limitFault},
		{err: fault.New(fault.Unavailable, "The table cannot be read.")},
		{err: fault.New(fault.DatabaseUnavailable, "The table has not responded.")},
		{err: errors.New("the table cannot be read")},
	} {
		r := &request{g: &Gateway{config: Config{Streams: &c, Log: slog.New(slog.DiscardHandler)}}}
		r.stream.setAccount("acme")
		if refusal := r.beginStream(t.Context()); refusal != c.refusal {
			t.Errorf("beginStream() with Begin() = refusal %v, error %v: refusal = %v, want %v",
				c.refusal, c.err, refusal, c.refusal)
		}
		r.stream.close(true)
	}
}
