package yamljson_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/shared/format/yamljson"
)

// maxBytes is the maximum size of the JSON in these tests.
const maxBytes = 1 << 20

// convert returns the JSON of a text in YAML.
func convert(text string) (string, error) {
	d, err := yamljson.Parse([]byte(text))
	if err != nil {
		return "", err
	}
	out, err := d.JSON(maxBytes)
	return string(out), err
}

func TestJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"200: a\non: b\nnull: c\n1.0: d\ntrue: e":              `{"200":"a","on":"b","null":"c","1.0":"d","true":"e"}`,
		"[on, off, yes, no, y, n]":                             `["on","off","yes","no","y","n"]`,
		"[true, True, FALSE, ~, null, '']":                     `[true,true,false,null,null,""]`,
		"[2026-01-31, 2026-01-31T00:00:00Z, 12:30:45]":         `["2026-01-31","2026-01-31T00:00:00Z","12:30:45"]`,
		"[1, -1, 1.50, 1e3, 12345678901234567890, 1e999, '2']": `[1,-1,1.50,1e3,12345678901234567890,1e999,"2"]`,
		"[.5, -.5, +1, 1., 0x1F, 0o17, 1.e3]":                  `[0.5,-0.5,1,1,31,15,1e3]`,
		"[010, 1_000, 0b1, .inf, .nan, 0x, '1']":               `["010","1_000","0b1",".inf",".nan","0x","1"]`,
		"[!!str 1, !!int 1, !!bool True]":                      `["1",1,true]`,
		"b: 1\na: 2":                                           `{"b":1,"a":2}`,
		"a: &a {x: 1, y: 2}\nb: {<<: *a, y: 3}":                `{"a":{"x":1,"y":2},"b":{"y":3,"x":1}}`,
		"a: &a {x: 1}\nb: &b {<<: *a, y: 2}\nc: {<<: [*b, {z: 3}]}": `{"a":{"x":1},"b":{"y":2,"x":1},` +
			`"c":{"y":2,"x":1,"z":3}}`,
		"'<<': 1":                             `{"<<":1}`,
		"a: |\n  one\n  two\nb: >-\n  c\n  d": `{"a":"one\ntwo\n","b":"c d"}`,
		"a: &a [1]\nb: *a":                    `{"a":[1],"b":[1]}`,
		"{\"a\":1,\n\t\"b\": [2]}":            `{"a":1,"b":[2]}`,
		"--- # begin\na: 1\n...\n":            `{"a":1}`,
	} {
		if got, err := convert(text); err != nil || got != want {
			t.Errorf("JSON(%q) = %s, error %v, want %s", text, got, err, want)
		}
	}
}

func TestMistakesHaveTheirLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                              "line 1: the file is empty",
		"# only a comment":              "line 1: the file is empty",
		"a: 1\nb: 2\na: 3":              `line 3: the object has the name "a" already, in line 1`,
		"200: 1\n'200': 2":              `line 2: the object has the name "200" already, in line 1`,
		"a: 1\n---\nb: 2":               "line 2: a second document begins here",
		"a: 1\n---\nb: [":               "line 3: the file is no YAML",
		"a: [":                          "line 1: the file is no YAML",
		"a: 1\n? [b]\n: 2":              "line 2: the name of this member is a list",
		"a: *b":                         "line 1: no value above has the anchor &b to which *b refers",
		"a: '*b'\nc:\n  - [x, *b]":      "line 3: no value above has the anchor &b",
		"a:\n  b: 1\n\n\tc: 2":          "line 4: a tab indents this line",
		"a: 1\nb: !Ref c":               `line 2: the tag "!Ref" has no meaning in JSON`,
		"a: !!set {b}":                  `line 1: the tag "!!set" has no meaning in JSON`,
		"a: !!bool b":                   "line 1: this is neither true nor false",
		"a: 1\n<<: b":                   "line 2: a merge key (<<) must have an object",
		"a: &a\n  b: *a":                "or contains itself",
		"a: &a\n  <<: *a":               "or contains itself",
		"a: &a [*a, *a]":                "or contains itself",
		"a: 1\r\nb: '\u2028'\nb: 1":     "line 3: the object has the name",
		"a: 1\n# \u0085x: 1\n\ny: !z 1": "line 4: the tag",
		strings.Repeat("[", 200) + strings.Repeat("]", 200): "more than 128 levels",
	} {
		_, err := convert(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("JSON(%.60q) error = %v, want one with %q", text, err, want)
		}
		if e, ok := errors.AsType[*yamljson.Error](err); !ok {
			t.Errorf("JSON(%.60q) error = %T, want *Error", text, e)
		}
	}
}

