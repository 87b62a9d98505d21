package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/client/report"
	"github.com/gatewright/gatewright/client/validate"
	"github.com/gatewright/gatewright/shared/format/project"
)

// validation is the JSON document that the command validate writes. Its errors and warnings have the same format as in
// the buildResult of a build.
type validation struct {
	Valid    bool              `json:"valid"`
	Errors   []project.Problem `json:"errors"`
	Warnings []project.Problem `json:"warnings"`
	// UnknownVariables are the variables that the project reads, but whose values are not known on this machine.
	UnknownVariables []string `json:"unknownVariables"`
	// Uploaded describes the files that a deploy would upload.
	Uploaded uploadSummary `json:"uploaded"`
}

type uploadSummary struct {
	Files        int                   `json:"files"`
	Bytes        int64                 `json:"bytes"`
	Excluded     []folder.ExcludedPath `json:"leftOut"`
	MoreExcluded int                   `json:"moreLeftOut,omitempty"`
}

func newValidation(r validate.Result) validation {
	return validation{
		Valid:  len(r.Errors) == 0,
		Errors: append([]project.Problem{}, r.Errors...), Warnings: append([]project.Problem{}, r.Warnings...),
		UnknownVariables: append([]string{}, r.UnknownVariables...),
		Uploaded: uploadSummary{
			r.Summary.Files, r.Summary.Bytes, append([]folder.ExcludedPath{}, r.Summary.Excluded...),
			r.Summary.MoreExcluded,
		},
	}
}

// reportFiles has the names of the report files, "" for a report that is not written.
type reportFiles struct{ sarif, codeQuality string }

func (a *App) validateCommand() *cobra.Command {
	var envFile string
	var reportTo reportFiles
	c := a.localCommand(&cobra.Command{
		Use: "validate [FOLDER]", Short: "Say what a deploy would say of a project, offline", GroupID: groupProjects,
		Long: "Say what a deploy would say of a project, offline: nothing is sent, and no key is needed.\n\n" +
			"The folder is the one that config/ is in, this one where none is named. What is wrong is told with its place, " +
			"and ends this with 6.\n" +
			"Whether key buckets, metering buckets and certificates are there only an installation knows. Values of variables " +
			"are those of --env-file; without\n" +
			"it, what is wrong only where a variable is not set is a warning.\n\n" +
			"Within GitHub Actions each problem is an annotation at its place too.",
		Example: "  gatewright validate\n  gatewright validate shop --env-file production.env --sarif gatewright.sarif\n  " +
			"gatewright validate --output json --jq '.warnings[].message'",
		Args: cobra.MaximumNArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		dir := "."
		if len(args) > 0 {
			dir = args[0]
		}
		return s.validate(ctx, dir, envFile, reportTo)
	})
	c.Flags().StringVar(&envFile, "env-file", "", "a `FILE` with the environment's variables, NAME=value on each line")
	c.Flags().StringVar(&reportTo.sarif, "sarif", "", "a `FILE` that the report is written to as SARIF 2.1.0")
	c.Flags().StringVar(&reportTo.codeQuality, "code-quality", "",
		"a `FILE` that the report is written to as GitLab's code quality report")
	return c
}

func (s *session) validate(ctx context.Context, dir, envFile string, reportTo reportFiles) error {
	p, err := folder.Open(ctx, dir)
	if err != nil {
		return exit.WithCode(exit.Usage, err)
	}
	var o validate.Options
	if envFile != "" {
		if o.Variables, err = validate.ReadEnvFile(envFile); err != nil {
			return exit.WithCode(exit.Usage, err)
		}
	}
	result, err := validate.New().Folder(ctx, p, o)
	if err != nil {
		return err
	}
	result.Errors, result.Warnings = report.Sorted(result.Errors), report.Sorted(result.Warnings)
	r := report.Report{
		Errors: result.Errors, Warnings: result.Warnings, Source: report.FromFiles(result.Files),
		Folder: p.PathInRepository(),
	}
	if err := reportTo.write(r); err != nil {
		return err
	}
	document, err := json.Marshal(newValidation(result))
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	if err := s.report(r); err != nil {
		return err
	}
	if len(result.Errors) > 0 {
		return exit.WithCode(exit.Invalid,
			&invalidError{
				errors.New("the project is not valid: " + report.Count(len(result.Errors), len(result.Warnings))),
				document,
			})
	}
	if len(result.UnknownVariables) > 0 {
		s.out.Infof("values that are not known here: %s; --env-file FILE has the project checked with them",
			strings.Join(result.UnknownVariables, ", "))
	}
	return s.out.Document(ctx, document, func() (output.Grid, error) {
		line := "valid"
		if n := len(result.Warnings); n > 0 {
			line += ", with " + report.Count(0, n)
		}
		return output.Grid{
			Rows: [][]string{{fmt.Sprintf("%s; files: %d, bytes: %d", line, result.Summary.Files, result.Summary.Bytes)}},
		}, nil
	})
}

// write writes the report files.
func (f reportFiles) write(r report.Report) error {
	for _, file := range []struct {
		name   string
		render func() ([]byte, error)
	}{{f.sarif, r.SARIF}, {f.codeQuality, r.CodeQuality}} {
		if file.name == "" {
			continue
		}
		text, err := file.render()
		if err != nil {
			return fmt.Errorf("write a report: %w", err)
		}
		if err := report.WriteFile(file.name, text); err != nil {
			return err
		}
	}
	return nil
}

// report writes the problems to stderr as text. In GitLab's log, the text is in a section. For GitHub's runner, report
// also writes annotations. With JSON output, report writes nothing, because the document has all problems.
func (s *session) report(r report.Report) error {
	if s.out.Format() == output.JSON || len(r.Errors)+len(r.Warnings) == 0 {
		return nil
	}
	if s.app.Getenv("GITLAB_CI") == "true" {
		return report.Section(s.app.Err, "gatewright", "Gatewright: "+report.Count(len(r.Errors), len(r.Warnings)), time.Now,
			func() error {
				return r.Text(s.app.Err, s.app.useColor(s.app.Err), false)
			})
	}
	inActions := s.app.Getenv("GITHUB_ACTIONS") == "true"
	if err := r.Text(s.app.Err, s.app.useColor(s.app.Err), inActions); err != nil || !inActions {
		return err
	}
	return r.Annotations(s.app.Err)
}

// invalidError says that a project is not valid, that its folder is refused, or that its build has failed. Its document
// has all problems.
type invalidError struct {
	error
	document []byte
}

// Document implements output.Documented.
func (e *invalidError) Document() []byte { return e.document }
