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
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/project"
)

// MeteringBuckets finds metering buckets.
type MeteringBuckets interface {
	ReadBucket(ctx context.Context, at metering.BucketAt) (metering.Bucket, error)
}

var _ MeteringBuckets = (*metering.Service)(nil)

// findMeteringBuckets tells which of the metering buckets that the artifact's routes count in are
// none of the account's: each request would be refused there. Who deploys need not see
// metering, as an account key of one project does not: what a deployment counts is its own callers'
// requests. A bucket that is deleted later is noticed by gateways. variables are what the
// options were resolved with: no problem repeats one's value.
func (b *Builder) findMeteringBuckets(ctx context.Context, in deployments.BuildInput, a *project.Artifact, variables map[string]string) ([]project.Problem, error) {
	owner := in.Deployer()
	owner.Viewer = auth.Principal{Permissions: auth.Full()}
	var problems []project.Problem
	found := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(inboundOf(a))) {
		p := a.Policies[name]
		wanted, option, ok := policy.WantedMeteringBucket(p)
		if !ok || found[wanted] {
			continue
		}
		_, err := b.o.Metering.ReadBucket(ctx, metering.BucketAt{Owner: owner, Bucket: wanted})
		switch {
		case fault.Is(err, fault.NotFound):
			problems = append(problems, project.Problem{
				File: p.Source.File, Path: p.Source.Pointer + "/handler" + option,
				Message: fmt.Sprintf("The account has no metering bucket %q. Make one, or write the id of one that there is.", project.Concealed(wanted, variables)),
			})
			continue
		case err != nil:
			return nil, fmt.Errorf("find a metering bucket: %w", err)
		}
		found[wanted] = true
	}
	return problems, nil
}

// inboundOf are the names of the inbound policies that an artifact's routes have.
func inboundOf(a *project.Artifact) map[string]bool {
	used := map[string]bool{}
	for _, r := range a.Routes {
		for _, name := range r.Inbound {
			used[name] = true
		}
	}
	return used
}
