package listen

import "testing"

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
		if left := int64(min(descriptors, 1<<40)) - 2*int64(got); descriptors >= 1024 && left < tables {
			t.Errorf("connectionsOf(%d) leaves %d descriptors to the process, want %d at least", descriptors, left, tables)
		}
	}
}
