//go:build race

package builds_test

// runs is how many seeded runs the simulation makes. In a run one thing happens
// at a time, so the race detector finds nothing in many that is not in few.
const runs = 200
