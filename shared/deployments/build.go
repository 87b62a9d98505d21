package deployments

import (
	"context"
	"errors"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// The states of a Build that its steps are shown as (contract 3.1).
const (
	Download = "download"
	Validate = "validate"
	Compile  = "build"
	Deploy   = "deploy"
)

// The states that are shown as no step.
const (
	// Settle waits until every gateway serves what is deployed.
	Settle = "settle"
	// Abandon follows when a step has failed for good.
	Abandon = "abandon"
)

// Staleness is how long after a change a gateway may serve what was before: it
// looks at a deployment's record that often. A build succeeds only after that
// time, so that a client that sees SUCCESS also sees what it has deployed.
//
// A look for each request would cost a round trip and a read unit each; and
// gateways cannot be told of changes, since they come and go as Lambdas do, are
// frozen between requests, and nobody knows them all. The price of the bound: a
// build takes a second longer, a deleted deployment may be served for a second
// after its DELETE, and each gateway process reads the record of a busy
// deployment twice a second.
const Staleness = time.Second

// BuildInput is what a Build is begun with.
type BuildInput struct {
	StatusID   string           `json:"statusId"` // also the build's id
	Deployment string           `json:"deployment"`
	AccountID  string           `json:"accountId"`
	Account    string           `json:"account"`
	Project    string           `json:"project"`
	Branch     string           `json:"branch"`
	Kind       environment.Kind `json:"kind"`
	Number     int64            `json:"number"`
	// Counted says that Record.Running counts the build; those that an earlier
	// release began are not counted.
	Counted bool `json:"counted,omitempty"`
	// ETag is of the archive in the upload's place; Source names a stored one
	// instead. One of them is empty.
	ETag   string `json:"etag,omitempty"`
	Source string `json:"source,omitempty"`
	// SHA is the commit that the sources are said to be of.
	SHA   string `json:"sha,omitempty"`
	Sight Sight  `json:"sight"`
}

// Sight is what the account key that has a build made sees beside the project's
// environments of the build's kind. The zero Sight is nothing: builds that an
// earlier release began have it.
type Sight struct {
	store.Rest

	AllProjects     bool `json:"allProjects,omitempty" dynamodbav:"allProjects,omitempty"`
	AllEnvironments bool `json:"allEnvironments,omitempty" dynamodbav:"allEnvironments,omitempty"`
}

func sightOf(o auth.Owner, r Record) Sight {
	return Sight{AllProjects: o.Viewer.MaySee("", string(r.Kind)), AllEnvironments: o.Viewer.MaySee(r.Project, "")}
}

// Deployer is the account as who has the build made sees it, as far as a build of
// this environment may ask.
func (in BuildInput) Deployer() auth.Owner {
	sees := auth.Permissions{Projects: []string{in.Project}, Environments: []environment.Kind{in.Kind}}
	if in.Sight.AllProjects {
		sees.Projects = []string{auth.AllProjects}
	}
	if in.Sight.AllEnvironments {
		sees.Environments = environment.Kinds()
	}
	return auth.Owner{AccountID: in.AccountID, Account: in.Account, Viewer: auth.Principal{Permissions: sees}}
}

// BuildData is what a Build has found out.
type BuildData struct {
	// Source and Artifact are names in the bucket, "" before they are there.
	Source   string `json:"source,omitempty"`
	Artifact string `json:"artifact,omitempty"`
	// Certificates are the ids of the mTLS certificates that the artifact holds.
	Certificates []string `json:"certificates,omitempty"`
	// Errors are why the build has ended, Warnings what it tells besides.
	Errors   []Finding `json:"errors,omitempty"`
	Warnings []Finding `json:"warnings,omitempty"`
}

// Finding is something wrong with a project, in the shape that clients read.
type Finding struct {
	File string `json:"file"`
	Path string `json:"path"` // a JSON pointer
	// Line and Column are where that begins, from 1, the column in characters; 0 without a place.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
}

// CleanInput is what a Clean is begun with.
type CleanInput struct {
	Deployment string `json:"deployment"`
	// All says that the deployment is gone, and nothing of it is needed.
	All bool `json:"all,omitempty"`
}

const (
	// maxEarlierBuilds is how many builds can be returned to, beside the served one.
	maxEarlierBuilds = 5
	// cleanDelay is longer than any run of a step that puts an object.
	cleanDelay = 10 * time.Minute
	// MinAge is how old an object has to be before it can be called unneeded:
	// a build on its way has put what no record names yet. What is cleaned up
	// after a build is looked at when all that the build has put is that old.
	MinAge = 24 * time.Hour
)

// errDeleted ends a build whose deployment is gone.
var errDeleted = fault.New(fault.NotFound, "The deployment was deleted while it was built.")

// Read returns a deployment's record; a tombstone, or none, is store.ErrNotFound.
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

// EnsureExists returns NotFound when a build's deployment is gone. A task asks
// before it puts anything into the bucket: what is put within a run of a step
// after that is there when the deployment is cleaned up, what is put later would
// stay for ever.
func EnsureExists(ctx context.Context, table *store.Table, in BuildInput) error {
	_, err := read(ctx, table, in)
	return err
}

// read returns the record of a build's deployment, or errDeleted.
func read(ctx context.Context, table *store.Table, in BuildInput) (Record, error) {
	r, err := Read(ctx, table, in.Deployment)
	if errors.Is(err, store.ErrNotFound) {
		return Record{}, errDeleted
	}
	return r, err
}

// ended is the write that counts a build as ended, with further changes.
func (r Record) ended(in BuildInput, now time.Time, changes ...store.Change) store.Write {
	changes = append(changes, store.Set(store.At("updatedOn"), store.Instant(now)))
	if in.Counted {
		changes = append(changes, store.Add(store.At("running"), -1))
	}
	return r.update(store.ErrStale, changes...)
}

// cleanUp is the write that begins the removal of what a build leaves behind,
// however it has ended.
func (r Record) cleanUp(in BuildInput, now time.Time) store.Write {
	return operation.Begin(operation.Start{
		ID: cleanID(r.Name, in.Number), Kind: Clean, Subject: r.Name, AccountID: r.AccountID,
		Input: CleanInput{Deployment: r.Name}, NotBefore: now.Add(MinAge + cleanDelay),
	}, now)
}

// Serve returns the writes that have a build served, for the commit of the
// operation's last step, or none when a newer build, or a rollback, is served
// already: an older decision never replaces a newer one, and its end is Superseded's. A deployment
// that is gone is NotFound.
func Serve(ctx context.Context, table *store.Table, in BuildInput, data BuildData, now time.Time) ([]store.Write, error) {
	r, err := read(ctx, table, in)
	if err != nil {
		return nil, err
	}
	if r.Served != nil && r.Served.Number >= in.Number {
		return nil, nil
	}
	now = store.Instant(now)
	served := Served{
		Number: in.Number, BuildID: in.StatusID, Artifact: data.Artifact, Source: data.Source, SHA: in.SHA, On: now,
		Certificates: data.Certificates,
	}
	changes := []store.Change{
		store.Set(store.At("served"), served),
		store.Set(store.At("ended"), max(r.Ended, in.Number)),
	}
	unchanged := store.Lacks(store.At("served"))
	if r.Served != nil {
		before, gone := r.displaced()
		changes = append(changes, store.Set(store.At("before"), before), store.Set(store.At("gone"), gone))
		unchanged = store.Equal(store.At("served", "number"), r.Served.Number)
	}
	return []store.Write{
		r.ended(in, now, changes...).If(unchanged).If(store.Equal(store.At("ended"), r.Ended)),
		r.cleanUp(in, now),
		store.Delete(begunKey(in.AccountID, in.StatusID)),
	}, nil
}

// Superseded returns the writes that record that a build has ended without being
// served, since a newer one is.
func Superseded(ctx context.Context, table *store.Table, in BuildInput, now time.Time) ([]store.Write, error) {
	r, err := read(ctx, table, in)
	if err != nil {
		return nil, err
	}
	return []store.Write{r.ended(in, now), r.cleanUp(in, now), store.Delete(begunKey(in.AccountID, in.StatusID))}, nil
}

// Accept returns the writes that keep an archive as that of the newest build
// whose archive was accepted, for the commit of the step that stored it. It is
// no matter which builds were begun: the archive of a newer one may be refused.
func Accept(ctx context.Context, table *store.Table, in BuildInput, source string) ([]store.Write, error) {
	r, err := read(ctx, table, in)
	if err != nil {
		return nil, err
	}
	if r.Accepted > in.Number {
		return nil, nil // a newer build's archive is kept instead
	}
	return []store.Write{r.update(store.ErrStale,
		store.Set(store.At("source"), source),
		store.Set(store.At("sha"), in.SHA),
		store.Set(store.At("accepted"), in.Number),
	).If(r.acceptedAsRead())}, nil
}

// acceptedAsRead holds while Source and Accepted are what this record says.
func (r Record) acceptedAsRead() store.Condition {
	if r.Accepted == 0 {
		return store.Lacks(store.At("accepted"))
	}
	return store.Equal(store.At("accepted"), r.Accepted)
}

// Fail returns the writes that record that a build has failed. What
// was served is served on.
func Fail(ctx context.Context, table *store.Table, in BuildInput, now time.Time) ([]store.Write, error) {
	r, err := Read(ctx, table, in.Deployment)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return []store.Write{store.Delete(begunKey(in.AccountID, in.StatusID))}, nil // its deletion cleans up
	case err != nil:
		return nil, err
	case r.Ended >= in.Number:
		return []store.Write{r.ended(in, now), r.cleanUp(in, now), store.Delete(begunKey(in.AccountID, in.StatusID))}, nil
	}
	return []store.Write{
		r.ended(in, now, store.Set(store.At("ended"), in.Number)).If(store.Equal(store.At("ended"), r.Ended)),
		r.cleanUp(in, now),
		store.Delete(begunKey(in.AccountID, in.StatusID)),
	}, nil
}

// Needed reports which of a deployment's names in the bucket are in use.
func (r Record) Needed(name string) bool {
	if r.Source == name {
		return true
	}
	all := r.Before
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
