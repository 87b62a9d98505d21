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
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// MeteringBuckets looks up metering buckets.
type MeteringBuckets interface {
	ReadBucket(ctx context.Context, at metering.BucketLocator) (metering.Bucket, error)
}

var _ MeteringBuckets = (*metering.Service)(nil)

// findMeteringBuckets returns a problem for each inbound policy of the artifact's routes whose metering bucket
// the account does not have. A gateway would refuse each request to these routes. The deployer does not need
// permission to see metering buckets: a deployment counts only the requests of its own callers, and an
// account key that is limited to a project has no such permission. If a bucket is deleted after the build,
// gateways detect it. variables has the values that were substituted into the options. Problems redact them.
func (b *Builder) findMeteringBuckets(
	ctx context.Context, in deployments.BuildInput, a *project.Artifact, variables map[string]string,
) ([]project.Problem, error) {
	owner := in.Deployer()
	owner.Viewer = auth.Principal{Permissions: auth.Full()}
	var problems []project.Problem
	found := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(inboundPolicies(a))) {
		p := a.Policies[name]
		bucketID, optionPointer, ok := policy.MeteringBucketOption(p)
		if !ok || found[bucketID] {
			continue
		}
		_, err := b.options.Metering.ReadBucket(ctx, metering.BucketLocator{Owner: owner, Bucket: bucketID})
		switch {
		case fault.Is(err, fault.NotFound):
			problems = append(problems, project.Problem{
				File: p.Source.File, Path: p.HandlerPointer() + optionPointer,
				Message: fmt.Sprintf("The account has no metering bucket %q. Make one, or write the id of one that there is.",
					project.RedactVariables(bucketID, variables)),
			})
			continue
		case err != nil:
			return nil, fmt.Errorf("find a metering bucket: %w", err)
		}
		found[bucketID] = true
	}
	return problems, nil
}

// inboundPolicies returns the set of the names of the inbound policies that an artifact's routes use.
func inboundPolicies(a *project.Artifact) map[string]bool {
	used := map[string]bool{}
	for _, r := range a.Routes {
		for _, name := range r.Inbound {
			used[name] = true
		}
	}
	return used
}
