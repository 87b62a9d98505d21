package builds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	rebuilding = "rebuild"
	// shards are what deployments' names begin with: no step lists more of the bucket than one of them has.
	shards = "0123456789abcdefghijklmnopqrstuvwxyz"
	// looksPerStep is how many deployments a step looks at that need nothing.
	looksPerStep = 200
	// rebuildPause leaves room for the builds of customers.
	rebuildPause = time.Second
	// triesOfOne is how often the build of one is tried that ends its worker, or does not come to an end.
	// Workers end for other reasons too: before so many have, the alarm of operations that do not get on has rung.
	triesOfOne = 20
	// leftFor is when an operation is looked at again that is for a release that writes another format.
	leftFor = 10 * time.Minute
	// maxKept is how many builds are told of that were left as they are.
	maxKept = 100
)

// rebuild is one step of a Rebuild: it looks at the deployments that have artifacts, in the order of their names, and
// builds the next one anew whose artifact has an older format, from the sources and with the values that it was built
// with. What is served changes only where it is still what was looked at, in the commit of the step. What does not
// build any more keeps its artifact, and is told of.
func (b *Builder) rebuild(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in deployments.RebuildInput
	var d deployments.RebuildData
	if err := errors.Join(s.Input(&in), s.Data(&d)); err != nil {
		return operation.Result{}, err
	}
	if in.Format != b.o.Artifacts.Written() {
		written, err := deployments.FormatWritten(ctx, b.o.Table)
		if err != nil || written == in.Format {
			return operation.Result{Again: true, After: leftFor}, err // for the release that has begun it
		}
		return operation.Result{Message: "It was ended: another release writes another format of artifacts by now."}, nil
	}
	for looked := 0; d.Shard < len(shards); d.Shard, d.After = d.Shard+1, "" {
		names, err := b.deployed(ctx, shards[d.Shard:d.Shard+1])
		if err != nil {
			return operation.Result{}, err
		}
		for _, name := range names {
			if name <= d.After {
				continue
			}
			if looked++; looked > looksPerStep {
				return progress(d, true), nil
			}
			result, done, err := b.rebuildNext(ctx, s, in, &d, name)
			if err != nil || !done {
				return result, err
			}
			d.After, d.Skip = name, nil
			d.Seen++
		}
	}
	return progress(d, false), nil
}

// progress is a step without writes.
func progress(d deployments.RebuildData, more bool) operation.Result {
	message := fmt.Sprintf("%d deployments looked at, %d builds made anew, %d left as they are", d.Seen, d.Rebuilt, d.AllKept)
	for i, kept := range d.Kept {
		message += map[bool]string{true: ": ", false: "; "}[i == 0] + kept.Deployment + ": " + kept.Why
	}
	return operation.Result{Again: more, Data: d, Message: strings.TrimSuffix(message, ".") + "."}
}

// deployed are the names of deployments that have artifacts, sorted: those that begin so.
func (b *Builder) deployed(ctx context.Context, first string) (names []string, err error) {
	root := blob.ArtifactKey("")
	for o, err := range b.o.Objects.List(ctx, root+first) {
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

// rebuildNext builds the next of a deployment's builds anew that needs it. done says that none does, and that there is
// no result to commit.
func (b *Builder) rebuildNext(ctx context.Context, s operation.Step, in deployments.RebuildInput, d *deployments.RebuildData, name string) (_ operation.Result, done bool, err error) {
	r, err := deployments.Read(ctx, b.o.Table, name)
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
	var artifact, why string
	if s.Attempt > triesOfOne {
		why = "its build does not come to an end"
	} else if artifact, why, err = b.anew(ctx, r, all[i]); err != nil {
		return operation.Result{}, false, err
	}
	if why != "" {
		d.Skip = append(d.Skip, all[i].BuildID)
		if d.AllKept++; len(d.Kept) < maxKept {
			d.Kept = append(d.Kept, deployments.KeptBuild{Deployment: name, BuildID: all[i].BuildID, Why: why})
		}
		return progress(*d, true), false, nil
	}
	d.Rebuilt++
	result := progress(*d, true)
	result.After = rebuildPause
	result.Writes = r.Rebuilt(all[i], artifact, fmt.Sprintf("%s-%d", s.ID, s.Number), s.Now)
	return result, false, nil
}

// anew builds what a deployment serves, or served, and stores it. why says what keeps it from that.
func (b *Builder) anew(ctx context.Context, r deployments.Record, build deployments.Served) (artifact, why string, err error) {
	old, err := b.o.Artifacts.Get(ctx, build.Artifact)
	switch {
	case errors.Is(err, blob.ErrNotFound):
		return "", "its artifact is gone", nil
	case errors.Is(err, project.ErrFormat):
		return "", "its artifact cannot be read any more; deploy it again", nil
	case err != nil:
		return "", "", err
	}
	variables, told := old.BuiltWith(), old.Env != nil
	if !told {
		if variables, err = b.o.Variables.Resolve(ctx, r.AccountID, r.Project, r.Branch); err != nil {
			return "", "", fmt.Errorf("resolve variables: %w", err)
		}
	}
	archive, _, err := b.o.Objects.Get(ctx, blob.SourceKey(build.Source), "", b.limits.CompressedBytes)
	if errors.Is(err, blob.ErrNotFound) {
		return "", "its sources are gone; deploy it again", nil
	}
	if err != nil {
		return "", "", fmt.Errorf("get sources: %w", err)
	}
	made, result, err := b.run(ctx, archive, order{Identity: old.Identity, Variables: variables})
	if over, ok := errors.AsType[*installation.ExhaustedError](err); ok {
		made, result, err = nil, project.Result{Errors: []project.Problem{{Message: over.Public}}}, nil
	}
	if err = errors.Join(err, archive.Close()); err != nil {
		return "", "", fmt.Errorf("build a project anew: %w", err)
	}
	if made == nil {
		return "", fmt.Sprintf("its sources do not build any more, with %d errors; deploy it again", len(result.Errors)), nil
	}
	// What was found for who had it built is not looked for anew: nobody asks now.
	made.Buckets, made.Certificates = old.Buckets, old.Certificates
	if !told && !sameBuild(old, made) {
		return "", "its variables are others by now; deploy it again", nil
	}
	artifact, err = b.o.Artifacts.Put(ctx, r.Name, made)
	return artifact, "", err
}

// sameBuild reports whether two artifacts serve the same, beside what the earlier one does not tell.
func sameBuild(old, made *project.Artifact) bool {
	its := *made
	its.Env = nil
	_, one, errOne := project.Encode(old, project.OldestFormat)
	_, two, errTwo := project.Encode(&its, project.OldestFormat)
	return errOne == nil && errTwo == nil && one == two
}
