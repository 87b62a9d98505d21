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

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// download copies the uploaded archive to its permanent place. A redeployment uses sources that are already there.
func (b *Builder) download(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, data, err := readInput(s)
	if err != nil {
		return operation.Result{}, err
	}
	if in.Source != "" { // a redeployment of stored sources
		data.Source = in.Source
		return operation.Result{Data: data}, nil
	}
	if err := deployments.EnsureExists(ctx, b.options.Table, in); err != nil {
		return operation.Result{}, err
	}
	source, err := b.storeArchive(ctx, in)
	switch {
	case errors.Is(err, blob.ErrNotFound), errors.Is(err, blob.ErrChanged):
		return b.refuse(ctx, s, in, data, "The archive was replaced before it could be read. Ask for a new upload address, "+
			"and PUT one archive to it, once.")
	case errors.Is(err, blob.ErrTooLarge):
		return b.refuse(ctx, s, in, data, fmt.Sprintf("The archive has more than %d MiB. Leave out what the gateway does "+
			"not need, such as node_modules and .git.", b.limits.CompressedBytes>>20))
	case err != nil:
		return operation.Result{}, err
	}
	writes, err := deployments.Accept(ctx, b.options.Table, in, source)
	if err != nil {
		return operation.Result{}, err
	}
	data.Source = source
	return operation.Result{Data: data, Writes: writes}, nil
}

