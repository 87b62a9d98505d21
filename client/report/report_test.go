package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/format/project"
)

const routes = "config/routes.oas.json"

func render(t testing.TB, r Report, useColor, workflow bool) string {
	t.Helper()
	var b strings.Builder
	if err := r.Text(&b, useColor, workflow); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextShowsPositions(t *testing.T) {
	files := project.Files{
		routes: []byte(
			"\xef\xbb\xbf{\r\n\t\"export\": \"urlRewriter\",\r\n  \"名前\": e\u0301x\u202ey\x1b[31m}"),
		"gatewright.jsonc": []byte("{"), "config/empty.oas.json": {},
	}
	r := Report{
		Errors: []project.Problem{
			{Message: "The project has no routes."},
			{File: "config/empty.oas.json", Line: 1, Column: 1, Message: "This is no JSON: the file is empty."},
			{File: routes, Path: "/export", Line: 2, Column: 2, Message: "Use one of the handlers."},
			{File: routes, Path: "/名前", Line: 3, Column: 9, Message: "Not \x1b[2J\u202ethis."},
			{File: routes, Line: 3, Column: 13, Message: "Nor this."},
			{File: routes, Line: 99, Column: 1, Message: "A place that is not there."},
			{File: "unknown", Line: 1, Column: 1, Message: "A file that is not there."},
		},
		Warnings: []project.Problem{
			{File: "gatewright.jsonc", Line: 1, Column: 2, Message: "At the end."},
			{File: "z\nb", Message: "No place."},
		},
		Source: FromFiles(files),
	}
	want := `error: The project has no routes.
config/empty.oas.json:1:1: error: This is no JSON: the file is empty.
config/routes.oas.json:2:2: error: Use one of the handlers. (/export)
    2 |     "export": "urlRewriter",
      |     ^
config/routes.oas.json:3:9: error: Not \x1b[2J\u202ethis. (/名前)
    3 |   "名前": éx\u202ey\x1b[31m}
      |           ^
config/routes.oas.json:3:13: error: Nor this.
    3 |   "名前": éx\u202ey\x1b[31m}
      |                   ^
config/routes.oas.json:99:1: error: A place that is not there.
unknown:1:1: error: A file that is not there.
gatewright.jsonc:1:2: warning: At the end.
    1 | {
      |  ^
z\nb: warning: No place.
`
	want = strings.ReplaceAll(want, "éx", "e\u0301x") // the file has a combining mark
	if got := render(t, r, false, false); got != want {
		t.Errorf("Text() =\n%s\nwant\n%s", got, want)
	}
	colored := render(t, r, true, false)
	plain := strings.NewReplacer("\x1b[1m", "", "\x1b[1;31m", "", "\x1b[1;33m", "", "\x1b[32m", "", "\x1b[2m", "",
		"\x1b[0m", "").Replace(colored)
	if plain != want || plain == colored {
		t.Errorf("Text() with colors = %q, want colors added to\n%s", colored, want)
	}
}

// TestCaretPointsToColumn checks the caret in lines of any length and width. The excerpts must contain no control
// characters.
func TestCaretPointsToColumn(t *testing.T) {
	pieces := []string{
		"a", " ", "\t", "é", "e\u0301", "名", "ｱ", "👩‍💻", "🇩🇪", "\u202e", "\x1b[31m",
		"\x00", "\u200b", "\u0301\u0301", "\xff", "\r", `{"name": `, "\u2028",
	}
	rapid.Check(t, func(r *rapid.T) {
		line := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 30).Draw(r, "line"), "")
		line = strings.Repeat(line, rapid.SampledFrom([]int{1, 1, 50}).Draw(r, "times"))
		line = strings.TrimSuffix(line, "\r")
		column := rapid.IntRange(1, len([]rune(line))+1).Draw(r, "column")
		text, caret, ok := excerptLine(project.Excerpt{Text: "first\n" + line + "\r\nlast", Line: 7, Column: 3}, 8, column)
		if !ok {
			r.Fatalf("excerptLine() of %q has no column %d, want it", line, column)
		}
		if strings.ContainsFunc(text, func(c rune) bool {
			return !unicode.IsPrint(c) && c != '\u200d'
		}) || uniseg.StringWidth(text) > cellsBefore+cellsAfter+30 {
			r.Fatalf("excerptLine() of %q = %q, want printable characters and at most %d cells",
				line, text, cellsBefore+cellsAfter+30)
		}
		// The expected place is the grapheme cluster at the column, which counts characters of the line.
		offset := len(string([]rune(line)[:column-1]))
		if strings.Contains(line, "\xff") {
			return // the bytes and characters of invalid UTF-8 differ, so the place is unknown
		}
		cluster, remaining := "", line
		for consumed := 0; remaining != ""; {
			var next string
			next, remaining, _, _ = uniseg.FirstGraphemeClusterInString(remaining, -1)
			if consumed += len(next); consumed > offset {
				cluster = next
				break
			}
		}
		visible := text
		for width := uniseg.StringWidth(caret) - 1; width > 0; {
			c, remaining, w, _ := uniseg.FirstGraphemeClusterInString(visible, -1)
			if c == "" {
				break
			}
			visible, width = remaining, width-w
		}
		want := output.Printable(cluster)
		if want != "" && uniseg.StringWidth(want) == 0 {
			want = "◌" + want
		}
		if cluster == "\t" || strings.TrimSpace(cluster) == "" {
			return // spaces at the end of an excerpt are removed
		}
		if !strings.HasPrefix(visible, want) && uniseg.StringWidth(want) <= cellsAfter {
			r.Fatalf("the caret for column %d of %q is below %q of %q, want below %q", column, line, visible, text, want)
		}
	})
}

