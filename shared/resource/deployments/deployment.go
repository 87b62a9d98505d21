package deployments

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// State is the state of a deployment (contract 2.7).
type State string

// The values of a State. A deployment with a served build stays Started while a new build runs, and also if the new
// build fails.
const (
	Started  State = "STARTED"
	Building State = "BUILDING"
	Failed   State = "FAILED"
)

// Deployment is the public form of a deployment, which is what gateways serve for an environment.
type Deployment struct {
	// Name is unique in the installation and never reused. It is the first label of the host name in URL.
	Name, URL string
	// Label is the form of the branch in Name. LoggingID identifies the deployment in logs.
	Label, LoggingID         string
	Account, Project, Branch string
	Kind                     environment.Kind
	State                    State
	CreatedOn, UpdatedOn     time.Time
}

// Record is the record of a deployment or, after the deletion, its tombstone. Gateways read it by the first label of
// the host name. Builds change it.
type Record struct {
	store.UnknownAttributes

	Name      string           `dynamodbav:"name"`
	AccountID string           `dynamodbav:"accountId"`
	Account   string           `dynamodbav:"account"`
	Project   string           `dynamodbav:"project"`
	Branch    string           `dynamodbav:"branch"`
	Kind      environment.Kind `dynamodbav:"kind"`
	CreatedOn time.Time        `dynamodbav:"createdOn"`
	UpdatedOn time.Time        `dynamodbav:"updatedOn"`
	// DeletedOn is set for a tombstone. The tombstone stays, so that no other deployment ever gets the name.
	DeletedOn *time.Time `dynamodbav:"deletedOn,omitempty"`

	// Latest is the number of the newest build or rollback, from 1, or 0 before the first build.
	Latest int64 `dynamodbav:"latest"`
	// LatestEnded is the highest number of a rollback or of a build that has ended.
	LatestEnded int64 `dynamodbav:"ended"`
	// Running is the number of builds that have begun and not ended. Its changes commute, so they need no condition.
	Running int64 `dynamodbav:"running,omitempty"`
	// Source is the archive that Redeploy builds: the archive of the newest build whose archive was accepted, whether
	// the build is served or not, or of the build that a later rollback chose. Accepted is the number of that build or
	// rollback: 0 for none, and in records of earlier releases.
	Source   string `dynamodbav:"source,omitempty"`
	Accepted int64  `dynamodbav:"accepted,omitempty"`
	// SHA is the commit of Source, as the client named it.
	SHA string `dynamodbav:"sha,omitempty"`
	// Served is the build that gateways serve, nil before the first build has succeeded.
	Served *Served `dynamodbav:"served,omitempty"`
	// Previous are the builds that were served earlier and that a rollback can choose, the most recently served first.
	Previous []Served `dynamodbav:"before,omitempty"`
	// Domains is the number of custom domains that are attached to the deployment (AttachmentWrites).
	Domains int64 `dynamodbav:"domains,omitempty"`
	// Gone are the builds that were served before those in Previous, the most recently served first. Their objects are
	// removed from the bucket.
	Gone []Served `dynamodbav:"gone,omitempty"`
}

// Served is a build that was served.
type Served struct {
	store.UnknownAttributes

	// Number is the number of the decision to serve the build. Each begun build and each rollback is a decision and
	// gets the deployment's next number.
	Number int64 `dynamodbav:"number"`
	// BuildID is a UUID.
	BuildID string `dynamodbav:"buildId"`
	// Artifact and Source are names in the bucket.
	Artifact string `dynamodbav:"artifact"`
	Source   string `dynamodbav:"source"`
	// SHA is the commit of Source, as the client named it.
	SHA string `dynamodbav:"sha,omitempty"`
	// ServedOn is the time when the build was first served.
	ServedOn time.Time `dynamodbav:"on"`
	// Certificates are the ids of the mTLS certificates that the build presents to upstreams.
	Certificates []string `dynamodbav:"certificates,omitempty"`
}

func (r Record) exists() bool { return r.Name != "" && r.DeletedOn == nil }

func (r Record) visibleTo(o auth.Owner) bool {
	return r.exists() && r.AccountID == o.AccountID && canSee(o, r.Project, r.Kind)
}

// hasBuild reports whether a build of the deployment was ever begun. Before that, the deployment is only a reserved
// name, and callers do not see it.
func (r Record) hasBuild() bool { return r.Latest > 0 }

func (r Record) state() State {
	switch {
	case r.Served != nil:
		return Started
	case r.Running > 0 || r.LatestEnded < r.Latest:
		return Building // an older build can still succeed after the newest build has failed
	default:
		return Failed
	}
}

