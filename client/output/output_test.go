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

// sampleList is a list from the API, with characters that must not be written to a terminal.
const sampleList = `{"data":[{"name":"ada","tags":{"team":"blue"},"n":12345678901234567890,"on":true,"gone":null},` +
	`{"name":"日本","tags":{},"n":1.50,"on":false,"more":"\u001b[31m\u202e"}],"total":2}`

// render returns the output for a document with these options.
func render(t *testing.T, o output.Options, document string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	w, err := output.New(&out, io.Discard, o)
	if err != nil {
		return "", err
	}
	err = w.Document(t.Context(), []byte(document), nil)
	return out.String(), err
}

func TestDocumentFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		options  output.Options
		document string
		want     string
	}{
		{"a list as a table", output.Options{}, sampleList, "" +
			"NAME  TAGS       N                     ON     GONE  MORE\n" +
			"ada   team=blue  12345678901234567890  true\n" +
			"日本             1.50                  false        \\x1b[31m\\u202e\n"},
		{
			"nested values as a table",
			output.Options{},
			`[{"a":["x",1,true],"b":{"c":"\u001b","d":2},"e":[[1]],"f":{"g":null}}]`, "" +
				"A           B            E      F\n" +
				"x, 1, true  c=\\x1b, d=2  [[1]]  {\"g\":null}\n",
		},
		{"an object as a table", output.Options{}, `{"b":"x","a":{"c":[1,2]}}`, "b  x\na  {\"c\":[1,2]}\n"},
		{"empty list", output.Options{}, `{"data":[],"total":0}`, "There are none.\n"},
		{"empty document", output.Options{}, "", ""},
		{
			"JSON",
			output.Options{Format: output.JSON},
			`{"b":1e2,"a":"\u001b\u202e` + "\u202e" + `😀"}`,
			"{\n  \"b\": 1e2,\n  \"a\": \"\\u001b\\u202e\\u202e😀\"\n}\n",
		},
		{"invalid UTF-8", output.Options{Format: output.JSON}, "\"a\x9b31m\"", "\"a\ufffd31m\"\n"},
		{"empty document in JSON", output.Options{Format: output.JSON}, "", ""},
		{
			"YAML",
			output.Options{Format: output.YAML},
			`{"b":12345678901234567890,"a":["no","1","\u202e",null,true,1.50]}`,
			"b: 12345678901234567890\na:\n  - \"no\"\n  - \"1\"\n  - \"\\u202e\"\n  - null\n  - true\n  - 1.50\n",
		},
		{"a query", output.Options{Query: ".data[].name"}, sampleList, "ada\n日本\n"},
		{"a query of numbers", output.Options{Query: ".data[].n"}, sampleList, "12345678901234567890\n1.50\n"},
		{"a query of a text, for a shell", output.Options{Query: ".data[1].more"}, sampleList, "\x1b[31m\u202e\n"},
		{
			"a query of a text, for a terminal",
			output.Options{Query: ".data[1].more", Terminal: true},
			sampleList,
			"\\x1b[31m\\u202e\n",
		},
		{"a query of an object", output.Options{Query: ".data[1]|{more}"}, sampleList, "{\"more\":\"\\u001b[31m\\u202e\"}\n"},
		{"query without a result", output.Options{Query: "empty"}, sampleList, ""},
		{"query of null", output.Options{Query: ".data[].gone"}, sampleList, "null\nnull\n"},
	} {
		got, err := render(t, c.options, c.document)
		if err != nil || got != c.want {
			t.Errorf("%s: Document() error = %v, output =\n%s\nwant no error and\n%s", c.name, err, got, c.want)
		}
	}
}

// TestEntryIsOneLine checks that Entry writes one line in each format, without characters that must not be written to a
// terminal.
func TestEntryIsOneLine(t *testing.T) {
	t.Parallel()
	const entry = "{\n \"n\": 1.50,\n \"text\": \"a\\nb\u202e\u009b\"\n}"
	for _, c := range []struct {
		options output.Options
		want    string
	}{
		{output.Options{Format: output.Table}, `{"n":1.50,"text":"a\nb\u202e\u009b"}`},
		{output.Options{Format: output.JSON}, `{"n":1.50,"text":"a\nb\u202e\u009b"}`},
		{output.Options{Format: output.YAML}, `{"n":1.50,"text":"a\nb\u202e\u009b"}`},
		{output.Options{Query: "."}, `{"n":1.50,"text":"a\nb\u202e\u009b"}`},
		{output.Options{Query: ".text", Terminal: true}, `a\nb\u202e\u009b`},
	} {
		var out bytes.Buffer
		w, err := output.New(&out, io.Discard, c.options)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := w.Entry(t.Context(), []byte(entry)); err != nil {
				t.Fatal(err)
			}
		}
		if want := strings.Repeat(c.want+"\n", 2); out.String() != want {
			t.Errorf("two Entry() with %+v write %q, want %q", c.options, &out, want)
		}
	}
}

// TestTruncateCountsColumns checks that Truncate counts columns: East Asian characters have two columns, and joiners
// within an emoji have none.
func TestTruncateCountsColumns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text     string
		maxWidth int
		want     string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdefg", 6, "abcde…"},
		{"日本語", 6, "日本語"},
		{"日本語の", 6, "日本…"},
		{"日本語の", 7, "日本語…"},
		{"👩‍👩‍👧‍👦x", 3, "👩‍👩‍👧‍👦x"},
		{"👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 3, "👩‍👩‍👧‍👦…"},
	} {
		if got := output.Truncate(c.text, c.maxWidth); got != c.want {
			t.Errorf("Truncate(%q, %d) = %q, want %q", c.text, c.maxWidth, got, c.want)
		}
	}
}

func TestErrorWritesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		options output.Options
		want    exit.Code
	}{
		{
			"query that fails after some output",
			output.Options{Query: ".data[]|if .name == \"ada\" then . else error(\"x\") end"},
			exit.Failure,
		},
		{"invalid query", output.Options{Query: "(("}, exit.Usage},
		{"a query of YAML", output.Options{Query: ".", Format: output.YAML}, exit.Usage},
		{"unknown format", output.Options{Format: "xml"}, exit.Usage},
	} {
		if got, err := render(t, c.options, sampleList); err == nil || exit.CodeOf(err) != c.want || got != "" {
			t.Errorf("%s: Document() = %q, %v (%d), want no output and code %d", c.name, got, err, exit.CodeOf(err), c.want)
		}
	}
	if got, err := render(t, output.Options{}, `{"data":[{"a":1},`); err == nil || got != "" {
		t.Errorf("Document() of truncated JSON = %q, %v, want no output and an error", got, err)
	}
}

// fullDisk is a file on a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrorIsReturned(t *testing.T) {
	t.Parallel()
	w, err := output.New(fullDisk{}, io.Discard, output.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Document(t.Context(), []byte(sampleList), nil); exit.CodeOf(err) != exit.Failure ||
		!strings.Contains(err.Error(), "no space left") {
		t.Errorf("Document() with a full disk: error = %v, want code %d and \"no space left\"", err, exit.Failure)
	}
}

func TestEndlessQueryIsInterrupted(t *testing.T) {
	t.Parallel()
	ctx, stop := interruptedContext(t)
	defer stop()
	w, err := output.New(io.Discard, io.Discard, output.Options{Query: "last(repeat(.))"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Document(ctx, []byte(`1`), nil); !errors.Is(err, exit.ErrInterrupted) {
		t.Errorf("Document() with an endless query: error = %v, want %v", err, exit.ErrInterrupted)
	}
}

func TestFailFormats(t *testing.T) {
	t.Parallel()
	const key = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"
	failure := exit.WithCode(exit.Conflict, errors.New("a\x1b[2J of "+key+"\nsecond"))
	for _, c := range []struct {
		format output.Format
		want   func(string) bool
	}{
		{output.Table, func(s string) bool {
			return strings.HasPrefix(s, "error: a\\x1b[2J of ") && strings.HasSuffix(s, "\nerror: second\n")
		}},
		{output.JSON, func(s string) bool {
			var document map[string]any
			return json.Unmarshal([]byte(s), &document) == nil && document["exitCode"] == 5.0 && strings.Count(s, "\n") == 1 &&
				!strings.Contains(s, "\x1b")
		}},
	} {
		var stderr bytes.Buffer
		w, err := output.New(io.Discard, &stderr, output.Options{Format: c.format})
		if err != nil {
			t.Fatal(err)
		}
		w.Fail(failure)
		if s := stderr.String(); !c.want(s) || strings.Contains(s, key) {
			t.Errorf("Fail() in the format %s writes %q, want the error of this format, without the key", c.format, s)
		}
	}
}

// TestOutputIsSafeForTerminal writes random documents in each format. The output must not contain characters that
// control a terminal. JSON and YAML must have the same content as the document.
func TestOutputIsSafeForTerminal(t *testing.T) {
	t.Parallel()
	texts := rapid.StringOf(rapid.OneOf(rapid.Rune(),
		rapid.SampledFrom([]rune("\x00\x1b\r\n\t\u007f\u0085\u009b\u200b\u202e\u2066\ufeff\U000e0001😀日"))))
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
					t.Fatalf("Document() in the format %s writes %U in %q, want printable characters", format, r, out.String())
				}
			}
			var decoded any
			switch format {
			case output.JSON:
				err = json.Unmarshal(out.Bytes(), &decoded)
			case output.YAML:
				err = yaml.Unmarshal(out.Bytes(), &decoded)
			case output.Table:
				continue
			}
			if err != nil || !reflect.DeepEqual(decoded, value) {
				t.Fatalf("Document() in the format %s = %v (%v), want %v", format, decoded, err, value)
			}
		}
	})
}

// documentError is an error whose document is the text that a server has sent.
type documentError string

func (d documentError) Error() string    { return string(d) }
func (d documentError) Document() []byte { return []byte(d) }

// TestUntrustedProblemIsEscaped checks the output for problems of a server that echoes the key, with or without percent
// escapes, or sends bytes that are not UTF-8. The output must be valid and escaped text without the key.
func TestUntrustedProblemIsEscaped(t *testing.T) {
	t.Parallel()
	const key = "gwa_0123456789ABCDEFGHIJKLMNOPQRSTUV_00000000"
	for _, document := range []string{
		`{"title":"x","detail":"` + key + `"}`, `{"title":"%22` + key + `"}`,
		`{"title":"%1b[31m %67wa_` + key[len("gwa_"):] + `"}`, "{\"title\":\"a\x9b31m\"}",
	} {
		for _, format := range output.Formats() {
			var stderr bytes.Buffer
			w, err := output.New(io.Discard, &stderr, output.Options{Format: format})
			if err != nil {
				t.Fatal(err)
			}
			w.Infof("%s", document)
			w.Fail(documentError(document))
			s := stderr.String()
			if strings.Contains(s, key[len("gwa_"):]) || !utf8.ValidString(s) || strings.Contains(s, "\x1b") ||
				format == output.JSON && !json.Valid(stderr.Bytes()) {
				t.Errorf("Fail() in the format %s with %q writes %q, want valid and escaped text without the key",
					format, document, s)
			}
		}
	}
}
