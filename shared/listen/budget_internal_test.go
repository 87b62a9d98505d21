package listen

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDescriptorsAreLeftToTheProcess: each client may take two descriptors, its own and its upstream's, and the store opens 500 tables.
func TestDescriptorsAreLeftToTheProcess(t *testing.T) {
	const tables = 500
	for descriptors, want := range map[uint64]int{
		0: 1, 256: 64, 1024: 256, 2048: 704, 4096: 1728, 65_536: 32_448, 1 << 20: maxDefaultConnections, 1 << 62: maxDefaultConnections,
	} {
		got := connectionsOf(descriptors)
		if got != want {
			t.Errorf("connectionsOf(%d) = %d, want %d", descriptors, got, want)
		}
		refused := (&Budget{most: got}).maxRefused()
		if refused < 1 || refused > 64 || refused > max(1, got/16) {
			t.Errorf("maxRefused(%d connections) = %d, want 1 to 64, and a sixteenth of the connections at most", got, refused)
		}
		if left := int64(min(descriptors, 1<<40)) - 2*int64(got) - int64(refused); descriptors >= 1024 && left < tables {
			t.Errorf("connectionsOf(%d) leaves %d descriptors to the process, want %d at least", descriptors, left, tables)
		}
	}
}

// TestLimitsPageHasLargeHeads: the page and the refusal have the figures of the budget of large heads.
func TestLimitsPageHasLargeHeads(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	free := fmt.Sprintf("%d KiB", freeHeadBytes>>10)
	if want := fmt.Sprintf("without the first %s of each, until their answers begin | %d MiB, of one client's address a quarter |", free, maxLargeHeadBytes>>20); !strings.Contains(string(page), want) {
		t.Errorf("docs/limits.md does not have %q", want)
	}
	if !strings.Contains(errManyHeads.Detail, free) {
		t.Errorf("detail of the refusal = %q, want %q in it", errManyHeads.Detail, free)
	}
}
