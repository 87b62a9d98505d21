//go:build race

package sandbox

// underRace: the race detector maps memory of its own, more than a child may have.
const underRace = true
