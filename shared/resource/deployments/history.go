package deployments

import (
	"context"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// BuildState is the state of a build in the history.
type BuildState string

// The values of a BuildState (contract 9).
const (
	// Live: gateways serve the build.
	Live BuildState = "live"
	// Previous: the build was served, and a rollback can choose it.
	Previous BuildState = "previous"
	// Gone: the build was served, but a rollback cannot choose it, because its artifact and sources are removed.
	Gone BuildState = "gone"
)

// PastBuild is a build that is or was served.
type PastBuild struct {
	// BuildID is a UUID.
	BuildID string
	// CreatedOn is the time when the build was first served.
	CreatedOn time.Time
	// SHA is the commit of the sources, as the client named it, "" for none.
	SHA   string
	State BuildState
}

// maxRemovedBuilds is the maximum number of Gone builds in the history.
const maxRemovedBuilds = 20

var (
	errNoPreviousBuild = fault.New(fault.Conflict, "There is no earlier build to go back to. Deploy one.")
	errAlreadyLive     = fault.New(fault.Conflict,
		"This build is served already. Choose one that the history calls previous.")
	errBuildRemoved = fault.New(fault.Conflict, "This build is gone: its artifact was removed, as all are but the "+
		"last %d. Deploy its sources again, or choose one that the history calls previous.", maxPreviousBuilds)
	errNoBuild = fault.Missing("build")
	// An artifact names the certificates that existed when it was built.
	errCertificateDeleted = fault.New(fault.Conflict, "This build shows upstreams an mTLS certificate that was deleted "+
		"since, or is not enabled for the environment any more. Choose another build, or deploy with a certificate that is.")
)

// Certificates are the mTLS certificates that builds present to upstreams. Package upstreamcerts implements
// Certificates.
type Certificates interface {
	// ServingWrites returns the writes for a commit that begins to serve a build. ids are the ids of the build's
	// certificates. ok is false if one of the certificates was deleted, or is no longer enabled for the kind.
	ServingWrites(ctx context.Context, accountID, project string, kind environment.Kind,
		ids []string) (writes []store.Write, ok bool, err error)
}

// History returns the builds that a deployment has served: first the Live build, then the Previous builds, then the
// Gone builds. Builds with the same state are sorted by when they were last served, the most recent first. History
// returns none before the first build has succeeded, and NotFound like ReadDeployment.
func (s *Service) History(ctx context.Context, at DeploymentLocator) ([]PastBuild, error) {
	r, err := s.find(ctx, at)
	if err != nil || r.Served == nil {
		return nil, err
	}
	out := []PastBuild{r.Served.toPastBuild(Live)}
	for _, b := range r.Previous {
		out = append(out, b.toPastBuild(Previous))
	}
	for _, b := range r.Gone {
		out = append(out, b.toPastBuild(Gone))
	}
	return out, nil
}

// ServedArtifact returns the name of the artifact that gateways serve, or "" before the deployment's first build has
// succeeded. Fault: NotFound.
func (s *Service) ServedArtifact(ctx context.Context, at DeploymentLocator) (string, error) {
	r, err := s.find(ctx, at)
	if err != nil || r.Served == nil {
		return "", err
	}
	return r.Served.Artifact, nil
}

func (s Served) toPastBuild(state BuildState) PastBuild {
	return PastBuild{BuildID: s.BuildID, CreatedOn: s.ServedOn, SHA: s.SHA, State: state}
}

// Rollback makes gateways serve an earlier build again: the build with the id buildID or, if buildID is "", the build
// that was served before the live one. The build's artifact does not change, even if the branch's variables have
// changed since. Gateways serve the build within Staleness.
//
// Like the beginning of a build, a rollback is a decision and gets the next number. A build that began before the
// rollback and ends after it is not served. A build that begins after the rollback is served. So the newest decision
// wins, in whichever order the builds end. After a rollback, Redeploy builds the sources of the build that the rollback
// chose.
//
// Rollback returns Conflict if the build is already served, if the build is gone, if there is no earlier build, or if
// one of the build's certificates was deleted or is no longer enabled. It returns NotFound for a deployment that is
// missing, invisible or without a build, and for an id that is not a build of the deployment.
func (s *Service) Rollback(
	ctx context.Context, at DeploymentLocator, buildID string, certificates Certificates,
) (Deployment, error) {
	var out Deployment
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		r, err := s.find(ctx, at)
		if err != nil {
			return err
		}
		next, err := r.rolledBack(buildID, s.now())
		if err != nil {
			return err
		}
		writes, ok, err := certificates.ServingWrites(ctx, r.AccountID, r.Project, r.Kind, next.Served.Certificates)
		if err != nil {
			return err
		}
		if !ok {
			return errCertificateDeleted
		}
		if err := s.parts.Table.Commit(ctx, append(writes,
			r.updateWrite(store.ErrStale,
				store.Set(store.At("latest"), next.Latest),
				store.Set(store.At("ended"), next.LatestEnded),
				store.Set(store.At("served"), next.Served),
				store.Set(store.At("before"), next.Previous),
				store.Set(store.At("source"), next.Source),
				store.Set(store.At("sha"), next.SHA),
				store.Set(store.At("accepted"), next.Accepted),
				store.Set(store.At("updatedOn"), next.UpdatedOn),
			).If(store.Equal(store.At("latest"), r.Latest)),
			audit.Record(ctx, r.resource()),
		)...); err != nil {
			return err
		}
		out = s.toDeployment(next)
		return nil
	})
	return out, err
}

// rolledBack returns the record as it is after a rollback to an earlier build.
func (r Record) rolledBack(buildID string, now time.Time) (Record, error) {
	matches := func(b Served) bool { return b.BuildID == buildID }
	switch {
	case r.Served != nil && matches(*r.Served):
		return Record{}, errAlreadyLive
	case slices.ContainsFunc(r.Gone, matches):
		return Record{}, errBuildRemoved
	case buildID != "" && !slices.ContainsFunc(r.Previous, matches):
		return Record{}, errNoBuild
	case r.Served == nil || len(r.Previous) == 0:
		return Record{}, errNoPreviousBuild
	}
	i := 0
	if buildID != "" {
		i = slices.IndexFunc(r.Previous, matches)
	}
	target := r.Previous[i]
	r.Previous = append([]Served{*r.Served}, slices.Delete(slices.Clone(r.Previous), i, i+1)...)
	r.Latest++
	target.Number = r.Latest
	r.Served, r.LatestEnded, r.Accepted = &target, r.Latest, r.Latest
	r.Source, r.SHA, r.UpdatedOn = target.Source, target.SHA, now
	return r, nil
}

// displacedBuilds returns the Previous and Gone builds of the record as they are after a new build is served. The Clean
// that begins when the new build ends removes the objects of removed builds.
func (r Record) displacedBuilds() (previous, removed []Served) {
	previous = append([]Served{*r.Served}, r.Previous...)
	n := min(len(previous), maxPreviousBuilds)
	removed = append(slices.Clone(previous[n:]), r.Gone...)
	for i := range removed {
		removed[i].Artifact, removed[i].Source = "", ""
	}
	return previous[:n], removed[:min(len(removed), maxRemovedBuilds)]
}
