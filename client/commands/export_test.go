package commands

import (
	"io"
	"testing"
)

// CheckVerbs calls check for the declaration of each verb, with the path of its command.
func CheckVerbs(t *testing.T, check func(path string, v Verb)) {
	t.Helper()
	var walk func(path string, r resource)
	walk = func(path string, r resource) {
		path += " " + r.name
		for _, v := range r.verbs {
			exported := Verb{
				Operation: v.operation, StatusOperation: v.statusOperation, CreatesSecret: v.secretMember != "",
				ShowsSecrets: v.showsSecrets, List: v.columns != nil, Body: v.hasBodyFlag, Deletes: v.deletes != nil,
			}
			for _, p := range v.params {
				exported.Parameters = append(exported.Parameters,
					Parameter{Argument: p.argument, Flag: p.flag, Positional: p.placeholder != "", Required: p.required ||
						p.placeholder != "" || p.defaultValue != "", File: p.kind == asFile, Choices: p.choices})
			}
			if v.deletes != nil {
				for _, c := range v.deletes.dependents {
					exported.Dependents = append(exported.Dependents, Dependent{c.operation, c.argument})
				}
			}
			check(path+" "+v.name, exported)
		}
		for _, child := range r.children {
			walk(path, child)
		}
	}
	for _, newResource := range resources() {
		walk("gatewright", newResource())
	}
}

// Verb has the parts of a command's declaration that tests need.
type Verb struct {
	Operation, StatusOperation                       string
	Parameters                                       []Parameter
	CreatesSecret, ShowsSecrets, List, Body, Deletes bool
	Dependents                                       []Dependent
}

// Dependent is a list operation that a verb calls to count objects. Argument is the argument that has several values,
// "" for none.
type Dependent struct{ Operation, Argument string }

// Parameter has the parts of an argument's declaration that tests need.
type Parameter struct {
	// Flag is the flag of the argument, "" for a positional argument.
	Argument, Flag             string
	Positional, Required, File bool
	Choices                    []string
}

// SubcommandCount returns the number of subcommands that a resource has if the command line is args. It returns -1 if
// the resource has no command.
func SubcommandCount(resource string, args ...string) int {
	a := &App{Out: io.Discard, Err: io.Discard, Getenv: func(string) string { return "" }}
	for _, c := range a.root(needsOperations(args), mentionedIn(args)).Commands() {
		if c.Name() == resource {
			return len(c.Commands())
		}
	}
	return -1
}

// NewSecretFile calls newSecretFile.
func NewSecretFile(path string) error {
	_, err := newSecretFile(path)
	return err
}

// NewSecretFileBeforeLock creates a file like NewSecretFile. It calls beforeLock after it has created the file and
// before it locks the file.
func NewSecretFileBeforeLock(path string, beforeLock func() error) error {
	out, err := reserveSecretFile(path)
	if err == nil {
		err = beforeLock()
	}
	if err != nil {
		return err
	}
	_, err = out.claim(path)
	return err
}

// WriteSecretFile creates a file and writes a secret to it. If discard is true, it removes the file instead, like a
// command that received no secret. acquired is false if another command has the file.
func WriteSecretFile(path, secret string, discard bool) (acquired bool, err error) {
	file, err := newSecretFile(path)
	if err != nil {
		return false, nil //nolint:nilerr // another command has the file
	}
	if discard {
		file.remove()
		return true, nil
	}
	return true, file.write(secret)
}
