package garbage

import "testing"

// TestRoomIsGivenBackWhenItIsWorthIt: after a quiet interval, and again when as much has been allocated again.
func TestRoomIsGivenBackWhenItIsWorthIt(t *testing.T) {
	var q quiet
	var allocated uint64
	for i, step := range []struct {
		more uint64
		want bool
	}{
		{worth + mostQuiet, false}, // busy
		{mostQuiet, true},
		{0, false}, // nothing has come since
		{mostQuiet, false},
		{worth, false},
		{mostQuiet + 1, false}, // busy still
		{1, true},
		{worth / 2, false},
		{0, false}, // quiet, and not worth it
	} {
		allocated += step.more
		if got := q.after(allocated); got != step.want {
			t.Errorf("step %d: given back %v", i, got)
		}
	}
	for n := range uint64(2 * worth / mostQuiet) { // little again and again is worth it in the end
		if allocated += mostQuiet; q.after(allocated) {
			if n < worth/2/mostQuiet-2 {
				t.Errorf("given back after %d intervals", n)
			}
			return
		}
	}
	t.Error("who is always quiet gives nothing back")
}
