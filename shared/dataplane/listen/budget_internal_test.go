package listen

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestDefaultConnectionsReserveDescriptors checks that the default limit leaves enough descriptors, if there are at
// least 1,024: each client can take two of them, its own and its upstream's, and the store opens 500 tables. The
// refused connections that wait (maxRefused) take further descriptors, and are few.
func TestDefaultConnectionsReserveDescriptors(t *testing.T) {
	const tables = 500
	for descriptors, want := range map[uint64]int{
		0: 1, 256: 64, 1024: 256, 2048: 704, 4096: 1728, 65_536: 32_448, 1 << 20: maxDefaultConnections,
		1 << 62: maxDefaultConnections,
	} {
		got := defaultConnections(descriptors)
		if got != want {
			t.Errorf("defaultConnections(%d) = %d, want %d", descriptors, got, want)
		}
		refused := (&Budget{maxConnections: got}).maxRefused()
		if refused < 1 || refused > 64 || refused > max(1, got/16) {
			t.Errorf("maxRefused(%d connections) = %d, want 1 to 64, and a sixteenth of the connections at most", got, refused)
		}
		if remaining := int64(min(descriptors, 1<<40)) - 2*int64(got) - int64(refused); descriptors >= 1024 &&
			remaining < tables {
			t.Errorf("defaultConnections(%d) leaves %d descriptors to the process, want %d at least", descriptors, remaining,
				tables)
		}
	}
}

// TestLimitsPageDocumentsLargeHeads checks that docs/limits.md names the budget of large heads, and
// that the page and the refusal name the size up to which a head does not count for that budget.
func TestLimitsPageDocumentsLargeHeads(t *testing.T) {
	page, err := os.ReadFile("../../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	free := fmt.Sprintf("%d KiB", freeHeadBytes>>10)
	if want := fmt.Sprintf("without the first %s of each, until their answers begin | %d MiB, of one client's "+
		"address a quarter |", free, maxLargeHeadBytes>>20); !strings.Contains(string(page), want) {
		t.Errorf("docs/limits.md lacks %q, want it", want)
	}
	if !strings.Contains(errTooManyHeadBytes.Detail, free) {
		t.Errorf("detail of the refusal = %q, want %q in it", errTooManyHeadBytes.Detail, free)
	}
}
