package minilm

import (
	"bufio"
	"bytes"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWordRunes is how long a word may be that is cut into pieces. A longer one is unknown as a whole.
const maxWordRunes = 100

// special are the tokens that stand for themselves wherever they are written.
var special = []string{"[CLS]", "[MASK]", "[PAD]", "[SEP]", "[UNK]"}

// Tokenizer cuts texts into the tokens that the model was trained on: lower case, without accents, each
// word in the longest pieces of the vocabulary. It may be used by many at once.
//
// It is ours since both libraries in Go that read the model's tokenizer.json get texts with accents,
// or in several scripts, wrong, and one of them panics on some (docs/decisions/0046-a-small-sentence-transformer-in-plain-go.md).
type Tokenizer struct {
	ids           map[string]int32
	begin, end    int32 // around every text
	unknown       int32
	continuations map[string]int32 // pieces that go on a word, without their ##
}

// NewTokenizer reads a vocabulary: a token in each line, numbered from 0.
func NewTokenizer(vocabulary []byte) (*Tokenizer, error) {
	t := &Tokenizer{ids: make(map[string]int32, 24<<10), continuations: make(map[string]int32, 6<<10)}
	lines := bufio.NewScanner(bytes.NewReader(vocabulary))
	var n int32
	for ; lines.Scan(); n++ {
		token := lines.Text()
		if piece, goesOn := strings.CutPrefix(token, "##"); goesOn && piece != "" {
			t.continuations[piece] = n
		} else {
			t.ids[token] = n
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for _, token := range special {
		if _, there := t.ids[token]; !there {
			return nil, errors.New("minilm: the vocabulary has no " + token)
		}
	}
	t.begin, t.end, t.unknown = t.ids["[CLS]"], t.ids["[SEP]"], t.ids["[UNK]"]
	return t, nil
}

// Tokens gives the numbers of a text's tokens, at most limit of them with the two around the text. What
// a limit cuts off is as if it had not been written.
func (t *Tokenizer) Tokens(text string, limit int) []int32 {
	tokens := make([]int32, 1, 64)
	tokens[0] = t.begin
	for text != "" && len(tokens) < limit {
		at, found := len(text), ""
		for _, s := range special {
			if i := strings.Index(text[:at], s); i >= 0 {
				at, found = i, s
			}
		}
		tokens = t.words(tokens, text[:at], limit)
		if found != "" {
			tokens = append(tokens, t.ids[found])
		}
		text = text[at+len(found):]
	}
	return append(tokens[:min(len(tokens), limit-1)], t.end)
}

// words appends the tokens of a text without special ones. It looks at no more of it than limit needs.
func (t *Tokenizer) words(tokens []int32, text string, limit int) []int32 {
	for _, field := range strings.FieldsFunc(clean(text), unicode.IsSpace) {
		if len(tokens) >= limit {
			return tokens
		}
		field = fold(field)
		start := 0
		for i, r := range field {
			if !isPunctuation(r) {
				continue
			}
			tokens = t.pieces(tokens, field[start:i])
			start = i + utf8.RuneLen(r)
			tokens = t.pieces(tokens, field[i:start])
		}
		tokens = t.pieces(tokens, field[start:])
	}
	return tokens
}

// pieces appends the longest pieces of a word, or the one that stands for an unknown word.
func (t *Tokenizer) pieces(tokens []int32, word string) []int32 {
	if word == "" {
		return tokens
	}
	if utf8.RuneCountInString(word) > maxWordRunes {
		return append(tokens, t.unknown)
	}
	first := len(tokens)
	for from, ids := 0, t.ids; from < len(word); ids = t.continuations {
		end, id := len(word), int32(-1)
		for ; end > from; end-- {
			if end < len(word) && !utf8.RuneStart(word[end]) {
				continue
			}
			if n, there := ids[word[from:end]]; there {
				id = n
				break
			}
		}
		if id < 0 {
			return append(tokens[:first], t.unknown)
		}
		tokens = append(tokens, id)
		from = end
	}
	return tokens
}

// clean drops what nobody sees, turns white space into spaces, and makes a word of every character of
// Chinese, in which words are not divided.
func clean(text string) string {
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	for _, r := range text {
		switch {
		case r == '\t' || r == '\n' || r == '\r' || unicode.Is(unicode.White_Space, r) && !unicode.Is(unicode.Cc, r):
			b.WriteByte(' ')
		case r == 0 || r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs) || unassigned(r):
		case isChinese(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// fold takes accents off and makes letters small.
func fold(word string) string {
	plain := true
	for i := range len(word) {
		plain = plain && word[i] < utf8.RuneSelf
	}
	if plain {
		return strings.ToLower(word)
	}
	var b strings.Builder
	for _, r := range norm.NFD.String(word) {
		if !unicode.Is(unicode.Mn, r) {
			b.WriteRune(r)
		}
	}
	return strings.ToLower(b.String())
}

func isPunctuation(r rune) bool {
	if r < utf8.RuneSelf {
		return r > ' ' && r < 0x7f && !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}
	return unicode.Is(unicode.P, r)
}

// isChinese is the model's own list: ideographs, neither kana nor hangul.
func isChinese(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3400 <= r && r <= 0x4dbf || 0x20000 <= r && r <= 0x2a6df || 0x2a700 <= r && r <= 0x2b73f ||
		0x2b740 <= r && r <= 0x2b81f || 0x2b820 <= r && r <= 0x2ceaf || 0xf900 <= r && r <= 0xfaff || 0x2f800 <= r && r <= 0x2fa1f
}

// unassigned reports whether a character is none of any category.
func unassigned(r rune) bool {
	return r >= utf8.RuneSelf && !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.C)
}
