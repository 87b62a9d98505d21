package docsearch

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// The checks of a sentence that a model wrote. The checks do not understand the sentence: a sentence that says
// the opposite of its quotes can pass. Therefore the quotes are shown with the sentence (docs/mcp-docs.md).
const (
	// maxSentenceBytes and maxQuoteBytes bound a sentence and each of its quotes.
	maxSentenceBytes = 500
	maxQuoteBytes    = 600
	// minQuoteWords is the minimum number of words of a quote, unless it is a whole
	// line of its passage: one or two words can be found in almost every passage.
	minQuoteWords = 3
	// minSupport is the minimum share of a sentence's words that must
	// be in the passages that it cites: a paraphrase keeps most words.
	minSupport = 2.0 / 3
)

// citationMarks matches the numbers of passages that models put after
// sentences. They are removed, because an Answer has its own numbers.
var citationMarks = regexp.MustCompile(`\s*\[\d+(?:\s*,\s*\d+)*\]`)

// verify returns the text of the sentence to show, and those of its quotes that are correct. It returns no quotes
// if the sentence is not supported. A sentence is supported if it meets three conditions. At least one quote must
// be word for word in the passage that the quote names. All numbers of the sentence must be in the quotes. All
// names and addresses of the sentence, and two thirds of its words, must be in the passages of the quotes.
func (s DraftSentence) verify(passages []Passage) (text string, quotes []Quote) {
	text = collapseSpace(citationMarks.ReplaceAllString(s.Text, ""))
	if text == "" || len(text) > maxSentenceBytes || strings.ContainsFunc(text, isInvisible) {
		return "", nil
	}
	var quoteText, passageText strings.Builder
	for _, q := range s.Quotes {
		if q.Passage < 1 || q.Passage > len(passages) {
			continue
		}
		p := passages[q.Passage-1]
		if quote := collapseSpace(q.Text); containsQuote(quote, p) {
			quotes = append(quotes, newQuote(quote, p))
			quoteText.WriteString(quote + "\n")
			passageText.WriteString(p.Title + "\n" + p.Text + "\n")
		}
	}
	if len(quotes) == 0 || !supports(text, quoteText.String(), passageText.String()) {
		return "", nil
	}
	return text, quotes
}

// isInvisible reports whether a character is invisible, for example because it only changes the direction of text.
func isInvisible(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) || r == unicode.ReplacementChar
}

// containsQuote reports whether a quote is in the passage's text, as whole words. A quote of fewer than minQuoteWords
// words must be a whole line. Differences in white space are ignored.
func containsQuote(quote string, p Passage) bool {
	if quote == "" || len(quote) > maxQuoteBytes {
		return false
	}
	if len(strings.Fields(quote)) < minQuoteWords {
		return slices.ContainsFunc(strings.Split(p.Text, "\n"), func(line string) bool {
			return collapseSpace(line) == quote
		})
	}
	text := collapseSpace(p.Text)
	for from := 0; ; {
		at := strings.Index(text[from:], quote)
		if at < 0 {
			return false
		}
		at += from
		if !splitsWord(text[:at], quote) && !splitsWord(quote, text[at+len(quote):]) {
			return true
		}
		from = at + 1
	}
}

// splitsWord reports whether the boundary between two texts is inside a word.
func splitsWord(before, after string) bool {
	b, a := []rune(before), []rune(after)
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	return len(b) > 0 && len(a) > 0 && inWord(b[len(b)-1]) && inWord(a[0])
}

// supports reports whether the words of a sentence can come from its quotes and from the passages of the quotes.
func supports(text, quotes, passages string) bool {
	inQuotes, inPassages := tokens(quotes), tokens(passages)
	for token := range tokens(text) {
		switch {
		case strings.ContainsFunc(token, unicode.IsDigit):
			if !inQuotes[token] {
				return false
			}
		case strings.ContainsAny(token, `/_@=<>$%&\#:.`) || strings.LastIndexFunc(token, unicode.IsUpper) > 0:
			if !inPassages[token] {
				return false
			}
		}
	}
	matched, all := 0, stems(text)
	passageStems := map[string]bool{}
	for _, word := range stems(passages) {
		passageStems[word] = true
	}
	for _, word := range all {
		if passageStems[word] {
			matched++
		}
	}
	return matched > 0 && float64(matched) >= minSupport*float64(len(all))
}

// tokens returns the set of the parts of a text between spaces, without surrounding punctuation.
func tokens(text string) map[string]bool {
	all := map[string]bool{}
	for token := range strings.FieldsSeq(text) {
		if token = strings.Trim(token, ".,;:!?()[]{}\"'`“”‘’*|"); token != "" {
			all[token] = true
		}
	}
	return all
}