// updateWrite returns a write that makes changes in the deployment's record. It fails with notFound if the deployment
// was deleted.
func (r Record) updateWrite(notFound error, changes ...store.Change) store.Write {
	return store.Update(Key(r.Name), changes...).If(store.Lacks(store.At("deletedOn"))).Else(notFound)
}

// assignNumber returns the write that assigns the next number, Latest+1, to a build and counts the build as running.
func (r Record) assignNumber(now time.Time) store.Write {
	return r.updateWrite(store.ErrStale,
		store.Set(store.At("latest"), r.Latest+1),
		store.Add(store.At("running"), 1),
		store.Set(store.At("updatedOn"), now),
	).If(store.Equal(store.At("latest"), r.Latest))
}

func (r Record) resource() audit.Resource {
	return audit.Resource{
		Type: "deployment", ID: r.Name,
		Metadata: map[string]string{"project": r.Project, "branch": r.Branch},
	}
}

func (s *Service) toDeployment(r Record) Deployment {
	l := label(r.Branch)
	return Deployment{
		Name: r.Name, URL: s.parts.Config.DeploymentOrigin(r.Name), Label: l,
		LoggingID: r.Account + "::" + r.Project + "::" + r.Branch + "::" + l + "::" + suffixOf(r.Name),
		Account:   r.Account, Project: r.Project, Branch: r.Branch, Kind: r.Kind,
		State: r.state(), CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn,
	}
}

var errNoDeployment = fault.Missing("deployment")

// ListDeployments returns the deployments of a project that the caller can see: production deployments first, each kind
// sorted by age, the newest first. It returns NotFound for a project that is missing or invisible to the caller.
func (s *Service) ListDeployments(ctx context.Context, owner auth.Owner, project string) ([]Deployment, error) {
	environments, err := s.environments(ctx, owner, project)
	if err != nil {
		return nil, err
	}
	records, err := recordsOf(ctx, s.parts.Table, environments)
	if err != nil {
		return nil, err
	}
	var out []Deployment
	for _, r := range records {
		if r.visibleTo(owner) && r.hasBuild() {
			out = append(out, s.toDeployment(r))
		}
	}
	slices.SortFunc(out, func(a, b Deployment) int {
		return cmp.Or(
			cmp.Compare(rank(a.Kind), rank(b.Kind)),
			b.CreatedOn.Compare(a.CreatedOn),
			cmp.Compare(a.Name, b.Name),
		)
	})
	return out, nil
}

