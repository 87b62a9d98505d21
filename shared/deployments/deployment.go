package deployments

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// State is what a deployment is doing (contract 2.7).
type State string

// The states. A deployment that serves stays Started while it is built anew,
// and when that fails.
const (
	Started  State = "STARTED"
	Building State = "BUILDING"
	Failed   State = "FAILED"
)

// Deployment is what the gateway serves for an environment, as its owner sees
// it.
type Deployment struct {
	// Name is unique in the installation, for ever, and the first label of
	// the host name in URL.
	Name, URL string
	// Label is the branch as it stands in Name.
	Label, LoggingID         string
	Account, Project, Branch string
	Kind                     environment.Kind
	State                    State
	CreatedOn, UpdatedOn     time.Time
}

// Record is a deployment, or the tombstone of one. The gateway reads it by the
// host name; builds change it.
type Record struct {
	store.Rest

	Name      string           `dynamodbav:"name"`
	AccountID string           `dynamodbav:"accountId"`
	Account   string           `dynamodbav:"account"`
	Project   string           `dynamodbav:"project"`
	Branch    string           `dynamodbav:"branch"`
	Kind      environment.Kind `dynamodbav:"kind"`
	CreatedOn time.Time        `dynamodbav:"createdOn"`
	UpdatedOn time.Time        `dynamodbav:"updatedOn"`
	// DeletedOn is set for a tombstone, which stays so that no other
	// deployment ever answers under the name.
	DeletedOn *time.Time `dynamodbav:"deletedOn,omitempty"`

	// Latest numbers the builds that were begun, and the rollbacks, from 1.
	Latest int64 `dynamodbav:"latest"`
	// Ended is the highest number of a build that has ended.
	Ended int64 `dynamodbav:"ended"`
	// Running counts the builds that have begun and not ended. The ends of
	// builds commute, so that none has to be repeated for another.
	Running int64 `dynamodbav:"running,omitempty"`
	// Source is the archive of the newest build whose archive was accepted,
	// served or not, and Accepted the number of that build: 0 for none, and in
	// records of earlier releases.
	Source   string `dynamodbav:"source,omitempty"`
	Accepted int64  `dynamodbav:"accepted,omitempty"`
	// SHA is the commit that Source was said to be of.
	SHA string `dynamodbav:"sha,omitempty"`
	// Served is the build that the gateway serves, nil before the first one.
	Served *Served `dynamodbav:"served,omitempty"`
	// Before are builds served earlier, the newest first, that can be
	// returned to.
	Before []Served `dynamodbav:"before,omitempty"`
	// Domains counts the custom domains that lead to it (Reattached).
	Domains int64 `dynamodbav:"domains,omitempty"`
	// Gone are builds served earlier still, the newest first, of which nothing is
	// in the bucket any more.
	Gone []Served `dynamodbav:"gone,omitempty"`
}

// Served is a build that was served.
type Served struct {
	store.Rest

	// Number is its place in the order in which it was decided what to serve: by
	// the beginning of a build, or by a rollback to it.
	Number int64 `dynamodbav:"number"`
	// BuildID is a UUID.
	BuildID string `dynamodbav:"buildId"`
	// Artifact and Source are names in the bucket.
	Artifact string `dynamodbav:"artifact"`
	Source   string `dynamodbav:"source"`
	// SHA is the commit that Source was said to be of.
	SHA string `dynamodbav:"sha,omitempty"`
	// On is when it was first served.
	On time.Time `dynamodbav:"on"`
	// Certificates are the ids of the mTLS certificates that it shows to upstreams.
	Certificates []string `dynamodbav:"certificates,omitempty"`
}

func (r Record) exists() bool { return r.Name != "" && r.DeletedOn == nil }

func (r Record) seenBy(o auth.Owner) bool {
	return r.exists() && r.AccountID == o.AccountID && sees(o, r.Project, r.Kind)
}

// begun reports whether anything was ever built: a name that is only reserved
// is nothing to show.
func (r Record) begun() bool { return r.Latest > 0 }

func (r Record) state() State {
	switch {
	case r.Served != nil:
		return Started
	case r.Running > 0 || r.Ended < r.Latest:
		return Building // an older build may still succeed when the newest has failed
	default:
		return Failed
	}
}

// update is a write to this deployment as long as it exists.
func (r Record) update(gone error, changes ...store.Change) store.Write {
	return store.Update(Key(r.Name), changes...).If(store.Lacks(store.At("deletedOn"))).Else(gone)
}

// number is the write that gives out the next number of a build, and counts the
// build.
func (r Record) number(now time.Time) store.Write {
	return r.update(store.ErrStale,
		store.Set(store.At("latest"), r.Latest+1),
		store.Add(store.At("running"), 1),
		store.Set(store.At("updatedOn"), now),
	).If(store.Equal(store.At("latest"), r.Latest))
}

func (r Record) resource() audit.Resource {
	return audit.Resource{Type: "deployment", ID: r.Name, Metadata: map[string]string{"project": r.Project, "branch": r.Branch}}
}

func (s *Service) view(r Record) Deployment {
	l := label(r.Branch)
	return Deployment{
		Name: r.Name, URL: s.parts.Config.DeploymentOrigin(r.Name), Label: l,
		LoggingID: r.Account + "::" + r.Project + "::" + r.Branch + "::" + l + "::" + suffixOf(r.Name),
		Account:   r.Account, Project: r.Project, Branch: r.Branch, Kind: r.Kind,
		State: r.state(), CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn,
	}
}

var errNoDeployment = fault.Missing("deployment")

