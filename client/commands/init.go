package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
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
		var notes []string
		switch {
		case from != "":
			var routes scaffold.Routes
			if routes, err = a.routesFrom(ctx, from, upstream, variables); err != nil {
				return err
			}
			scaffold.UseDescription(files, routes)
			notes = slices.Concat(routes.Notes, routes.SecurityNotes)
		case len(variables) > 0:
			return exit.WithCode(exit.Usage, errors.New("--server-variable needs --from: it sets a variable of the servers in "+
				"that description. Add --from FILE, or leave --server-variable out"))
		}
		if err := scaffold.WriteFiles(args[0], files); err != nil {
			return err
		}
		return s.reportCreated(ctx, args[0], files, notes)
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
// it returns an error. Otherwise it writes the names of the files. notes are sentences about how the files were made.
// They are in the member notes of the document, and on stderr unless the format is JSON.
func (s *session) reportCreated(ctx context.Context, dir string, files map[string][]byte, notes []string) error {
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
	result.Errors, result.Warnings = report.Sorted(result.Errors), report.Sorted(result.Warnings)
	if err := s.report(report.Report{
		Errors: result.Errors, Warnings: result.Warnings,
		Source: report.FromFiles(result.Files), Folder: p.PathInRepository(),
	}); err != nil {
		return err
	}
	created := struct {
		Folder string   `json:"folder"`
		Files  []string `json:"files"`
		Notes  []string `json:"notes,omitempty"`
	}{Folder: dir, Notes: notes}
	for name := range files {
		created.Files = append(created.Files, name)
	}
	slices.Sort(created.Files)
	if len(result.Errors) > 0 {
		text := "the folder is made, and what it was made of has to be mended before it is deployed: " +
			report.Count(len(result.Errors), len(result.Warnings))
		if s.out.Format() == output.JSON && len(notes) > 0 {
			text += "; " + strings.Join(notes, "; ")
		}
		return exit.WithCode(exit.Invalid, errors.New(text))
	}
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
