package docsearch_test

import (
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
)

func TestAnswersQuoteTheDocumentationWithItsPlace(t *testing.T) {
	rotation := docsearch.Quote{Title: "Keys › Rotation", Path: "docs/keys.md", Anchor: "rotation"}
	quote := func(text string) docsearch.Quote { q := rotation; q.Text = text; return q }
	tests := []struct {
		name, question string
		want           []docsearch.Quote
	}{
		{"sentences that have the question's words, in the page's order", "old key rotating", []docsearch.Quote{
			quote("Rotating a key gives another one."), quote("The old key works for an hour."),
		}},
		{"the first sentence where none has any", "intranet", []docsearch.Quote{
			{Text: "A tunnel leads to a machine behind a firewall.", Title: "Tunnels", Path: "docs/tunnels.md"},
		}},
		{"nothing where nothing is covered", "Which giraffe, elephant or zebra of the savannah has a key?", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer, err := docsearch.NewExtractive(lexical()).Answer(t.Context(), tt.question)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(answer.Quotes, tt.want) || answer.Covered != (tt.want != nil) {
				t.Errorf("it answers %q, covered %t; want %q", answer.Quotes, answer.Covered, tt.want)
			}
			if answer.By != "extractive" || answer.Mode != docsearch.Lexical || len(answer.Near) == 0 {
				t.Errorf("it says it is by %q, %s, near to %d sections", answer.By, answer.Mode, len(answer.Near))
			}
		})
	}
}

// TestHeadsOfTablesAreNotQuoted: alone they say nothing.
func TestHeadsOfTablesAreNotQuoted(t *testing.T) {
	long := docsearch.Passage{Title: "Limits", Path: "docs/limits.md", Anchor: "limits"}
	goesOn := long
	long.Text, goesOn.Text = "Most of them are fixed.\nbound | kilobytes\nan archive | 100", "a body | 64\na field | 8\nSend `a | b` for both."
	operation := docsearch.Passage{Title: "API › Force", Path: "openapi.json", Anchor: "Force", Text: "`force` (query) | Does it anyway."}
	lone := docsearch.Passage{Title: "Choices", Path: "docs/choices.md", Text: "One of left | right is chosen.\nNothing else is."}
	content := docsearch.Content{Passages: []docsearch.Passage{long, goesOn, operation, lone}}
	e := docsearch.NewExtractive(docsearch.New(docsearch.NewIndex([32]byte{}, content, make([]minilm.Vector, len(content.Texts()))), nil))
	for question, want := range map[string]string{
		"bound kilobytes archive": "an archive | 100",
		"body":                    "a body | 64",
		"force anyway":            "`force` (query) | Does it anyway.",
		"left right chosen":       "One of left | right is chosen.",
		"send both":               "Send `a | b` for both.",
	} {
		answer, err := e.Answer(t.Context(), question)
		if err != nil {
			t.Fatal(err)
		}
		if len(answer.Quotes) != 1 || answer.Quotes[0].Text != want {
			t.Errorf("%s: it answers %q, want %q", question, answer.Quotes, want)
		}
	}
}

func TestAnswerHasTheFaultsOfASearch(t *testing.T) {
	if _, err := docsearch.NewExtractive(lexical()).Answer(t.Context(), ""); err == nil {
		t.Error("no question is answered")
	}
}

func TestSentencesEndWhereTheNextOneBegins(t *testing.T) {
	tests := []struct {
		name, line string
		want       []string
	}{
		{"two", "One. Two.", []string{"One.", "Two."}},
		{"other marks", "One? Two! Three", []string{"One?", "Two!", "Three"}},
		{"a number", "Up to 1.5 MB. More is refused.", []string{"Up to 1.5 MB.", "More is refused."}},
		{"what goes on small", "Keys, e.g. of consumers, too.", []string{"Keys, e.g. of consumers, too."}},
		{"within code", "Send `a. B` at once. Then wait.", []string{"Send `a. B` at once.", "Then wait."}},
		{"nothing", "  ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := docsearch.Sentences(tt.line); !slices.Equal(got, tt.want) {
				t.Errorf("the sentences are %q, want %q", got, tt.want)
			}
		})
	}
}
