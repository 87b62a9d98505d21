package tunnel_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestSilenceIsThatOfThePage holds what docs/tunnels.md says of connections that end without a word
// to the constants.
func TestSilenceIsThatOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/tunnels.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("silent for %d seconds whether it is there, and give it up %d seconds later", int(tunnel.PingEvery/time.Second), int(tunnel.PingTimeout/time.Second)),
		fmt.Sprintf("or connections end within %d seconds", int(tunnel.Settled/time.Second)),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}
