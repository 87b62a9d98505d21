package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"testing"
)

// FuzzTokens compares the tokens of valid texts with those of encoding/json.
func FuzzTokens(f *testing.F) {
	for _, text := range []string{
		`{}`, ` [ ] `, `"a"`, "-1.5e+3\n", `null`, `{"a" : [true,false , null,1,"",{"b":{}}],` + "\r\n\t" + `"c\"\\":"\u00e9\ud83d\ude00\ud800 é\/"}`,
		`[[[1]],[0 ],["]","}",":",",","\\"]]`, `{"":1e9,"x":-0}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || invalidUTF8(text) >= 0 {
			t.Skip("this is no text that a compiler reads the tokens of")
		}
		decoder, ours := json.NewDecoder(bytes.NewReader(text)), &tokenReader{data: text}
		decoder.UseNumber()
		for {
			want, err := decoder.Token()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				t.Fatalf("json.Decoder.Token() in %q = %v, want no error", text, err)
			}
			if got, err := ours.Token(); err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("Token() in %q = %#v, %v, want %#v", text, got, err, want)
			}
			if got, want := ours.More(), decoder.More(); got != want && len(bytes.TrimSpace(text[ours.at:])) > 0 {
				t.Fatalf("More() in %q before %q = %t, want %t", text, text[ours.at:], got, want)
			}
		}
	})
}
