package builds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

const (
	stateRebuild = "rebuild"
	// shardPrefixes are the first characters of deployment names. The artifacts are listed separately for each of them.
	shardPrefixes = "0123456789abcdefghijklmnopqrstuvwxyz"
	// checksPerStep is the maximum number of deployments that one step checks.
	checksPerStep = 200
	// rebuildDelay is the pause after each rebuild, so that builds of customers are not delayed.
	rebuildDelay = time.Second
	// maxAttempts is the maximum number of attempts for a build that kills its worker or does not end. Workers
	// can also die for other reasons, but the alarm for stuck operations goes off before this number is reached.
	maxAttempts = 20
	// otherReleaseDelay is the pause before a Rebuild for another format than this release writes is checked again.
	otherReleaseDelay = 10 * time.Minute
	// maxReportedBuilds is the maximum number of builds to report that were not rebuilt.
	maxReportedBuilds = 100
)

// rebuild is one step of a Rebuild. It checks the deployments that have artifacts, in the order of
// their names. It rebuilds the next artifact of an older format from the same sources and values
// of variables. The commit of the step replaces this artifact only if the deployment has not
// changed since it was read. A build that can't be rebuilt keeps its artifact and is reported.
//
// If the Rebuild is for another format than this release writes, the step leaves the work to the release
// that started the Rebuild. If the recorded format (CurrentFormat) is no longer the Rebuild's, the Rebuild ends.
func (b *Builder) rebuild(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in deployments.RebuildInput
	var d deployments.RebuildData
	if err := errors.Join(s.Input(&in), s.Data(&d)); err != nil {
		return operation.Result{}, err
	}
	if in.Format != b.options.Artifacts.Format() {
		written, err := deployments.CurrentFormat(ctx, b.options.Table)
		if err != nil || written == in.Format {
			// The release that has started the operation continues it.
			return operation.Result{Repeat: true, Delay: otherReleaseDelay}, err
		}
		return operation.Result{Message: "It was ended: another release writes another format of artifacts by now."}, nil
	}
	for checked := 0; d.Shard < len(shardPrefixes); d.Shard, d.After = d.Shard+1, "" {
		names, err := b.deploymentNames(ctx, shardPrefixes[d.Shard:d.Shard+1])
		if err != nil {
			return operation.Result{}, err
		}
		for _, name := range names {
			if name <= d.After {
				continue
			}
			if checked++; checked > checksPerStep {
				return progress(d, true), nil
			}
			result, done, err := b.rebuildNext(ctx, s, in, &d, name)
			if err != nil || !done {
				return result, err
			}
			d.After, d.Skip = name, nil
			d.Checked++
		}
	}
	return progress(d, false), nil
}

// progress returns the result of a step. rebuildNext adds the writes of a rebuilt build. more reports whether the
// step must be repeated.
func progress(d deployments.RebuildData, more bool) operation.Result {
	message := fmt.Sprintf("%d deployments looked at, %d builds made anew, %d left as they are", d.Checked, d.Rebuilt,
		d.UnchangedTotal)
	for i, build := range d.Unchanged {
		message += map[bool]string{true: ": ", false: "; "}[i == 0] + build.Deployment + ": " + build.Reason
	}
	return operation.Result{Repeat: more, Data: d, Message: strings.TrimSuffix(message, ".") + "."}
}

