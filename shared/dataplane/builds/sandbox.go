package builds

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// buildRequest is the input of a build, in addition to the archive.
type buildRequest struct {
	Identity  project.Identity  `json:"identity"`
	Variables map[string]string `json:"variables"`
	// Locate contains problems without a line and a column. If it is not empty, the project is not built: the result is
	// these problems with their lines and columns.
	Locate []project.Problem `json:"locate,omitempty"`
}

// buildResult is the result of a build: an artifact, or errors. Both can have warnings.
type buildResult struct {
	Artifact *project.Artifact `json:"artifact,omitempty"`
	Result   project.Result    `json:"result"`
}

// maxResultBytes is the maximum size of the JSON that a sandbox writes: an encoded buildResult.
const maxResultBytes = 64 << 20

var errTimeout = errors.New("builds: the time for a project is over")

// run unpacks and compiles an archive, in this process or in the installation's sandbox. It returns an
// *installation.ExhaustedError if the project exceeds its time, or the memory of a sandbox. Without a sandbox the
// memory is not limited.
func (b *Builder) run(
	ctx context.Context, archive io.Reader, request buildRequest,
) (*project.Artifact, project.Result, error) {
	if b.options.Sandbox == nil {
		buildCtx, cancel := context.WithTimeoutCause(ctx, project.BuildTime, errTimeout)
		defer cancel()
		out, err := b.worker.build(buildCtx, archive, request)
		if errors.Is(err, errTimeout) {
			err = TooSlow()
		}
		return out.Artifact, out.Result, err
	}
	header, err := json.Marshal(request)
	if err != nil {
		return nil, project.Result{}, fmt.Errorf("encode an order: %w", err)
	}
	output := &limitedBuffer{remaining: maxResultBytes}
	in := io.MultiReader(bytes.NewReader(append(header, '\n')), archive)
	if err := b.options.Sandbox.Run(ctx, in, output); err != nil {
		return nil, project.Result{}, err
	}
	var out buildResult
	if err := json.Unmarshal(output.content.Bytes(), &out); err != nil {
		return nil, project.Result{}, fmt.Errorf("decode an outcome: %w", err)
	}
	return out.Artifact, out.Result, nil
}

// TooSlow returns the error for a project that takes longer than project.BuildTime.
func TooSlow() error {
	return &installation.ExhaustedError{
		Timeout: true,
		Public: project.BudgetExceeded("time", int64(project.BuildTime.Seconds())+1, "It was ended, twice. Leave out what "+
			"the gateway does not need, and pack the project with tar and gzip."),
	}
}

// TooLarge returns the error for a project that takes more memory than a sandbox has.
func TooLarge() error {
	return &installation.ExhaustedError{Public: project.BudgetExceeded("memory", project.BuildMemory+1,
		"It was ended. Leave out what the gateway does not need, or divide the project.")}
}

// limitedBuffer is a buffer with a maximum size. It does not embed bytes.Buffer, because it would then have the
// method ReadFrom: os/exec would call ReadFrom instead of Write, and nothing would limit the size.
type limitedBuffer struct {
	content   bytes.Buffer
	remaining int
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.remaining -= len(p); b.remaining < 0 {
		return 0, errors.New("the outcome of a build is too large")
	}
	return b.content.Write(p)
}

// worker unpacks and compiles projects. It has no access to the installation: no table, no bucket, no key.
type worker struct {
	compiler *project.Compiler
	catalog  project.Catalog
	verify   func(context.Context, *project.Artifact) []project.Problem
	limits   project.Limits
}

// build unpacks an archive. Then it compiles the project, or locates the problems in the request.
func (w worker) build(ctx context.Context, archive io.Reader, request buildRequest) (buildResult, error) {
	files, problems, err := project.Unpack(ctx, archive, w.limits)
	if err != nil {
		return buildResult{}, fmt.Errorf("read an archive: %w", err)
	}
	if len(problems) > 0 {
		return buildResult{Result: project.Result{Errors: problems}}, nil
	}
	if len(request.Locate) > 0 {
		project.Locate(files, request.Locate)
		return buildResult{Result: project.Result{Errors: request.Locate}}, nil
	}
	var out buildResult
	out.Artifact, out.Result, err = w.compiler.Compile(ctx, files, project.Input{
		Identity: request.Identity, Variables: request.Variables, Catalog: w.catalog, Verify: w.verify,
	})
	return out, err
}

// ServeBuild builds one project. It runs in a sandbox. Its input (in) is a build request and an archive. Its output
// (out) is the result.
func ServeBuild(ctx context.Context, in io.Reader, out io.Writer) error {
	w := worker{project.NewCompiler(), gateway.Catalog{}, gateway.Verify, project.DefaultLimits()}
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read an order: %w", err)
	}
	var request buildRequest
	if err := json.Unmarshal(line, &request); err != nil {
		return fmt.Errorf("decode an order: %w", err)
	}
	result, err := w.build(ctx, r, request)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(result); err != nil {
		return fmt.Errorf("write an outcome: %w", err)
	}
	return nil
}
