package functions_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
)

// TestSchedulesKeepUnusedInstallationEmpty checks that the schedules of functions write nothing in an installation that
// was never used. So it accepts an import (package transfer), however long ago it was deployed.
func TestSchedulesKeepUnusedInstallationEmpty(t *testing.T) {
	t.Parallel()
	fx := functionstest.New(t)
	called := 0
	for _, f := range functions.Triggered() {
		for _, e := range f.Events {
			if e.Schedule == nil {
				continue
			}
			event, err := os.ReadFile(filepath.Join("..", "events", f.Name, e.Schedule.Name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			h, err := f.Open(fx.Parts)
			if err == nil {
				_, err = lambda.NewHandler(h).Invoke(t.Context(), event)
			}
			if err != nil {
				t.Errorf("%s: call by the schedule %s: error = %v, want none", f.Name, e.Schedule.Name, err)
			}
			called++
			for key := range fx.Items.Snapshot() {
				t.Errorf("%s writes %v, want no items", f.Name, key)
			}
		}
	}
	if called == 0 {
		t.Error("number of called schedules = 0, want 1 or more")
	}
}
