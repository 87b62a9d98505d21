// Package guards plants known defects, one at a time, and tells whether the
// test that is there to catch each of them fails: its guard. A rule that no
// test breaks for is a comment, and a refactoring can lose a test's bite
// without losing the test.
//
// It is no mutation testing: the defects are chosen by people, each is one that
// was made or nearly made here, or that would do harm in production, and all of
// them have to be caught. It knows nothing of the product; `make test-guards`
// applies the list in defects/ to the repository, `make test-tools` only checks that
// each defect still fits the source.
//
// Why an overlay of the go command and no copy of the tree: nothing is written
// into the tree or beside it, and what a defect does not reach comes from the
// build cache. The price: tests that read sources from the disk (package house)
// do not see the defect, so that those show in their own tests that they fail.
//
// Planting each defect by itself would compile and link what it reaches more than a thousand times. So the
// source gets all defects at once (mutant schemata; Untch, Offutt and Harrold 1993): a changed function stands
// beside the function that it changes, and a run of a test binary chooses one of them by an environment
// variable. Everything is compiled once, and the tests of each package are linked once. The price: a defect
// changes the bodies of functions and the values of variables and constants, and nothing else.
//
// Read guards.go first, then run.go and switched.go. CONTRIBUTING says how to add a
// defect.
package guards

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
//	-- guard ./functions TestTheUnseenReadsLikeTheAbsent --
//	-- find shared/api/server.go --
//	text that is in the file exactly once
//	-- replace --
//	what stands there instead
//
// More pairs of find and replace may follow, in the same or in other files.
type Defect struct {
	Name string
	// Harm is what it would do in production.
	Harm  string
	Guard Guard
	Edits []Edit
}

// Guard is the test that has to fail: the package as the go command takes it
// from the root of the module, and the name of a test or a subtest of it.
type Guard struct{ Package, Test string }

func (g Guard) String() string { return g.Package + " " + g.Test }

// Edit replaces a text of a file by another.
type Edit struct{ File, Find, Replace string }

// Read reads the defects of a folder, in the order of their names.
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

// Parse reads one defect.
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
			return d, fmt.Errorf("%s: the go command replaces Go files alone; tests read others from the disk", file)
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

// section is the text of a txtar section without the newline that ends its last line.
func section(data []byte) string { return strings.TrimSuffix(string(data), "\n") }

// Plant gives the files of a tree as the defect changes them, by their paths.
// An error means that the defect no longer applies: a text to find is not in
// its file exactly once.
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
			return nil, fmt.Errorf("the defect %s no longer applies: %s has %d times, instead of once:\n%s", d.Name, e.File, n, e.Find)
		}
		planted[e.File] = strings.Replace(text, e.Find, e.Replace, 1)
	}
	return planted, nil
}
