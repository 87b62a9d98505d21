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
	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// buildTimeout is the default of --timeout for commands that follow a build. It is longer than a build takes (contract
// 3.1).
const buildTimeout = 5 * time.Minute

// pollInterval is the interval at which a command polls the status of a build, or of another operation that continues
// in the background.
const pollInterval = 500 * time.Millisecond

// defaultBranch is the default of --branch. Only deploy uses the current branch of a git repository instead, if the
// folder is in one.
const defaultBranch = "main"

// projectNamePattern matches valid names of projects (contract 1.4).
var projectNamePattern = lazy.Regexp(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

func (a *App) deployCommand() *cobra.Command {
	var (
		name, branch string
		reportTo     reportFiles
	)
	c := a.remoteCommandWithTimeout(buildTimeout, &cobra.Command{
		Use: "deploy [FOLDER]", Short: "Upload a project, follow its build, and print where it is served",
		GroupID: groupProjects,
		Long: "Upload a project, follow its build, and print where it is served: the URL alone is on stdout.\n\n" +
			"The folder is the one that config/ is in, this one where none is named. What .gatewrightignore leaves out, or " +
			".gitignore where there is none, is not\n" +
			"uploaded, and .env files never are. Without --project it is called as its folder is; without --branch it is " +
			"git's branch, or\n" +
			"main where there is no git. Where git has a commit checked out and no branch, as in a pipeline, --branch has to " +
			"name one.\n\n" +
			"What is served before stays until the build has succeeded, and after one that failed, which ends this with 6. " +
			"Ctrl-C leaves the build\n" +
			"going, and says how to follow it. It may be run again at any moment.",
		Example: "  gatewright deploy\n  gatewright deploy shop --project shop --branch main --output json",
		Args:    cobra.MaximumNArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		dir := "."
		if len(args) > 0 {
			dir = args[0]
		}
		p, err := folder.Open(ctx, dir)
		if err != nil {
			return exit.WithCode(exit.Usage, err)
		}
		source, err := newSource(p, name, branch)
		if err != nil {
			return err
		}
		api, err := s.api()
		if err != nil {
			return err
		}
		// uploaded has the files that were packed. The places of problems refer to these files, even if the folder
		// changes later.
		var uploaded project.Files
		source.Pack = func(ctx context.Context, w io.Writer) error {
			if uploaded, _, err = p.Files(ctx); err != nil {
				return s.reportRefusal(p, err)
			}
			summary, err := p.Archive(ctx, w)
			if err := s.report(report.Report{Warnings: summary.Warnings, Folder: p.PathInRepository()}); err != nil {
				return err
			}
			return s.reportRefusal(p, err)
		}
		s.out.Infof("deploying %s, branch %s, to %s", source.Project, source.Branch, api.Access.Origin)
		d := &deploy.Deployer{API: api, PollInterval: pollInterval, OnState: s.showState}
		id, err := d.Upload(ctx, source)
		if err != nil {
			return err
		}
		result, err := d.Follow(ctx, source.Project, id)
		if err != nil {
			return err
		}
		return s.reportBuild(ctx, api, result, buildSources{
			source: report.FromFiles(uploaded), folder: p.PathInRepository(),
			reports: reportTo,
		})
	})
	c.Flags().StringVar(&reportTo.sarif, "sarif", "", "a `FILE` that the build's report is written to as SARIF 2.1.0")
	c.Flags().StringVar(&reportTo.codeQuality, "code-quality", "",
		"a `FILE` that the build's report is written to as GitLab's code quality report")
	c.Flags().StringVar(&name, "project", "", "the project; without it what its folder is called")
	c.Flags().StringVar(&branch, "branch", "", "the branch, which is an environment of the project; without it git's, or "+
		defaultBranch+" where there is no git")
	return c
}

// newSource returns the source of a deploy. name and branch are the flags' values, "" for the default. newSource also
// stores the branch in the metadata of p.
func newSource(p *folder.Project, name, branch string) (source deploy.Source, err error) {
	source = deploy.Source{Project: name, Branch: branch, RepositoryURL: p.Metadata.RepositoryURL, SHA: p.Metadata.SHA}
	if source.Project == "" {
		source.Project = filepath.Base(p.Dir)
		if !projectNamePattern().MatchString(source.Project) {
			return source, exit.WithCode(exit.Usage, fmt.Errorf("a project cannot be called %q as its folder is: name it with "+
				"--project, by 1 to 63 lower-case letters, digits and hyphens", source.Project))
		}
	}
	if source.Branch == "" {
		source.Branch = p.Metadata.Branch
	} else if source.Branch, err = branchName("branch", branch); err != nil {
		return source, err
	}
	switch {
	case source.Branch != "":
	case source.SHA != "":
		// A default branch would let the pipeline of a merge request deploy to production.
		return source, exit.WithCode(exit.Usage, errors.New("git has a commit checked out here, and no branch, as "+
			"pipelines do: name the branch with --branch, such as "+pipelineBranches))
	default:
		source.Branch = defaultBranch
	}
	p.Metadata.Branch = source.Branch
	return source, nil
}

// reportRefusal reports every reason why a folder is refused, and returns an error with the exit code for it. If err is
// not a refusal, reportRefusal returns err unchanged.
func (s *session) reportRefusal(p *folder.Project, err error) error {
	refused, ok := errors.AsType[*folder.RefusedError](err)
	if !ok {
		return err
	}
	if err := s.report(report.Report{Errors: refused.Problems, Folder: p.PathInRepository()}); err != nil {
		return err
	}
	document, err := json.Marshal(deploy.Result{Status: "ERROR", Errors: refused.Problems, Warnings: []project.Problem{}})
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	return exit.WithCode(exit.Invalid,
		&invalidError{errors.New("the project's folder is refused, and nothing is uploaded: " +
			report.Count(len(refused.Problems), 0)), document})
}

// showState reports that a step has ended, or the message of a step.
func (s *session) showState(state deploy.StepState) {
	outcome, finished := map[string]string{"SUCCESS": "done", "ERROR": "failed"}[state.Status]
	switch {
	case finished && state.Message != "" && outcome == "done": // reportBuild reports the reason of a failure
		s.out.Infof("%s: %s, %s", state.Step, outcome, state.Message)
	case finished:
		s.out.Infof("%s: %s", state.Step, outcome)
	case state.Message != "":
		s.out.Infof("%s: %s", state.Step, state.Message)
	}
}

// buildSources describes the sources of a build, and names the files for its report. source is nil if the sources are
// not on this machine.
type buildSources struct {
	source  report.Source
	folder  string // path of the project's folder in its repository
	reports reportFiles
}

// reportBuild writes the problems of a build with their places to stderr and to the report files. Then it writes the
// result to stdout: only the URL, unless the user has selected JSON or YAML. If the build has failed, reportBuild
// returns an error instead, which has the result as its document.
func (s *session) reportBuild(ctx context.Context, api *call.API, r deploy.Result, sources buildSources) error {
	document, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	if sources.source == nil {
		sources.source = remoteSource(ctx, api, r)
	}
	problems := report.Report{Errors: r.Errors, Warnings: r.Warnings, Source: sources.source, Folder: sources.folder}
	if err := errors.Join(sources.reports.write(problems), s.report(problems)); err != nil {
		return err
	}
	if err := deploy.ResultError(r); err != nil {
		return exit.WithCode(exit.CodeOf(err), &invalidError{err, document})
	}
	return s.out.Document(ctx, document, func() (output.Grid, error) {
		return output.Grid{Rows: [][]string{{r.URL}}}, nil
	})
}

// remoteSource returns a report.Source that reads excerpts of the sources from the installation, which keeps the
// sources for at least a day after the build.
func remoteSource(ctx context.Context, api *call.API, r deploy.Result) report.Source {
	return report.FromRemote(func(file string, line, column int) (project.Excerpt, bool) {
		resp, err := api.Call(ctx, "DeployService_source", map[string]any{
			"projectName": r.Project, "statusId": r.StatusID,
			"file": file, "line": line, "column": max(1, column),
		})
		if err != nil {
			return project.Excerpt{}, false
		}
		var e struct {
			Text                   string
			StartLine, StartColumn int
			MoreBefore, MoreAfter  bool
		}
		err = json.Unmarshal(resp.Body, &e)
		return project.Excerpt{
			Text: e.Text, Line: e.StartLine, Column: e.StartColumn, Before: e.MoreBefore,
			After: e.MoreAfter,
		}, err == nil
	})
}
