package output_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
)

// page is a list as the API answers it, with what must not reach a terminal.
const page = `{"data":[{"name":"ada","tags":{"team":"blue"},"n":12345678901234567890,"on":true,"gone":null},` +
	`{"name":"日本","tags":{},"n":1.50,"on":false,"more":"\u001b[31m\u202e"}],"total":2}`

// written is what a command writes of a document.
func written(t *testing.T, o output.Options, document string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	w, err := output.New(&out, io.Discard, o)
	if err != nil {
		return "", err
	}
	err = w.Document(t.Context(), []byte(document), nil)
	return out.String(), err
}

func TestDocumentIsWrittenAsAskedFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		o        output.Options
		document string
		want     string
	}{
		{"a list as a table", output.Options{}, page, "" +
			"NAME  TAGS       N                     ON     GONE  MORE\n" +
			"ada   team=blue  12345678901234567890  true\n" +
			"日本             1.50                  false        \\x1b[31m\\u202e\n"},
		{"what holds others in a table", output.Options{}, `[{"a":["x",1,true],"b":{"c":"\u001b","d":2},"e":[[1]],"f":{"g":null}}]`, "" +
			"A           B            E      F\n" +
			"x, 1, true  c=\\x1b, d=2  [[1]]  {\"g\":null}\n"},
		{"an object as a table", output.Options{}, `{"b":"x","a":{"c":[1,2]}}`, "b  x\na  {\"c\":[1,2]}\n"},
		{"a list of nothing", output.Options{}, `{"data":[],"total":0}`, "There are none.\n"},
		{"no document", output.Options{}, "", ""},
		{
			"JSON",
			output.Options{Format: output.JSON},
			`{"b":1e2,"a":"\u001b\u202e` + "\u202e" + `😀"}`,
			"{\n  \"b\": 1e2,\n  \"a\": \"\\u001b\\u202e\\u202e😀\"\n}\n",
		},
		{"a byte that is no UTF-8", output.Options{Format: output.JSON}, "\"a\x9b31m\"", "\"a\ufffd31m\"\n"},
		{"no document in JSON", output.Options{Format: output.JSON}, "", ""},
		{
			"YAML",
			output.Options{Format: output.YAML},
			`{"b":12345678901234567890,"a":["no","1","\u202e",null,true,1.50]}`,
			"b: 12345678901234567890\na:\n  - \"no\"\n  - \"1\"\n  - \"\\u202e\"\n  - null\n  - true\n  - 1.50\n",
		},
		{"a query", output.Options{Query: ".data[].name"}, page, "ada\n日本\n"},
		{"a query of numbers", output.Options{Query: ".data[].n"}, page, "12345678901234567890\n1.50\n"},
		{"a query of a text, for a shell", output.Options{Query: ".data[1].more"}, page, "\x1b[31m\u202e\n"},
		{"a query of a text, for a terminal", output.Options{Query: ".data[1].more", Terminal: true}, page, "\\x1b[31m\\u202e\n"},
		{"a query of an object", output.Options{Query: ".data[1]|{more}"}, page, "{\"more\":\"\\u001b[31m\\u202e\"}\n"},
		{"a query of nothing", output.Options{Query: "empty"}, page, ""},
		{"a query of what is null", output.Options{Query: ".data[].gone"}, page, "null\nnull\n"},
	} {
		got, err := written(t, c.o, c.document)
		if err != nil || got != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
		}
	}
}

// TestEntriesAreALineEach, whatever the format, and no more than a terminal may be sent.
func TestEntriesAreALineEach(t *testing.T) {
	t.Parallel()
	const entry = "{\n \"n\": 1.50,\n \"text\": \"a\\nb\u202e\u009b\"\n}"
	for _, c := range []struct {
		o    output.Options
		want string
	}{
		{output.Options{Format: output.JSON}, `{"n":1.50,"text":"a\nb\u202e\u009b"}`},
		{output.Options{Format: output.YAML}, `{"n":1.50,"text":"a\nb\u202e\u009b"}`},
		{output.Options{Query: "."}, `{"n":1.50,"text":"a\nb\u202e\u009b"}`},
		{output.Options{Query: ".text", Terminal: true}, `a\nb\u202e\u009b`},
	} {
		var out bytes.Buffer
		w, err := output.New(&out, io.Discard, c.o)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.Entry(t.Context(), []byte(entry)); err != nil {
				t.Fatal(err)
			}
		}
		if want := strings.Repeat(c.want+"\n", 2); out.String() != want {
			t.Errorf("%+v: %q, want %q", c.o, &out, want)
		}
	}
}

// TestWhatIsCutFitsTheTerminal, by columns: East Asian characters have two, and what joins an emoji has none.
func TestWhatIsCutFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"abcdef", 6, "abcdef"}, {"abcdefg", 6, "abcde…"}, {"日本語", 6, "日本語"}, {"日本語の", 6, "日本…"}, {"日本語の", 7, "日本語…"}, {"👩‍👩‍👧‍👦x", 3, "👩‍👩‍👧‍👦x"}, {"👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 3, "👩‍👩‍👧‍👦…"},
	} {
		if got := output.Cut(c.text, c.most); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.most, got, c.want)
		}
	}
}

