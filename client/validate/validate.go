// Package validate says of a project's folder what a deploy of it would say, without one: the builder's compiler, with
// the gateway's own checks, here and offline.
//
// What only an installation knows is not checked: whether key buckets, metering buckets and certificates are there. An
// environment's variables are not known either, unless the caller gives them: what is wrong only as long as one has no
// value is a warning then, since it is an error or nothing at all where the project is deployed.
//
// What it is not: it reads no folder (package folder) and prints nothing (package report). Everything is in validate.go.
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
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/project"
)

// Validator checks projects. It is safe for concurrent use, and quicker from its second project on.
type Validator struct{ compiler *project.Compiler }

// New makes a Validator.
func New() *Validator { return &Validator{project.NewCompiler()} }

// Options say what a project is checked with.
type Options struct {
	// Variables are the environment's by name; nil means that they are not known, an empty map that there are none.
	Variables map[string]string
}

// Result is what a validation says.
type Result struct {
	project.Result
	// Files are what was compiled, for excerpts; nil where the folder itself is refused.
	Files project.Files
	// Summary is what a deploy would upload.
	Summary folder.Summary
	// Unknown are the variables that are read and whose values are not known, by name. It is empty where Options has
	// variables.
	Unknown []string
}

// Folder checks a project's folder. Errors in the result keep it from being deployed; what is refused of the folder is
// among them. The error is a *folder.ChangedError, the context's or one of reading.
func (v *Validator) Folder(ctx context.Context, p *folder.Project, o Options) (Result, error) {
	files, summary, err := p.Files(ctx)
	if refused, ok := errors.AsType[*folder.RefusedError](err); ok {
		return Result{Result: project.Result{Errors: refused.Problems, Warnings: summary.Warnings}, Summary: summary}, nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("read the project: %w", err)
	}
	out := Result{Files: files, Summary: summary}
	if out.Result, out.Unknown, err = v.Files(ctx, files, o); err != nil {
		return Result{}, err
	}
	out.Warnings = append(summary.Warnings, out.Warnings...)
	return out, nil
}

var errSlow = errors.New("validate: the time for a project is over")

// Files checks the files that the compiler reads. With Variables it answers what the builder answers of the same files
// and variables.
func (v *Validator) Files(ctx context.Context, files project.Files, o Options) (result project.Result, unknown []string, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, project.BuildTime, errSlow)
	defer cancel()
	_, result, err = v.compiler.Compile(limited, files, project.Input{
		Variables: o.Variables, Catalogue: gateway.Catalogue{}, Verify: gateway.Verify,
	})
	if errors.Is(err, errSlow) {
		over := project.Over("time", int64(project.BuildTime.Seconds())+1, "It was ended. Divide the project.")
		return project.Result{Errors: []project.Problem{{Message: over}}, Warnings: []project.Problem{}}, nil, nil
	}
	if err != nil {
		return project.Result{}, nil, err
	}
	if o.Variables == nil {
		result, unknown = withoutVariables(result)
	}
	return result, unknown, nil
}

// withoutVariables makes warnings of the errors that are none once a variable is set.
func withoutVariables(all project.Result) (out project.Result, unknown []string) {
	out = project.Result{Errors: []project.Problem{}, Warnings: []project.Problem{}}
	seen := map[string]bool{}
	doubt := func(p project.Problem) {
		if !seen[p.Unset] {
			seen[p.Unset] = true
			unknown = append(unknown, p.Unset)
		}
		p.Message = fmt.Sprintf("The value of %s is not known here. Where it is not set, a deploy says: %s", p.Unset, p.Message)
		out.Warnings = append(out.Warnings, p)
	}
	for _, p := range all.Errors {
		if p.Unset != "" {
			doubt(p)
		} else {
			out.Errors = append(out.Errors, p)
		}
	}
	for _, p := range all.Warnings {
		if p.Unset != "" {
			doubt(p)
		} else {
			out.Warnings = append(out.Warnings, p)
		}
	}
	return out, unknown
}

const maxEnvFileBytes = 1 << 20

// ReadEnvFile reads variables from a file of lines NAME=value, with quotes, comments and "export" as shells have them.
// Its errors name the line and repeat nothing of it.
func ReadEnvFile(name string) (map[string]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read the variables: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxEnvFileBytes {
		return nil, fmt.Errorf("read the variables: %s is no file of at most %d bytes", name, maxEnvFileBytes)
	}
	text, err := os.ReadFile(name) //nolint:gosec // the caller's own file
	if err != nil {
		return nil, fmt.Errorf("read the variables: %w", err)
	}
	variables, err := envparse.Parse(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	if e, ok := errors.AsType[*envparse.ParseError](err); ok {
		// What the library says of a line may have a part of it.
		return nil, fmt.Errorf("line %d of %s is no variable: write NAME=value, with quotes around a value that has spaces at its ends or a #", e.Line, name)
	}
	for variable := range variables {
		if strings.ContainsAny(variable, "./") {
			return nil, fmt.Errorf("%s sets %q: a name has letters, digits and underscores", name, variable)
		}
	}
	return variables, err
}
