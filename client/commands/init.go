package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/client/report"
	"github.com/gatewright/gatewright/client/scaffold"
	"github.com/gatewright/gatewright/client/validate"
	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/format/project"
)

func (a *App) initCommand() *cobra.Command {
	var from, upstream string
	var variables []string
	c := a.localCommand(&cobra.Command{
		Use: "init FOLDER", Short: "Make a project's folder, of a template or of an OpenAPI file", GroupID: groupProjects,
		Long: "Make a project's folder, of a template or of an OpenAPI file: nothing is sent, and no key is needed.\n\n" +
			"With --from each operation of a description in OpenAPI 3 or Swagger 2.0, JSON or YAML, becomes a route that " +
			"forwards to its server: the first of\n" +
			"the operation's, the path's or the description's servers. --upstream replaces the description's absolute " +
			"servers, and relative servers are resolved\n" +
			"against it. It does not replace absolute servers of paths and operations. Security schemes become policies " +
			"where a policy implements them, and the\n" +
			"operations that no policy protects are printed. Nothing that is there is written over.",
		Example: "  gatewright init shop --upstream https://shop.example.com\n  gatewright init shop --from openapi.yaml\n" +
			"  gatewright init shop --from openapi.yaml --server-variable region=eu",
		Args: cobra.ExactArgs(1),
	}, func(ctx context.Context, s *session, args []string) error {
		files, err := scaffold.TemplateFiles(upstream)
		if err != nil {
			return err
		}
		var routes scaffold.Routes
		switch {
		case from != "":
			if routes, err = a.routesFrom(ctx, from, upstream, variables); err != nil {
				return err
			}
			scaffold.UseDescription(files, routes)
		case len(variables) > 0:
			return exit.WithCode(exit.Usage, errors.New("--server-variable needs --from: it sets a variable of the servers in "+
				"that description. Add --from FILE, or leave --server-variable out"))
		}
		if err := scaffold.WriteFiles(args[0], files); err != nil {
			return err
		}
		return s.reportCreated(ctx, args[0], files, from, routes)
	})
	c.Flags().StringVar(&from, "from", "", "a `FILE` with a description in OpenAPI 3 or Swagger 2.0, - for stdin")
	c.Flags().StringVar(&upstream, "upstream", "", "the `URL` that routes forward to")
	c.Flags().StringArrayVar(&variables, "server-variable", nil,
		"`NAME=VALUE`: the value of a variable in the description's servers, in place of its default; once for each")
	return c
}

// routesFrom returns the routes for the description in a file, or in stdin. variables are NAME=VALUE.
func (a *App) routesFrom(ctx context.Context, from, upstream string, variables []string) (scaffold.Routes, error) {
	o := scaffold.Options{Upstream: upstream, ServerVariables: map[string]string{}}
	for _, text := range variables {
		name, value, ok := strings.Cut(text, "=")
		if _, duplicate := o.ServerVariables[name]; !ok || name == "" || duplicate {
			return scaffold.Routes{}, exit.WithCode(exit.Usage, errors.New("--server-variable takes NAME=VALUE, each name once"))
		}
		o.ServerVariables[name] = value
	}
	text, err := (&flagReader{in: a.stdin(ctx)}).readBytes("from", from, scaffold.MaxBytes())
	if err != nil {
		return scaffold.Routes{}, err
	}
	if from != "-" {
		root, err := os.OpenRoot(filepath.Dir(from))
		if err != nil {
			return scaffold.Routes{}, exit.WithCode(exit.Usage, fmt.Errorf("--from: the folder of %s cannot be read: %w", from,
				disk.Cause(err)))
		}
		defer func() { _ = root.Close() }()
		o.Folder, o.Name = root.FS(), filepath.Base(from)
	}
	routes, err := scaffold.AddRoutes(text, o)
	if err != nil {
		return scaffold.Routes{}, fmt.Errorf("--from %s: %w", from, err)
	}
	return routes, nil
}

// reportCreated reports the problems that a deploy of the created files would report. If there are errors among them,
// it returns an error. Otherwise it writes the names of the files. routes are those of the description in the file from,
// if there is one. Problems of parts that come from this description are reported there, unless it was read from stdin. The
// notes of routes are in the member notes of the document, and on stderr unless the format is JSON.
func (s *session) reportCreated(
	ctx context.Context, dir string, files map[string][]byte, from string, routes scaffold.Routes,
) error {
	notes := slices.Concat(routes.Notes, routes.SecurityNotes)
	for _, note := range notes {
		s.out.Infof("%s", note)
	}
	p, err := folder.Open(ctx, dir)
	if err != nil {
		return err
	}
	result, err := validate.New().Folder(ctx, p, validate.Options{})
	if err != nil {
		return err
	}
	created := report.Report{Folder: p.PathInRepository(), Originals: map[string]string{}}
	if from != "" && from != "-" {
		result.Files = maps.Clone(result.Files)
		for _, problems := range [][]project.Problem{result.Errors, result.Warnings} {
			maps.Copy(result.Files, originalPlaces(problems, dir, from, routes, created))
		}
	}
	// Several parts of the project can come from one part of the description.
	created.Errors = slices.Compact(report.Sorted(result.Errors))
	created.Warnings = slices.Compact(report.Sorted(result.Warnings))
	created.Source = report.FromFiles(result.Files)
	if err := s.report(created); err != nil {
		return err
	}
	if len(created.Errors) > 0 {
		text := "the folder is made, and what it was made of has to be mended before it is deployed: " +
			report.Count(len(created.Errors), len(created.Warnings))
		if s.out.Format() == output.JSON && len(notes) > 0 {
			text += "; " + strings.Join(notes, "; ")
		}
		return exit.WithCode(exit.Invalid, errors.New(text))
	}
	return s.writeCreated(ctx, dir, files, notes)
}

// originalPlaces replaces the places of problems by those in the description in the file from, and in its other files, if
// init has copied the parts from there. It adds these files to the report, and returns their texts by name.
func originalPlaces(
	problems []project.Problem, dir, from string, routes scaffold.Routes, r report.Report,
) project.Files {
	return routes.Original(problems, func(name string) string {
		file := filepath.Join(filepath.Dir(from), filepath.FromSlash(name))
		r.Originals[file] = filepath.ToSlash(file)
		absolute, err := filepath.Abs(file)
		if base, baseErr := filepath.Abs(dir); err == nil && baseErr == nil {
			if relative, err := filepath.Rel(base, absolute); err == nil {
				r.Originals[file] = path.Join(r.Folder, filepath.ToSlash(relative))
			}
		}
		return file
	})
}

// writeCreated writes the names of the files that were created, and the notes about them.
func (s *session) writeCreated(ctx context.Context, dir string, files map[string][]byte, notes []string) error {
	created := struct {
		Folder string   `json:"folder"`
		Files  []string `json:"files"`
		Notes  []string `json:"notes,omitempty"`
	}{Folder: dir, Notes: notes}
	for name := range files {
		created.Files = append(created.Files, name)
	}
	slices.Sort(created.Files)
	document, err := json.Marshal(created)
	if err != nil {
		return fmt.Errorf("write the document: %w", err)
	}
	if err := s.out.Document(ctx, document, func() (output.Grid, error) {
		var g output.Grid
		for _, name := range created.Files {
			g.Rows = append(g.Rows, []string{name})
		}
		return g, nil
	}); err != nil {
		return err
	}
	s.out.Infof("`gatewright dev %s` serves it here, `gatewright deploy %[1]s` at an installation", dir)
	return nil
}
