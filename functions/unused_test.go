package functions_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
)

// TestSchedulesLeaveAnUnusedInstallationEmpty: one that was deployed and not used yet takes an import
// (package transfer), however long it has waited for it.
func TestSchedulesLeaveAnUnusedInstallationEmpty(t *testing.T) {
	t.Parallel()
	w := functionstest.New(t)
	called := 0
	for _, f := range functions.Triggered() {
		for _, e := range f.On {
			if e.Schedule == nil {
				continue
			}
			event, err := os.ReadFile(filepath.Join("..", "events", f.Name, e.Schedule.Name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			h, err := f.Open(w.Parts)
			if err == nil {
				_, err = lambda.NewHandler(h).Invoke(t.Context(), event)
			}
			if err != nil {
				t.Errorf("%s: %v", f.Name, err)
			}
			called++
			for key := range w.Items.Snapshot() {
				t.Errorf("%s writes %v", f.Name, key)
			}
		}
	}
	if called == 0 {
		t.Error("nothing is called")
	}
}
