package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestRefusedTokenIsReportedWhileConnectionsAreOpen checks the report about a token that the relay refuses. Without an
// open connection the agent ends and reports the refusal itself, so the report must not say that connections stay.
func TestRefusedTokenIsReportedWhileConnectionsAreOpen(t *testing.T) {
	for _, tt := range []struct {
		open int
		want string
	}{{0, ""}, {1, "connections that are there stay"}} {
		var out bytes.Buffer
		p := &progress{log: slog.New(slog.NewTextHandler(&out, nil)), relay: "relay.test", total: 2, open: tt.open}
		p.attemptFailed(t.Context(), fmt.Errorf("connect: %w", tunnel.ErrRefused), 1, time.Second)
		if got := out.String(); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("with %d open connections, attemptFailed(ErrRefused) reports %q, want %q", tt.open, got, tt.want)
		}
	}
}
