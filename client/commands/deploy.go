package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/deploy"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/output"
)

// buildTime is how long a build is followed where nobody says otherwise: longer than one takes (contract 3.1).
const buildTime = 5 * time.Minute

// pollEvery is how long a command waits before it asks again how a build goes.
const pollEvery = 500 * time.Millisecond

// mainBranch is deployed where neither the command line nor git names a branch.
const mainBranch = "main"

// projectName is what a project may be called (contract 1.4).
var projectName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })

func (a *App) deployCommand() *cobra.Command {
	var named, branch string
	c := a.askingFor(buildTime, &cobra.Command{
		Use: "deploy [FOLDER]", Short: "Upload a project, follow its build, and print where it is served", GroupID: groupProjects,
		Long: "Upload a project, follow its build, and print where it is served: the URL alone is on stdout.\n\n" +
			"The folder is the one that config/ is in, this one where none is named. What .gatewrightignore leaves out, or .gitignore where there is none, is not\n" +
			"uploaded, and .env files never are. Without --project it is called as its folder is; without --branch it is git's branch, or main.\n\n" +
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
		source.Pack = func(ctx context.Context, w io.Writer) error {
			summary, err := of.Archive(ctx, w)
			for _, warning := range summary.Warnings {
				s.out.Say("warning: %s", findingLine(warning))
			}
			return refusal(err)
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
		return s.ended(ctx, result)
	})
	c.Flags().StringVar(&named, "project", "", "the project; without it what its folder is called")
	c.Flags().StringVar(&branch, "branch", "", "the branch, which is an environment of the project; without it git's, or "+mainBranch)
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
	if source.Branch == "" {
		source.Branch = mainBranch
	}
	of.Metadata.Branch = source.Branch
	return source, nil
}

// refusal is what a folder is refused for, as an error with its exit code.
func refusal(err error) error {
	if refused, ok := errors.AsType[*folder.RefusedError](err); ok {
		return exit.With(exit.Invalid, refused)
	}
	return err
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

// ended writes how a build ended: where it is served on stdout, or what is wrong on stderr.
func (s *session) ended(ctx context.Context, r deploy.Result) error {
	document, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	if err := deploy.Outcome(r); err != nil {
		return exit.With(exit.Of(err), &buildError{error: err, result: r, document: document})
	}
	for _, warning := range r.Warnings {
		s.out.Say("warning: %s", findingLine(warning))
	}
	return s.out.Document(ctx, document, func() (output.Grid, error) {
		return output.Grid{Rows: [][]string{{r.URL}}}, nil
	})
}

// buildError is a build that failed, with all that is wrong.
type buildError struct {
	error
	result   deploy.Result
	document []byte
}

// Document implements output.Described.
func (e *buildError) Document() []byte { return e.document }

func (e *buildError) Error() string {
	text := ""
	for _, p := range e.result.Errors {
		text += findingLine(p) + "\n"
	}
	return text + e.error.Error()
}
