package builds

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/project"
)

// order is what is built beside the archive.
type order struct {
	Identity  project.Identity  `json:"identity"`
	Variables map[string]string `json:"variables"`
	// Locate are problems to which lines and columns are put; then nothing is built.
	Locate []project.Problem `json:"locate,omitempty"`
}

// outcome is what comes of it: an artifact, or what is wrong.
type outcome struct {
	Artifact *project.Artifact `json:"artifact,omitempty"`
	Result   project.Result    `json:"result"`
}

// maxOutcomeBytes bounds what is read of an outcome: an artifact, JSON within
// JSON, and what is told.
const maxOutcomeBytes = 64 << 20

var errSlow = errors.New("builds: the time for a project is over")

// run unpacks and compiles an archive, here or in the installation's sandbox. It
// answers an *installation.ExhaustedError for one that takes more than it may.
func (b *Builder) run(ctx context.Context, archive io.Reader, o order) (*project.Artifact, project.Result, error) {
	if b.o.Sandbox == nil {
		limited, cancel := context.WithTimeoutCause(ctx, project.BuildTime, errSlow)
		defer cancel()
		out, err := b.w.work(limited, archive, o)
		if errors.Is(err, errSlow) {
			err = TooSlow()
		}
		return out.Artifact, out.Result, err
	}
	head, err := json.Marshal(o)
	if err != nil {
		return nil, project.Result{}, fmt.Errorf("encode an order: %w", err)
	}
	answer := &bounded{left: maxOutcomeBytes}
	in := io.MultiReader(bytes.NewReader(append(head, '\n')), archive)
	if err := b.o.Sandbox.Run(ctx, in, answer); err != nil {
		return nil, project.Result{}, err
	}
	var out outcome
	if err := json.Unmarshal(answer.Bytes(), &out); err != nil {
		return nil, project.Result{}, fmt.Errorf("decode an outcome: %w", err)
	}
	return out.Artifact, out.Result, nil
}

// TooSlow is the error for a project that takes longer than project.BuildTime.
func TooSlow() error {
	return &installation.ExhaustedError{Slow: true, Public: project.Over("time", int64(project.BuildTime.Seconds())+1, "It was ended, twice. Leave out what the gateway does not need, and pack the project with tar and gzip.")}
}

// TooLarge is the error for a project that takes more memory than a sandbox has.
func TooLarge() error {
	return &installation.ExhaustedError{Public: project.Over("memory", project.BuildMemory+1, "It was ended. Leave out what the gateway does not need, or divide the project.")}
}

// bounded is a buffer that takes no more than it should.
type bounded struct {
	bytes.Buffer
	left int
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("the outcome of a build is too large")
	}
	return b.Buffer.Write(p)
}

// worker unpacks and compiles. It has nothing of an installation: no table, no
// bucket, no key.
type worker struct {
	compiler  *project.Compiler
	catalogue project.Catalogue
	verify    func(*project.Artifact) []project.Problem
	limits    project.Limits
}

func (w worker) work(ctx context.Context, archive io.Reader, o order) (outcome, error) {
	files, problems, err := project.Unpack(ctx, archive, w.limits)
	if err != nil {
		return outcome{}, fmt.Errorf("read an archive: %w", err)
	}
	if len(problems) > 0 {
		return outcome{Result: project.Result{Errors: problems}}, nil
	}
	if len(o.Locate) > 0 {
		project.Locate(files, o.Locate)
		return outcome{Result: project.Result{Errors: o.Locate}}, nil
	}
	var out outcome
	out.Artifact, out.Result, err = w.compiler.Compile(ctx, files, project.Input{
		Identity: o.Identity, Variables: o.Variables, Catalogue: w.catalogue, Verify: w.verify,
	})
	return out, err
}

// Work is what runs in a sandbox: it reads an order and an archive from in, and
// writes what comes of them to out.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	w := worker{project.NewCompiler(), gateway.Catalogue{}, gateway.Verify, project.DefaultLimits()}
	r := bufio.NewReader(in)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read an order: %w", err)
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return fmt.Errorf("decode an order: %w", err)
	}
	done, err := w.work(ctx, r, o)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(out).Encode(done); err != nil {
		return fmt.Errorf("write an outcome: %w", err)
	}
	return nil
}
