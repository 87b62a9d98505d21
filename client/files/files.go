// Package files has an account's objects in files: it reads what they want, compares it with what the API has, and makes the
// changes in between, which are exactly those that were planned.
//
// Fields are the operations' own, as package apitools declares them: kinds.go says only which operations a kind is listed, made,
// changed and removed by, and what it is called. What it is not: it knows no command line (client/commands), and asks no operation
// that another client could not.
//
// Files own the objects that they name, and of these the fields that they name; all else of the account stays as it is. Something
// is deleted only where a list is said to be complete, and only when that is asked for (Options.Prune).
//
// Read kinds.go first, then read.go and plan.go; apply.go has the promises about a process that is killed. docs/files.md is the
// users' side of it.
package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/report"
	"github.com/gatewright/gatewright/shared/project"
)

// API is what is asked of an installation.
type API interface {
	// Named calls an operation by its name, and List asks for all pages of one, as a document with data.
	Named(ctx context.Context, name string, arguments map[string]any) (*call.Answer, error)
	List(ctx context.Context, name string, arguments map[string]any) ([]byte, error)
	// Account is the account that is meant.
	Account(ctx context.Context) (string, error)
}

var _ API = (*call.API)(nil)

// Value is a value of a field, in JSON.
type Value = json.RawMessage

// InvalidError is what is wrong with files, all of it.
type InvalidError struct {
	Problems []project.Problem
	// Source shows the places, but for lines with what is a secret.
	Source report.Source
}

// Error implements error.
func (e *InvalidError) Error() string {
	return "the files are not valid: " + report.Count(len(e.Problems), 0)
}

// Document implements output.Described.
func (e *InvalidError) Document() []byte {
	document, err := json.Marshal(struct {
		Errors []project.Problem `json:"errors"`
	}{e.Problems})
	if err != nil {
		return nil
	}
	return document
}

// invalid is the error of problems, nil for none.
func (f *Files) invalid(problems []project.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	shown := report.FromFiles(f.sources)
	return exit.With(exit.Invalid, &InvalidError{problems, func(file string, line, column int) (project.Excerpt, bool) {
		if f.hidden[file][line] {
			return project.Excerpt{}, false
		}
		return shown(file, line, column)
	}})
}

// usage is an error of a command line or of what it names.
func usage(format string, args ...any) error {
	return exit.With(exit.Usage, fmt.Errorf(format, args...))
}

// Invalid is what is wrong with files, where that is what an error is about.
func Invalid(err error) (*InvalidError, bool) { return errors.AsType[*InvalidError](err) }
