package upstream

import (
	"strings"
	"testing"
)

func TestHopsAreCountedAnywhereInVia(t *testing.T) {
	for _, test := range []struct {
		via  []string
		want int
	}{
		{nil, 0},
		{[]string{""}, 0},
		{[]string{",,,"}, 0},
		{[]string{"gatewright"}, 0}, // a name without a protocol is not a valid hop
		{[]string{"1.1 gatewright"}, 1},
		{[]string{"HTTP/1.1 gatewright"}, 1},
		{[]string{" 2\tgatewright (comment)"}, 1},
		{[]string{"1.1 gatewright(comment)"}, 1},
		{[]string{"1.1 GateWright"}, 1},
		{[]string{"1.1 gatewright, 1.0 fred, 1.1 gatewright"}, 2},
		{[]string{"1.1 gatewright", "1.0 fred,1.1 gatewright"}, 2},
		{[]string{"1.1 gatewright.example.com", "1.1 xgatewright", "1.1 fred (1.1 gatewright)"}, 0},
		{[]string{"1.1 fred (never closed, 1.1 gatewright"}, 1},
		{[]string{strings.Repeat("1.1 gatewright, ", 8)}, 8},
	} {
		if got := Hops(test.via); got != test.want {
			t.Errorf("Hops(%q) = %d, want %d", test.via, got, test.want)
		}
	}
	for version, want := range map[[2]int]string{
		{1, 1}: "1.1 gatewright", {1, 0}: "1.0 gatewright",
		{2, 0}: "2 gatewright", {3, 0}: "3 gatewright",
	} {
		got := Via(version[0], version[1])
		if got != want {
			t.Errorf("Via(%v) = %q, want %q", version, got, want)
		}
		if hops := Hops([]string{got}); hops != 1 {
			t.Errorf("Hops(%q) = %d, want 1", got, hops)
		}
	}
}
