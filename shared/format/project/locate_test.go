package project_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// offsets maps the pointers of all parts of a document to their offsets. It finds the same
// places as Locate in a different way: it reads the whole document with encoding/json.
func offsets(t testing.TB, text string) map[string]int {
	t.Helper()
	d, out := json.NewDecoder(strings.NewReader(text)), map[string]int{}
	start := func() int { // of the next token
		at := int(d.InputOffset())
		return at + len(text[at:]) - len(strings.TrimLeft(text[at:], " \t\r\n,:"))
	}
	token := func() json.Token {
		next, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	var value func(at string, name int)
	value = func(at string, name int) {
		if out[at] = start(); name >= 0 {
			out[at] = name
		}
		open := token()
		_, inObject := open.(json.Delim)
		for i := 0; inObject && d.More(); i++ {
			if open == json.Delim('[') {
				value(fmt.Sprintf("%s/%d", at, i), -1)
				continue
			}
			name := start()
			value(at+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(token().(string)), name)
		}
		if inObject {
			token()
		}
	}
	value("", -1)
	return out
}

// documents generates JSON with all kinds of names and spaces.
func documents() *rapid.Generator[string] {
	space := rapid.SampledFrom([]string{"", " ", "\n", "\r\n", "\t", "\n\n  "})
	name := rapid.SampledFrom([]string{"a", "b", "", "/", "~", "~1", "é", "名前", "a/b", "0", "\n", `"`, "🙂"})
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kind := rapid.IntRange(0, 3).Draw(t, "kind")
			if depth == 0 || kind < 2 {
				return space.Draw(t, "space") + rapid.SampledFrom([]string{
					"1", `"é/{}[],:"`, "null", "true", `"\u00e9"`, "-1e9",
					"{}", "[ ]",
				}).Draw(t, "scalar") + space.Draw(t, "space")
			}
			var parts []string
			for _, n := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID).Draw(t, "names") {
				part := value(depth-1).Draw(t, "part")
				if kind == 2 {
					quoted, _ := json.Marshal(n)
					part = space.Draw(t, "space") + string(quoted) + space.Draw(t, "space") + ":" + part
				}
				parts = append(parts, part)
			}
			brackets := []string{"{", "}"}
			if kind == 3 {
				brackets = []string{"[", "]"}
			}
			return space.Draw(t, "space") + brackets[0] + strings.Join(parts, ",") + space.Draw(t, "space") + brackets[1]
		})
	}
	return value(4)
}

// lineOf returns the line and column of an offset, as editors count them.
func lineOf(text string, at int) (line, column int) {
	before := strings.Split(text[:at], "\n")
	return len(before), utf8.RuneCountInString(before[len(before)-1]) + 1
}

// TestProblemsAreLocated checks that Locate finds the same places as offsets. A pointer without a
// target must get the place of its nearest parent. Comments in the settings must not change places.
func TestProblemsAreLocated(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := documents().Draw(r, "document")
		want, file := offsets(t, text), rapid.SampledFrom([]string{"config/a.oas.json", "gatewright.jsonc"}).Draw(r, "file")
		if file == "gatewright.jsonc" {
			text = strings.NewReplacer("\n\n", "\n/*\n é */").Replace(text)
			want = offsets(t, strings.ReplaceAll(text, "/*\n é */", "  \n      ")) // é has two bytes
		}
		var problems []project.Problem
		var at []int
		for pointer, offset := range want {
			for _, missing := range []string{"", "/none", "/none/of~1these/0"} {
				if _, isMember := want[pointer+missing]; missing != "" && isMember {
					continue
				}
				problems, at = append(problems, project.Problem{File: file, Path: pointer + missing}), append(at, offset)
			}
		}
		mark := rapid.SampledFrom([]string{"", "\xef\xbb\xbf"}).Draw(r, "byte order mark")
		project.Locate(project.Files{file: []byte(mark + text)}, problems)
		for i, p := range problems {
			if line, column := lineOf(text, at[i]); p.Line != line || p.Column != column {
				r.Fatalf("Locate(%q) in %q = %d:%d, want %d:%d", p.Path, text, p.Line, p.Column, line, column)
			}
		}
	})
}

