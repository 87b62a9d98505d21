package fault

import (
	"fmt"
	"testing"
)

// TestKindsPrintTheirNames checks the names that failures of tests show, at both ends of the list of kinds.
func TestKindsPrintTheirNames(t *testing.T) {
	for kind, want := range map[Kind]string{
		Internal: "Internal", NotFound: "NotFound", DatabaseUnavailable: "DatabaseUnavailable",
		DatabaseUnavailable + 1: "Kind(12)", -1: "Kind(-1)",
	} {
		if got := fmt.Sprint(kind); got != want {
			t.Errorf("Kind %d prints %s, want %s", int(kind), got, want)
		}
	}
}
