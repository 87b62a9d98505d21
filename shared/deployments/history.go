package deployments

import (
	"context"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// BuildState is what can be done with a build that was served.
type BuildState string

// The states (contract 9).
const (
	// Live is served.
	Live BuildState = "live"
	// Previous was served, and can be returned to.
	Previous BuildState = "previous"
	// Gone was served; its artifact and sources are removed.
	Gone BuildState = "gone"
)

// PastBuild is a build that is or was served.
type PastBuild struct {
	// BuildID is a UUID.
	BuildID string
	// CreatedOn is when it was first served.
	CreatedOn time.Time
	// SHA is the commit that the sources were said to be of, "" for none.
	SHA   string
	State BuildState
}

// maxGone is how many builds that cannot be returned to are told of.
const maxGone = 20

var (
	errNothingBefore = fault.New(fault.Conflict, "There is no earlier build to go back to. Deploy one.")
	errAlreadyLive   = fault.New(fault.Conflict, "This build is served already. Choose one that the history calls previous.")
	errBuildGone     = fault.New(fault.Conflict, "This build is gone: its artifact was removed, as all are but the last %d. Deploy its sources again, or choose one that the history calls previous.", maxEarlierBuilds)
	errNoBuild       = fault.Missing("build")
	// A build was made with the certificates that there were.
	errCertificateGone = fault.New(fault.Conflict, "This build shows upstreams an mTLS certificate that was deleted since, or is not enabled for the environment any more. Choose another build, or deploy with a certificate that is.")
)

// Certificates are the mTLS certificates that builds show to upstreams: package
// mtlscertificates has them.
type Certificates interface {
	// Serving gives the writes by which a build that shows some comes to be served; ok
	// is false where one of them is gone, or not enabled for the kind any more.
	Serving(ctx context.Context, accountID, project string, kind environment.Kind, ids []string) (writes []store.Write, ok bool, err error)
}

// History returns the builds that a deployment has served: the live one, then those
// that can be returned to, the last served first, then those that are gone.
func (s *Service) History(ctx context.Context, at DeploymentAt) ([]PastBuild, error) {
	r, err := s.find(ctx, at)
	if err != nil || r.Served == nil {
		return nil, err
	}
	out := []PastBuild{r.Served.past(Live)}
	for _, b := range r.Before {
		out = append(out, b.past(Previous))
	}
	for _, b := range r.Gone {
		out = append(out, b.past(Gone))
	}
	return out, nil
}

// ServedArtifact returns the name of what is served under a deployment's name, "" before its first build has succeeded. Fault: NotFound.
func (s *Service) ServedArtifact(ctx context.Context, at DeploymentAt) (string, error) {
	r, err := s.find(ctx, at)
	if err != nil || r.Served == nil {
		return "", err
	}
	return r.Served.Artifact, nil
}

func (b Served) past(state BuildState) PastBuild {
	return PastBuild{BuildID: b.BuildID, CreatedOn: b.On, SHA: b.SHA, State: state}
}

// Rollback has a build served again that was served before: the one of the id to, or
// for "" the last one that was served before the live one. Its artifact is as it was
// built, whatever has become of the branch's variables since, and gateways serve it
// within Staleness.
//
// A rollback is a decision like the beginning of a build, and takes the next number: a
// build that was begun before it and ends after it is not served any more, one that is
// begun after it is. So the newest decision wins, in whatever order they end. What
// is redeployed from then on are the sources of the build that is served.
//
// A build that is served already, one that is gone, and none to go back to are a
// Conflict; an id of none of the deployment's builds is NotFound.
func (s *Service) Rollback(ctx context.Context, at DeploymentAt, to string, shown Certificates) (Deployment, error) {
	var out Deployment
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		r, err := s.find(ctx, at)
		if err != nil {
			return err
		}
		next, err := r.back(to, s.now())
		if err != nil {
			return err
		}
		uses, ok, err := shown.Serving(ctx, r.AccountID, r.Project, r.Kind, next.Served.Certificates)
		if err != nil {
			return err
		}
		if !ok {
			return errCertificateGone
		}
		if err := s.parts.Table.Commit(ctx, append(uses,
			r.update(store.ErrStale,
				store.Set(store.At("latest"), next.Latest),
				store.Set(store.At("ended"), next.Ended),
				store.Set(store.At("served"), next.Served),
				store.Set(store.At("before"), next.Before),
				store.Set(store.At("source"), next.Source),
				store.Set(store.At("sha"), next.SHA),
				store.Set(store.At("accepted"), next.Accepted),
				store.Set(store.At("updatedOn"), next.UpdatedOn),
			).If(store.Equal(store.At("latest"), r.Latest)),
			audit.Record(ctx, r.resource()),
		)...); err != nil {
			return err
		}
		out = s.view(next)
		return nil
	})
	return out, err
}

// back is the record with an earlier build served.
func (r Record) back(to string, now time.Time) (Record, error) {
	is := func(b Served) bool { return b.BuildID == to }
	switch {
	case r.Served != nil && is(*r.Served):
		return Record{}, errAlreadyLive
	case slices.ContainsFunc(r.Gone, is):
		return Record{}, errBuildGone
	case to != "" && !slices.ContainsFunc(r.Before, is):
		return Record{}, errNoBuild
	case r.Served == nil || len(r.Before) == 0:
		return Record{}, errNothingBefore
	}
	i := 0
	if to != "" {
		i = slices.IndexFunc(r.Before, is)
	}
	target := r.Before[i]
	r.Before = append([]Served{*r.Served}, slices.Delete(slices.Clone(r.Before), i, i+1)...)
	r.Latest++
	target.Number = r.Latest
	r.Served, r.Ended, r.Accepted = &target, r.Latest, r.Latest
	r.Source, r.SHA, r.UpdatedOn = target.Source, target.SHA, now
	return r, nil
}

// displaced is what has been served before a new build is: what can be returned to,
// and what cannot any more. Its objects are removed by the Clean that each end of a
// build begins.
func (r Record) displaced() (before, gone []Served) {
	before = append([]Served{*r.Served}, r.Before...)
	n := min(len(before), maxEarlierBuilds)
	gone = append(slices.Clone(before[n:]), r.Gone...)
	for i := range gone {
		gone[i].Artifact, gone[i].Source = "", ""
	}
	return before[:n], gone[:min(len(gone), maxGone)]
}
