package commandline

import (
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"
)

// TestNothingOfAHelpIsLostInATerminal: of any width, any help has the same words in the same order, what is to be copied stays as it is, and no other
// line is wider than the terminal but for a word that is.
func TestNothingOfAHelpIsLostInATerminal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-zA-Z…日é,.:\-]{1,14}`)
		sentence := rapid.Custom(func(t *rapid.T) string {
			return "W" + strings.Join(rapid.SliceOfN(word, 1, 30).Draw(t, "words"), " ")
		})
		name := rapid.StringMatching(`[a-zA-Z]{1,50}`)
		copied := map[string]bool{}
		line := rapid.Custom(func(t *rapid.T) string {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				return "Flags:\n      --" + name.Draw(t, "flag") + "   " + sentence.Draw(t, "described")
			case 1:
				return "Commands:\n  " + name.Draw(t, "command") + "   " + sentence.Draw(t, "described")
			case 2:
				example := "  gatewright " + name.Draw(t, "copied") + rapid.SampledFrom([]string{" ", "  ", " --"}).Draw(t, "apart") + sentence.Draw(t, "flags")
				copied[example] = true
				return rapid.SampledFrom([]string{"Usage:\n", "Examples:\n"}).Draw(t, "of") + example
			case 3:
				return ""
			case 4:
				return name.Draw(t, "title") + ":"
			}
			return sentence.Draw(t, "text")
		})
		help := strings.Join(rapid.SliceOfN(line, 1, 12).Draw(t, "lines"), "\n")
		columns := rapid.IntRange(1, 200).Draw(t, "columns")
		got := wrapped(help, columns)
		if !slices.Equal(strings.Fields(got), strings.Fields(help)) {
			t.Fatalf("in %d columns\n%s\nbecomes\n%s", columns, help, got)
		}
		lines := strings.Split(got, "\n")
		for example := range copied {
			if !slices.Contains(lines, example) {
				t.Fatalf("in %d columns %q is broken:\n%s", columns, example, got)
			}
		}
		for _, l := range lines {
			alone := len(strings.Fields(l)) == 1
			if columns >= leastColumns && uniseg.StringWidth(l) > columns && !copied[l] && !alone {
				t.Fatalf("in %d columns a line has %d: %q", columns, uniseg.StringWidth(l), l)
			}
		}
	})
}

// TestHelpThatFitsStaysAsItIs: lines that were written one below the other, such as a method and what it needs, are joined by no terminal that shows them.
func TestHelpThatFitsStaysAsItIs(t *testing.T) {
	t.Parallel()
	const help = "POST /v1/accounts\nThe key needs a scope.\n\nFlags:\n      --a string   what it is\n"
	for _, columns := range []int{40, 80, 10_000} {
		if got := wrapped(help, columns); got != help {
			t.Errorf("in %d columns it is\n%s", columns, got)
		}
	}
	const long = "  AVeryLongNameOfAnOperation   What it does, in some words"
	if got, want := wrapped(long, 40), "  AVeryLongNameOfAnOperation\n        What it does, in some words"; got != want {
		t.Errorf("what has no room beside its name is\n%s", got)
	}
}