// TestMissingPointersAreNotLocated checks that problems in missing, empty and ignored files get no place, and that
// Locate does not replace a place that is already set. In a truncated file, the nearest parent has a place.
func TestMissingPointersAreNotLocated(t *testing.T) {
	problems := []project.Problem{
		{Path: "/a"},
		{File: "config/none.oas.json", Path: "/a"},
		{File: "config/yaml.oas.yaml", Path: "/a"},
		{File: "config/empty.oas.json", Path: "/a"},
		{File: "config/a.oas.json", Path: "/a", Line: 7, Column: 9},
		{File: "config/cut.oas.json", Path: "/b/c"},
		{File: "config/cut.oas.json", Path: "/d"},
	}
	want := slices.Clone(problems)
	want[5].Line, want[5].Column = 2, 1
	want[6].Line, want[6].Column = 1, 1
	project.Locate(project.Files{
		"config/yaml.oas.yaml": nil, "config/empty.oas.json": []byte("\n"), "config/a.oas.json": []byte(`{"a":1}`),
		"config/cut.oas.json": []byte("{\"a\":1,\n\"b\": [}, \"d\": 1"),
	}, problems)
	if !slices.Equal(problems, want) {
		t.Errorf("problems after Locate() = %v, want %v", problems, want)
	}
}

// TestLaterDuplicateNameIsLocated checks that the place of a duplicate name is that of its last occurrence.
func TestLaterDuplicateNameIsLocated(t *testing.T) {
	problems := []project.Problem{{File: "config/a.oas.json", Path: "/a"}, {File: "config/a.oas.json", Path: "/a/b"}}
	project.Locate(project.Files{"config/a.oas.json": []byte("{\"a\":{\"b\":1},\n \"a\":{}}")}, problems)
	for _, p := range problems {
		if p.Line != 2 || p.Column != 2 {
			t.Errorf("Locate(%s) = %d:%d, want 2:2", p.Path, p.Line, p.Column)
		}
	}
}

// TestExcerptContainsPosition checks that an excerpt contains its place, is within
// its maximum size, and equals the file from the excerpt's line and column on. It
// tries places anywhere in files with short lines, long lines and no lines.
func TestExcerptContainsPosition(t *testing.T) {
	simulations.SkipUnderRace(t)
	units := []string{
		"a", "é", "{\"a\": 1}\n", "\n", "名前 ", strings.Repeat("x", 70_000) + "\n", "🙂\r\n",
		"a" + strings.Repeat("é", 200_000) + "\n",
	}
	for _, unit := range units {
		for _, size := range []int{0, len(unit), maxExcerpt - len(unit), maxExcerpt + len(unit), 3 * maxExcerpt} {
			text := strings.Repeat(unit, size/len(unit))
			for _, part := range []int{0, 1, 7, 20, 50, 51, 77, 99, 100} {
				excerptAt(t, text, len(text)*part/100)
			}
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		text := ""
		for range rapid.IntRange(0, 4).Draw(r, "parts") {
			unit := rapid.SampledFrom(units).Draw(r, "unit")
			text += strings.Repeat(unit, rapid.IntRange(1, max(1, 300_000/len(unit))).Draw(r, "times"))
		}
		excerptAt(t, text, rapid.IntRange(0, len(text)).Draw(r, "at"))
	})
}

// maxExcerpt is the maximum size of an excerpt.
const maxExcerpt = project.ExcerptBytes

