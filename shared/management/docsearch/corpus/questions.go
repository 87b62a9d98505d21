package corpus

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// The sets of questions with which the quality of searches is measured. The search was tuned with Tuning. Nothing was
// tuned with HeldOut, which measures the result. The authors of Strangers had read the pages, but did not know the
// search. The authors of Newcomers had read only the README and the headings of the pages.
const (
	Tuning = iota
	HeldOut
	Strangers
	Newcomers
)

// SetNames are the names of the sets, in the order of the constants.
var SetNames = [...]string{Tuning: "tuned", HeldOut: "test", Strangers: "strangers", Newcomers: "newcomers"}

// EvalQuestion is a question with the names of the sections that contain
// its answer. Sections is empty if the documentation has no answer.
type EvalQuestion struct {
	Text     string
	Sections []string
}

// QuestionSets has the questions of each set.
type QuestionSets [len(SetNames)][]EvalQuestion

// ReadQuestions reads the questions from the repository: those with an answer in the documentation, and those without.
func ReadQuestions(repository fs.FS) (answerable, unanswerable QuestionSets, err error) {
	answerable, err = readQuestions(repository, "answerable")
	unanswerable, unanswerableErr := readQuestions(repository, "unanswerable")
	return answerable, unanswerable, errors.Join(err, unanswerableErr)
}

// readQuestions reads the files of a kind, answerable or unanswerable. The questions of the first file belong
// alternately to Tuning and HeldOut. Strangers has a file of each kind. Newcomers has only answerable questions.
func readQuestions(repository fs.FS, kind string) (all QuestionSets, err error) {
	const folder = "shared/management/docsearch/testdata/"
	interleaved, err := readQuestionFile(repository, folder+kind+".txt")
	if err != nil {
		return all, err
	}
	for n, q := range interleaved {
		all[n%2] = append(all[n%2], q)
	}
	if all[Strangers], err = readQuestionFile(repository, folder+"strangers-"+kind+".txt"); err != nil ||
		kind != "answerable" {
		return all, err
	}
	all[Newcomers], err = readQuestionFile(repository, folder+"newcomers-"+kind+".txt")
	return all, err
}

// readQuestionFile reads questions, one per line: the text, " -> ", and the sections. The section page#heading is a
// part of a page, and op:ID is an operation. Lines that begin with # are comments.
func readQuestionFile(repository fs.FS, file string) (all []EvalQuestion, err error) {
	text, err := fs.ReadFile(repository, file)
	if err != nil {
		return nil, fmt.Errorf("read questions: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		question, sections, _ := strings.Cut(line, " -> ")
		q := EvalQuestion{Text: question}
		for section := range strings.FieldsSeq(sections) {
			if id, isOperation := strings.CutPrefix(section, "op:"); isOperation {
				section = OpenAPIFile + "#" + id
			} else {
				section = DocsFolder + "/" + strings.Replace(section, "#", ".md#", 1)
			}
			q.Sections = append(q.Sections, section)
		}
		all = append(all, q)
	}
	return all, nil
}
