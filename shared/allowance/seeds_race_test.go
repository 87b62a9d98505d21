//go:build race

package allowance

// seeds is how many runs the simulation makes. In a run one thing happens at a
// time, so the race detector finds nothing in many that is not in few.
const seeds = 200
