// Package validate checks a project's folder like a deploy, on this machine and offline. It uses the builder's compiler
// and the gateway's own checks.
//
// It does not check what only an installation knows: whether key buckets, metering buckets and certificates exist. The
// environment's variables are also unknown, unless the caller provides them. Without them, an error that a variable's
// value could prevent is only a warning: where the project is deployed, it is an error or does not occur.
//
// Package folder reads the folder, and package report prints the result. All of this package's code is in validate.go.
package validate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/hashicorp/go-envparse"

	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Validator checks projects. It is safe for concurrent use. It is slower for the first project than for later ones.
type Validator struct{ compiler *project.Compiler }

// New returns a Validator.
func New() *Validator { return &Validator{project.NewCompiler()} }

// Options are the options of a check.
type Options struct {
	// Variables are the values of the environment's variables by name. nil means that the variables are unknown. An
	// empty map means that there are no variables.
	Variables map[string]string
}

// Result is the result of a check.
type Result struct {
	project.Result
	// Files are the files that were compiled, for excerpts. They are nil if the folder itself is refused.
	Files project.Files
	// Summary describes the files that a deploy would upload.
	Summary folder.Summary
	// UnknownVariables are the names of the variables that the project reads and whose values are unknown, in the order of
	// the problems. It is nil if Options.Variables is not nil.
	UnknownVariables []string
}

// Folder checks a project's folder. Errors in the result prevent a deployment. They include the reasons why the folder
// is refused. The returned error wraps a *folder.ChangedError, the context's cause, or an error of reading.
func (v *Validator) Folder(ctx context.Context, p *folder.Project, o Options) (Result, error) {
	files, summary, err := p.Files(ctx)
	if refused, ok := errors.AsType[*folder.RefusedError](err); ok {
		return Result{Result: project.Result{Errors: refused.Problems, Warnings: summary.Warnings}, Summary: summary}, nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("read the project: %w", err)
	}
	out := Result{Files: files, Summary: summary}
	if out.Result, out.UnknownVariables, err = v.Files(ctx, files, o); err != nil {
		return Result{}, err
	}
	out.Warnings = append(summary.Warnings, out.Warnings...)
	return out, nil
}

// errTimeout is the cancellation cause after project.BuildTime.
var errTimeout = errors.New("validate: the time for a project is over")

// Files checks the files that the compiler reads. With Variables, the result equals the builder's result for the same
// files and variables. unknown is for Result.UnknownVariables.
func (v *Validator) Files(
	ctx context.Context, files project.Files, o Options,
) (result project.Result, unknown []string, err error) {
	buildCtx, cancel := context.WithTimeoutCause(ctx, project.BuildTime, errTimeout)
	defer cancel()
	_, result, err = v.compiler.Compile(buildCtx, files, project.Input{
		Variables: o.Variables, Catalog: gateway.Catalog{}, Verify: gateway.Verify,
	})
	if errors.Is(err, errTimeout) {
		message := project.BudgetExceeded("time", int64(project.BuildTime.Seconds())+1, "It was ended. Divide the project.")
		return project.Result{Errors: []project.Problem{{Message: message}}, Warnings: []project.Problem{}}, nil, nil
	}
	if err != nil {
		return project.Result{}, nil, err
	}
	if o.Variables == nil {
		result, unknown = demoteUnset(result)
	}
	return result, unknown, nil
}

// demoteUnset returns the result for unknown variables. Each error or warning that occurs only while a variable has no
// value becomes a warning that names the variable. unknown has the names of these variables.
func demoteUnset(all project.Result) (out project.Result, unknown []string) {
	out = project.Result{Errors: []project.Problem{}, Warnings: []project.Problem{}}
	added := map[string]bool{}
	addWarning := func(p project.Problem) {
		if !added[p.Unset] {
			added[p.Unset] = true
			unknown = append(unknown, p.Unset)
		}
		p.Message = fmt.Sprintf("The value of %s is not known here. Where it is not set, a deploy says: %s", p.Unset,
			p.Message)
		out.Warnings = append(out.Warnings, p)
	}
	for _, p := range all.Errors {
		if p.Unset != "" {
			addWarning(p)
		} else {
			out.Errors = append(out.Errors, p)
		}
	}
	for _, p := range all.Warnings {
		if p.Unset != "" {
			addWarning(p)
		} else {
			out.Warnings = append(out.Warnings, p)
		}
	}
	return out, unknown
}

// maxEnvFileBytes is the maximum size of a file of variables.
const maxEnvFileBytes = 1 << 20

// ReadEnvFile reads variables from a file of lines NAME=value. The lines can have quotes, comments and "export", as in
// shells. A syntax error has the number of the line, and does not contain its text. No error contains a value.
func ReadEnvFile(name string) (map[string]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read the variables: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxEnvFileBytes {
		return nil, fmt.Errorf("read the variables: %s is no file of at most %d bytes", name, maxEnvFileBytes)
	}
	text, err := os.ReadFile(name) //nolint:gosec // G304: a file that the user names
	if err != nil {
		return nil, fmt.Errorf("read the variables: %w", err)
	}
	variables, err := envparse.Parse(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	if e, ok := errors.AsType[*envparse.ParseError](err); ok {
		// Do not wrap the library's error: it may contain a part of the line.
		return nil, fmt.Errorf("line %d of %s is no variable: write NAME=value, with quotes around a value that has spaces "+
			"at its ends or a #", e.Line, name)
	}
	for variable := range variables {
		if strings.ContainsAny(variable, "./") {
			return nil, fmt.Errorf("%s sets %q: a name has letters, digits and underscores", name, variable)
		}
	}
	return variables, err
}