// bomb returns a text whose n levels multiply by 10. format has the first value, and the value of each level.
func bomb(n int, first, format string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "a0: &a0 %s\n", first)
	for i := range n {
		list := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", ")
		fmt.Fprintf(&b, "a%d: &a%d %s\n", i+1, i+1, fmt.Sprintf(format, list))
	}
	return b.String()
}

// TestHostileTextsAreBounded checks that texts with aliases that multiply are refused, and that many simple aliases are not.
func TestHostileTextsAreBounded(t *testing.T) {
	t.Parallel()
	chain := []string{"a0: &a0 {x: 0}"}
	for i := range 5_000 {
		chain = append(chain, fmt.Sprintf("a%d: &a%d {<<: *a%d, x%d: 1}", i+1, i+1, i, i))
	}
	for name, tt := range map[string]struct{ text, want string }{
		"aliases of aliases":  {bomb(20, "x", "[%s]"), "too large"},
		"merges of merges":    {bomb(20, "{x: 1}", "{<<: [%s]}"), "too large"},
		"a large flow list":   {"[" + strings.Repeat("a,", 2_000_000) + "]", "nodes of YAML"},
		"many brackets":       {strings.Repeat("[", 2_000_000), "nodes of YAML"},
		"nested block lists":  {strings.Repeat("- ", 1_000_000), "the file is no YAML"},
		"nested flow objects": {strings.Repeat("{a: ", 400_000), "the file is no YAML"},
		"many comments":       {strings.Repeat("# a\n", 1_000_000), "nodes of YAML"},
		"large JSON": {
			"a: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a,", 1_000) + "]", "too large",
		},
		"a chain of merges": {strings.Join(chain, "\n"), "more than 128 levels"},
	} {
		if got, err := convert(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: JSON() = %d bytes, error %v, want an error with %q", name, len(got), err, tt.want)
		}
	}
	text := "a: &a x\nb: [" + strings.TrimSuffix(strings.Repeat("*a, ", 10_000), ", ") + "]"
	if got, err := convert(text); err != nil || strings.Count(got, `"x"`) != 10_001 {
		t.Errorf("10,000 aliases: JSON() = %d bytes, error %v, want 10001 texts and no error", len(got), err)
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	const text = "base: &base\n  x: 1\nlist:\n  - é: [1, 22]\nobject: {<<: *base, y: *base}\n" +
		"other: {<<: [{z: 1}, *base]}\n"
	d, err := yamljson.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string][2]int{
		"": {1, 1}, "/base": {1, 1}, "/base/x": {2, 3}, "/list": {3, 1}, "/list/0": {4, 5}, "/list/0/é": {4, 5},
		"/list/0/é/1": {4, 12}, "/object/x": {2, 3}, "/object/y": {5, 21}, "/object/y/x": {2, 3}, "/object/none/x": {5, 1},
		"/other/z": {6, 15}, "/other/x": {2, 3}, "/list/7": {3, 1},
	} {
		if line, column := d.Position(pointer); line != want[0] || column != want[1] {
			t.Errorf("Position(%q) = %d:%d, want %d:%d", pointer, line, column, want[0], want[1])
		}
	}
}

func TestCheckEncoding(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a: é":                     "",
		"":                         "",
		"\xff\xfea\x00:\x00":       "the file is in UTF-16",
		"a\x00:\x00":               "the file is in UTF-16",
		"\x00\x00\xfe\xff\x00\x00": "the file is in UTF-32",
		"a: 1\nb: caf\xe9":         "line 2: the file is not in UTF-8, but probably in Latin-1",
		"a: b\nc\x00":              "line 2: the file has a zero byte",
	} {
		err := yamljson.CheckEncoding([]byte(text))
		if err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("CheckEncoding(%q) = %v, want %q", text, err, want)
		}
	}
}

// FuzzConvert checks that a text is converted to valid JSON, or refused, and that each place is in the text.
func FuzzConvert(f *testing.F) {
	for _, text := range []string{
		"a: &a [1, *a]", "<<: {a: 1}", "? a\n: b", "- - 1\n- !!str 2", "a: |\n b\n", "---", "{a: 'b', \"c\": .5}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := yamljson.Parse([]byte(text))
		if err != nil {
			return
		}
		out, err := d.JSON(maxBytes)
		if err == nil && !jsontext.Value(out).IsValid() {
			t.Errorf("JSON(%q) = %q, want valid JSON", text, out)
		}
		if line, column := d.Position("/a/0"); line < 1 || column < 1 || line > 1+strings.Count(text, "\n") {
			t.Errorf("Position(/a/0) in %q = %d:%d, want a place in the text", text, line, column)
		}
	})
}
