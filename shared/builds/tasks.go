package builds

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/project"
)

// download copies the claimed archive to where it stays.
func (b *Builder) download(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, data, err := inputOf(s)
	if err != nil {
		return operation.Result{}, err
	}
	if in.Source != "" { // a redeploy
		data.Source = in.Source
		return operation.Result{Data: data}, nil
	}
	if err := deployments.EnsureExists(ctx, b.o.Table, in); err != nil {
		return operation.Result{}, err
	}
	source, err := b.keep(ctx, in)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrChanged):
		return b.refuse(ctx, s, in, data, "The archive was replaced before it could be read. Ask for a new upload address, and PUT one archive to it, once.")
	case errors.Is(err, blob.ErrTooLarge):
		return b.refuse(ctx, s, in, data, fmt.Sprintf("The archive has more than %d MiB. Leave out what the gateway does not need, such as node_modules and .git.", b.limits.CompressedBytes>>20))
	case err != nil:
		return operation.Result{}, err
	}
	writes, err := deployments.Accept(ctx, b.o.Table, in, source)
	if err != nil {
		return operation.Result{}, err
	}
	data.Source = source
	return operation.Result{Data: data, Writes: writes}, nil
}

// keep stores the uploaded archive by its digest and its build, below the
// deployment's name: what one deployment leaves behind is never another's, and
// what one build does is never another build's. By the digest alone, an archive
// that is uploaded again would be the object of an earlier build, as old as that
// and perhaps about to be removed (clean.go), since a put of what is there
// changes nothing. The price: it is stored twice. The digest is known once all is
// read, so that the archive passes through a file.
func (b *Builder) keep(ctx context.Context, in deployments.BuildInput) (source string, err error) {
	r, _, err := b.o.Objects.Get(ctx, blob.UploadKey(in.StatusID), in.ETag, b.limits.CompressedBytes)
	if err != nil {
		return "", fmt.Errorf("get an upload: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f, err := os.CreateTemp(b.o.TempDir, "upload-*.tar.gz")
	if err != nil {
		return "", fmt.Errorf("make a temporary file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	digest := sha256.New()
	if _, err := io.Copy(io.MultiWriter(f, digest), r); err != nil {
		return "", fmt.Errorf("read an upload: %w", err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("rewind a temporary file: %w", err)
	}
	source = in.Deployment + "/" + hex.EncodeToString(digest.Sum(nil)) + "-" + in.StatusID
	if err := b.o.Objects.Put(ctx, blob.SourceKey(source), f); err != nil {
		return "", fmt.Errorf("keep an upload: %w", err)
	}
	return source, nil
}

// validate compiles the project and tells everything that is wrong with it.
func (b *Builder) validate(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, data, err := inputOf(s)
	if err != nil {
		return operation.Result{}, err
	}
	// The archive has been kept since: the upload's place is not needed.
	if err := b.removeUpload(ctx, in); err != nil {
		return operation.Result{}, err
	}
	c, err := b.project(ctx, s, in, data.Source)
	if err != nil {
		return operation.Result{}, err
	}
	data.Warnings = findings(c.result.Warnings)
	if c.artifact == nil {
		return b.refuseAll(ctx, s, in, data, findings(c.result.Errors))
	}
	b.mu.Lock()
	b.compiled = c
	b.mu.Unlock()
	return operation.Result{Data: data}, nil
}

// compile stores the compiled project. In another process than validate's it
// compiles anew, with the variables as they are then.
func (b *Builder) compile(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, data, err := inputOf(s)
	if err != nil {
		return operation.Result{}, err
	}
	c := b.takeCompiled(in.StatusID)
	if c == nil {
		if c, err = b.project(ctx, s, in, data.Source); err != nil {
			return operation.Result{}, err
		}
		data.Warnings = findings(c.result.Warnings)
	}
	if c.artifact == nil {
		return b.refuseAll(ctx, s, in, data, findings(c.result.Errors))
	}
	if err := deployments.EnsureExists(ctx, b.o.Table, in); err != nil {
		return operation.Result{}, err
	}
	data.Artifact, err = b.o.Artifacts.Put(ctx, in.Deployment, c.artifact)
	if err != nil {
		return operation.Result{}, err
	}
	data.Certificates = certificatesOf(c.artifact)
	return operation.Result{Data: data}, nil
}

// deploy has the gateway serve the artifact.
func (b *Builder) deploy(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, data, err := inputOf(s)
	if err != nil {
		return operation.Result{}, err
	}
	writes, err := deployments.Serve(ctx, b.o.Table, in, data, s.Now)
	if err != nil {
		return operation.Result{}, err
	}
	if len(writes) == 0 {
		data.Warnings = append(data.Warnings, deployments.Finding{Message: "A newer upload or a rollback is served already, so this one is not."})
		writes, err := deployments.Superseded(ctx, b.o.Table, in, s.Now)
		return operation.Result{Data: data, Next: operation.Succeed, Writes: writes}, err
	}
	if len(data.Certificates) > 0 {
		used, ok, err := b.o.Certificates.Serving(ctx, in.AccountID, in.Project, in.Kind, data.Certificates)
		switch {
		case err != nil:
			return operation.Result{}, err
		case !ok:
			return b.refuseAll(ctx, s, in, data, []deployments.Finding{{Message: "An mTLS certificate was deleted, or disabled for this kind of environment, while the project was built. Deploy again, with one that is there."}})
		}
		writes = append(writes, used...)
	}
	return operation.Result{Data: data, Writes: writes, After: deployments.Staleness}, nil
}

// settle has nothing left to do: its state is there for the wait before it.
func settle(context.Context, operation.Step) (operation.Result, error) {
	return operation.Result{}, nil
}

// abandon notes the end of a build after a failure of ours.
func (b *Builder) abandon(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, _, err := inputOf(s)
	if err != nil {
		return operation.Result{}, err
	}
	if err := b.removeUpload(ctx, in); err != nil {
		return operation.Result{}, err
	}
	writes, err := deployments.Fail(ctx, b.o.Table, in, s.Now)
	return operation.Result{Writes: writes}, err
}

// project unpacks and compiles a stored archive.
func (b *Builder) project(ctx context.Context, s operation.Step, in deployments.BuildInput, source string) (*compiled, error) {
	c := &compiled{statusID: in.StatusID}
	r, _, err := b.o.Objects.Get(ctx, blob.SourceKey(source), "", b.limits.CompressedBytes)
	if errors.Is(err, blob.ErrNotFound) {
		c.result.Errors = []project.Problem{{Message: "The stored sources are gone. Upload them again."}}
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get sources: %w", err)
	}
	variables, err := b.o.Variables.Resolve(ctx, in.AccountID, in.Project, in.Branch)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resolve variables: %w", err), r.Close())
	}
	c.artifact, c.result, err = b.run(ctx, r, order{
		Identity: project.Identity{
			AccountID: in.AccountID, Account: in.Account, Project: in.Project, Branch: in.Branch,
			Environment: string(in.Kind), Deployment: in.Deployment, BuildID: in.StatusID,
		},
		Variables: variables,
	})
	if over, ok := errors.AsType[*installation.ExhaustedError](err); ok && (!over.Slow || s.Attempt > 1) {
		// What was slow may have been the machine; what is slow again is not.
		c.artifact, c.result, err = nil, project.Result{Errors: []project.Problem{{Message: over.Public}}}, nil
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("build a project: %w", err)
	}
	if c.artifact == nil {
		return c, nil
	}
	if c.result.Errors, err = b.bindBuckets(ctx, in, c.artifact, variables); err != nil {
		return nil, err
	}
	unmetered, err := b.findMeteringBuckets(ctx, in, c.artifact, variables)
	if err != nil {
		return nil, err
	}
	more, err := b.bindCertificates(ctx, in, c.artifact, variables)
	if err != nil {
		return nil, err
	}
	c.result.Errors = slices.Concat(c.result.Errors, unmetered, more)
	if len(c.result.Errors) > 0 {
		c.artifact = nil
		err = b.locate(ctx, source, c.result.Errors)
	}
	return c, err
}

// locate puts lines and columns to what is wrong with a project that compiles, for which its archive is read once more. Without
// them it is as wrong.
func (b *Builder) locate(ctx context.Context, source string, problems []project.Problem) error {
	r, _, err := b.o.Objects.Get(ctx, blob.SourceKey(source), "", b.limits.CompressedBytes)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get sources: %w", err)
	}
	_, located, err := b.run(ctx, r, order{Locate: problems})
	if _, over := errors.AsType[*installation.ExhaustedError](err); over {
		err = nil
	}
	if err = errors.Join(err, r.Close()); err != nil {
		return fmt.Errorf("locate what is wrong with a project: %w", err)
	}
	if len(located.Errors) == len(problems) {
		copy(problems, located.Errors)
	}
	return nil
}

// takeCompiled takes what validate has left for a build, nil if nothing.
func (b *Builder) takeCompiled(statusID string) *compiled {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.compiled
	if c == nil || c.statusID != statusID {
		return nil
	}
	b.compiled = nil
	return c
}

// removeUpload removes the object in the upload's place, whatever it is by now.
func (b *Builder) removeUpload(ctx context.Context, in deployments.BuildInput) error {
	if in.Source != "" {
		return nil
	}
	if err := b.o.Objects.Delete(ctx, blob.UploadKey(in.StatusID)); err != nil {
		return fmt.Errorf("remove an upload: %w", err)
	}
	return nil
}

// refuse ends a build because of its archive.
func (b *Builder) refuse(ctx context.Context, s operation.Step, in deployments.BuildInput, data deployments.BuildData, message string) (operation.Result, error) {
	if err := b.removeUpload(ctx, in); err != nil {
		return operation.Result{}, err
	}
	return b.refuseAll(ctx, s, in, data, []deployments.Finding{{Message: message}})
}

// refuseAll ends a build with everything that is wrong with its project. What
// was served is served on.
func (b *Builder) refuseAll(ctx context.Context, s operation.Step, in deployments.BuildInput, data deployments.BuildData, errs []deployments.Finding) (operation.Result, error) {
	data.Errors = errs
	writes, err := deployments.Fail(ctx, b.o.Table, in, s.Now)
	if err != nil {
		return operation.Result{}, err
	}
	return operation.Result{
		Next: operation.Fail, Data: data, Writes: writes,
		Message: refusal(errs),
	}, nil
}

// refusal says how much is wrong with a project, and where to begin.
func refusal(errs []deployments.Finding) string {
	count, where := "1 error", ""
	if n := len(errs); n > 1 && errs[n-1].File == "" {
		count = fmt.Sprintf("more than %d errors", n-1) // the last one counts those that are not told
	} else if n > 1 {
		count = fmt.Sprintf("%d errors", n)
	}
	if i := slices.IndexFunc(errs, func(f deployments.Finding) bool { return f.File != "" }); i >= 0 {
		where = ", the first in " + errs[i].File
	}
	return fmt.Sprintf("The project cannot be built: %s%s. buildResult.errors says what to correct.", count, where)
}

func inputOf(s operation.Step) (in deployments.BuildInput, data deployments.BuildData, err error) {
	err = errors.Join(s.Input(&in), s.Data(&data))
	return in, data, err
}

func findings(problems []project.Problem) []deployments.Finding {
	var out []deployments.Finding
	for _, p := range problems {
		out = append(out, deployments.Finding{File: p.File, Path: p.Path, Line: p.Line, Column: p.Column, Message: p.Message})
	}
	return out
}
