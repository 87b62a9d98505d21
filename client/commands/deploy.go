package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/deploy"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/client/report"
	"github.com/gatewright/gatewright/shared/lazy"
	"github.com/gatewright/gatewright/shared/project"
)

// buildTime is how long a build is followed where nobody says otherwise: longer than one takes (contract 3.1).
const buildTime = 5 * time.Minute

// pollEvery is how long a command waits before it asks again how a build goes.
const pollEvery = 500 * time.Millisecond

// mainBranch is deployed where the command line names no branch, and there is no git to ask.
const mainBranch = "main"

// projectName is what a project may be called (contract 1.4).
var projectName = lazy.Regexp(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (a *App) deployCommand() *cobra.Command {
	var (
		named, branch string
		to            reports
	)
	c := a.askingFor(buildTime, &cobra.Command{
		Use: "deploy [FOLDER]", Short: "Upload a project, follow its build, and print where it is served", GroupID: groupProjects,
		Long: "Upload a project, follow its build, and print where it is served: the URL alone is on stdout.\n\n" +
			"The folder is the one that config/ is in, this one where none is named. What .gatewrightignore leaves out, or .gitignore where there is none, is not\n" +
			"uploaded, and .env files never are. Without --project it is called as its folder is; without --branch it is git's branch, or\n" +
			"main where there is no git. Where git has a commit checked out and no branch, as in a pipeline, --branch has to name one.\n\n" +
			"What is served before stays until the build has succeeded, and after one that failed, which ends this with 6. Ctrl-C leaves the build\n" +
			"going, and says how to follow it. It may be run again at any moment.",
		Example: "  gatewright deploy\n  gatewright deploy shop --project shop --branch main --output json",
		Args:    cobra.MaximumNArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		dir := "."
		if len(args) > 0 {
			dir = args[0]
		}
		of, err := folder.Open(ctx, dir)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		source, err := sourceOf(of, named, branch)
		if err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		// What is uploaded is what the build's places are in, whatever is in the folder by then.
		var packed project.Files
		source.Pack = func(ctx context.Context, w io.Writer) error {
			if packed, _, err = of.Files(ctx); err != nil {
				return s.refusal(of, err)
			}
			summary, err := of.Archive(ctx, w)
			if err := s.report(report.Report{Warnings: summary.Warnings, Folder: of.InRepository()}); err != nil {
				return err
			}
			return s.refusal(of, err)
		}
		s.out.Say("deploying %s, branch %s, to %s", source.Project, source.Branch, api.Access.Origin)
		d := &deploy.Deployer{API: api, Poll: pollEvery, Told: s.told}
		id, err := d.Upload(ctx, source)
		if err != nil {
			return err
		}
		result, err := d.Follow(ctx, source.Project, id)
		if err != nil {
			return err
		}
		return s.ended(ctx, api, result, built{source: report.FromFiles(packed), folder: of.InRepository(), to: to})
	})
	c.Flags().StringVar(&to.sarif, "sarif", "", "a `FILE` that the build's report is written to as SARIF 2.1.0")
	c.Flags().StringVar(&to.codeQuality, "code-quality", "", "a `FILE` that the build's report is written to as GitLab's code quality report")
	c.Flags().StringVar(&named, "project", "", "the project; without it what its folder is called")
	c.Flags().StringVar(&branch, "branch", "", "the branch, which is an environment of the project; without it git's, or "+mainBranch+" where there is no git")
	return c
}

// sourceOf says what is deployed of a folder.
func sourceOf(of *folder.Project, named, branch string) (deploy.Source, error) {
	source := deploy.Source{Project: named, Branch: branch, RepositoryURL: of.Metadata.RepositoryURL, SHA: of.Metadata.SHA}
	if source.Project == "" {
		source.Project = filepath.Base(of.Dir)
		if !projectName().MatchString(source.Project) {
			return source, exit.With(exit.Usage, fmt.Errorf("a project cannot be called %q as its folder is: name it with --project, by 1 to 63 lower-case letters, digits and hyphens", source.Project))
		}
	}
	if source.Branch == "" {
		source.Branch = of.Metadata.Branch
	}
	switch {
	case source.Branch != "":
	case source.SHA != "":
		// A guess would have the pipeline of a merge request deploy into production.
		return source, exit.With(exit.Usage, errors.New("git has a commit checked out here, and no branch, as pipelines do: name the branch with --branch, such as --branch \"$GITHUB_HEAD_REF\" or --branch \"$CI_COMMIT_REF_NAME\""))
	default:
		source.Branch = mainBranch
	}
	of.Metadata.Branch = source.Branch
	return source, nil
}

// refusal tells all that a folder is refused for, and gives it its exit code.
func (s *session) refusal(of *folder.Project, err error) error {
	refused, ok := errors.AsType[*folder.RefusedError](err)
	if !ok {
		return err
	}
	if err := s.report(report.Report{Errors: refused.Problems, Folder: of.InRepository()}); err != nil {
		return err
	}
	document, err := json.Marshal(deploy.Result{Status: "ERROR", Errors: refused.Problems, Warnings: []project.Problem{}})
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return exit.With(exit.Invalid, &invalidError{errors.New("the project's folder is refused, and nothing is uploaded: " + report.Count(len(refused.Problems), 0)), document})
}

// told tells of the end of a step, and of one that has begun again.
func (s *session) told(state deploy.State) {
	word, ended := map[string]string{"SUCCESS": "done", "ERROR": "failed"}[state.Status]
	switch {
	case ended && state.Message != "" && word == "done": // why one failed is told at the end
		s.out.Say("%s: %s, %s", state.Step, word, state.Message)
	case ended:
		s.out.Say("%s: %s", state.Step, word)
	case state.Message != "":
		s.out.Say("%s: %s", state.Step, state.Message)
	}
}

// built is what there is here of a build's sources, nothing where they are somebody else's.
type built struct {
	source report.Source
	folder string // in its repository
	to     reports
}

// ended writes how a build ended: where it is served on stdout, or what is wrong on stderr, with its places.
func (s *session) ended(ctx context.Context, api *call.API, r deploy.Result, of built) error {
	document, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	if of.source == nil {
		of.source = excerpts(ctx, api, r)
	}
	found := report.Report{Errors: r.Errors, Warnings: r.Warnings, Source: of.source, Folder: of.folder}
	if err := errors.Join(of.to.write(found), s.report(found)); err != nil {
		return err
	}
	if err := deploy.Outcome(r); err != nil {
		return exit.With(exit.Of(err), &invalidError{err, document})
	}
	return s.out.Document(ctx, document, func() (output.Grid, error) {
		return output.Grid{Rows: [][]string{{r.URL}}}, nil
	})
}

// excerpts are the places of a build whose sources are not here, as the installation keeps them for a day.
func excerpts(ctx context.Context, api *call.API, r deploy.Result) report.Source {
	return report.Asked(func(file string, line, column int) (project.Excerpt, bool) {
		answer, err := api.Named(ctx, "DeployService_source", map[string]any{"projectName": r.Project, "statusId": r.StatusID, "file": file, "line": line, "column": max(1, column)})
		if err != nil {
			return project.Excerpt{}, false
		}
		var e struct {
			Text                   string
			StartLine, StartColumn int
			MoreBefore, MoreAfter  bool
		}
		err = json.Unmarshal(answer.Body, &e)
		return project.Excerpt{Text: e.Text, Line: e.StartLine, Column: e.StartColumn, Before: e.MoreBefore, After: e.MoreAfter}, err == nil
	})
}