// recordsOf returns the records of the environments' deployments, in the same order.
func recordsOf(ctx context.Context, table *store.Table, environments []environmentRecord) ([]Record, error) {
	out := make([]Record, len(environments))
	gets := make([]*store.ReadRequest, len(environments))
	for i, e := range environments {
		gets[i] = store.Get(Key(e.Deployment), &out[i])
	}
	for chunk := range slices.Chunk(gets, store.MaxKeys) {
		if err := table.Load(ctx, chunk...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rank returns the sort key of a kind: 0 for production, 1 for all others.
func rank(k environment.Kind) int {
	if k == environment.Production {
		return 0
	}
	return 1
}

// DeploymentLocator identifies a deployment by its name.
type DeploymentLocator struct {
	auth.Owner
	Deployment string
	// Project, if not empty, must be the deployment's project.
	Project string
}

// find reads a deployment. It returns NotFound if the deployment is missing, invisible to the caller, or has no build.
func (s *Service) find(ctx context.Context, at DeploymentLocator) (Record, error) {
	return find(ctx, s.parts.Table, at)
}

// find works like Service.find, but reads further records in the same call.
func find(ctx context.Context, table *store.Table, at DeploymentLocator, gets ...*store.ReadRequest) (Record, error) {
	if len(at.Deployment) > maxDNSLabel || !projectPattern.MatchString(at.Deployment) {
		return Record{}, errNoDeployment
	}
	var r Record
	if err := table.Load(ctx, append(gets, store.Get(Key(at.Deployment), &r))...); err != nil {
		return Record{}, err
	}
	if !r.visibleTo(at.Owner) || !r.hasBuild() || at.Project != "" && at.Project != r.Project {
		return Record{}, errNoDeployment
	}
	return r, nil
}

// ReadDeployment returns a deployment. It returns NotFound if the deployment is missing, invisible to the caller, or
// has no build.
func (s *Service) ReadDeployment(ctx context.Context, at DeploymentLocator) (Deployment, error) {
	r, err := s.find(ctx, at)
	if err != nil {
		return Deployment{}, err
	}
	return s.toDeployment(r), nil
}

// DeleteDeployment deletes a deployment and its environment. When DeleteDeployment returns, every reader of the record
// sees the deletion. Builds in progress end without an effect. A durable operation then removes the deployment's
// objects from the bucket. The project, its variables and its key buckets stay. DeleteDeployment returns NotFound like
// ReadDeployment, and Conflict while a custom domain is attached to the deployment.
func (s *Service) DeleteDeployment(ctx context.Context, at DeploymentLocator) error {
	return s.parts.Table.RunInTx(ctx, func(ctx context.Context) error { return s.deleteOnce(ctx, at) })
}

func (s *Service) deleteOnce(ctx context.Context, at DeploymentLocator) error {
	r, err := s.find(ctx, at)
	if err != nil {
		return err
	}
	if r.Domains > 0 {
		return errHasDomains
	}
	if err := reportRemovals(ctx); err != nil {
		return err
	}
	writes := append(tombstoneWrites(r.Name, r.AccountID, s.now(), errNoDeployment),
		store.Delete(environmentKey(r.AccountID, r.Project, r.Branch)),
		audit.Record(ctx, r.resource()))
	return s.parts.Table.Commit(ctx, writes...)
}

// tombstoneWrites returns the writes that replace a deployment's record with a tombstone and start the removal of its
// objects from the bucket. They fail with notFound if the deployment was already deleted.
func tombstoneWrites(name, accountID string, now time.Time, notFound error) []store.Write {
	return []store.Write{
		Record{Name: name}.updateWrite(notFound,
			store.Set(store.At("deletedOn"), now),
			store.Set(store.At("updatedOn"), now),
			store.Remove(store.At("served")),
			store.Remove(store.At("before")),
			store.Remove(store.At("gone")),
			store.Remove(store.At("source")),
		),
		operation.Create(operation.Start{
			ID: "clean-" + name + "-all", Kind: Clean, Subject: name, AccountID: accountID,
			Input: CleanInput{Deployment: name, All: true},
			// A build in progress may still put an object before it detects the deletion.
			NotBefore: now.Add(cleanDelay),
		}, now),
	}
}

// Redeploy begins a build of the newest accepted sources with the current variables, and returns the statusId of the
// build. It returns NotFound like ReadDeployment, Conflict before any sources were accepted, and the refusals of
// limits.Deployments and limits.Builds.
//
// It does not build the sources of the served build. During the build of a newer upload, such a redeploy would be the
// newest build, and would revert the upload.
func (s *Service) Redeploy(ctx context.Context, at DeploymentLocator) (statusID string, err error) {
	err = s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		accountLimits := s.reservations(at.Owner)
		r, err := find(ctx, s.parts.Table, at, accountLimits.deployments.ReadRequest(), accountLimits.builds.ReadRequest())
		if err != nil {
			return err
		}
		if r.Source == "" {
			return fault.New(fault.Conflict, "There are no sources to deploy again yet. Upload them first.")
		}
		now := s.now()
		u := s.newUpload(at.Owner, r, now)
		u.State, u.Number, u.Source, u.SHA = uploadClaimed, r.Latest+1, r.Source, r.SHA
		reservation, err := accountLimits.reserveBuild(ctx, u.ID, now.Add(maxBuildDuration))
		if err != nil {
			return err
		}
		if err := s.parts.Table.Commit(ctx, append(reservation,
			r.assignNumber(now).If(r.acceptedUnchanged()),
			store.Create(uploadKey(u.ID), u),
			beginBuild(r, u, now),
			audit.Record(ctx, r.resource(), u.resource()),
		)...); err != nil {
			return err
		}
		statusID = u.ID
		return nil
	})
	return statusID, err
}

// beginBuild returns the write that begins the operation that builds an upload.
func beginBuild(r Record, u upload, now time.Time) store.Write {
	return operation.Create(operation.Start{
		ID: u.ID, Kind: Build, Subject: r.Name, AccountID: r.AccountID,
		Input: BuildInput{
			StatusID: u.ID, Deployment: r.Name, AccountID: r.AccountID, Account: r.Account,
			Project: r.Project, Branch: r.Branch, Kind: r.Kind, Number: u.Number, Counted: true, ETag: u.ETag, Source: u.Source,
			SHA: u.SHA, Visibility: u.Visibility,
		},
	}, now)
}

// cleanID returns the id of the Clean that begins when the build with this number ends.
func cleanID(deployment string, number int64) string {
	return "clean-" + deployment + "-" + strconv.FormatInt(number, 10)
}
