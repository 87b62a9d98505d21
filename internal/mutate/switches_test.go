package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSwitchesBecomeIfsOnTheSameLines(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{
			"cases", "switch {\ncase a:\n\tx()\n\t// why\ncase b, c > 1:\n\ty()\ndefault:\n\tz()\n}",
			"\nif (a) {\n\tx()\n\t// why\n} else if (b) || (c > 1) {\n\ty()\n} else {\n\tz()\n}",
		},
		{"no default", "switch {\ncase a:\n}", "\nif (a) {\n}"},
		{"a case over two lines", "switch {\ncase a,\n\tb:\n\tx()\n}", "\nif (a) || (\nb) {\n\tx()\n}"},
		{
			"an init statement", "switch i := f(); {\ncase i > 1:\ncase i > 2:\n}",
			"\nif i := f(); (i > 1) {\n} else if (i > 2) {\n}",
		},
		{
			"an init statement over two lines", "switch i := f(\n\t1); {\ncase i > 1:\ncase i > 2:\n}",
			"\nif i := f(\n\t1); (i > 1) {\n} else if (i > 2) {\n}",
		},
		{"a switch in a switch", "switch {\ncase a:\n\tswitch {\n\tcase b:\n\t}\n}", "\nif (a) {\n\t\n\tif (b) {\n\t}\n}"},
		{
			"a break of an inner loop", "switch {\ncase a:\n\tfor {\n\t\tbreak\n\t}\n}",
			"\nif (a) {\n\tfor {\n\t\tbreak\n\t}\n}",
		},
		{"a switch with a tag", "switch a {\ncase b:\n}", ""},
		{"a type switch", "switch a.(type) {\ncase b:\n}", ""},
		{"a break of the switch", "for {\nswitch {\ncase a:\n\tbreak\n}\n}", ""},
		{"a fallthrough", "switch {\ncase a:\n\tfallthrough\ncase b:\n}", ""},
		{"default first", "switch {\ndefault:\ncase a:\n}", ""},
		{"default alone", "switch {\ndefault:\n}", ""},
		{"an empty switch", "switch {\n}", ""},
		{"a label", "L:\nswitch {\ncase a:\n\tbreak L\n}", ""},
	} {
		if test.want == "" {
			test.want = test.in
		}
		const head = "package p\n\nfunc f() {\n"
		got, err := ifsForSwitches([]byte(head + test.in + "\n}\n"))
		if diff := cmp.Diff(head+test.want+"\n}\n", string(got)); diff != "" || err != nil {
			t.Errorf("%s: ifsForSwitches() error = %v, want none; the difference from the wanted source:\n%s", test.name, err,
				diff)
		}
	}
}

// TestRepositorySourcesCanBeRewritten checks that the result for each file of the repository is valid Go with the same
// number of lines.
func TestRepositorySourcesCanBeRewritten(t *testing.T) {
	rewritten := 0
	err := eachSource(filepath.Join("..", "..", "shared"), func(path string, source []byte) error {
		got, err := ifsForSwitches(source)
		if err != nil {
			return err
		}
		if _, err := parser.ParseFile(token.NewFileSet(), path, got, parser.SkipObjectResolution); err != nil {
			return err
		}
		if strings.Count(string(got), "\n") != strings.Count(string(source), "\n") {
			t.Errorf("ifsForSwitches(%s) has %d lines, want %d", path, strings.Count(string(got), "\n"),
				strings.Count(string(source), "\n"))
		}
		if string(got) != string(source) {
			rewritten++
		}
		return nil
	})
	if err != nil || rewritten < 10 {
		t.Errorf("%d files have changed, error = %v, want at least 10 and no error", rewritten, err)
	}
}

func TestDeclarationLinesAreIgnored(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.go"),
		[]byte("package p\n\nconst (\n\ta = 1 + 2\n)\n\nfunc f() int { return 1 + 2 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	outside, err := declarations(folder)
	if err != nil {
		t.Fatal(err)
	}
	report := []byte(`{"files":[{"file_name":"a.go","mutations":[
		{"status":"NOT COVERED","line":4},{"status":"NOT COVERED","line":7},{"status":"KILLED","line":7}]}]}`)
	if s, err := parseReport(report, outside); err != nil || s != (score{killed: 1, uncovered: 1}) {
		t.Errorf("parseReport() = %+v, %v, want one killed and one uncovered mutation", s, err)
	}
}
