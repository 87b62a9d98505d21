package simulations

import (
	"fmt"
	"slices"
	"testing"
)

func TestRunsAreBoundedUnderRaceAndMultiplied(t *testing.T) {
	tests := []struct {
		name               string
		defaultRuns, limit int
		factor             string
		want               int
	}{
		{"the test's default", 500, 0, "", 500},
		{"bounded", 500, 100, "", 100},
		{"fewer than the bound", 50, 100, "", 50},
		{"multiplied", 500, 0, "4", 2000},
		{"multiplied after the bound", 500, 100, "4", 400},
		{"a factor below 1", 500, 0, "0.1", 50},
		{"at least one", 500, 0, "0.001", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := runs(tt.defaultRuns, tt.limit, tt.factor); got != tt.want {
				t.Errorf("runs(%d, %d, %q) = %d, want %d", tt.defaultRuns, tt.limit, tt.factor, got, tt.want)
			}
		})
	}
}

func TestInvalidFactorIsRefused(t *testing.T) {
	for _, factor := range []string{"0", "-1", "many", "NaN", "Inf"} {
		t.Run(factor, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Errorf("runs(factor %s) does not panic, want a panic", factor)
				}
			}()
			runs(500, 0, factor)
		})
	}
}

func TestSampleIsSpreadOverAllPlans(t *testing.T) {
	plans := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for limit, want := range map[int]string{
		0: "[0 1 2 3 4 5 6 7]", 1: "[0]", 3: "[0 3 7]", 8: "[0 1 2 3 4 5 6 7]",
		9: "[0 1 2 3 4 5 6 7]",
	} {
		if got := fmt.Sprint(sample(plans, limit)); got != want {
			t.Errorf("sample(8 plans, %d) = %s, want %s", limit, got, want)
		}
	}
}

// TestSampleHasBothKinds checks plans that alternate between two kinds, such as a crash before and a crash after a
// call. A sample contains plans of both kinds.
func TestSampleHasBothKinds(t *testing.T) {
	for calls := 6; calls < 200; calls++ {
		var plans []int
		for i := range 2 * calls {
			plans = append(plans, i%2)
		}
		picked := sample(plans, 10)
		if len(picked) != 10 || !slices.Contains(picked, 0) || !slices.Contains(picked, 1) {
			t.Errorf("sample(%d pairs, 10) = %v, want 10 plans, of both kinds", calls, picked)
		}
	}
}
