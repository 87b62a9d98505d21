package builds

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/keys"
	"github.com/gatewright/gatewright/shared/project"
)

// bindBuckets finds the key buckets that the artifact's routes verify keys by, and
// puts their ids into it: a gateway looks for none by a name, which may be another
// bucket's by then. A bucket that the project names has to be seen by who deploys
// it; the environment's own one is its project's. variables are what the options
// were resolved with: no problem repeats one's value.
func (b *Builder) bindBuckets(ctx context.Context, in deployments.BuildInput, a *project.Artifact, variables map[string]string) ([]project.Problem, error) {
	var problems []project.Problem
	for _, name := range slices.Sorted(maps.Keys(inboundOf(a))) {
		p := a.Policies[name]
		wanted, option, ok := policy.WantedBucket(p)
		if !ok {
			continue
		}
		at := keys.BucketAt{Owner: in.Deployer(), Bucket: wanted}
		problem := project.Problem{File: p.Source.File, Path: p.Source.Pointer + "/handler" + option}
		if wanted == "" {
			at.Viewer = auth.Principal{Permissions: auth.Full()}
			at.Bucket = keys.DefaultBucket(in.Project, in.Kind)
			problem.Message = fmt.Sprintf("The key bucket of this environment, %q, is not found: it was deleted, or is placed elsewhere and has to be deleted first. "+
				"Make it anew, with the tags project=%s and environmentType=%s.", at.Bucket, in.Project, in.Kind.Upper())
		} else {
			problem.Message = fmt.Sprintf("No key bucket %q is found that serves the %s environments of the project %s and that the account key which deploys sees. Make one or name another. "+
				"A bucket serves the project and the environments that its tags have placed it at, any if they place it nowhere; an account key of some projects or environments sees those alone that are placed at one of its own.",
				project.Concealed(wanted, variables), in.Kind, in.Project)
		}
		found, err := b.o.Buckets.BucketFor(ctx, at, in.Project, in.Kind)
		switch {
		case fault.Is(err, fault.NotFound):
			problems = append(problems, problem)
			continue
		case err != nil:
			return nil, fmt.Errorf("find a key bucket: %w", err)
		}
		if a.Buckets == nil {
			a.Buckets = map[string]project.KeyBucket{}
		}
		a.Buckets[name] = project.KeyBucket{ID: found.ID, Name: found.Name}
	}
	return problems, nil
}