func TestFailureLeavesStdoutEmpty(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    output.Options
		want exit.Code
	}{
		{"a query that fails half way", output.Options{Query: ".data[]|if .name == \"ada\" then . else error(\"x\") end"}, exit.Failure},
		{"no query", output.Options{Query: "(("}, exit.Usage},
		{"a query of YAML", output.Options{Query: ".", Format: output.YAML}, exit.Usage},
		{"no format", output.Options{Format: "xml"}, exit.Usage},
	} {
		if got, err := written(t, c.o, page); err == nil || exit.Of(err) != c.want || got != "" {
			t.Errorf("%s: %q, %v (%d)", c.name, got, err, exit.Of(err))
		}
	}
	if got, err := written(t, output.Options{}, `{"data":[{"a":1},`); err == nil || got != "" {
		t.Errorf("a document that was cut: %q, %v", got, err)
	}
}

// full takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestStdoutThatTakesNothingIsAFailure(t *testing.T) {
	t.Parallel()
	w, err := output.New(full{}, io.Discard, output.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Document(t.Context(), []byte(page), nil); exit.Of(err) != exit.Failure || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("the document is written: %v", err)
	}
}

func TestQueryThatNeverEndsIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := contextThatEnds(t)
	defer stop()
	w, err := output.New(io.Discard, io.Discard, output.Options{Query: "last(repeat(.))"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Document(ctx, []byte(`1`), nil); !errors.Is(err, exit.ErrInterrupted) {
		t.Errorf("it ends with %v", err)
	}
}

func TestFailuresAreTold(t *testing.T) {
	t.Parallel()
	const key = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"
	failed := exit.With(exit.Conflict, errors.New("a\x1b[2J of "+key+"\nsecond"))
	for _, c := range []struct {
		format output.Format
		want   func(string) bool
	}{
		{output.Table, func(s string) bool {
			return strings.HasPrefix(s, "error: a\\x1b[2J of ") && strings.HasSuffix(s, "\nerror: second\n")
		}},
		{output.JSON, func(s string) bool {
			var said map[string]any
			return json.Unmarshal([]byte(s), &said) == nil && said["exitCode"] == 5.0 && strings.Count(s, "\n") == 1 && !strings.Contains(s, "\x1b")
		}},
	} {
		var told bytes.Buffer
		w, err := output.New(io.Discard, &told, output.Options{Format: c.format})
		if err != nil {
			t.Fatal(err)
		}
		w.Fail(failed)
		if s := told.String(); !c.want(s) || strings.Contains(s, key) {
			t.Errorf("in %s it is told %q", c.format, s)
		}
	}
}

// TestWhateverTheAPISaysATerminalIsSafe writes any document in each format: what comes out has nothing that a terminal acts on,
// and JSON and YAML say the same as the document.
func TestWhateverTheAPISaysATerminalIsSafe(t *testing.T) {
	t.Parallel()
	texts := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\x00\x1b\r\n\t\u007f\u0085\u009b\u200b\u202e\u2066\ufeff\U000e0001😀日"))))
	rapid.Check(t, func(t *rapid.T) {
		var value any = map[string]any{"data": []any{map[string]any{
			texts.Draw(t, "name"): texts.Draw(t, "text"), "list": []any{texts.Draw(t, "entry"), nil, true},
		}}}
		document, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(document, &value); err != nil {
			t.Fatal(err)
		}
		for _, format := range output.Formats() {
			var out bytes.Buffer
			w, err := output.New(&out, io.Discard, output.Options{Format: format, Terminal: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Document(t.Context(), document, nil); err != nil {
				t.Fatal(err)
			}
			for _, r := range out.String() {
				if r != '\n' && r != '\u200d' && !unicode.IsPrint(r) && !unicode.Is(unicode.Variation_Selector, r) {
					t.Fatalf("%s has %U: %q", format, r, out.String())
				}
			}
			var same any
			switch format {
			case output.JSON:
				err = json.Unmarshal(out.Bytes(), &same)
			case output.YAML:
				err = yaml.Unmarshal(out.Bytes(), &same)
			case output.Table:
				continue
			}
			if err != nil || !reflect.DeepEqual(same, value) {
				t.Fatalf("%s says %v (%v), and the document %v", format, same, err, value)
			}
		}
	})
}

// described is a problem as a server has written it.
type described string

func (d described) Error() string    { return string(d) }
func (d described) Document() []byte { return []byte(d) }

// TestProblemsOfOthersAreSafe has a server say again what it was sent, hide that behind escapes, and send bytes that are no UTF-8.
func TestProblemsOfOthersAreSafe(t *testing.T) {
	t.Parallel()
	const key = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"
	for _, document := range []string{
		`{"title":"x","detail":"` + key + `"}`, `{"title":"%22` + key + `"}`, `{"title":"%1b[31m %67wa_` + key[len("gwa_"):] + `"}`, "{\"title\":\"a\x9b31m\"}",
	} {
		for _, format := range output.Formats() {
			var told bytes.Buffer
			w, err := output.New(io.Discard, &told, output.Options{Format: format})
			if err != nil {
				t.Fatal(err)
			}
			w.Say("%s", document)
			w.Fail(described(document))
			s := told.String()
			if strings.Contains(s, key[len("gwa_"):]) || !utf8.ValidString(s) || strings.Contains(s, "\x1b") || format == output.JSON && !json.Valid(told.Bytes()) {
				t.Errorf("in %s %q is told as %q", format, document, s)
			}
		}
	}
}
