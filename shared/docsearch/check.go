package docsearch

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// What is believed of a sentence that a model wrote. Nothing here understands it: a sentence that says the opposite of what it quotes
// may pass, which is why the quotes are shown beside it (docs/mcp-docs.md).
const (
	// maxSentenceBytes and maxQuoteBytes bound a sentence and a quote of one.
	maxSentenceBytes = 500
	maxQuoteBytes    = 600
	// A quote has three words at least, or is a whole line of its passage: one word stands in every passage.
	minQuoteWords = 3
	// Of the words of a sentence two thirds have to be in the passages that it cites: a paraphrase keeps most of them.
	supported = 2.0 / 3
)

// marks are the numbers of passages that models put behind sentences. Answers get their own.
var marks = regexp.MustCompile(`\s*\[\d+(?:\s*,\s*\d+)*\]`)

// holds gives the sentence as it is shown with the quotes that are what they say, none where it does not hold: where none of its
// quotes stands word for word in the passage that it names, it has a number that is in none of them, or a name, an
// address or more than a third of its words that are in none of their passages.
func (s DraftSentence) holds(passages []Passage) (text string, quotes []Quote) {
	text = squeezed(marks.ReplaceAllString(s.Text, ""))
	if text == "" || len(text) > maxSentenceBytes || strings.ContainsFunc(text, hidden) {
		return "", nil
	}
	var said, around strings.Builder
	for _, q := range s.Quotes {
		if q.Passage < 1 || q.Passage > len(passages) {
			continue
		}
		p := passages[q.Passage-1]
		if quote := squeezed(q.Text); stands(quote, p) {
			quotes = append(quotes, quoted(quote, p))
			said.WriteString(quote + "\n")
			around.WriteString(p.Title + "\n" + p.Text + "\n")
		}
	}
	if len(quotes) == 0 || !supports(text, said.String(), around.String()) {
		return "", nil
	}
	return text, quotes
}

// hidden reports characters that are not seen, or turn a text around.
func hidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) || r == unicode.ReplacementChar
}

// stands reports whether a quote is in the passage's text, from word to word, whatever space is between them.
func stands(quote string, p Passage) bool {
	if quote == "" || len(quote) > maxQuoteBytes {
		return false
	}
	if len(strings.Fields(quote)) < minQuoteWords {
		return slices.ContainsFunc(strings.Split(p.Text, "\n"), func(line string) bool { return squeezed(line) == quote })
	}
	text := squeezed(p.Text)
	for from := 0; ; {
		at := strings.Index(text[from:], quote)
		if at < 0 {
			return false
		}
		at += from
		if !joined(text[:at], quote) && !joined(quote, text[at+len(quote):]) {
			return true
		}
		from = at + 1
	}
}

// joined reports whether two texts meet within a word.
func joined(before, after string) bool {
	b, a := []rune(before), []rune(after)
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	return len(b) > 0 && len(a) > 0 && inWord(b[len(b)-1]) && inWord(a[0])
}

// supports reports whether what a sentence says could be from its quotes and the passages around them.
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
	has, all := 0, stems(text)
	there := map[string]bool{}
	for _, word := range stems(passages) {
		there[word] = true
	}
	for _, word := range all {
		if there[word] {
			has++
		}
	}
	return has > 0 && float64(has) >= supported*float64(len(all))
}

// tokens are what stands between spaces, without the marks around it.
func tokens(text string) map[string]bool {
	all := map[string]bool{}
	for token := range strings.FieldsSeq(text) {
		if token = strings.Trim(token, ".,;:!?()[]{}\"'`“”‘’*|"); token != "" {
			all[token] = true
		}
	}
	return all
}
