package api

import "net/http"

// Effect is what an operation does to what is there, in a word: it tells a program, and who has to agree to
// its calls, what a mistake would cost.
type Effect string

// The effects, the one first that costs nothing.
const (
	// Reads is for what changes nothing, Adds for what leaves all there is as it was.
	Reads Effect = "reads"
	Adds  Effect = "adds"
	// Replaces is for what puts something in the place of another, and Removes for what leaves nothing there.
	Replaces Effect = "replaces"
	Removes  Effect = "removes"
)

// Effects lists them.
func Effects() []Effect { return []Effect{Reads, Adds, Replaces, Removes} }

// Effect is what the operation does, by its method where it does not say more.
func (d Declaration) Effect() Effect {
	switch {
	case !d.Mutates():
		return Reads
	case d.Method == http.MethodDelete:
		return Removes
	case d.Replaces || d.Method != http.MethodPost:
		return Replaces
	default:
		return Adds
	}
}