// deploymentNames returns the sorted names of the deployments that have artifacts and begin with prefix.
func (b *Builder) deploymentNames(ctx context.Context, prefix string) (names []string, err error) {
	root := blob.ArtifactKey("")
	for o, err := range b.options.Objects.List(ctx, root+prefix) {
		if err != nil {
			return nil, fmt.Errorf("list what is deployed: %w", err)
		}
		name, _, ok := strings.Cut(strings.TrimPrefix(o.Key, root), "/")
		if ok && (len(names) == 0 || names[len(names)-1] != name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// rebuildNext rebuilds the next build of a deployment that needs a rebuild, and updates d. If no build needs one, or
// if the deployment was deleted, done is true, and there is no result to commit.
func (b *Builder) rebuildNext(
	ctx context.Context, s operation.Step, in deployments.RebuildInput, d *deployments.RebuildData, name string,
) (_ operation.Result, done bool, err error) {
	r, err := deployments.Read(ctx, b.options.Table, name)
	if errors.Is(err, store.ErrNotFound) {
		return operation.Result{}, true, nil
	}
	if err != nil {
		return operation.Result{}, false, err
	}
	all := r.Builds()
	i := slices.IndexFunc(all, func(build deployments.Served) bool {
		return artifacts.FormatOf(build.Artifact) < in.Format && !slices.Contains(d.Skip, build.BuildID)
	})
	if i < 0 {
		return operation.Result{}, true, nil
	}
	var artifact, reason string
	if s.Attempt > maxAttempts {
		reason = "its build does not come to an end"
	} else if artifact, reason, err = b.rebuildBuild(ctx, r, all[i]); err != nil {
		return operation.Result{}, false, err
	}
	if reason != "" {
		d.Skip = append(d.Skip, all[i].BuildID)
		if d.UnchangedTotal++; len(d.Unchanged) < maxReportedBuilds {
			d.Unchanged = append(d.Unchanged, deployments.UnchangedBuild{
				Deployment: name, BuildID: all[i].BuildID,
				Reason: reason,
			})
		}
		return progress(*d, true), false, nil
	}
	d.Rebuilt++
	result := progress(*d, true)
	result.Delay = rebuildDelay
	result.Writes = r.ReplaceArtifact(all[i], artifact, fmt.Sprintf("%s-%d", s.ID, s.Number), s.Now)
	return result, false, nil
}

// rebuildBuild rebuilds a current or earlier build of a deployment, and
// stores the artifact. If the rebuild is not possible, reason says why.
func (b *Builder) rebuildBuild(
	ctx context.Context, r deployments.Record, build deployments.Served,
) (artifact, reason string, err error) {
	old, err := b.options.Artifacts.Get(ctx, build.Artifact)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return "", "its artifact is gone", nil
	case errors.Is(err, project.ErrFormat):
		return "", "its artifact cannot be read any more; deploy it again", nil
	case err != nil:
		return "", "", err
	}
	variables, hasVariables := old.BuildVariables(), old.Env != nil
	if !hasVariables {
		if variables, err = b.options.Variables.Resolve(ctx, r.AccountID, r.Project, r.Branch); err != nil {
			return "", "", fmt.Errorf("resolve variables: %w", err)
		}
	}
	archive, _, err := b.options.Objects.Get(ctx, blob.SourceKey(build.Source), "", b.limits.CompressedBytes)
	if errors.Is(err, blob.ErrNotFound) {
		return "", "its sources are gone; deploy it again", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("get sources: %w", err)
	}
	rebuilt, result, err := b.run(ctx, archive, buildRequest{Identity: old.Identity, Variables: variables})
	if exhausted, ok := errors.AsType[*installation.ExhaustedError](err); ok {
		rebuilt, result, err = nil, project.Result{Errors: []project.Problem{{Message: exhausted.Public}}}, nil
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		return "", "", fmt.Errorf("build a project anew: %w", err)
	}
	if rebuilt == nil {
		return "", fmt.Sprintf("its sources do not build any more, with %d errors; deploy it again", len(result.Errors)), nil
	}
	// Keep the buckets and certificates of the first build: there is no deployer whose permissions could be checked now.
	rebuilt.Buckets, rebuilt.Certificates = old.Buckets, old.Certificates
	if !hasVariables && !sameBuild(old, rebuilt) {
		return "", "its variables are others by now; deploy it again", nil
	}
	artifact, err = b.options.Artifacts.Put(ctx, r.Name, rebuilt)
	return artifact, "", err
}

// sameBuild reports whether two artifacts have the same content. It
// ignores the variables, which are missing in artifacts of early formats.
func sameBuild(old, rebuilt *project.Artifact) bool {
	withoutEnv := *rebuilt
	withoutEnv.Env = nil
	_, oldDigest, oldErr := project.Encode(old, project.OldestFormat)
	_, newDigest, newErr := project.Encode(&withoutEnv, project.OldestFormat)
	return oldErr == nil && newErr == nil && oldDigest == newDigest
}
