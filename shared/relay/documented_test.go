package relay_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/tunnels"
)

// TestTimesAreThoseOfThePage holds docs/tunnels.md, "How long it takes", to the constants: people set
// timeouts of their own by it.
func TestTimesAreThoseOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/tunnels.md")
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
	dial, ping, pong := relay.Usual()
	for _, want := range []string{
		seconds("go by it within %d seconds after its operation has ended", tunnels.Staleness),
		seconds("no request goes to its services after %d seconds", tunnels.Staleness),
		seconds("has %d seconds from then", relay.GoneTimeout),
		seconds("A request waits up to %d seconds for it", relay.Patience),
		seconds("given up after %d seconds of silence: %d until it is asked whether it is there, %d for the answer", ping+pong, ping, pong),
		fmt.Sprintf("to have its tunnels for %d minutes yet", int(relay.LeaseTime/time.Minute)),
		seconds("they try it for up to %d seconds before the next one", dial),
		seconds("clocks that differ by %d seconds", relay.ClockDifference),
		map[int]string{2: "two", 3: "three", 4: "four", 5: "five"}[relay.MaxSent] + " times at most",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// Who has asked for the services just before keeps the answer over one look at all tunnels.
	if latest := 2*relay.RenewEvery + tunnels.Staleness; latest > 2*time.Minute || !strings.Contains(text, "send its agents away within two minutes") {
		t.Errorf("agents of a deleted tunnel are sent away within %v, or the page does not say so", latest)
	}
}