// storeArchive stores the uploaded archive under the deployment's name, its digest and its build. So each build has
// its own object, even if two builds have the same archive. If the key had only the digest, the second upload of an
// archive would not replace the object of the first build, because a put of an existing object changes nothing. The
// object would keep its age, and clean.go could remove it while the second build needs it. storeArchive writes the
// archive to a temporary file first, because the digest is known only after the whole archive was read.
func (b *Builder) storeArchive(ctx context.Context, in deployments.BuildInput) (source string, err error) {
	r, _, err := b.options.Objects.Get(ctx, blob.UploadKey(in.StatusID), in.ETag, b.limits.CompressedBytes)
	if err != nil {
		return "", fmt.Errorf("get an upload: %w", err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	f, err := os.CreateTemp(b.options.TempDir, "upload-*.tar.gz")
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
	if err := b.options.Objects.Put(ctx, blob.SourceKey(source), f); err != nil {
		return "", fmt.Errorf("keep an upload: %w", err)
	}
	return source, nil
}

// validate compiles the project. If the project has problems, validate ends the build with all of them.
func (b *Builder) validate(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, data, err := readInput(s)
	if err != nil {
		return operation.Result{}, err
	}
	// The archive is stored, so the upload is not needed any more.
	if err := b.removeUpload(ctx, in); err != nil {
		return operation.Result{}, err
	}
	c, err := b.compileStored(ctx, s, in, data.Source)
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

// compile stores the compiled project. If this process no longer has the result of validate, or
// validate ran in another process, compile compiles the project again, with the current variables.
func (b *Builder) compile(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, data, err := readInput(s)
	if err != nil {
		return operation.Result{}, err
	}
	c := b.takeCompiled(in.StatusID)
	if c == nil {
		if c, err = b.compileStored(ctx, s, in, data.Source); err != nil {
			return operation.Result{}, err
		}
		data.Warnings = findings(c.result.Warnings)
	}
	if c.artifact == nil {
		return b.refuseAll(ctx, s, in, data, findings(c.result.Errors))
	}
	if err := deployments.EnsureExists(ctx, b.options.Table, in); err != nil {
		return operation.Result{}, err
	}
	data.Artifact, err = b.options.Artifacts.Put(ctx, in.Deployment, c.artifact)
	if err != nil {
		return operation.Result{}, err
	}
	data.Certificates = certificateIDs(c.artifact)
	return operation.Result{Data: data}, nil
}

// deploy makes the gateway serve the artifact, unless a newer upload or a rollback is served already. If the build
// can no longer use one of its certificates, deploy ends the build with a finding.
func (b *Builder) deploy(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, data, err := readInput(s)
	if err != nil {
		return operation.Result{}, err
	}
	writes, err := deployments.Serve(ctx, b.options.Table, in, data, s.Now)
	if err != nil {
		return operation.Result{}, err
	}
	if len(writes) == 0 {
		data.Warnings = append(data.Warnings,
			deployments.Finding{Message: "A newer upload or a rollback is served already, so this one is not."})
		writes, err := deployments.Superseded(ctx, b.options.Table, in, s.Now)
		return operation.Result{Data: data, Next: operation.Succeed, Writes: writes}, err
	}
	if len(data.Certificates) > 0 {
		used, ok, err := b.options.Certificates.ServingWrites(ctx, in.AccountID, in.Project, in.Kind, data.Certificates)
		switch {
		case err != nil:
			return operation.Result{}, err
		case !ok:
			return b.refuseAll(ctx, s, in, data, []deployments.Finding{{Message: "An mTLS certificate was deleted, or " +
				"disabled for this kind of environment, while the project was built. Deploy again, with one that is there."}})
		}
		writes = append(writes, used...)
	}
	return operation.Result{Data: data, Writes: writes, Delay: deployments.Staleness}, nil
}

// noop does nothing. It runs after a wait, in a state that exists only for this wait.
func noop(context.Context, operation.Step) (operation.Result, error) {
	return operation.Result{}, nil
}

// abandon records that a build has ended because the last attempt at one of its states failed. Errors
// in the project do not lead here: they end the build with findings (refuseAll).
func (b *Builder) abandon(ctx context.Context, s operation.Step) (operation.Result, error) {
	in, _, err := readInput(s)
	if err != nil {
		return operation.Result{}, err
	}
	if err := b.removeUpload(ctx, in); err != nil {
		return operation.Result{}, err
	}
	writes, err := deployments.Fail(ctx, b.options.Table, in, s.Now)
	return operation.Result{Writes: writes}, err
}

// compileStored unpacks and compiles a stored archive, adds the key buckets and certificates that the project uses,
// and checks its metering buckets. If the project has problems, there is no artifact, and the result has them.
func (b *Builder) compileStored(
	ctx context.Context, s operation.Step, in deployments.BuildInput, source string,
) (*compiled, error) {
	c := &compiled{statusID: in.StatusID}
	r, _, err := b.options.Objects.Get(ctx, blob.SourceKey(source), "", b.limits.CompressedBytes)
	if errors.Is(err, blob.ErrNotFound) {
		c.result.Errors = []project.Problem{{Message: "The stored sources are gone. Upload them again."}}
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get sources: %w", err)
	}
	variables, err := b.options.Variables.Resolve(ctx, in.AccountID, in.Project, in.Branch)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("resolve variables: %w", err), r.Close())
	}
	c.artifact, c.result, err = b.run(ctx, r, buildRequest{
		Identity: project.Identity{
			AccountID: in.AccountID, Account: in.Account, Project: in.Project, Branch: in.Branch,
			Environment: string(in.Kind), Deployment: in.Deployment, BuildID: in.StatusID,
		},
		Variables: variables,
	})
	if exhausted, ok := errors.AsType[*installation.ExhaustedError](err); ok && (!exhausted.Timeout || s.Attempt > 1) {
		// If the first attempt takes too long, the machine may be slow.
		// If the second attempt does too, the project exceeds its limits.
		c.artifact, c.result, err = nil, project.Result{Errors: []project.Problem{{Message: exhausted.Public}}}, nil
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
	meteringProblems, err := b.findMeteringBuckets(ctx, in, c.artifact, variables)
	if err != nil {
		return nil, err
	}
	certificateProblems, err := b.bindCertificates(ctx, in, c.artifact, variables)
	if err != nil {
		return nil, err
	}
	c.result.Errors = slices.Concat(c.result.Errors, meteringProblems, certificateProblems)
	if len(c.result.Errors) > 0 {
		c.artifact = nil
		err = b.locate(ctx, source, c.result.Errors)
	}
	return c, err
}

// locate adds lines and columns to the problems of a project that compiles. It reads the archive again.
// If the archive is missing or the project exceeds its limits, the problems have no lines and columns.
func (b *Builder) locate(ctx context.Context, source string, problems []project.Problem) error {
	r, _, err := b.options.Objects.Get(ctx, blob.SourceKey(source), "", b.limits.CompressedBytes)
	if errors.Is(err, blob.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get sources: %w", err)
	}
	_, located, err := b.run(ctx, r, buildRequest{Locate: problems})
	if _, exhausted := errors.AsType[*installation.ExhaustedError](err); exhausted {
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

// takeCompiled removes and returns the result that validate has kept for a build, nil for none.
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

// removeUpload removes the uploaded object, even if it was replaced. A redeployment has no such object.
func (b *Builder) removeUpload(ctx context.Context, in deployments.BuildInput) error {
	if in.Source != "" {
		return nil
	}
	if err := b.options.Objects.Delete(ctx, blob.UploadKey(in.StatusID)); err != nil {
		return fmt.Errorf("remove an upload: %w", err)
	}
	return nil
}

// refuse ends a build whose archive can't be used. message is the only finding.
func (b *Builder) refuse(
	ctx context.Context, s operation.Step, in deployments.BuildInput, data deployments.BuildData, message string,
) (operation.Result, error) {
	if err := b.removeUpload(ctx, in); err != nil {
		return operation.Result{}, err
	}
	return b.refuseAll(ctx, s, in, data, []deployments.Finding{{Message: message}})
}

// refuseAll ends a build with these findings: all problems of its project. The gateway still serves the previous
// build.
func (b *Builder) refuseAll(
	ctx context.Context, s operation.Step, in deployments.BuildInput, data deployments.BuildData,
	errs []deployments.Finding,
) (operation.Result, error) {
	data.Errors = errs
	writes, err := deployments.Fail(ctx, b.options.Table, in, s.Now)
	if err != nil {
		return operation.Result{}, err
	}
	return operation.Result{
		Next: operation.Fail, Data: data, Writes: writes,
		Message: refusalMessage(errs),
	}, nil
}

// refusalMessage returns a message with the number of errors and the first file.
func refusalMessage(errs []deployments.Finding) string {
	count, location := "1 error", ""
	if n := len(errs); n > 1 && errs[n-1].File == "" {
		count = fmt.Sprintf("more than %d errors", n-1) // the last element counts the errors that are not listed
	} else if n > 1 {
		count = fmt.Sprintf("%d errors", n)
	}
	if i := slices.IndexFunc(errs, func(f deployments.Finding) bool { return f.File != "" }); i >= 0 {
		location = ", the first in " + errs[i].File
	}
	return fmt.Sprintf("The project cannot be built: %s%s. buildResult.errors says what to correct.", count, location)
}

func readInput(s operation.Step) (in deployments.BuildInput, data deployments.BuildData, err error) {
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
