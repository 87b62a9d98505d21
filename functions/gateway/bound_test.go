package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// frail is a backend of which no transaction is made while err is set.
type frail struct {
	*memory.Backend
	err error
}

func (f *frail) Transact(ctx context.Context, token string, writes []store.Write) error {
	if f.err != nil {
		return f.err
	}
	return f.Backend.Transact(ctx, token, writes)
}

func counting(t *testing.T, f *frail, log *bytes.Buffer, streaming bool) installation.Parts {
	p := installation.Parts{
		Table: storetest.Over(t, f, storetest.Clock(time.Now)), Now: time.Now, Random: rand.Reader,
		IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	p.Config.Streaming = streaming
	p.Config.Limits = limits.Values{limits.FunctionStreams.Name: 1, limits.GatewayStreams.Name: 3}
	return p
}

// TestEachGatewayHasItsOwnLimitOfStreams: a process that of processes, a function that of functions, where whatever goes on for longer than an
// answer without streaming may is a stream.
func TestEachGatewayHasItsOwnLimitOfStreams(t *testing.T) {
	for _, c := range []struct {
		streaming, function bool
		most                int
		after               time.Duration
		says                string
	}{
		{false, false, 3, 0, "its limit gateway-streams is 3"},
		{true, false, 3, 0, "its limit gateway-streams is 3"}, // a task beside a function
		{true, true, 1, 29 * time.Second, "its limit function-streams is 1"},
	} {
		streams, after := bound(counting(t, &frail{Backend: memory.New()}, &bytes.Buffer{}, c.streaming), c.function)
		if after != c.after {
			t.Errorf("streaming %t: a request is a stream after %s, want %s", c.streaming, after, c.after)
		}
		for range c.most {
			if _, refusal, err := streams.Begin(t.Context(), "acme"); err != nil || refusal != nil {
				t.Fatal(err)
			}
		}
		if _, refusal, err := streams.Begin(t.Context(), "acme"); err != nil || refusal == nil || !strings.Contains(refusal.Public, c.says) {
			t.Errorf("streaming %t: one more is answered %v", c.streaming, err)
		}
	}
}

// TestSlotIsHeldForAsLongAsTheInvocationMayGoOn, and no longer than AWS lets any: a quarter of an hour.
func TestSlotIsHeldForAsLongAsTheInvocationMayGoOn(t *testing.T) {
	for _, c := range []struct {
		left, ends time.Duration // 0: no deadline is known
	}{{0, 15 * time.Minute}, {time.Minute, time.Minute}, {14 * time.Minute, 14 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			streams, _ := bound(counting(t, &frail{Backend: memory.New()}, &bytes.Buffer{}, true), true)
			ctx := t.Context()
			if c.left > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.left)
				defer cancel()
			}
			if _, refusal, err := streams.Begin(ctx, "acme"); err != nil || refusal != nil {
				t.Fatal(err)
			}
			time.Sleep(c.ends)
			if _, refusal, err := streams.Begin(t.Context(), "acme"); err != nil || refusal == nil {
				t.Errorf("with %s left, after %s: %v", c.left, c.ends, err)
			}
			time.Sleep(20 * time.Second)
			if _, refusal, err := streams.Begin(t.Context(), "acme"); err != nil || refusal != nil {
				t.Errorf("with %s left, some seconds after %s: %v %v", c.left, c.ends, refusal, err)
			}
		})
	}
}

// TestEndOfAStreamThatIsNotWrittenIsLogged with the account, which has a slot less until the invocation would have ended.
func TestEndOfAStreamThatIsNotWrittenIsLogged(t *testing.T) {
	var log bytes.Buffer
	backend := &frail{Backend: memory.New()}
	streams, _ := bound(counting(t, backend, &log, true), true)
	end, _, err := streams.Begin(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	backend.err = errors.New("the table is down")
	end()
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "account=acme") || !strings.Contains(text, "the table is down") {
		t.Errorf("the log says %q", text)
	}
}
