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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// failingWrites is a backend whose transactions fail with err while err is set.
type failingWrites struct {
	*memory.Backend
	err error
}

func (f *failingWrites) Transact(ctx context.Context, token string, writes []store.Write) error {
	if f.err != nil {
		return f.err
	}
	return f.Backend.Transact(ctx, token, writes)
}

func newParts(t *testing.T, f *failingWrites, log *bytes.Buffer, streaming bool) installation.Parts {
	p := installation.Parts{
		Table: storetest.NewWithBackend(t, f, storetest.Clock(time.Now)), Now: time.Now, Random: rand.Reader,
		IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.NewTextHandler(log, nil)),
	}
	p.Config.Streaming = streaming
	p.Config.Limits = limits.Values{limits.FunctionStreams.Name: 1, limits.GatewayStreams.Name: 3}
	return p
}

// TestStreamLimitDependsOnGatewayKind checks that a process has the limit for processes, and a function has the limit
// for functions. In a function, a request must count as a stream only when it takes longer than a request without
// streaming can take.
func TestStreamLimitDependsOnGatewayKind(t *testing.T) {
	for _, c := range []struct {
		streaming, function bool
		limit               int
		after               time.Duration
		text                string
	}{
		{false, false, 3, 0, "its limit gateway-streams is 3"},
		{true, false, 3, 0, "its limit gateway-streams is 3"}, // a process in an installation whose function streams
		{true, true, 1, 29 * time.Second, "its limit function-streams is 1"},
	} {
		streams, after := newStreams(newParts(t, &failingWrites{Backend: memory.New()}, &bytes.Buffer{}, c.streaming),
			c.function)
		if after != c.after {
			t.Errorf("newStreams(streaming %t, function %t): a request counts as a stream after %s, want %s",
				c.streaming, c.function, after, c.after)
		}
		for i := range c.limit {
			if _, refusal, err := streams.Begin(t.Context(), "acme"); err != nil || refusal != nil {
				t.Fatalf("Begin() of stream %d (streaming %t) = %v, %v, want no refusal", i, c.streaming, refusal, err)
			}
		}
		if _, refusal, err := streams.Begin(t.Context(), "acme"); err != nil || refusal == nil ||
			!strings.Contains(refusal.Public, c.text) {
			t.Errorf("Begin() of one stream too many (streaming %t) = %v, %v, want a refusal with %q",
				c.streaming, refusal, err, c.text)
		}
	}
}

// TestSlotExpiresWithInvocationDeadline checks that a slot expires at the deadline of the invocation, or after 15
// minutes, the maximum in AWS, if there is no deadline.
func TestSlotExpiresWithInvocationDeadline(t *testing.T) {
	for _, c := range []struct {
		timeout, expiry time.Duration // timeout 0 means no deadline
	}{{0, 15 * time.Minute}, {time.Minute, time.Minute}, {14 * time.Minute, 14 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			streams, _ := newStreams(newParts(t, &failingWrites{Backend: memory.New()}, &bytes.Buffer{}, true), true)
			ctx := t.Context()
			if c.timeout > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.timeout)
				defer cancel()
			}
			if _, refusal, err := streams.Begin(ctx, "acme"); err != nil || refusal != nil {
				t.Fatalf("Begin() of the first stream = %v, %v, want no refusal", refusal, err)
			}
			time.Sleep(c.expiry)
			if _, refusal, err := streams.Begin(t.Context(), "acme"); err != nil || refusal == nil {
				t.Errorf("timeout %s: Begin() of a second stream after %s = %v, %v, want a refusal",
					c.timeout, c.expiry, refusal, err)
			}
			time.Sleep(20 * time.Second)
			if _, refusal, err := streams.Begin(t.Context(), "acme"); err != nil || refusal != nil {
				t.Errorf("timeout %s: Begin() of a second stream 20s after the expiry = %v, %v, want no refusal",
					c.timeout, refusal, err)
			}
		})
	}
}

// TestFailedReleaseOfSlotIsLogged checks that the log names the account if a slot cannot be released. Until the
// deadline of the invocation, the account then has one slot less.
func TestFailedReleaseOfSlotIsLogged(t *testing.T) {
	var log bytes.Buffer
	backend := &failingWrites{Backend: memory.New()}
	streams, _ := newStreams(newParts(t, backend, &log, true), true)
	release, _, err := streams.Begin(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	backend.err = errors.New("the table is down")
	release()
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "account=acme") ||
		!strings.Contains(text, "the table is down") {
		t.Errorf("log = %q, want a warning with the account and the cause", text)
	}
}