// ListDeployments returns the deployments of a project that the caller sees,
// production first, then the newest first. A project that does not exist is
// NotFound.
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
		if r.seenBy(owner) && r.begun() {
			out = append(out, s.view(r))
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

// recordsOf reads the deployments of environments, in their order.
func recordsOf(ctx context.Context, table *store.Table, environments []environmentRecord) ([]Record, error) {
	out := make([]Record, len(environments))
	wanted := make([]*store.Wanted, len(environments))
	for i, e := range environments {
		wanted[i] = store.Want(Key(e.Deployment), &out[i])
	}
	for part := range slices.Chunk(wanted, store.MaxKeys) {
		if err := table.Load(ctx, part...); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// rank puts production first and leaves the others as they are.
func rank(k environment.Kind) int {
	if k == environment.Production {
		return 0
	}
	return 1
}

// DeploymentAt names a deployment by its name.
type DeploymentAt struct {
	auth.Owner
	Deployment string
	// Project, if not empty, has to be the deployment's.
	Project string
}

// find reads a deployment, or answers NotFound for one that is not there, not
// the caller's to see, or not begun.
func (s *Service) find(ctx context.Context, at DeploymentAt) (Record, error) {
	return find(ctx, s.parts.Table, at)
}

// find reads it, and further records beside it.
func find(ctx context.Context, table *store.Table, at DeploymentAt, beside ...*store.Wanted) (Record, error) {
	if len(at.Deployment) > maxDNSLabel || !projectPattern.MatchString(at.Deployment) {
		return Record{}, errNoDeployment
	}
	var r Record
	if err := table.Load(ctx, append(beside, store.Want(Key(at.Deployment), &r))...); err != nil {
		return Record{}, err
	}
	if !r.seenBy(at.Owner) || !r.begun() || at.Project != "" && at.Project != r.Project {
		return Record{}, errNoDeployment
	}
	return r, nil
}

// ReadDeployment returns a deployment.
func (s *Service) ReadDeployment(ctx context.Context, at DeploymentAt) (Deployment, error) {
	r, err := s.find(ctx, at)
	if err != nil {
		return Deployment{}, err
	}
	return s.view(r), nil
}

// DeleteDeployment deletes a deployment and its environment. Every reader of
// the record finds it gone when it returns, builds on their way end without an
// effect, and a durable operation empties the bucket afterwards. The project,
// its variables and its key buckets stay.
func (s *Service) DeleteDeployment(ctx context.Context, at DeploymentAt) error {
	return s.parts.Table.Again(ctx, func(ctx context.Context) error { return s.deleteOnce(ctx, at) })
}

func (s *Service) deleteOnce(ctx context.Context, at DeploymentAt) error {
	r, err := s.find(ctx, at)
	if err != nil {
		return err
	}
	if r.Domains > 0 {
		return errHasDomains
	}
	if err := removes(ctx); err != nil {
		return err
	}
	writes := append(tombstone(r.Name, r.AccountID, s.now(), errNoDeployment),
		store.Delete(environmentKey(r.AccountID, r.Project, r.Branch)),
		audit.Record(ctx, r.resource()))
	return s.parts.Table.Commit(ctx, writes...)
}

// tombstone are the writes that end a deployment, and begin what empties the bucket
// of it; gone is answered when it has ended.
func tombstone(name, accountID string, now time.Time, gone error) []store.Write {
	return []store.Write{
		Record{Name: name}.update(gone,
			store.Set(store.At("deletedOn"), now),
			store.Set(store.At("updatedOn"), now),
			store.Remove(store.At("served")),
			store.Remove(store.At("before")),
			store.Remove(store.At("gone")),
			store.Remove(store.At("source")),
		),
		operation.Begin(operation.Start{
			ID: "clean-" + name + "-all", Kind: Clean, Subject: name, AccountID: accountID,
			Input: CleanInput{Deployment: name, All: true},
			// A build on its way may still put an object before it finds the
			// deployment gone.
			NotBefore: now.Add(cleanDelay),
		}, now),
	}
}

// Redeploy builds the newest accepted sources once more, with the variables as
// they are by then. It answers the statusId under which the build is followed.
//
// What is served is no better choice: a redeploy beside the build of a newer
// upload would be the newest build of all, and take the upload back.
func (s *Service) Redeploy(ctx context.Context, at DeploymentAt) (statusID string, err error) {
	err = s.parts.Table.Again(ctx, func(ctx context.Context) error {
		rooms := s.rooms(at.Owner)
		r, err := find(ctx, s.parts.Table, at, rooms.deployments.Wanted(), rooms.builds.Wanted())
		if err != nil {
			return err
		}
		if r.Source == "" {
			return fault.New(fault.Conflict, "There are no sources to deploy again yet. Upload them first.")
		}
		now := s.now()
		u := s.newUpload(at.Owner, r, now)
		u.State, u.Number, u.Source, u.SHA = claimed, r.Latest+1, r.Source, r.SHA
		room, err := rooms.build(ctx, u.ID, now.Add(longestBuild))
		if err != nil {
			return err
		}
		if err := s.parts.Table.Commit(ctx, append(room,
			r.number(now).If(r.acceptedAsRead()),
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

// beginBuild is the write that begins an upload's build.
func beginBuild(r Record, u upload, now time.Time) store.Write {
	return operation.Begin(operation.Start{
		ID: u.ID, Kind: Build, Subject: r.Name, AccountID: r.AccountID,
		Input: BuildInput{
			StatusID: u.ID, Deployment: r.Name, AccountID: r.AccountID, Account: r.Account,
			Project: r.Project, Branch: r.Branch, Kind: r.Kind, Number: u.Number, Counted: true, ETag: u.ETag, Source: u.Source, SHA: u.SHA, Sight: u.Sight,
		},
	}, now)
}

// cleanID names the operation that cleans up after a build.
func cleanID(deployment string, number int64) string {
	return "clean-" + deployment + "-" + strconv.FormatInt(number, 10)
}
