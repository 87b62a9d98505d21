// Package corpus checks the product with public OpenAPI descriptions: it imports each of them like `gatewright init`,
// builds the project, sends one valid request to each route, and calls each operation as an MCP tool.
//
// The descriptions are those of npm packages and of the test data of Go modules. `make corpus` checks all of them, and
// `make test` a sample that is committed as testdata/sample.zip. What is refused is listed with its reason in
// testdata/refused.txt. The list can only get shorter: a new refusal fails the test, and so does one that no longer
// occurs, until `make corpus UPDATE=1` removes it.
//
// Read this file first, then server.go (the gateway and its upstream), routes.go (requests), tools.go (MCP) and
// refusals.go (the list). Package samples generates the requests.
package corpus

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/scaffold"
	"github.com/gatewright/gatewright/internal/samples"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Description is a description of an API.
type Description struct {
	// Name identifies the description in the list of refusals. Text is its content.
	Name string
	Text []byte
}

// Result is the result of the check of a description.
type Result struct {
	// Refusals are sorted, and have no two entries with the same stage and reason.
	Refusals []Refusal
	// Routes is the number of routes, and Tools the number of operations that were offered as tools.
	Routes, Tools int
}

// Checker checks descriptions. It is safe for concurrent use.
type Checker struct {
	compiler *project.Compiler
	upstream *upstreamServer
}

// NewChecker returns a Checker. Close releases its resources.
func NewChecker(ctx context.Context) (*Checker, error) {
	u, err := startUpstream(ctx)
	if err != nil {
		return nil, err
	}
	return &Checker{compiler: project.NewCompiler(), upstream: u}, nil
}

// Close stops the upstream.
func (c *Checker) Close() { c.upstream.close() }

// check is the check of one description.
type check struct {
	*Checker

	result   Result
	refusals refusals
	// files are the files of the project that init makes of the description.
	files project.Files
	// document generates the requests.
	document *samples.Document
}

// Check checks a description. It returns an error if the check itself fails, or if the context ends.
func (c *Checker) Check(ctx context.Context, d Description) (Result, error) {
	k := &check{Checker: c, refusals: refusals{}}
	err := k.run(ctx, d)
	k.result.Refusals = k.refusals.sorted(d.Name)
	if err != nil {
		err = fmt.Errorf("check %s: %w", d.Name, err)
	}
	return k.result, err
}

func (k *check) run(ctx context.Context, d Description) error {
	if isCreated, err := k.create(ctx, d); err != nil || !isCreated {
		return err
	}
	var err error
	if k.document, err = samples.Read(k.files[scaffold.RoutesFile]); err != nil {
		return err
	}
	// The build of most projects succeeds with all operations as tools, so that one build is enough.
	artifact, err := k.buildAll(ctx)
	if err != nil {
		return err
	}
	if artifact != nil {
		s, err := k.upstream.serve(artifact)
		if err == nil {
			err = k.callRoutes(ctx, s)
		}
		if err == nil {
			err = k.callOffered(ctx, s)
		}
		return err
	}
	artifact, problems, err := k.build(ctx, k.files)
	if err != nil {
		return err
	}
	for _, p := range problems {
		k.refusals.add(StageBuild, p.Message, p.Path)
	}
	if artifact == nil {
		return nil
	}
	s, err := k.upstream.serve(artifact)
	if err == nil {
		err = k.callRoutes(ctx, s)
	}
	if err == nil {
		err = k.callTools(ctx, artifact.Routes)
	}
	return err
}

// create makes a project's folder of a description like `gatewright init`, and reads the folder like `gatewright
// validate` and `gatewright deploy`. It returns false if init refuses the description.
func (k *check) create(ctx context.Context, d Description) (isCreated bool, err error) {
	files, err := scaffold.TemplateFiles("")
	if err != nil {
		return false, err
	}
	// init needs --upstream only for descriptions without an absolute server.
	routes, err := scaffold.AddRoutes(d.Text, scaffold.Options{})
	if err != nil {
		routes, err = scaffold.AddRoutes(d.Text, scaffold.Options{Upstream: scaffold.DefaultUpstream})
	}
	if err != nil {
		if exit.CodeOf(err) != exit.Invalid && exit.CodeOf(err) != exit.Usage {
			return false, err
		}
		k.refusals.add(StageInit, err.Error(), "")
		return false, nil
	}
	scaffold.UseDescription(files, routes)
	dir, err := os.MkdirTemp("", "corpus")
	if err != nil {
		return false, fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := scaffold.WriteFiles(dir, files); err != nil {
		return false, err
	}
	p, err := folder.Open(ctx, dir)
	if err != nil {
		return false, err
	}
	k.files, _, err = p.Files(ctx)
	if refused, ok := errors.AsType[*folder.RefusedError](err); ok {
		for _, p := range refused.Problems {
			k.refusals.add(StageBuild, p.Message, p.Path)
		}
		return false, nil
	}
	return true, err
}

// build compiles a project, and encodes and decodes the artifact like an installation. It returns no artifact if the
// project has errors.
func (k *check) build(ctx context.Context, files project.Files) (*project.Artifact, []project.Problem, error) {
	buildCtx, cancel := context.WithTimeout(ctx, project.BuildTime)
	defer cancel()
	artifact, result, err := k.compiler.Compile(buildCtx, files, project.Input{
		Identity: identity(), Variables: map[string]string{}, Catalog: gateway.Catalog{}, Verify: gateway.Verify,
	})
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, []project.Problem{{Message: "the build takes longer than its budget"}}, nil
	}
	if err != nil || artifact == nil {
		return nil, result.Errors, err
	}
	data, _, err := project.Encode(artifact, project.WrittenFormat)
	if err != nil {
		return nil, nil, err
	}
	artifact, err = project.Decode(data)
	return artifact, nil, err
}

// identity returns the identity of all projects.
func identity() project.Identity {
	return project.Identity{
		AccountID: "corpus", Account: "corpus", Project: "corpus", Branch: "main", Environment: "production",
		Deployment: "corpus", BuildID: "00000000-0000-4000-8000-000000000000",
	}
}

// title returns the name of a route in messages.
func title(r project.Route) string { return r.Method + " " + r.Path }
