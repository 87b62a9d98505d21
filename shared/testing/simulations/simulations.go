// Package simulations determines how many seeded runs a simulation makes: the number that its test chooses, but at most
// ten under the race detector, multiplied by GATEWRIGHT_SIMULATIONS.
//
// A simulation runs the same code many times, with faults that a seed chooses. The number of its runs determines its
// cost: `make test` makes few runs of each simulation, `make simulations` many, and `make mutate` few runs for each of
// hundreds of changes. Each simulation defines what a run is. The package is for tests only; read simulations.go.
package simulations

import (
	"fmt"
	"math"
	"os"
	"strconv"
)

// VarFactor is the environment variable that multiplies the runs of every simulation: a number above 0, such as 4 or 0.1. Empty means 1.
const VarFactor = "GATEWRIGHT_SIMULATIONS"

// RaceEnabled reports whether the race detector is active. Tests on a single goroutine should do less work then.
const RaceEnabled = maxUnderRace > 0

// T is the part of *testing.T that SkipUnderRace needs.
type T interface {
	Helper()
	Skip(args ...any)
}

// SkipUnderRace skips a long test that runs on a single goroutine, if the race detector is active. The detector finds
// no race in such a test, and makes it ten times slower. `make test` runs the test without the detector.
func SkipUnderRace(t T) {
	t.Helper()
	if RaceEnabled {
		t.Skip("everything happens on one goroutine: make test runs it")
	}
}

// Sample returns all plans of a simulation. Under the race detector it returns at most ten of them: the first, the
// last, and some evenly spread between them.
func Sample[P any](plans []P) []P { return sample(plans, maxUnderRace) }

func sample[P any](plans []P, limit int) (picked []P) {
	if limit == 0 || len(plans) <= limit {
		return plans
	}
	for i := range limit {
		picked = append(picked, plans[i*(len(plans)-1)/max(1, limit-1)])
	}
	return picked
}

// Runs returns the number of runs of a simulation that makes defaultRuns runs by default. defaultRuns must be at least
// one. The result is at least one too. Runs panics if VarFactor is not empty and not a finite number above 0.
func Runs(defaultRuns int) int { return runs(defaultRuns, maxUnderRace, os.Getenv(VarFactor)) }

func runs(defaultRuns, limit int, factor string) int {
	if limit > 0 {
		defaultRuns = min(defaultRuns, limit)
	}
	if factor == "" {
		return defaultRuns
	}
	multiplier, err := strconv.ParseFloat(factor, 64)
	if err != nil || multiplier <= 0 || math.IsNaN(multiplier) || math.IsInf(multiplier, 0) {
		panic(fmt.Sprintf("%s is %q: write a number above 0, such as 4 or 0.1", VarFactor, factor))
	}
	return max(1, int(float64(defaultRuns)*multiplier))
}
