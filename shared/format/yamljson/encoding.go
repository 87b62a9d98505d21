package yamljson

import (
	"bytes"
	"unicode/utf8"
)

// CheckEncoding returns an *Error for a text that is not in UTF-8. The error names the encoding that the text probably
// has.
func CheckEncoding(text []byte) error {
	var name string
	switch {
	case bytes.HasPrefix(text, []byte("\xff\xfe\x00\x00")), bytes.HasPrefix(text, []byte("\x00\x00\xfe\xff")):
		name = "UTF-32"
	case bytes.HasPrefix(text, []byte("\xff\xfe")), bytes.HasPrefix(text, []byte("\xfe\xff")),
		len(text) > 1 && (text[0] == 0) != (text[1] == 0): // a letter of ASCII has a zero byte in UTF-16
		name = "UTF-16"
	case utf8.Valid(text):
		if at := bytes.IndexByte(text, 0); at >= 0 {
			return errorAt(text, at, "the file has a zero byte, so it is not a text: save it as text in UTF-8")
		}
		return nil
	default:
		at := 0
		for r, size := utf8.DecodeRune(text); r != utf8.RuneError || size > 1; r, size = utf8.DecodeRune(text[at:]) {
			at += size
		}
		return errorAt(text, at, "the file is not in UTF-8, but probably in Latin-1 (ISO 8859-1) or Windows-1252: save it "+
			"in UTF-8")
	}
	return &Error{Text: "the file is in " + name + ": save it in UTF-8"}
}

// errorAt returns the error for an offset of a text.
func errorAt(text []byte, offset int, message string) *Error {
	before := text[:offset]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return &Error{Line: line, Column: column, Text: message}
}
