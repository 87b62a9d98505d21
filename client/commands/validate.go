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
	"github.com/gatewright/gatewright/shared/project"
)

// validation is the document: errors and warnings as a build has them in its buildResult, and what was checked.
type validation struct {
	Valid    bool              `json:"valid"`
	Errors   []project.Problem `json:"errors"`
	Warnings []project.Problem `json:"warnings"`
	// UnknownVariables are those that are read and whose values are not known here.
	UnknownVariables []string `json:"unknownVariables"`
	// Uploaded is what a deploy would upload of the folder.
	Uploaded uploaded `json:"uploaded"`
}

type uploaded struct {
	Files       int              `json:"files"`
	Bytes       int64            `json:"bytes"`
	LeftOut     []folder.LeftOut `json:"leftOut"`
	MoreLeftOut int              `json:"moreLeftOut,omitempty"`
}

func validationOf(r validate.Result) validation {
	return validation{
		Valid:  len(r.Errors) == 0,
		Errors: append([]project.Problem{}, r.Errors...), Warnings: append([]project.Problem{}, r.Warnings...), UnknownVariables: append([]string{}, r.Unknown...),
		Uploaded: uploaded{r.Summary.Files, r.Summary.Bytes, append([]folder.LeftOut{}, r.Summary.LeftOut...), r.Summary.MoreLeftOut},
	}
}

// reports are the files that a report is written to, "" for none.
type reports struct{ sarif, codeQuality string }

func (a *App) validateCommand() *cobra.Command {
	var envFile string
	var to reports
	c := a.local(&cobra.Command{
		Use: "validate [FOLDER]", Short: "Say what a deploy would say of a project, offline", GroupID: groupProjects,
		Long: "Say what a deploy would say of a project, offline: nothing is sent, and no key is needed.\n\n" +
			"The folder is the one that config/ is in, this one where none is named. What is wrong is told with its place, and ends this with 6.\n" +
			"Whether key buckets, metering buckets and certificates are there only an installation knows. Values of variables are those of --env-file; without\n" +
			"it, what is wrong only where a variable is not set is a warning.\n\n" +
			"Within GitHub Actions each problem is an annotation at its place too.",
		Example: "  gatewright validate\n  gatewright validate shop --env-file production.env --sarif gatewright.sarif\n  gatewright validate --output json --jq '.warnings[].message'",
		Args:    cobra.MaximumNArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		dir := "."
		if len(args) > 0 {
			dir = args[0]
		}
		return s.validate(ctx, dir, envFile, to)
	})
	c.Flags().StringVar(&envFile, "env-file", "", "a `FILE` with the environment's variables, NAME=value on each line")
	c.Flags().StringVar(&to.sarif, "sarif", "", "a `FILE` that the report is written to as SARIF 2.1.0")
	c.Flags().StringVar(&to.codeQuality, "code-quality", "", "a `FILE` that the report is written to as GitLab's code quality report")
	return c
}

func (s *session) validate(ctx context.Context, dir, envFile string, to reports) error {
	of, err := folder.Open(ctx, dir)
	if err != nil {
		return exit.With(exit.Usage, err)
	}
	var o validate.Options
	if envFile != "" {
		if o.Variables, err = validate.ReadEnvFile(envFile); err != nil {
			return exit.With(exit.Usage, err)
		}
	}
	result, err := validate.New().Folder(ctx, of, o)
	if err != nil {
		return err
	}
	r := report.Report{Errors: result.Errors, Warnings: result.Warnings, Source: report.FromFiles(result.Files), Folder: of.InRepository()}
	if err := to.write(r); err != nil {
		return err
	}
	document, err := json.Marshal(validationOf(result))
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	if err := s.report(r); err != nil {
		return err
	}
	if len(result.Errors) > 0 {
		return exit.With(exit.Invalid, &invalidError{errors.New("the project is not valid: " + report.Count(len(result.Errors), len(result.Warnings))), document})
	}
	if len(result.Unknown) > 0 {
		s.out.Say("values that are not known here: %s; --env-file FILE has the project checked with them", strings.Join(result.Unknown, ", "))
	}
	return s.out.Document(ctx, document, func() (output.Grid, error) {
		line := "valid"
		if n := len(result.Warnings); n > 0 {
			line += ", with " + report.Count(0, n)
		}
		return output.Grid{Rows: [][]string{{fmt.Sprintf("%s; files: %d, bytes: %d", line, result.Summary.Files, result.Summary.Bytes)}}}, nil
	})
}

// write writes the reports for programs.
func (f reports) write(r report.Report) error {
	for _, one := range []struct {
		name string
		made func() ([]byte, error)
	}{{f.sarif, r.SARIF}, {f.codeQuality, r.CodeQuality}} {
		if one.name == "" {
			continue
		}
		text, err := one.made()
		if err != nil {
			return fmt.Errorf("write a report: %w", err)
		}
		if err := report.WriteFile(one.name, text); err != nil {
			return err
		}
	}
	return nil
}

// report tells a person what is wrong, in a section of its own in GitLab's log, and GitHub's runner where. What reads JSON has the document
// alone.
func (s *session) report(r report.Report) error {
	if s.out.Format() == output.JSON || len(r.Errors)+len(r.Warnings) == 0 {
		return nil
	}
	if s.app.Getenv("GITLAB_CI") == "true" {
		return report.Section(s.app.Err, "gatewright", "Gatewright: "+report.Count(len(r.Errors), len(r.Warnings)), time.Now, func() error {
			return r.Text(s.app.Err, s.app.colours(s.app.Err), false)
		})
	}
	actions := s.app.Getenv("GITHUB_ACTIONS") == "true"
	if err := r.Text(s.app.Err, s.app.colours(s.app.Err), actions); err != nil || !actions {
		return err
	}
	return r.Annotations(s.app.Err)
}

// invalidError is a project that is not valid, with all that is wrong.
type invalidError struct {
	error
	document []byte
}

// Document implements output.Described.
func (e *invalidError) Document() []byte { return e.document }
