package commandline

import (
	"slices"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"
)

// TestWrappedHelpHasTheSameWords wraps random help at random widths. The result must have the same words in
// the same order, and unchanged examples. Only examples and single words may be wider than a terminal of at least
// minColumns.
func TestWrappedHelpHasTheSameWords(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-zA-Z…日é,.:\-]{1,14}`)
		sentence := rapid.Custom(func(t *rapid.T) string {
			return "W" + strings.Join(rapid.SliceOfN(word, 1, 30).Draw(t, "words"), " ")
		})
		name := rapid.StringMatching(`[a-zA-Z]{1,50}`)
		examples := map[string]bool{}
		line := rapid.Custom(func(t *rapid.T) string {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				return "Flags:\n      --" + name.Draw(t, "flag") + "   " + sentence.Draw(t, "described")
			case 1:
				return "Commands:\n  " + name.Draw(t, "command") + "   " + sentence.Draw(t, "described")
			case 2:
				example := "  gatewright " + name.Draw(t, "copied") + rapid.SampledFrom([]string{" ", "  ", " --"}).Draw(t,
					"apart") + sentence.Draw(t, "flags")
				examples[example] = true
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
		got := wrapHelp(help, columns)
		if !slices.Equal(strings.Fields(got), strings.Fields(help)) {
			t.Fatalf("wrapHelp(%d columns) =\n%s\nwant the words of\n%s", columns, got, help)
		}
		lines := strings.Split(got, "\n")
		for example := range examples {
			if !slices.Contains(lines, example) {
				t.Fatalf("wrapHelp(%d columns) =\n%s\nwant the example %q in one line", columns, got, example)
			}
		}
		for _, l := range lines {
			singleWord := len(strings.Fields(l)) == 1
			if columns >= minColumns && uniseg.StringWidth(l) > columns && !examples[l] && !singleWord {
				t.Fatalf("wrapHelp(%d columns) has a line of %d, want at most %d: %q",
					columns, uniseg.StringWidth(l), columns, l)
			}
		}
	})
}

// TestHelpThatFitsIsUnchanged checks that the lines of a paragraph are not joined if they fit the terminal. It also
// checks that a description begins on the next line if its flag or command is too long.
func TestHelpThatFitsIsUnchanged(t *testing.T) {
	t.Parallel()
	const help = "POST /v1/accounts\nThe key needs a scope.\n\nFlags:\n      --a string   what it is\n"
	for _, columns := range []int{40, 80, 10_000} {
		if got := wrapHelp(help, columns); got != help {
			t.Errorf("wrapHelp(%d columns) =\n%s\nwant\n%s", columns, got, help)
		}
	}
	const long = "  AVeryLongNameOfAnOperation   What it does, in some words"
	if got, want := wrapHelp(long, 40), "  AVeryLongNameOfAnOperation\n        What it does, in some words"; got != want {
		t.Errorf("wrapHelp(a long name) =\n%s\nwant\n%s", got, want)
	}
}
