// Package planted runs tests while a known defect is active in the source, one defect at a time. Each defect has a
// guard: the test that has to catch it. The package reports whether the guard fails. A rule that no test checks is only
// a comment, and after a refactoring a test can pass without checking anything.
//
// It is not mutation testing: people choose the defects. Each defect was made or nearly made in this repository, or
// would do harm in production, and all defects have to be caught. The package knows nothing about the product. `make
// test-guards` runs the guards of the defects in defects/; `make test-tools` only checks that each defect still applies
// to the source and compiles, and that its guard exists.
//
// The defects are in an overlay of the go command instead of a copy of the tree: no file is written to the tree or next
// to it, and packages that a defect does not affect come from the build cache. As a consequence, tests that read
// sources from the disk (package repolint) do not see the defects. Other tests have to prove that such tests can fail.
//
// Planting each defect separately would compile and link the affected packages more than a thousand times. So the
// source gets all defects at once (mutant schemata; Untch, Offutt and Harrold 1993): the overlay adds a changed copy of
// each function that a defect changes, and an environment variable selects the original or the copy in each run of a
// test binary. Everything is compiled once, and the tests of each package are linked once. As a consequence, a defect
// can change only the bodies of functions and the values of variables and constants.
//
// Read planted.go first, then run.go and selectable.go. CONTRIBUTING says how to add a defect.
package planted

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Defect is a small change that makes the product wrong. It is a txtar file:
//
//	What would happen in production, in a sentence.
//	-- guard ./functions TestHiddenResourcesLookMissing --
//	-- find shared/management/api/server.go --
//	text that is in the file exactly once
//	-- replace --
//	the text that replaces it
//
// More pairs of find and replace can follow, in the same or in other files.
type Defect struct {
	Name string
	// Harm says what the defect would do in production.
	Harm  string
	Guard Guard
	Edits []Edit
}

// Guard is the test that has to fail. Package is the argument of the go command in the root of the module; Test is the
// name of a test or a subtest.
type Guard struct{ Package, Test string }

func (g Guard) String() string { return g.Package + " " + g.Test }

// Edit replaces the text Find in a file with the text Replace. File is the path of the file in the module.
type Edit struct{ File, Find, Replace string }

// Read returns the defects in a folder, sorted by name. Its error names each invalid file.
func Read(fsys fs.FS) ([]Defect, error) {
	files, err := fs.Glob(fsys, "*.txtar")
	if err != nil {
		return nil, fmt.Errorf("list defects: %w", err)
	}
	var all []Defect
	var wrong []error
	for _, file := range files {
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return nil, fmt.Errorf("read defects: %w", err)
		}
		d, err := Parse(strings.TrimSuffix(file, ".txtar"), text)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", file, err))
		}
		all = append(all, d)
	}
	return all, errors.Join(wrong...)
}

// Parse returns the defect in a txtar file. name is the name of the file without its extension.
func Parse(name string, text []byte) (Defect, error) {
	archive := txtar.Parse(text)
	d := Defect{Name: name, Harm: strings.TrimSpace(string(archive.Comment))}
	if d.Harm == "" {
		return d, errors.New("say first what the defect would do in production")
	}
	files := archive.Files
	if len(files) == 0 {
		return d, errors.New("name its guard: -- guard ./package TestName --")
	}
	fields := strings.SplitN(files[0].Name, " ", 3)
	if len(fields) != 3 || fields[0] != "guard" {
		return d, errors.New("name its guard before the edits: -- guard ./package TestName --")
	}
	d.Guard = Guard{Package: fields[1], Test: fields[2]}
	for files = files[1:]; len(files) > 0; files = files[2:] {
		file, ok := strings.CutPrefix(files[0].Name, "find ")
		if !ok || len(files) == 1 || files[1].Name != "replace" {
			return d, errors.New("an edit is -- find FILE -- and then -- replace --")
		}
		if path.Ext(file) != ".go" {
			return d, fmt.Errorf("%s: an overlay can replace only Go files; tests read other files from the disk", file)
		}
		e := Edit{File: file, Find: section(files[0].Data), Replace: section(files[1].Data)}
		if e.Find == "" {
			return d, fmt.Errorf("%s: there is no text to find", file)
		}
		d.Edits = append(d.Edits, e)
	}
	if len(d.Edits) == 0 {
		return d, errors.New("it changes nothing: -- find FILE -- and then -- replace --")
	}
	return d, nil
}

// section returns the text of a txtar section without the newline at its end.
func section(data []byte) string { return strings.TrimSuffix(string(data), "\n") }

// Plant returns the changed text of each file that the defect changes, by path. It returns an error if the defect no
// longer applies: a text to find does not occur exactly once in its file.
func (d Defect) Plant(tree fs.FS) (map[string]string, error) {
	planted := map[string]string{}
	for _, e := range d.Edits {
		text, ok := planted[e.File]
		if !ok {
			original, err := fs.ReadFile(tree, e.File)
			if err != nil {
				return nil, fmt.Errorf("the defect %s no longer applies: %w", d.Name, err)
			}
			text = string(original)
		}
		if n := strings.Count(text, e.Find); n != 1 {
			return nil, fmt.Errorf("the defect %s no longer applies: %s has %d places with this text, want one:\n%s", d.Name,
				e.File, n, e.Find)
		}
		planted[e.File] = strings.Replace(text, e.Find, e.Replace, 1)
	}
	return planted, nil
}