// excerptAt reads the excerpt of a file with this text at an offset, and checks the excerpt.
func excerptAt(t *testing.T, text string, at int) {
	t.Helper()
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	line, column := lineOf(text, at)
	packed := newArchive(t, special("./config/", tar.TypeDir, ""), file("./config/a.oas.json", text))
	got, err := project.ReadExcerpt(t.Context(), bytes.NewReader(packed), "config/a.oas.json", line, column,
		project.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(text, "\n")
	from := len(strings.Join(lines[:got.Line-1], "")) + len(string([]rune(lines[got.Line-1])[:got.Column-1]))
	to := from + len(got.Text)
	switch {
	case !strings.HasPrefix(text[from:], got.Text):
		t.Fatalf("excerpt at %d:%d = %q, want a part of the %d bytes at this position",
			got.Line, got.Column, got.Text, len(text))
	case len(got.Text) > project.ExcerptBytes, at < from, at > to:
		t.Fatalf("excerpt = bytes %d to %d, want at most %d bytes around %d", from, to, project.ExcerptBytes, at)
	case got.Before != (from > 0), got.After != (to < len(text)):
		t.Fatalf("excerpt of bytes %d to %d of %d: Before = %t, After = %t, want %t, %t",
			from, to, len(text), got.Before, got.After, from > 0, to < len(text))
	case len(text) <= project.ExcerptBytes && got.Text != text, len(text) > project.ExcerptBytes &&
		len(got.Text) < maxExcerpt/2:
		t.Fatalf("excerpt = %d bytes of %d, want the whole text, or at least %d bytes",
			len(got.Text), len(text), maxExcerpt/2)
	case got.Column != 1 && strings.Contains(text[from:min(at, from+maxExcerpt/4-utf8.UTFMax)], "\n"):
		t.Fatalf("excerpt begins within a line, at %d:%d, want the start of a line", got.Line, got.Column)
	}
}

// TestMissingFileHasNoExcerpt checks that ReadExcerpt does not show files that the compiler does not read, or
// entries that are not files. It also checks archives that are truncated, invalid or too large when unpacked,
// positions that the file does not have, and an archive that cannot be read.
func TestMissingFileHasNoExcerpt(t *testing.T) {
	const name = "config/a.oas.json"
	limits := project.DefaultLimits()
	limits.FileBytes, limits.UnpackedBytes, limits.Entries = 1_000, 100_000, 3
	good := newArchive(t, file(name, "{}"))
	for label, archive := range map[string][]byte{
		"an empty archive":             nil,
		"not gzip":                     []byte(strings.Repeat("x", 2_000)),
		"truncated":                    good[:len(good)/2],
		"a link":                       newArchive(t, special(name, tar.TypeSymlink, "/etc/passwd")),
		"in another folder":            newArchive(t, file("other/config/a.oas.json", "{}")),
		"above the root":               newArchive(t, file("../config/a.oas.json", "{}")),
		"too large":                    newArchive(t, file(name, strings.Repeat(" ", 1_001))),
		"after the maximum of entries": newArchive(t, file("a", ""), file("b", ""), file("c", ""), file(name, "{}")),
		"after a decompression bomb":   newArchive(t, file("a", strings.Repeat("a", 100_000)), file(name, "{}")),
		"a sparse file":                gzipData(t, sparse(t, name, 1<<40)),
	} {
		if _, err := project.ReadExcerpt(t.Context(), bytes.NewReader(archive), name, 1, 1,
			limits); !errors.Is(err, project.ErrFileNotFound) {
			t.Errorf("%s: ReadExcerpt() error = %v, want %v", label, err, project.ErrFileNotFound)
		}
	}
	for _, other := range []string{".env", "modules/secret.ts", "config/keys.pem"} {
		if _, err := project.ReadExcerpt(t.Context(), bytes.NewReader(newArchive(t, file(other, "secret"))), other, 1, 1,
			limits); !errors.Is(err, project.ErrFileNotFound) {
			t.Errorf("ReadExcerpt(%s) error = %v, want %v", other, err, project.ErrFileNotFound)
		}
	}
	for _, position := range [][2]int{{1, 1}, {0, 0}, {-5, -5}, {1 << 60, 1 << 60}} {
		if got, err := project.ReadExcerpt(t.Context(), bytes.NewReader(good), name, position[0], position[1],
			limits); err != nil || got != (project.Excerpt{Text: "{}", Line: 1, Column: 1}) {
			t.Errorf("ReadExcerpt() at %v = %+v, %v, want {} at 1:1 and no error", position, got, err)
		}
	}
	errUnavailable := errors.New("the bucket is unavailable")
	if _, err := project.ReadExcerpt(t.Context(), io.MultiReader(bytes.NewReader(good[:20]),
		iotest.ErrReader(errUnavailable)), name, 1, 1, limits); !errors.Is(err, errUnavailable) {
		t.Errorf("ReadExcerpt() of an unreadable archive error = %v, want %v", err, errUnavailable)
	}
}