func TestLongLineIsTruncatedAroundColumn(t *testing.T) {
	text := strings.Repeat("x", 1<<20) + `"here"` + strings.Repeat("y", 1<<20)
	excerpt := project.Excerpt{Text: text, Line: 1, Column: 1}
	got, caret, ok := excerptLine(excerpt, 1, 1<<20+1)
	if want := "…" + strings.Repeat("x", cellsBefore) + `"here"` + strings.Repeat("y", cellsAfter-6) + "…"; !ok ||
		got != want || len(caret) != cellsBefore+2 {
		t.Errorf("excerptLine() of a long line = %q, %q, %t, want %q and a caret in column %d",
			got, caret, ok, want, cellsBefore+2)
	}
	// An excerpt from the API begins within a line: Column is the column of its first character.
	part := project.Excerpt{Text: text[1<<20-10:], Line: 4, Column: 1<<20 - 9, Before: true, After: true}
	if got, caret, ok := excerptLine(part, 4, 1<<20+1); !ok ||
		!strings.HasPrefix(got, "…"+strings.Repeat("x", 10)+`"here"`) || len(caret) != 12 {
		t.Errorf("excerptLine() of a part of a line = %q, %q, %t, want its beginning and a caret in column 12",
			got, caret, ok)
	}
	for _, line := range []int{3, 5} {
		if _, _, ok := excerptLine(part, line, 1); ok {
			t.Errorf("excerptLine() shows line %d, want only the line of the excerpt", line)
		}
	}
}

func TestNumberOfShownProblemsIsLimited(t *testing.T) {
	r := Report{Warnings: make([]project.Problem, 30)}
	for i := range 60 {
		r.Errors = append(r.Errors, project.Problem{File: "f", Message: fmt.Sprint(i)})
	}
	got := render(t, r, false, false)
	if lines := strings.Split(got, "\n"); len(lines) != MaxShown+2 ||
		lines[MaxShown] != "… and 10 errors and 30 warnings more are not shown." {
		t.Errorf("Text() has %d lines with the last %q, want %d with the number of other problems",
			len(lines), lines[len(lines)-2], MaxShown+2)
	}
	r.Errors = r.Errors[:49]
	if got := render(t, r, false, false); !strings.HasSuffix(got, "… and 29 warnings more are not shown.\n") {
		t.Errorf("text with 49 errors =\n%s\nwant \"29 warnings more\" at its end", got)
	}
}

func TestCount(t *testing.T) {
	for want, c := range map[string][2]int{
		"nothing": {}, "1 error": {1, 0}, "2 errors and 1 warning": {2, 1},
		"3 warnings": {0, 3},
	} {
		if got := Count(c[0], c[1]); got != want {
			t.Errorf("Count(%d, %d) = %s, want %s", c[0], c[1], got, want)
		}
	}
}

// TestWorkflowCommandsAreEscaped checks that texts of a project cannot make GitHub's runner hide or stop the output.
func TestWorkflowCommandsAreEscaped(t *testing.T) {
	r := Report{
		Errors: []project.Problem{
			{File: "::stop-commands::x", Message: "m"},
			{File: routes, Line: 1, Column: 1, Message: "##[add-mask]m"},
		},
		Source: FromFiles(project.Files{routes: []byte("::x ##[error]y")}),
	}
	got := render(t, r, false, true)
	want := "\\::stop-commands::x: error: m\n" +
		routes + ":1:1: error: ##\\[add-mask]m\n    1 | ::x ##\\[error]y\n      | ^\n"
	if got != want {
		t.Errorf("Text() for a workflow = %q, want %q", got, want)
	}
}

