package tunnel_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestPingIntervalIsDocumented compares the ping interval and timeout with docs/tunnels.md.
func TestPingIntervalIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tunnels.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("silent for %d seconds whether it is there, and give it up %d seconds later",
			int(tunnel.PingInterval/time.Second), int(tunnel.PingTimeout/time.Second)),
		fmt.Sprintf("or connections end within %d seconds", int(tunnel.MinStableTime/time.Second)),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/tunnels.md does not contain %q, want it", want)
		}
	}
}
