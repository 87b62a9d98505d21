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
// it; the environment's own one is its project's.
func (b *Builder) bindBuckets(ctx context.Context, in deployments.BuildInput, a *project.Artifact) ([]project.Problem, error) {
	used := map[string]bool{}
	for _, r := range a.Routes {
		for _, name := range r.Inbound {
			used[name] = true
		}
	}
	var problems []project.Problem
	for _, name := range slices.Sorted(maps.Keys(used)) {
		wanted, ok := policy.WantedBucket(a.Policies[name])
		if !ok {
			continue
		}
		at := keys.BucketAt{Owner: in.Deployer(), Bucket: wanted}
		message := "Name a key bucket that there is and that serves this project and environment in the policy %q, and deploy by an account key that sees it: " +
			"none is found. A bucket serves the project and the environments that its tags have placed it at, any if they place it nowhere."
		if wanted == "" {
			at.Viewer = auth.Principal{Permissions: auth.Full()}
			at.Bucket = keys.DefaultBucket(in.Project, in.Kind)
			message = "Make the key bucket of this environment anew, for the policy %q: it was deleted, or is placed elsewhere and has to be deleted first. " +
				"It is called " + at.Bucket + " and has the tags project=" + in.Project + " and environmentType=" + in.Kind.Upper() + "."
		}
		found, err := b.o.Buckets.BucketFor(ctx, at, in.Project, in.Kind)
		switch {
		case fault.Is(err, fault.NotFound):
			problems = append(problems, project.Problem{File: "config/policies.json", Message: fmt.Sprintf(message, name)})
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
