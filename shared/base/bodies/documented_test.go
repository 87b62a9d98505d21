package bodies_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/core/config"
)

// TestLimitsPageHasTheFigures checks that docs/limits.md, whose tables are written by hand, has the numbers of the
// budget.
func TestLimitsPageHasTheFigures(t *testing.T) {
	page, err := os.ReadFile("../../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("| %d MiB, or what [`%s`]", config.DefaultListener().BufferedBodyBytes>>20, config.VarBufferedBodyBytes),
		fmt.Sprintf("| %d bytes a second; it may fall behind by %.0f s |", bodies.MinRate, bodies.Window.Seconds()),
	} {
		if !strings.Contains(string(page), want) {
			t.Errorf("docs/limits.md lacks a line, want %q", want)
		}
	}
}
