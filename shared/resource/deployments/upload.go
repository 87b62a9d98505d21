package deployments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// UploadLocator identifies the environment of an upload.
type UploadLocator struct {
	auth.Owner
	Project, Branch string
	// RepositoryURL and SHA are the origin of the sources, as the client named it. Both may be empty.
	RepositoryURL, SHA string
}

// Upload is an upload address.
type Upload struct {
	// StatusID is the UUID with which clients poll the build's status.
	StatusID string
	// URL accepts a PUT of the archive until ExpiresOn. Only the first archive is built. URL is a secret.
	URL       string
	ExpiresOn time.Time
}

// uploadState says whether an upload was claimed. After the claim, the operation of the build has the further states.
type uploadState string

const (
	uploadIssued  uploadState = "issued"
	uploadClaimed uploadState = "claimed"
)

// upload is the record of an upload.
type upload struct {
	store.UnknownAttributes

	ID         string      `dynamodbav:"id"` // the statusId
	AccountID  string      `dynamodbav:"accountId"`
	Project    string      `dynamodbav:"project"`
	Branch     string      `dynamodbav:"branch"`
	Kind       string      `dynamodbav:"kind"`
	Deployment string      `dynamodbav:"deployment"`
	State      uploadState `dynamodbav:"state"`
	// ExpiresOn is the latest time when the archive may arrive.
	ExpiresOn time.Time `dynamodbav:"expiresOn"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	// Visibility describes what the account key of the request can see in addition to the environment.
	Visibility Visibility `dynamodbav:"sight"`
	// RepositoryURL and SHA are the origin of the sources, as the client named it.
	RepositoryURL string `dynamodbav:"repositoryUrl,omitempty"`
	SHA           string `dynamodbav:"sha,omitempty"`

	// Number is the number of the build, 0 before the claim.
	Number int64 `dynamodbav:"number,omitempty"`
	// ETag is the ETag of the claimed archive, "" before the claim. Source is the name of the stored archive that a
	// redeploy builds. A redeploy has no ETag.
	ETag   string `dynamodbav:"etag,omitempty"`
	Source string `dynamodbav:"source,omitempty"`

	TTL int64 `dynamodbav:"ttl"`
}

// uploadRetention is how long an upload's record is kept: as long as the operation of its build.
const uploadRetention = 30 * 24 * time.Hour

func (u upload) resource() audit.Resource {
	return audit.Resource{Type: "source", ID: u.ID, Metadata: map[string]string{"project": u.Project, "branch": u.Branch}}
}

func (s *Service) newUpload(o auth.Owner, r Record, now time.Time) upload {
	return upload{
		Visibility: visibilityOf(o, r),
		ID:         s.parts.IDs.UUID(), AccountID: r.AccountID, Project: r.Project, Branch: r.Branch, Kind: string(r.Kind),
		Deployment: r.Name, State: uploadIssued, CreatedOn: now, ExpiresOn: now.Add(blob.UploadValidity),
		TTL: now.Add(uploadRetention).Unix(),
	}
}

// IssueUpload creates an address for the upload of one archive. The same transaction creates the project with its key
// buckets, and the environment with its deployment, if they do not exist. IssueUpload returns Invalid for an invalid
// name, NotFound for an environment that the caller cannot see, Conflict while the project is being deleted or if a
// bucket that does not serve the project has the name of one of its key buckets, and the refusals of the account's
// limits.
func (s *Service) IssueUpload(ctx context.Context, at UploadLocator) (Upload, error) {
	if err := checkBranch(at.Branch); err != nil {
		return Upload{}, err
	}
	kind := environment.ForBranch(at.Branch)
	if !canSee(at.Owner, at.Project, kind) {
		return Upload{}, errNoProject
	}
	if !IsProjectName(at.Project) {
		return Upload{},
			fault.InvalidField("projectName",
				"has to have 1 to %d of the characters a-z, 0-9 and -, and neither begin nor end with -", maxProjectChars)
	}
	var created upload
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		var err error
		created, err = s.createUpload(ctx, at, kind)
		return err
	})
	if err != nil {
		return Upload{}, err
	}
	url, err := s.parts.Bucket.PresignPut(ctx, blob.UploadKey(created.ID))
	if err != nil {
		return Upload{}, fmt.Errorf("make an upload address: %w", err)
	}
	return Upload{StatusID: created.ID, URL: url, ExpiresOn: created.ExpiresOn}, nil
}

// createUpload creates the record of the upload, and the project and the environment if they do not exist.
func (s *Service) createUpload(ctx context.Context, at UploadLocator, kind environment.Kind) (upload, error) {
	var project Project
	var env environmentRecord
	buckets, accountLimits := s.buckets(at.Owner, at.Project), s.reservations(at.Owner)
	gets := append(buckets.ReadRequests(),
		accountLimits.projects.ReadRequest(), accountLimits.environments.ReadRequest(),
		accountLimits.deployments.ReadRequest(), accountLimits.builds.ReadRequest(),
		store.Get(store.ProjectKey(at.AccountID, at.Project), &project).Unchecked("the commit creates the "+
			"project, or checks it for a new environment, or checks the deployment of an existing environment"),
		store.Get(environmentKey(at.AccountID, at.Project, at.Branch),
			&env).Unchecked("the commit creates the environment, or checks its deployment"))
	if err := s.parts.Table.Load(ctx, gets...); err != nil {
		return upload{}, err
	}
	if project.DeletedOn != nil {
		return upload{}, errBeingDeleted
	}
	var writes []store.Write
	var resources []audit.Resource
	isNew := project.ID == ""
	if isNew {
		project = s.newProject(at.Owner, at.Project)
		created, err := buckets.Writes(ctx)
		if err != nil {
			return upload{}, err
		}
		reservation, err := accountLimits.reserveProject(ctx)
		if err != nil {
			return upload{}, err
		}
		writes = append(append(writes, project.createWrite(store.ErrStale), reservation), created...)
		resources = append(resources, project.resource())
	}
	r := Record{Name: env.Deployment, AccountID: at.AccountID, Project: at.Project, Branch: at.Branch, Kind: kind}
	if env.Deployment == "" {
		var created []store.Write
		r, env, created = s.newEnvironment(at.Owner, at.Project, at.Branch, store.ErrStale)
		reservation, err := accountLimits.reserveEnvironment(ctx)
		if err != nil {
			return upload{}, err
		}
		writes = append(append(writes, created...), reservation)
		if !isNew {
			writes = append(writes, store.Check(store.ProjectKey(at.AccountID, at.Project),
				store.ProjectActive()).Else(store.ErrStale))
		}
		resources = append(resources, env.resource())
	} else {
		writes = append(writes,
			store.Check(Key(r.Name), store.And(store.Exists(), store.Lacks(store.At("deletedOn")))).Else(store.ErrStale))
	}
	u := s.newUpload(at.Owner, r, s.now())
	u.RepositoryURL, u.SHA = at.RepositoryURL, at.SHA
	reservation, err := accountLimits.reserveBuild(ctx, u.ID, u.ExpiresOn.Add(eventDelay+claimMargin))
	if err != nil {
		return upload{}, err
	}
	writes = append(append(writes, reservation...),
		store.Create(uploadKey(u.ID), u),
		audit.Record(ctx, append(resources, u.resource())...),
	)
	err = s.parts.Table.Commit(ctx, writes...)
	if fault.Is(err, fault.Conflict) { // a concurrent upload has created the buckets
		err = errors.Join(store.ErrStale, err)
	}
	return u, err
}
