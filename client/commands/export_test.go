package commands

import (
	"io"
	"testing"
)

// CheckVerbs has a test see each verb of the declarations, with its path.
func CheckVerbs(t *testing.T, check func(path string, v Verb)) {
	t.Helper()
	var walk func(path string, n noun)
	walk = func(path string, n noun) {
		path += " " + n.name
		for _, v := range n.verbs {
			of := Verb{Operation: v.operation, Awaits: v.awaits, Made: v.made != "", Secret: v.secret, List: v.shown != nil, Body: v.body, Removes: v.removes != nil}
			for _, g := range v.takes {
				of.Takes = append(of.Takes, Given{Argument: g.argument, Flag: g.flag, Word: g.word != "", Required: g.required || g.word != "" || g.preset != "", File: g.kind == asFile, Choices: g.choices})
			}
			if v.removes != nil {
				for _, c := range v.removes.below {
					of.Counts = append(of.Counts, Counted{c.operation, c.argument})
				}
			}
			check(path+" "+v.name, of)
		}
		for _, below := range n.below {
			walk(path, below)
		}
	}
	for _, made := range nouns() {
		walk("gatewright", made())
	}
}

// Verb is what is declared of a command.
type Verb struct {
	Operation, Awaits                 string
	Takes                             []Given
	Made, Secret, List, Body, Removes bool
	Counts                            []Counted
}

// Counted is what it counts, with the argument that it has several values of, "" for none.
type Counted struct{ Operation, Argument string }

// Given is one of its arguments.
type Given struct {
	// Flag is the one that it is typed by, "" for a Word.
	Argument, Flag       string
	Word, Required, File bool
	Choices              []string
}

// Below is how many commands a noun has, on a command line of these words.
func Below(noun string, args ...string) int {
	a := &App{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}
	for _, c := range a.root(needsOperations(args), speaksOf(args)).Commands() {
		if c.Name() == noun {
			return len(c.Commands())
		}
	}
	return -1
}

// NewSecretFile makes the file that a secret is for, before that is made.
func NewSecretFile(path string) error {
	_, err := newSecretFile(path)
	return err
}

// NewSecretFileBeside makes the file as NewSecretFile, and has something happen before it is held.
func NewSecretFileBeside(path string, meanwhile func() error) error {
	out, err := newRoom(path)
	if err == nil {
		err = meanwhile()
	}
	if err != nil {
		return err
	}
	_, err = out.taken(path)
	return err
}

// KeepSecret takes a new file and writes a secret into it, or has it be gone as a command that was told none; false where another has it.
func KeepSecret(path, secret string, drop bool) (took bool, err error) {
	file, err := newSecretFile(path)
	if err != nil {
		return false, nil //nolint:nilerr // another has it
	}
	if drop {
		file.drop()
		return true, nil
	}
	return true, file.write(secret)
}