func TestAnnotationsAreEscaped(t *testing.T) {
	r := Report{
		Errors: []project.Problem{{
			File: "config/a,b:c%.oas.json", Path: "/x", Line: 3, Column: 9,
			Message: "100% wrong,\nand: more",
		}},
		Warnings: []project.Problem{{Message: "none"}},
		Folder:   "apis/shop",
	}
	var b strings.Builder
	if err := r.Annotations(&b); err != nil {
		t.Fatal(err)
	}
	want := "::error file=apis/shop/config/a%2Cb%3Ac%25.oas.json,line=3,col=9,title=gatewright%3A routes::100%25 " +
		"wrong,\\nand: more (/x)\n" +
		"::warning title=gatewright%3A the project's folder::none\n"
	if b.String() != want {
		t.Errorf("Annotations() writes %s, want %s", b.String(), want)
	}
}

func TestSectionFormat(t *testing.T) {
	var b strings.Builder
	now := time.Unix(1_700_000_000, 0)
	errFull := errors.New("no space left")
	if err := Section(&b, "gatewright", "1 error", func() time.Time { return now }, func() error {
		b.WriteString("x\n")
		now = now.Add(time.Second)
		return errFull
	}); !errors.Is(err, errFull) {
		t.Errorf("Section() with a failing content: error = %v, want %v", err, errFull)
	}
	want := "\x1b[0Ksection_start:1700000000:gatewright\r\x1b[0K1 " +
		"error\nx\n\x1b[0Ksection_end:1700000001:gatewright\r\x1b[0K\n"
	if b.String() != want {
		t.Errorf("Section() writes %q, want %q", b.String(), want)
	}
	if err := Section(failingWriter{errFull}, "a", "b", time.Now, func() error { return nil }); !errors.Is(err, errFull) {
		t.Errorf("Section() with a failing writer: error = %v, want %v", err, errFull)
	}
}

func sampleReport() Report {
	return Report{
		Errors: []project.Problem{
			{File: routes, Path: "/paths/~1a", Line: 35, Column: 13, Message: "Use one."},
			{File: "config/é x.oas.json", Message: "No JSON."},
			{Message: "No routes."},
		},
		Warnings: []project.Problem{{File: "config/policies.json", Line: 1, Message: "Unused."}},
		Folder:   "apis",
	}
}

// TestSARIFIsValid checks required members and allowed values (SARIF 2.1.0, 3.13 to 3.30).
func TestSARIFIsValid(t *testing.T) {
	text, err := sampleReport().SARIF()
	if err != nil {
		t.Fatal(err)
	}
	var log struct {
		Schema  string `json:"$schema"`
		Version string `json:"version"`
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name, Version string
					Rules         []struct {
						ID               string
						ShortDescription struct{ Text string }
					}
				}
			}
			ColumnKind string
			Results    []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct{ URI, URIBaseID string }
						Region           *struct{ StartLine, StartColumn int }
					}
					LogicalLocations []struct{ FullyQualifiedName string }
				}
				PartialFingerprints map[string]string
			}
		}
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&log); err != nil {
		t.Fatalf("SARIF() = %s: decode it: %v, want only known members", text, err)
	}
	run := log.Runs[0]
	if log.Version != "2.1.0" || !strings.HasSuffix(log.Schema, "sarif-2.1.0.json") || len(log.Runs) != 1 {
		t.Errorf("SARIF() = version %q, schema %q, %d runs, want 2.1.0, its schema, and 1 run",
			log.Version, log.Schema, len(log.Runs))
	}
	if name, unit := run.Tool.Driver.Name, run.ColumnKind; name != "gatewright" || unit != "unicodeCodePoints" {
		t.Errorf("SARIF() = tool %q, columnKind %q, want gatewright and unicodeCodePoints", name, unit)
	}
	var got []string
	for _, r := range run.Results {
		if run.Tool.Driver.Rules[r.RuleIndex].ID != r.RuleID ||
			run.Tool.Driver.Rules[r.RuleIndex].ShortDescription.Text == "" || len(r.PartialFingerprints["problem/v1"]) != 64 {
			t.Errorf("result = %+v, want the id of its rule, a rule with a description, and a fingerprint", r)
		}
		line := r.Level + " " + r.RuleID + " " + r.Message.Text
		for _, l := range r.Locations {
			line += " " + l.PhysicalLocation.ArtifactLocation.URIBaseID + " " + l.PhysicalLocation.ArtifactLocation.URI
			if region := l.PhysicalLocation.Region; region != nil {
				line += fmt.Sprintf(" %d:%d", region.StartLine, region.StartColumn)
			}
			for _, logical := range l.LogicalLocations {
				line += " " + logical.FullyQualifiedName
			}
		}
		got = append(got, line)
	}
	want := []string{
		"error routes Use one. %SRCROOT% apis/config/routes.oas.json 35:13 /paths/~1a",
		"error routes No JSON. %SRCROOT% apis/config/%C3%A9%20x.oas.json",
		"error project No routes.",
		"warning policies Unused. %SRCROOT% apis/config/policies.json 1:1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("SARIF() results =\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if empty, err := (Report{}).SARIF(); err != nil || !bytes.Contains(empty, []byte(`"results": []`)) {
		t.Errorf("SARIF() without problems = %s, %v, want no results", empty, err)
	}
}

