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

// maxWordRunes is the maximum length of a word that is divided into pieces. A longer word is unknown as a whole.
const maxWordRunes = 100

// special are the tokens that are never divided, wherever they are in a text.
var special = []string{"[CLS]", "[MASK]", "[PAD]", "[SEP]", "[UNK]"}

// Tokenizer divides texts into the tokens that the model was trained on: lower case, without accents,
// each word divided into the longest possible pieces of the vocabulary. It is safe for concurrent use.
//
// We have our own code because both Go libraries that read the model's tokenizer.json
// divide texts with accents or in several scripts wrongly, and one of them panics for
// some texts (docs/decisions/0046-a-small-sentence-transformer-in-plain-go.md).
type Tokenizer struct {
	ids           map[string]int32
	begin, end    int32 // the tokens before and after every text
	unknown       int32
	continuations map[string]int32 // pieces that continue a word, without their ##
}

// NewTokenizer reads a vocabulary: one token per line, numbered from 0.
func NewTokenizer(vocabulary []byte) (*Tokenizer, error) {
	t := &Tokenizer{ids: make(map[string]int32, 24<<10), continuations: make(map[string]int32, 6<<10)}
	lines := bufio.NewScanner(bytes.NewReader(vocabulary))
	var n int32
	for ; lines.Scan(); n++ {
		token := lines.Text()
		if piece, isContinuation := strings.CutPrefix(token, "##"); isContinuation && piece != "" {
			t.continuations[piece] = n
		} else {
			t.ids[token] = n
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for _, token := range special {
		if _, exists := t.ids[token]; !exists {
			return nil, errors.New("minilm: the vocabulary has no " + token)
		}
	}
	t.begin, t.end, t.unknown = t.ids["[CLS]"], t.ids["[SEP]"], t.ids["[UNK]"]
	return t, nil
}

// Tokens returns the numbers of a text's tokens, including the tokens before and after
// the text. It returns at most limit tokens, and ignores the rest of a longer text.
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

// words appends the tokens of a text that contains no special tokens. It stops after a word if there are then at
// least limit tokens.
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

// pieces appends the longest pieces of a word, or the token for unknown words.
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
			if n, exists := ids[word[from:end]]; exists {
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

// clean removes invisible characters, replaces white space with spaces, and puts spaces
// around every Chinese character, because Chinese is written without spaces between words.
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

// fold removes accents and converts letters to lower case.
func fold(word string) string {
	isASCII := true
	for i := range len(word) {
		isASCII = isASCII && word[i] < utf8.RuneSelf
	}
	if isASCII {
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

// isChinese reports whether a character is an ideograph by the model's definition, which excludes kana and hangul.
func isChinese(r rune) bool {
	return 0x4e00 <= r && r <= 0x9fff || 0x3400 <= r && r <= 0x4dbf || 0x20000 <= r && r <= 0x2a6df ||
		0x2a700 <= r && r <= 0x2b73f ||
		0x2b740 <= r && r <= 0x2b81f || 0x2b820 <= r && r <= 0x2ceaf || 0xf900 <= r && r <= 0xfaff ||
		0x2f800 <= r && r <= 0x2fa1f
}

// unassigned reports whether a character has no Unicode category.
func unassigned(r rune) bool {
	return r >= utf8.RuneSelf && !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z,
		unicode.C)
}
