package cost

import (
	"testing"

	"github.com/gatewright/gatewright/functions"
)

// TestEveryScheduleIsBilled: a schedule that is declared runs whether anybody calls the installation or not.
func TestEveryScheduleIsBilled(t *testing.T) {
	billed := map[string]bool{"operations sweep": true, "quotareset hourly": true, "rollup minutely": true} // by idle
	for _, f := range functions.Triggered() {
		for _, e := range f.On {
			if e.Schedule == nil {
				continue
			}
			if name := f.Name + " " + e.Schedule.Name; !billed[name] {
				t.Errorf("idle has no item for %s: add one", name)
			} else {
				delete(billed, name)
			}
		}
	}
	for name := range billed {
		t.Errorf("idle has an item for %s, which no function declares", name)
	}
}