func TestCodeQualityIsValid(t *testing.T) {
	text, err := sampleReport().CodeQuality()
	if err != nil {
		t.Fatal(err)
	}
	var entries []codeQualityIssue
	if err := json.Unmarshal(text, &entries); err != nil || len(entries) != 4 {
		t.Fatalf("CodeQuality() = %s, %v, want 4 entries", text, err)
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if e.Description == "" || e.Location.Path == "" || e.Location.Lines.Begin < 1 || seen[e.Fingerprint] {
			t.Errorf("entry = %+v, want a description, a position, and a unique fingerprint", e)
		}
		seen[e.Fingerprint] = true
	}
	if first := entries[0]; first.Severity != "critical" || first.Location.Path != "apis/"+routes ||
		first.Location.Lines.Begin != 35 || entries[3].Severity != "minor" {
		t.Errorf("CodeQuality() = %+v, want a critical entry in line 35 first, and a minor one last", entries)
	}
	if empty, err := (Report{}).CodeQuality(); err != nil || string(empty) != "[]\n" {
		t.Errorf("CodeQuality() without problems = %s, %v, want an empty list", empty, err)
	}
}

func TestWriteFileIsAtomic(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "report.sarif")
	for _, text := range []string{"one", "two"} {
		if err := WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("ReadFile() after WriteFile() = %q, %v, want %q", got, err, text)
		}
	}
	for _, bad := range []string{dir, filepath.Join(dir, "none", "report.sarif"), os.DevNull} {
		if err := WriteFile(bad, []byte("x")); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("WriteFile(%s) error = %v, want an error with the path", bad, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("WriteFile() leaves %v (%v), want one file", entries, err)
	}
}

// TestWriteFileFollowsSymlink checks that WriteFile replaces the target of a link. A link to a missing file must be an
// error, and stay unchanged.
func TestWriteFileFollowsSymlink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "kept", "report.sarif"), filepath.Join(dir, "latest.sarif")
	if err := os.Mkdir(filepath.Dir(target), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("kept", "report.sarif"), link); err != nil {
		t.Skipf("no links here: %v", err)
	}
	if err := WriteFile(link, []byte("one")); err == nil ||
		!strings.Contains(err.Error(), "a link to a file that is not there") {
		t.Errorf("WriteFile() to a link without a target: error = %v, want an error about the link", err)
	}
	if err := os.WriteFile(target, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("two")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "two" {
		t.Errorf("ReadFile() of the link's target = %q, %v, want two", got, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("Lstat() after WriteFile() = %v, %v, want a link", info, err)
	}
}

func TestWriteErrorIsReturned(t *testing.T) {
	errFull := errors.New("no space left")
	if err := sampleReport().Text(failingWriter{errFull}, false, false); !errors.Is(err, errFull) {
		t.Errorf("Text() with a failing writer: error = %v, want %v", err, errFull)
	}
	if err := sampleReport().Annotations(failingWriter{errFull}); !errors.Is(err, errFull) {
		t.Errorf("Annotations() with a failing writer: error = %v, want %v", err, errFull)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }

// TestRemoteExcerptIsCached checks that excerpts are reused, and that the number of requests is limited to
// maxRemoteExcerpts.
func TestRemoteExcerptIsCached(t *testing.T) {
	var requests []string
	source := FromRemote(func(file string, line, column int) (project.Excerpt, bool) {
		requests = append(requests, fmt.Sprintf("%s:%d:%d", file, line, column))
		return project.Excerpt{Text: "one\ntwo\nthree", Line: line - 1, Column: 1, Before: true, After: true}, file != "none"
	})
	for _, line := range []int{10, 9, 10, 11, 20} {
		if e, ok := source("a", line, 1); !ok || line < e.Line || line > e.Line+2 {
			t.Errorf("excerpt of line %d = %+v (found: %t), want the line in it", line, e, ok)
		}
	}
	for range 3 {
		if _, ok := source("none", 1, 1); ok {
			t.Error("the file none has an excerpt, want none")
		}
	}
	if want := "a:10:1 a:11:1 a:20:1 none:1:1"; strings.Join(requests, " ") != want {
		t.Errorf("requests for excerpts = %q, want %q", requests, want)
	}
	for line := range 100 {
		source("b", 10*line+1, 1)
	}
	if len(requests) != maxRemoteExcerpts {
		t.Errorf("%d requests for excerpts, want %d", len(requests), maxRemoteExcerpts)
	}
}
