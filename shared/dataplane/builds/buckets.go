package builds

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

// bindBuckets looks up the key bucket of each API key policy that the artifact's routes use, and adds the buckets' IDs
// to the artifact. So a gateway never looks up a bucket by its name, which may belong to another bucket later. If the
// project names a bucket, the deployer needs permission to see it. The environment's own bucket needs no permission,
// because it belongs to the project. variables has the values that were substituted into the options. The messages of
// problems show $env(NAME) in place of such a value.
func (b *Builder) bindBuckets(
	ctx context.Context, in deployments.BuildInput, a *project.Artifact, variables map[string]string,
) ([]project.Problem, error) {
	var problems []project.Problem
	for _, name := range slices.Sorted(maps.Keys(inboundPolicies(a))) {
		p := a.Policies[name]
		bucket, optionPointer, ok := policy.BucketOption(p)
		if !ok {
			continue
		}
		ref := keys.BucketLocator{Owner: in.Deployer(), Bucket: bucket}
		problem := project.Problem{File: p.Source.File, Path: p.HandlerPointer() + optionPointer}
		if bucket == "" {
			ref.Viewer = auth.Principal{Permissions: auth.Full()}
			ref.Bucket = keys.DefaultBucket(in.Project, in.Kind)
			problem.Message = fmt.Sprintf("The key bucket of this environment, %q, is not found: it was deleted, or is placed "+
				"elsewhere and has to be deleted first. "+
				"Make it anew, with the tags project=%s and environmentType=%s.", ref.Bucket, in.Project, in.Kind.Upper())
		} else {
			problem.Message = fmt.Sprintf("No key bucket %q is found that serves the %s environments of the project %s and "+
				"that the account key which deploys sees. Make one or name another. "+
				"A bucket serves the project and the environments that its tags have placed it at, any if they place it nowhere; "+
				"an account key of some projects or environments sees those alone that are placed at one of its own.",
				project.RedactVariables(bucket, variables), in.Kind, in.Project)
		}
		found, err := b.options.Buckets.BucketFor(ctx, ref, in.Project, in.Kind)
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
