package docsearch_test

import (
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
)

func TestAnswerQuotesDocumentation(t *testing.T) {
	rotation := docsearch.Quote{Title: "Keys › Rotation", Path: "docs/keys.md", Anchor: "rotation"}
	quote := func(text string) docsearch.Quote { q := rotation; q.Text = text; return q }
	tests := []struct {
		name, question string
		want           []docsearch.Quote
	}{
		{"sentences that have the question's words, in the page's order", "old key rotating", []docsearch.Quote{
			quote("Rotating a key gives another one."), quote("The old key works for an hour."),
		}},
		{"the first sentence if no sentence matches", "intranet", []docsearch.Quote{
			{Text: "A tunnel leads to a machine behind a firewall.", Title: "Tunnels", Path: "docs/tunnels.md"},
		}},
		{"no quotes for a question that is not covered", "Which giraffe, elephant or zebra of the savannah has a key?", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer, err := docsearch.NewExtractive(lexical()).Answer(t.Context(), tt.question)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(answer.Quotes, tt.want) || answer.Covered != (tt.want != nil) {
				t.Errorf("answer = %q, covered %t, want %q", answer.Quotes, answer.Covered, tt.want)
			}
			if answer.Kind != "extractive" || answer.Mode != docsearch.Lexical || len(answer.Nearest) == 0 {
				t.Errorf("answer = %q, %s, %d nearest sections, want extractive, %s, some",
					answer.Kind, answer.Mode, len(answer.Nearest), docsearch.Lexical)
			}
		})
	}
}

// TestTableHeadersAreNotQuoted checks that an answer quotes a row
// of a table and not the header row, which is useless as a quote.
func TestTableHeadersAreNotQuoted(t *testing.T) {
	tableStart := docsearch.Passage{Title: "Limits", Path: "docs/limits.md", Anchor: "limits"}
	continuation := tableStart
	tableStart.Text, continuation.Text = "Most of them are fixed.\nbound | kilobytes\nan archive | 100",
		"a body | 64\na field | 8\nSend `a | b` for both."
	operation := docsearch.Passage{
		Title: "API › Force", Path: "openapi.json", Anchor: "Force",
		Text: "`force` (query) | Does it anyway.",
	}
	singleRow := docsearch.Passage{
		Title: "Choices", Path: "docs/choices.md",
		Text: "One of left | right is chosen.\nNothing else is.",
	}
	content := docsearch.Content{Passages: []docsearch.Passage{tableStart, continuation, operation, singleRow}}
	e := docsearch.NewExtractive(docsearch.New(docsearch.NewIndex([32]byte{}, content,
		make([]minilm.Vector, len(content.Texts()))), nil))
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
			t.Errorf("answer to %q = %q, want one quote with the text %q", question, answer.Quotes, want)
		}
	}
}

func TestAnswerReturnsSearchErrors(t *testing.T) {
	if _, err := docsearch.NewExtractive(lexical()).Answer(t.Context(), ""); err == nil {
		t.Error("Answer(\"\") error = nil, want an error")
	}
}

func TestSentences(t *testing.T) {
	tests := []struct {
		name, line string
		want       []string
	}{
		{"two sentences", "One. Two.", []string{"One.", "Two."}},
		{"other punctuation", "One? Two! Three", []string{"One?", "Two!", "Three"}},
		{"a number", "Up to 1.5 MB. More is refused.", []string{"Up to 1.5 MB.", "More is refused."}},
		{"an abbreviation", "Keys, e.g. of consumers, too.", []string{"Keys, e.g. of consumers, too."}},
		{"a period within code", "Send `a. B` at once. Then wait.", []string{"Send `a. B` at once.", "Then wait."}},
		{"only white space", "  ", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := docsearch.Sentences(tt.line); !slices.Equal(got, tt.want) {
				t.Errorf("Sentences(%q) = %q, want %q", tt.line, got, tt.want)
			}
		})
	}
}
