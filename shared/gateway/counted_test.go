package gateway

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
)

// counter counts as Streams do.
type counter struct {
	begun, ended int
	refusal      *fault.Fault
	err          error
}

func (c *counter) Begin(context.Context, string) (func(), *fault.Fault, error) {
	if c.err != nil || c.refusal != nil {
		return nil, c.refusal, c.err
	}
	c.begun++
	return func() { c.ended++ }, nil, nil
}

// TestRequestIsCountedOnceAtATime, however often it is said to be a stream, and never once it is over: a timer that has gone off may come
// to its work when all is done, and what it counted then nobody would end.
func TestRequestIsCountedOnceAtATime(t *testing.T) {
	const begin, end, over = "begin", "end", "over"
	for _, c := range []struct {
		name         string
		account      string
		steps        []string
		begun, ended int
	}{
		{"said twice", "acme", []string{begin, begin}, 1, 0},
		{"ended", "acme", []string{begin, end}, 1, 1},
		{"ended twice", "acme", []string{begin, end, over, over}, 1, 1},
		{"a stream again", "acme", []string{begin, end, begin, over}, 2, 2},
		{"when it is over", "acme", []string{over, begin}, 0, 0},
		{"when it is over and ended", "acme", []string{begin, over, end, begin}, 1, 1},
		{"of nobody", "", []string{begin, over}, 0, 0},
	} {
		counted := &counter{}
		g, s := &Gateway{config: Config{Streams: counted, Log: slog.New(slog.DiscardHandler)}}, &stream{account: c.account}
		for _, step := range c.steps {
			switch step {
			case begin:
				if refusal := g.begin(t.Context(), s); refusal != nil {
					t.Errorf("%s: refused with %v", c.name, refusal)
				}
			default:
				s.close(step == over)
			}
		}
		if counted.begun != c.begun || counted.ended != c.ended {
			t.Errorf("%s: begun %d times and ended %d times, want %d and %d", c.name, counted.begun, counted.ended, c.begun, c.ended)
		}
	}
}

// TestRequestThatHasLeftIsNeverCounted: to leave is to be over.
func TestRequestThatHasLeftIsNeverCounted(t *testing.T) {
	counted := &counter{}
	g, out := &Gateway{config: Config{Streams: counted}}, &writer{}
	out.enter("acme")
	g.leave(out)
	if refusal := g.begin(t.Context(), &out.staying); refusal != nil || counted.begun != 0 {
		t.Errorf("it is counted %d times, and refused with %v", counted.begun, refusal)
	}
}

// TestOnlyALimitRefusesAStream: an error of any kind says that nobody knows, as a table's does that is asked too often.
func TestOnlyALimitRefusesAStream(t *testing.T) {
	full := limits.FunctionStreams.Refusal(3, 3, time.Second)
	for _, c := range []counter{
		{refusal: full},
		{err: full},
		{err: fault.New(fault.Unavailable, "The table cannot be asked.")},
		{err: fault.New(fault.Unanswered, "The table has not answered.")},
		{err: errors.New("the table cannot be asked")},
	} {
		g, s := &Gateway{config: Config{Streams: &c, Log: slog.New(slog.DiscardHandler)}}, &stream{account: "acme"}
		if refusal := g.begin(t.Context(), s); refusal != c.refusal {
			t.Errorf("%v: refused with %v, want %v", c.err, refusal, c.refusal)
		}
		s.close(true)
	}
}
