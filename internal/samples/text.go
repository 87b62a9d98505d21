package samples

import (
	"fmt"
	"net/url"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/format/regex"
)

func unescape(text string) string {
	if out, err := url.PathUnescape(text); err == nil {
		return out
	}
	return text
}

func lastToken(reference string) string { return reference[strings.LastIndexByte(reference, '/')+1:] }

// formats returns a text for each common format.
func formats() map[string]string {
	return map[string]string{
		"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "time": "12:00:00Z", "duration": "P1D",
		"email": "a@example.com", "hostname": "example.com", "ipv4": "192.0.2.1", "ipv6": "2001:db8::1",
		"uri": "https://example.com/a", "url": "https://example.com/a", "uri-reference": "/a",
		"uuid": "123e4567-e89b-42d3-a456-426614174000", "byte": "YWJj", "json-pointer": "/a", "regex": "a",
		"idn-email": "a@example.com", "idn-hostname": "example.com", "iri": "https://example.com/a", "iri-reference": "/a",
		"uri-template": "/a", "relative-json-pointer": "0",
	}
}

// text returns a text with the format, the length and the patterns of all rules.
func (g *generator) text(rules []rule) (any, error) {
	least, most := bound(rules, "minLength", true, 0), bound(rules, "maxLength", false, 1<<20)
	var patterns []string
	candidates := []string{}
	for _, r := range rules {
		if pattern := r.text("pattern"); pattern != "" {
			patterns = append(patterns, pattern)
		}
		if text, known := formats()[r.text("format")]; known {
			candidates = append(candidates, text)
		}
		if strings.HasPrefix(r.text("contentEncoding"), "base64") {
			candidates = append(candidates, "YWJj")
		}
	}
	if len(candidates) == 0 {
		candidates = append(candidates, fit(fmt.Sprintf("v%d", g.salt+1), least, most))
	}
	for _, r := range rules {
		for _, name := range []string{"example", "default"} {
			if text := r.text(name); text != "" && len(patterns) > 0 {
				candidates = append(candidates, text)
			}
		}
	}
	for _, pattern := range patterns {
		shortest, ok := matching(pattern, g.salt)
		if !ok {
			continue
		}
		candidates = append(candidates, shortest)
		// The missing characters are in one repetition, or in several.
		missing := max(0, least-utf8.RuneCountInString(shortest))
		for repetitions := 1; repetitions <= 4 && missing > 0; repetitions++ {
			text, _ := matching(pattern, g.salt+(missing+repetitions-1)/repetitions)
			candidates = append(candidates, text)
		}
		candidates = append(candidates, fit(shortest, least, most))
	}
	for _, text := range candidates {
		if n := utf8.RuneCountInString(text); n >= least && n <= most && matchesAll(patterns, text) {
			return text, nil
		}
	}
	if len(patterns) == 0 {
		return fit(candidates[0], least, most), nil
	}
	return nil, fmt.Errorf("%w: no text was found for the pattern %s", errNoValue, patterns[0])
}

// fit returns a text with a length between two bounds.
func fit(text string, least, most int) string {
	if n := utf8.RuneCountInString(text); n < least && least < 1<<20 {
		return text + strings.Repeat("a", least-n)
	}
	if len(text) > most {
		return text[:max(most, 0)]
	}
	return text
}

// matchesAll reports whether a text matches all expressions. Expressions that cannot be compiled match every text.
func matchesAll(patterns []string, text string) bool {
	for _, pattern := range patterns {
		if compiled, err := regex.Compile(pattern); err == nil && !compiled.MatchString(text) {
			return false
		}
	}
	return true
}

// lookaround matches lookarounds, which Go does not support. unicodeEscape matches escapes that Go writes in another way.
var lookaround = regexp.MustCompile(`\(\?<?[=!](?:[^()\\]|\\.|\([^()]*\))*\)`)

var unicodeEscape = regexp.MustCompile(`\\u([0-9A-Fa-f]{4})`)

// matching returns a text that probably matches an expression. It repeats a part up to extra times more often than the
// expression requires. It returns false for an expression that it cannot read.
func matching(pattern string, extra int) (string, bool) {
	translated := unicodeEscape.ReplaceAllString(lookaround.ReplaceAllString(pattern, ""), `\x{$1}`)
	parsed, err := syntax.Parse(strings.ReplaceAll(translated, `\/`, "/"), syntax.Perl)
	if err != nil {
		return "", false
	}
	var b strings.Builder
	write(&b, parsed, extra)
	return b.String(), true
}

// write writes a text that matches an expression.
func write(b *strings.Builder, re *syntax.Regexp, extra int) {
	switch re.Op {
	case syntax.OpLiteral:
		b.WriteString(string(re.Rune))
	case syntax.OpCharClass:
		b.WriteRune(readable(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		b.WriteByte('a')
	case syntax.OpAlternate:
		write(b, re.Sub[0], extra)
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			write(b, sub, extra)
		}
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		least, most := repetitions(re)
		count := least + extra
		if most >= 0 {
			count = min(count, most)
		}
		for range min(count, maxItems) {
			write(b, re.Sub[0], 0)
		}
	case syntax.OpNoMatch, syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText,
		syntax.OpWordBoundary, syntax.OpNoWordBoundary: // they match no characters
	}
}

// repetitions returns the least and the greatest number of repetitions, -1 for no bound.
func repetitions(re *syntax.Regexp) (least, most int) {
	if re.Op == syntax.OpRepeat {
		return re.Min, re.Max
	}
	if re.Op == syntax.OpPlus {
		least = 1
	}
	if re.Op == syntax.OpQuest {
		return 0, 1
	}
	return least, -1
}

// readable returns a character of a class, given as ranges: a letter or digit if there is one.
func readable(ranges []rune) rune {
	for _, wanted := range "a1A_-" {
		for i := 0; i+1 < len(ranges); i += 2 {
			if ranges[i] <= wanted && wanted <= ranges[i+1] {
				return wanted
			}
		}
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		for c := ranges[i]; c <= ranges[i+1]; c++ {
			if c >= '!' && c != 0x7f {
				return c
			}
		}
	}
	if len(ranges) > 0 {
		return ranges[0]
	}
	return 'a'
}
