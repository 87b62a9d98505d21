package deployments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// UploadAt names the environment that an upload is for.
type UploadAt struct {
	auth.Owner
	Project, Branch string
	// RepositoryURL and SHA tell people where the sources come from; both may
	// be empty.
	RepositoryURL, SHA string
}

// Upload is an upload address.
type Upload struct {
	// StatusID is the UUID under which the build is followed.
	StatusID string
	// URL takes one PUT of the archive until ExpiresOn. It is a secret.
	URL       string
	ExpiresOn time.Time
}

// uploadState is how far an upload has come. What comes after it is claimed is
// told by its build's operation.
type uploadState string

const (
	issued  uploadState = "issued"
	claimed uploadState = "claimed"
)

// upload is the record of an upload.
type upload struct {
	store.Rest

	ID         string      `dynamodbav:"id"` // the statusId
	AccountID  string      `dynamodbav:"accountId"`
	Project    string      `dynamodbav:"project"`
	Branch     string      `dynamodbav:"branch"`
	Kind       string      `dynamodbav:"kind"`
	Deployment string      `dynamodbav:"deployment"`
	State      uploadState `dynamodbav:"state"`
	// ExpiresOn is the last moment at which the archive may have arrived.
	ExpiresOn time.Time `dynamodbav:"expiresOn"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	// Sight is what the account key that asked sees beside the environment.
	Sight Sight `dynamodbav:"sight"`
	// RepositoryURL and SHA are for people.
	RepositoryURL string `dynamodbav:"repositoryUrl,omitempty"`
	SHA           string `dynamodbav:"sha,omitempty"`

	// Number is the build's, once claimed.
	Number int64 `dynamodbav:"number,omitempty"`
	// ETag is of the archive that was claimed; Source is the stored archive
	// that a redeploy builds instead.
	ETag   string `dynamodbav:"etag,omitempty"`
	Source string `dynamodbav:"source,omitempty"`

	TTL int64 `dynamodbav:"ttl"`
}

// uploadRetention is how long an upload's status can be read: as long as its
// build's operation.
const uploadRetention = 30 * 24 * time.Hour

func (u upload) resource() audit.Resource {
	return audit.Resource{Type: "source", ID: u.ID, Metadata: map[string]string{"project": u.Project, "branch": u.Branch}}
}

func (s *Service) newUpload(o auth.Owner, r Record, now time.Time) upload {
	return upload{
		Sight: sightOf(o, r),
		ID:    s.parts.IDs.UUID(), AccountID: r.AccountID, Project: r.Project, Branch: r.Branch, Kind: string(r.Kind),
		Deployment: r.Name, State: issued, CreatedOn: now, ExpiresOn: now.Add(blob.UploadValidity),
		TTL: now.Add(uploadRetention).Unix(),
	}
}

// IssueUpload creates an address for one archive. The project with its key
// buckets, the environment and the deployment's name are made when they do not
// exist, in the same transaction.
func (s *Service) IssueUpload(ctx context.Context, at UploadAt) (Upload, error) {
	if err := checkBranch(at.Branch); err != nil {
		return Upload{}, err
	}
	kind := environment.OfBranch(at.Branch)
	if !sees(at.Owner, at.Project, kind) {
		return Upload{}, errNoProject
	}
	if !IsProjectName(at.Project) {
		return Upload{}, fault.InvalidField("projectName", "has to have 1 to %d of the characters a-z, 0-9 and -, and neither begin nor end with -", maxProjectChars)
	}
	var made upload
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		var err error
		made, err = s.issue(ctx, at, kind)
		return err
	})
	if err != nil {
		return Upload{}, err
	}
	url, err := s.parts.Bucket.PresignPut(ctx, blob.UploadKey(made.ID))
	if err != nil {
		return Upload{}, fmt.Errorf("make an upload address: %w", err)
	}
	return Upload{StatusID: made.ID, URL: url, ExpiresOn: made.ExpiresOn}, nil
}

// issue makes the upload's record and what it needs.
func (s *Service) issue(ctx context.Context, at UploadAt, kind environment.Kind) (upload, error) {
	var project Project
	var env environmentRecord
	buckets, rooms := s.buckets(at.Owner, at.Project), s.rooms(at.Owner)
	wanted := append(buckets.Wanted(),
		rooms.projects.Wanted(), rooms.environments.Wanted(), rooms.deployments.Wanted(), rooms.builds.Wanted(),
		store.Want(store.ProjectKey(at.AccountID, at.Project), &project).Unchecked("a new environment asks for it, that of an old one's deployment is asked for, and a new one is created"),
		store.Want(environmentKey(at.AccountID, at.Project, at.Branch), &env).Unchecked("its deployment is asked for, and a new one is created"))
	if err := s.parts.Table.Load(ctx, wanted...); err != nil {
		return upload{}, err
	}
	if project.DeletedOn != nil {
		return upload{}, errBeingDeleted
	}
	var writes []store.Write
	var resources []audit.Resource
	fresh := project.ID == ""
	if fresh {
		project = s.newProject(at.Owner, at.Project)
		made, err := buckets.Writes(ctx)
		if err != nil {
			return upload{}, err
		}
		room, err := rooms.project(ctx)
		if err != nil {
			return upload{}, err
		}
		writes = append(append(writes, project.create(store.ErrStale), room), made...)
		resources = append(resources, project.resource())
	}
	r := Record{Name: env.Deployment, AccountID: at.AccountID, Project: at.Project, Branch: at.Branch, Kind: kind}
	if env.Deployment == "" {
		var made []store.Write
		r, env, made = s.newEnvironment(at.Owner, at.Project, at.Branch, store.ErrStale)
		room, err := rooms.environment(ctx)
		if err != nil {
			return upload{}, err
		}
		writes = append(append(writes, made...), room)
		if !fresh {
			writes = append(writes, store.Check(store.ProjectKey(at.AccountID, at.Project), store.ProjectStands()).Else(store.ErrStale))
		}
		resources = append(resources, env.resource())
	} else {
		writes = append(writes, store.Check(Key(r.Name), store.And(store.Exists(), store.Lacks(store.At("deletedOn")))).Else(store.ErrStale))
	}
	u := s.newUpload(at.Owner, r, s.now())
	u.RepositoryURL, u.SHA = at.RepositoryURL, at.SHA
	room, err := rooms.build(ctx, u.ID, u.ExpiresOn.Add(eventDelay+claimMargin))
	if err != nil {
		return upload{}, err
	}
	writes = append(append(writes, room...),
		store.Create(uploadKey(u.ID), u),
		audit.Record(ctx, append(resources, u.resource())...),
	)
	err = s.parts.Table.Commit(ctx, writes...)
	if fault.Is(err, fault.Conflict) { // another first upload made the buckets
		err = errors.Join(store.ErrStale, err)
	}
	return u, err
}
