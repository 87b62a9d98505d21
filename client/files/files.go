// Package files creates, changes and deletes an account's objects as files describe them. It reads the files, compares
// them with the objects of the account, and makes exactly the changes of the resulting plan.
//
// The fields of an object are members of the request bodies of its operations, which package apitools declares. So
// kinds.go defines for each kind of object only its names, its operations, and the exceptions. The package has no
// command line (client/commands), and calls only operations that any other client can call.
//
// Files manage the objects that they name, and only the fields that they name. The other objects and fields of the
// account stay unchanged. An object is deleted only if its list is declared complete and the caller sets Options.Prune.
//
// Read kinds.go first, then read.go and plan.go. apply.go describes what happens if a process is killed. docs/files.md
// is the documentation for users.
package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/report"
	"github.com/gatewright/gatewright/shared/format/project"
)

// API is the part of a client of an installation that this package needs.
type API interface {
	// Call calls an operation by its name. List calls a list operation until it has all pages, and returns one JSON
	// object with all entries in its member data.
	Call(ctx context.Context, name string, arguments map[string]any) (*call.Response, error)
	List(ctx context.Context, name string, arguments map[string]any) ([]byte, error)
	// Account returns the name of the account that the client uses.
	Account(ctx context.Context) (string, error)
}

var _ API = (*call.API)(nil)

// Value is the value of a field, in JSON.
type Value = json.RawMessage

// InvalidError has all problems of a set of files as one error.
type InvalidError struct {
	Problems []project.Problem
	// Source returns the text of a file, from which a report shows one line. It returns false for a line that may contain
	// a secret.
	Source report.Source
}

// Error implements error.
func (e *InvalidError) Error() string {
	return "the files are not valid: " + report.Count(len(e.Problems), 0)
}

// Document implements output.Documented.
func (e *InvalidError) Document() []byte {
	document, err := json.Marshal(struct {
		Errors []project.Problem `json:"errors"`
	}{e.Problems})
	if err != nil {
		return nil
	}
	return document
}

// invalidError returns an error that wraps an InvalidError with problems, nil if there are none.
func (f *Files) invalidError(problems []project.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	source := report.FromFiles(f.sources)
	return exit.WithCode(exit.Invalid,
		&InvalidError{problems, func(file string, line, column int) (project.Excerpt, bool) {
			if f.hidden[file][line] {
				return project.Excerpt{}, false
			}
			return source(file, line, column)
		}})
}

// usageError returns an error with the exit code Usage: the command line is wrong, or a file or folder that it names
// cannot be used.
func usageError(format string, args ...any) error {
	return exit.WithCode(exit.Usage, fmt.Errorf(format, args...))
}

// AsInvalid returns the InvalidError that err wraps.
func AsInvalid(err error) (*InvalidError, bool) { return errors.AsType[*InvalidError](err) }
