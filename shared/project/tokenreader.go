package project

import (
	"bytes"
	"encoding/json"
)

// tokenReader reads the tokens of a JSON text that is known to be valid. It returns the same ones as json.Decoder with UseNumber, which checks
// every value once more and builds an error for the end of each.
type tokenReader struct {
	data []byte
	at   int
}

// More reports whether the current array or object has another element.
func (t *tokenReader) More() bool {
	c := t.next()
	return c != ']' && c != '}'
}

// next skips spaces, commas and colons, and returns the byte behind them, which is 0 at the end.
func (t *tokenReader) next() byte {
	for ; t.at < len(t.data); t.at++ {
		switch c := t.data[t.at]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// Token returns the next token.
func (t *tokenReader) Token() (json.Token, error) {
	c := t.next()
	rest := t.data[t.at:]
	switch c {
	case '{', '}', '[', ']':
		t.at++
		return json.Delim(c), nil
	case '"':
		return t.text(rest)
	case 't':
		t.at += len("true")
		return true, nil
	case 'f':
		t.at += len("false")
		return false, nil
	case 'n':
		t.at += len("null")
		return nil, nil
	}
	end := bytes.IndexAny(rest, ",]} \t\r\n")
	if end < 0 {
		end = len(rest)
	}
	t.at += end
	return json.Number(rest[:end]), nil
}

// text returns the string with which rest begins.
func (t *tokenReader) text(rest []byte) (json.Token, error) {
	end, escaped := 1, false
	for ; rest[end] != '"'; end++ {
		if rest[end] == '\\' {
			escaped = true
			end++
		}
	}
	t.at += end + 1
	if !escaped {
		return string(rest[1:end]), nil
	}
	var s string
	err := json.Unmarshal(rest[:end+1], &s)
	return s, err
}
