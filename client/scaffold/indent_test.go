package scaffold

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestIndentedSizeIsThatOfIndentation compares the computed size with the size of the indented text.
func TestIndentedSizeIsThatOfIndentation(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`0`, `{}`, `[]`, `[[]]`, `{"a":{}}`, `{"a":[1,2,{"b":null}],"c":"d"}`, `[{},[],"",0]`, `{"[{,:}]":"\\\"[,:"}`,
		strings.Repeat("[", 100) + "1,2" + strings.Repeat("]", 100),
	} {
		indented := jsontext.Value(text)
		if err := indented.Indent(jsontext.WithIndent("  ")); err != nil {
			t.Fatal(err)
		}
		if got, want := indentedSize([]byte(text)), int64(len(indented)); got != want {
			t.Errorf("indentedSize(%s) = %d, want %d", text, got, want)
		}
	}
}
