package deployments

import (
	"context"
	"errors"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// The states of the operation Build that clients see as steps (contract 3.1).
const (
	Download = "download"
	Validate = "validate"
	Compile  = "build"
	Deploy   = "deploy"
)

// The states of the operation Build that clients do not see as steps.
const (
	// Settle waits until every gateway serves the new build.
	Settle = "settle"
	// Abandon records the failure of the build after a step has failed for the last time.
	Abandon = "abandon"
)

// Staleness is the maximum time for which a gateway serves the previous state after a change. A gateway reads a
// deployment's record at least that often. A build succeeds only after Staleness, so that a client that sees SUCCESS
// also sees its new deployment.
//
// A read for each request would cost a round trip and a read unit. Gateways cannot be notified of changes: they are
// Lambdas that start and stop at any time, are frozen between requests, and are not registered anywhere. The interval
// has a price: a build takes a second longer, and a deleted deployment may be served for a second after its DELETE.
// Each gateway process reads the record of a busy deployment twice a second.
const Staleness = time.Second

// BuildInput is the input of the operation Build.
type BuildInput struct {
	StatusID   string           `json:"statusId"` // also the build's id
	Deployment string           `json:"deployment"`
	AccountID  string           `json:"accountId"`
	Account    string           `json:"account"`
	Project    string           `json:"project"`
	Branch     string           `json:"branch"`
	Kind       environment.Kind `json:"kind"`
	Number     int64            `json:"number"`
	// Counted reports whether Record.Running counts the build. Builds of earlier releases are not counted.
	Counted bool `json:"counted,omitempty"`
	// ETag is the ETag of an uploaded archive. Source is the name of a stored archive, for a redeploy. One of the two
	// is empty.
	ETag   string `json:"etag,omitempty"`
	Source string `json:"source,omitempty"`
	// SHA is the commit of the sources, as the client named it.
	SHA        string     `json:"sha,omitempty"`
	Visibility Visibility `json:"sight"`
}

// Visibility describes what the account key of a build can see in addition to the project's environments of the build's
// kind. The zero Visibility adds nothing. Builds that were begun by an earlier release have the zero Visibility.
type Visibility struct {
	store.UnknownAttributes

	AllProjects     bool `json:"allProjects,omitempty" dynamodbav:"allProjects,omitempty"`
	AllEnvironments bool `json:"allEnvironments,omitempty" dynamodbav:"allEnvironments,omitempty"`
}

func visibilityOf(o auth.Owner, r Record) Visibility {
	return Visibility{AllProjects: o.Viewer.CanSee("", string(r.Kind)), AllEnvironments: o.Viewer.CanSee(r.Project, "")}
}

// Deployer returns the owner of the build. It has the permissions of the build's account key, limited to those that a
// build of this environment needs.
func (in BuildInput) Deployer() auth.Owner {
	permissions := auth.Permissions{Projects: []string{in.Project}, Environments: []environment.Kind{in.Kind}}
	if in.Visibility.AllProjects {
		permissions.Projects = []string{auth.AllProjects}
	}
	if in.Visibility.AllEnvironments {
		permissions.Environments = environment.Kinds()
	}
	return auth.Owner{AccountID: in.AccountID, Account: in.Account, Viewer: auth.Principal{Permissions: permissions}}
}

// BuildData has the results of the steps of the operation Build.
type BuildData struct {
	// Source and Artifact are the names of the stored archive and of the artifact in the bucket, "" until the objects
	// exist.
	Source   string `json:"source,omitempty"`
	Artifact string `json:"artifact,omitempty"`
	// Certificates are the ids of the mTLS certificates in the artifact.
	Certificates []string `json:"certificates,omitempty"`
	// Errors are the reasons why the build has failed. Warnings are other findings.
	Errors   []Finding `json:"errors,omitempty"`
	Warnings []Finding `json:"warnings,omitempty"`
}

// Finding is an error or a warning in a project, in the JSON form for clients.
type Finding struct {
	File string `json:"file"`
	Path string `json:"path"` // a JSON pointer
	// Line and Column are the position at which the value at Path begins, from 1. Column counts characters. Both are 0
	// if the position is unknown.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// CleanInput is the input of the operation Clean.
type CleanInput struct {
	Deployment string `json:"deployment"`
	// All says that the deployment was deleted, so that all its objects are removed.
	All bool `json:"all,omitempty"`
}

const (
	// maxPreviousBuilds is the maximum number of earlier builds that a rollback can choose.
	maxPreviousBuilds = 5
	// cleanDelay is longer than any run of a step that puts an object into the bucket.
	cleanDelay = 10 * time.Minute
	// MinAge is the minimum age at which an object without a record can be removed. A younger object may belong to a
	// build in progress, whose objects are in no record yet. The cleanup after a build runs when all objects of the
	// build are that old.
	MinAge = 24 * time.Hour
)

// errDeleted ends a build whose deployment was deleted.
var errDeleted = fault.New(fault.NotFound, "The deployment was deleted while it was built.")

// Read returns a deployment's record. It returns store.ErrNotFound for a tombstone and for a missing record.
func Read(ctx context.Context, table *store.Table, name string) (Record, error) {
	var r Record
	if err := table.Get(ctx, Key(name), &r); err != nil {
		return Record{}, err
	}
	if !r.exists() {
		return Record{}, store.ErrNotFound
	}
	return r, nil
}

// EnsureExists returns NotFound if a build's deployment was deleted. A task calls it before it puts objects into the
// bucket. The cleanup of a deleted deployment waits for cleanDelay, so it finds all objects that the same run of the
// step puts after this check. Objects of a later run without a check would stay forever.
func EnsureExists(ctx context.Context, table *store.Table, in BuildInput) error {
	_, err := readForBuild(ctx, table, in)
	return err
}

// readForBuild returns the record of a build's deployment, or errDeleted.
func readForBuild(ctx context.Context, table *store.Table, in BuildInput) (Record, error) {
	r, err := Read(ctx, table, in.Deployment)
	if errors.Is(err, store.ErrNotFound) {
		return Record{}, errDeleted
	}
	return r, err
}

// finishWrite returns the write that records the end of a build and makes further changes in the deployment's record.
func (r Record) finishWrite(in BuildInput, now time.Time, changes ...store.Change) store.Write {
	changes = append(changes, store.Set(store.At("updatedOn"), store.Instant(now)))
	if in.Counted {
		changes = append(changes, store.Add(store.At("running"), -1))
	}
	return r.updateWrite(store.ErrStale, changes...)
}

// cleanUpWrite returns the write that begins the Clean after a build has ended.
func (r Record) cleanUpWrite(in BuildInput, now time.Time) store.Write {
	return operation.Create(operation.Start{
		ID: cleanID(r.Name, in.Number), Kind: Clean, Subject: r.Name, AccountID: r.AccountID,
		Input: CleanInput{Deployment: r.Name}, NotBefore: now.Add(MinAge + cleanDelay),
	}, now)
}

// Serve returns the writes that make gateways serve a build. The operation commits them with its last step. Serve
// returns no writes if the result of a newer build or rollback is already served, because an older decision never
// replaces a newer one. The caller then uses Superseded to record the end of the build. Serve returns NotFound if the
// deployment was deleted.
func Serve(
	ctx context.Context, table *store.Table, in BuildInput, data BuildData, now time.Time,
) ([]store.Write, error) {
	r, err := readForBuild(ctx, table, in)
	if err != nil {
		return nil, err
	}
	if r.Served != nil && r.Served.Number >= in.Number {
		return nil, nil
	}
	now = store.Instant(now)
	served := Served{
		Number: in.Number, BuildID: in.StatusID, Artifact: data.Artifact, Source: data.Source, SHA: in.SHA, ServedOn: now,
		Certificates: data.Certificates,
	}
	changes := []store.Change{
		store.Set(store.At("served"), served),
		store.Set(store.At("ended"), max(r.LatestEnded, in.Number)),
	}
	unchanged := store.Lacks(store.At("served"))
	if r.Served != nil {
		previous, removed := r.displacedBuilds()
		changes = append(changes, store.Set(store.At("before"), previous), store.Set(store.At("gone"), removed))
		unchanged = store.Equal(store.At("served", "number"), r.Served.Number)
	}
	return []store.Write{
		r.finishWrite(in, now, changes...).If(unchanged).If(store.Equal(store.At("ended"), r.LatestEnded)),
		r.cleanUpWrite(in, now),
		store.Delete(openBuildKey(in.AccountID, in.StatusID)),
	}, nil
}

// Superseded returns the writes that record the end of a build that is not served, because a newer decision is.
func Superseded(ctx context.Context, table *store.Table, in BuildInput, now time.Time) ([]store.Write, error) {
	r, err := readForBuild(ctx, table, in)
	if err != nil {
		return nil, err
	}
	return []store.Write{
		r.finishWrite(in, now), r.cleanUpWrite(in, now),
		store.Delete(openBuildKey(in.AccountID, in.StatusID)),
	}, nil
}

// Accept returns the writes that record source, the stored archive of a build, in Record.Source. The step that stored
// the archive commits them. Accept returns no writes if the archive of a newer build was accepted, or after a later
// rollback. A newer build whose archive is not accepted yet does not matter, because its archive may be refused.
func Accept(ctx context.Context, table *store.Table, in BuildInput, source string) ([]store.Write, error) {
	r, err := readForBuild(ctx, table, in)
	if err != nil {
		return nil, err
	}
	if r.Accepted > in.Number {
		return nil, nil // the archive of a newer build was accepted, or a later rollback chose one
	}
	return []store.Write{r.updateWrite(store.ErrStale,
		store.Set(store.At("source"), source),
		store.Set(store.At("sha"), in.SHA),
		store.Set(store.At("accepted"), in.Number),
	).If(r.acceptedUnchanged())}, nil
}

// acceptedUnchanged returns the condition that Accepted, and thereby Source, has not changed since r was read.
func (r Record) acceptedUnchanged() store.Condition {
	if r.Accepted == 0 {
		return store.Lacks(store.At("accepted"))
	}
	return store.Equal(store.At("accepted"), r.Accepted)
}

// Fail returns the writes that record the failure of a build. Gateways continue to serve the previous build.
func Fail(ctx context.Context, table *store.Table, in BuildInput, now time.Time) ([]store.Write, error) {
	r, err := Read(ctx, table, in.Deployment)
	switch {
	case errors.Is(err, store.ErrNotFound):
		// The deletion of the deployment has begun a Clean of all objects.
		return []store.Write{store.Delete(openBuildKey(in.AccountID, in.StatusID))}, nil
	case err != nil:
		return nil, err
	case r.LatestEnded >= in.Number:
		return []store.Write{
			r.finishWrite(in, now), r.cleanUpWrite(in, now),
			store.Delete(openBuildKey(in.AccountID, in.StatusID)),
		}, nil
	}
	return []store.Write{
		r.finishWrite(in, now, store.Set(store.At("ended"), in.Number)).If(store.Equal(store.At("ended"), r.LatestEnded)),
		r.cleanUpWrite(in, now),
		store.Delete(openBuildKey(in.AccountID, in.StatusID)),
	}, nil
}

// Needed reports whether the record refers to the object with this name: the newest accepted sources, or the artifact
// or sources of a build that is served or that a rollback can choose.
func (r Record) Needed(name string) bool {
	if r.Source == name {
		return true
	}
	all := r.Previous
	if r.Served != nil {
		all = append([]Served{*r.Served}, all...)
	}
	for _, b := range all {
		if b.Artifact == name || b.Source == name {
			return true
		}
	}
	return false
}
