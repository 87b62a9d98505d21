package corpus

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// The sets of questions by which a search is measured: what it is tuned on, what tests that, what was asked by somebody who had read the
// pages and knew nothing of the search, and what was asked by somebody who had read the README and the headings of the pages alone.
const (
	Tuned = iota
	Test
	Strangers
	Newcomers
)

// Sets are their names.
var Sets = [...]string{Tuned: "tuned", Test: "test", Strangers: "strangers", Newcomers: "newcomers"}

// Asked is a question with the names of the sections that answer it; none where none does.
type Asked struct {
	Text     string
	Sections []string
}

// BySet are questions by their sets.
type BySet [len(Sets)][]Asked

// ReadQuestions reads the questions that have an answer and those that have none from the repository.
func ReadQuestions(repository fs.FS) (answerable, unanswerable BySet, err error) {
	answerable, err = readQuestions(repository, "answerable")
	unanswerable, failed := readQuestions(repository, "unanswerable")
	return answerable, unanswerable, errors.Join(err, failed)
}

// readQuestions reads those of a kind: a file whose lines go to two sets by turns, the strangers', and the newcomers', which all have an answer.
func readQuestions(repository fs.FS, kind string) (all BySet, err error) {
	const folder = "shared/docsearch/testdata/"
	both, err := readAsked(repository, folder+kind+".txt")
	if err != nil {
		return all, err
	}
	for n, q := range both {
		all[n%2] = append(all[n%2], q)
	}
	if all[Strangers], err = readAsked(repository, folder+"strangers-"+kind+".txt"); err != nil || kind != "answerable" {
		return all, err
	}
	all[Newcomers], err = readAsked(repository, folder+"newcomers-"+kind+".txt")
	return all, err
}

// readAsked reads questions, one a line.
func readAsked(repository fs.FS, file string) (all []Asked, err error) {
	text, err := fs.ReadFile(repository, file)
	if err != nil {
		return nil, fmt.Errorf("read questions: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		question, answers, _ := strings.Cut(line, " -> ")
		q := Asked{Text: question}
		for section := range strings.FieldsSeq(answers) {
			if id, operation := strings.CutPrefix(section, "op:"); operation {
				section = OpenAPI + "#" + id
			} else {
				section = Docs + "/" + strings.Replace(section, "#", ".md#", 1)
			}
			q.Sections = append(q.Sections, section)
		}
		all = append(all, q)
	}
	return all, nil
}
