package mcpdocs

import (
	"context"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/management/docsearch"
)

// withCitationNumbers joins sentences with line breaks. After each sentence, it adds the numbers of its citations, as
// in [1][3]. Numbers begin at 1.
func withCitationNumbers(sentences []docsearch.Sentence) string {
	var out strings.Builder
	for i, s := range sentences {
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(s.Text + " ")
		for _, quote := range s.Quotes {
			fmt.Fprintf(&out, "[%d]", quote+1)
		}
	}
	return out.String()
}

// answerNote returns sentences that say what an answer lacks and why, or "" if it lacks nothing.
func answerNote(a docsearch.Answer) string {
	var notes []string
	if a.WriteError != nil {
		notes = append(notes, fmt.Sprintf("The model of Bedrock that answers here was of no use this time (%s), so that "+
			"the documentation is quoted.", a.WriteError.Reason))
	}
	if a.Dropped > 0 {
		notes = append(notes,
			fmt.Sprintf("Left out of the answer: %d of its sentences, which do not stand in what they cite.", a.Dropped))
	}
	if text := searchNote(a.Mode, a.Busy, a.SearchError); text != "" {
		notes = append(notes, text)
	}
	return strings.Join(notes, " ")
}

// searchNote returns sentences that say why a search did not use the best ranking that the installation should have, or
// "" if it did.
func searchNote(mode docsearch.Mode, busy bool, modelErr *docsearch.ModelError) string {
	text := ""
	switch {
	case busy:
		text = "Too many others search at the moment, so that this was searched by words. Search again later to " +
			"search by meaning."
	case mode == docsearch.Lexical:
		text = "This installation cannot read the weights of the search by meaning, and its log says why. It searched by " +
			"words: use words that the documentation may have."
	}
	if modelErr != nil {
		text = strings.TrimSpace(fmt.Sprintf("The model of Bedrock that searches here was of no use this time (%s). %s",
			modelErr.Reason, text))
	}
	return text
}

// logAnswer logs whether models failed, and the outcome of a question that was sent to a model. The log lines show how
// often each outcome occurs and how many tokens it costs. They contain no text of the question or of the answer.
func (s *server) logAnswer(ctx context.Context, a docsearch.Answer) {
	s.logModelFailure(ctx, "embeddings", a.SearchError)
	s.logModelFailure(ctx, "answers", a.WriteError)
	if a.ModelCalled {
		s.parts.Log.InfoContext(ctx, "a model of Bedrock was asked for an answer", "by", a.Kind, "covered", a.Covered,
			"sentences", len(a.Sentences), "leftOut", a.Dropped, "tokensIn", a.TokensIn, "tokensOut", a.TokensOut)
	}
}

func (s *server) logModelFailure(ctx context.Context, model string, f *docsearch.ModelError) {
	if f != nil {
		s.parts.Log.WarnContext(ctx, "a model of Bedrock was of no use", "model", model, "reason", f.Reason, "code", f.Code)
	}
}
