package mcpdocs

import (
	"context"
	"fmt"
	"strings"

	"github.com/gatewright/gatewright/shared/docsearch"
)

// numbered writes sentences with the numbers of their citations, of which 1 is the first.
func numbered(sentences []docsearch.Sentence) string {
	var out strings.Builder
	for i, s := range sentences {
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(s.Text + " ")
		for _, at := range s.Quotes {
			fmt.Fprintf(&out, "[%d]", at+1)
		}
	}
	return out.String()
}

// noteOf says what an answer lacks, and why.
func noteOf(a docsearch.Answer) string {
	var all []string
	if a.NotWritten != nil {
		all = append(all, fmt.Sprintf("The model of Bedrock that answers here was of no use this time (%s), so that the documentation is quoted.", a.NotWritten.Reason))
	}
	if a.LeftOut > 0 {
		all = append(all, fmt.Sprintf("Left out of the answer: %d of its sentences, which do not stand in what they cite.", a.LeftOut))
	}
	if text := note(a.Mode, a.Busy, a.NotFound); text != "" {
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// note says why a ranking is not by the best way that there is.
func note(mode docsearch.Mode, busy bool, failed *docsearch.ModelError) string {
	text := ""
	switch {
	case busy:
		text = "Too many others search at the moment, so that this was searched by words. Search again later to search by meaning."
	case mode == docsearch.Lexical:
		text = "This installation cannot read the weights of the search by meaning, and its log says why. It searched by words: use words that the documentation may have."
	}
	if failed != nil {
		text = strings.TrimSpace(fmt.Sprintf("The model of Bedrock that searches here was of no use this time (%s). %s", failed.Reason, text))
	}
	return text
}

// tell logs what became of a question that was for a model: how often each outcome is, and what is paid for, are read from these lines.
// They have no word of the question or of the answer.
func (s *server) tell(ctx context.Context, a docsearch.Answer) {
	s.tellFailure(ctx, "embeddings", a.NotFound)
	s.tellFailure(ctx, "answers", a.NotWritten)
	if a.Asked {
		s.parts.Log.InfoContext(ctx, "a model of Bedrock was asked for an answer", "by", a.By, "covered", a.Covered,
			"sentences", len(a.Sentences), "leftOut", a.LeftOut, "tokensIn", a.TokensIn, "tokensOut", a.TokensOut)
	}
}

func (s *server) tellFailure(ctx context.Context, of string, f *docsearch.ModelError) {
	if f != nil {
		s.parts.Log.WarnContext(ctx, "a model of Bedrock was of no use", "model", of, "reason", f.Reason, "code", f.Code)
	}
}
