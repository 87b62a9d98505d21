package relay_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

// TestTimeoutsMatchDocs compares the constants with docs/tunnels.md,
// "How long it takes", because users set their own timeouts accordingly.
func TestTimeoutsMatchDocs(t *testing.T) {
	page, err := os.ReadFile("../../../docs/tunnels.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## How long it takes\n")
	text, _, _ = strings.Cut(text, "\n## ")
	seconds := func(format string, times ...time.Duration) string {
		args := make([]any, len(times))
		for i, d := range times {
			args[i] = int(d / time.Second)
		}
		return fmt.Sprintf(format, args...)
	}
	dial, ping, pong := relay.DefaultTimeouts()
	for _, want := range []string{
		seconds("go by it within %d seconds after its operation has ended", tunnels.Staleness),
		seconds("no request goes to its services after %d seconds", tunnels.Staleness),
		seconds("has %d seconds from then", relay.DeletedTunnelTimeout),
		seconds("A request waits up to %d seconds for it", relay.AgentWait),
		seconds("given up after %d seconds of silence: %d until it is asked whether it is there, %d for the answer",
			ping+pong, ping, pong),
		fmt.Sprintf("to have its tunnels for %d minutes yet", int(relay.LeaseDuration/time.Minute)),
		seconds("they try it for up to %d seconds before the next one", dial),
		seconds("clocks that differ by %d seconds", relay.MaxClockSkew),
		map[int]string{2: "two", 3: "three", 4: "four", 5: "five"}[relay.MaxAttempts] + " times at most",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/tunnels.md, \"How long it takes\" lacks %q, want it", want)
		}
	}
	// If a request has read the services just before the deletion, they are still cached at the next check of all tunnels.
	if longest := 2*relay.RenewInterval + tunnels.Staleness; longest > 2*time.Minute {
		t.Errorf("agents of a deleted tunnel are disconnected within %v, want at most 2 minutes", longest)
	}
	if want := "send its agents away within two minutes"; !strings.Contains(text, want) {
		t.Errorf("docs/tunnels.md, \"How long it takes\" lacks %q, want it", want)
	}
}
