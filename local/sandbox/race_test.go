//go:build race

package sandbox

// underRace reports whether the race detector is on, which maps more memory than a child may use.
const underRace = true
