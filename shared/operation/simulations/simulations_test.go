package simulations

import (
	"fmt"
	"slices"
	"testing"
)

func TestRunsAreBoundedUnderRaceAndMultiplied(t *testing.T) {
	tests := []struct {
		name        string
		usual, most int
		factor      string
		want        int
	}{
		{"as the test says", 500, 0, "", 500},
		{"bounded", 500, 100, "", 100},
		{"few are not made more by a bound", 50, 100, "", 50},
		{"multiplied", 500, 0, "4", 2000},
		{"multiplied after the bound", 500, 100, "4", 400},
		{"a part", 500, 0, "0.1", 50},
		{"one at least", 500, 0, "0.001", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := runs(tt.usual, tt.most, tt.factor); got != tt.want {
				t.Errorf("%d runs, want %d", got, tt.want)
			}
		})
	}
}

func TestFactorThatIsNoneIsRefused(t *testing.T) {
	for _, factor := range []string{"0", "-1", "many", "NaN", "Inf"} {
		t.Run(factor, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it is taken")
				}
			}()
			runs(500, 0, factor)
		})
	}
}

func TestSampleIsSpreadOverAllPlans(t *testing.T) {
	plans := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for most, want := range map[int]string{0: "[0 1 2 3 4 5 6 7]", 1: "[0]", 3: "[0 3 7]", 8: "[0 1 2 3 4 5 6 7]", 9: "[0 1 2 3 4 5 6 7]"} {
		if got := fmt.Sprint(sample(plans, most)); got != want {
			t.Errorf("at most %d: got %s, want %s", most, got, want)
		}
	}
}

// TestSampleHasBothOfEachPair checks that of plans in pairs, such as a death before and a death after a call, some of both are chosen.
func TestSampleHasBothOfEachPair(t *testing.T) {
	for calls := 6; calls < 200; calls++ {
		var plans []int
		for i := range 2 * calls {
			plans = append(plans, i%2)
		}
		some := sample(plans, 10)
		if len(some) != 10 || !slices.Contains(some, 0) || !slices.Contains(some, 1) {
			t.Errorf("sample(%d pairs, 10) = %v, want 10 plans, of both kinds", calls, some)
		}
	}
}
