package deployments

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// BuildStatus is what clients poll. There are no other values (contract 3.1).
type BuildStatus string

// The statuses. The last two are final.
const (
	InProgress BuildStatus = "IN_PROGRESS"
	Success    BuildStatus = "SUCCESS"
	Failure    BuildStatus = "ERROR"
)

// Status is how an upload and its build go.
type Status struct {
	Status BuildStatus
	// URL is the deployment's public address, "" until Success.
	URL string
	// BuildID is a UUID, "" until there is a build.
	BuildID string
	// Steps are the build's steps so far, by the names Download, Validate,
	// Compile and Deploy.
	Steps            map[string]Step
	Errors, Warnings []Finding
}

// Step is a step of a build.
type Step struct {
	Status    BuildStatus
	StartedOn time.Time
	// FinishedOn is nil while it runs.
	FinishedOn *time.Time
	// Message is what made it fail or begin again, for clients, or "".
	Message string
}

// StatusAt names an upload.
type StatusAt struct {
	auth.Owner
	Project, StatusID string
}

var errNoUpload = fault.Missing("upload")

// uploaded reads an upload and its build, which is nil where there is none.
func (s *Service) uploaded(ctx context.Context, at StatusAt) (upload, *operation.Record, error) {
	if at.StatusID == "" {
		return upload{}, nil, errNoUpload
	}
	var u upload
	var r operation.Record
	build := store.Want(operation.Key(at.StatusID), &r)
	if err := s.parts.Table.Load(ctx, store.Want(uploadKey(at.StatusID), &u), build); err != nil {
		return upload{}, nil, err
	}
	if u.ID == "" || u.AccountID != at.AccountID || u.Project != at.Project || !at.Viewer.MaySee(u.Project, u.Kind) {
		return upload{}, nil, errNoUpload
	}
	if !build.Found || r.Kind != Build {
		return u, nil, nil
	}
	return u, &r, nil
}

// ReadStatus returns the status of an upload's build.
func (s *Service) ReadStatus(ctx context.Context, at StatusAt) (Status, error) {
	u, build, err := s.uploaded(ctx, at)
	switch {
	case err != nil:
		return Status{}, err
	case build != nil:
		return s.statusOf(u, *build)
	case u.State == claimed:
		return Status{}, errNoUpload // so long ago that the build's record is gone
	case u.open(u.ExpiresOn, s.now().Add(-claimMargin)):
		return s.waiting(ctx, u)
	default:
		return Status{Status: Failure, Steps: map[string]Step{}, Errors: []Finding{
			{Message: "No archive arrived before the upload address expired. Ask for a new address, and PUT the archive to it within 15 minutes."},
		}}, nil
	}
}

// BuildSource returns the name of the sources that an upload's build was made of, or was refused for, "" where there is no build yet.
// They may be gone. Fault: NotFound.
func (s *Service) BuildSource(ctx context.Context, at StatusAt) (string, error) {
	_, build, err := s.uploaded(ctx, at)
	if err != nil || build == nil {
		return "", err
	}
	var data BuildData
	if err := build.DecodeData(&data); err != nil {
		return "", fmt.Errorf("read the data of build %s: %w", build.ID, err)
	}
	return data.Source, nil
}

// waiting is the status of an upload whose archive has not begun a build. None will
// where the deployment is gone.
func (s *Service) waiting(ctx context.Context, u upload) (Status, error) {
	out := Status{Status: InProgress, Steps: map[string]Step{}}
	var r Record
	if err := s.parts.Table.Load(ctx, store.Want(Key(u.Deployment), &r)); err != nil {
		return Status{}, err
	}
	if !r.exists() {
		out.Status, out.Errors = Failure, []Finding{{Message: "The deployment was deleted before an archive arrived for it. Ask for a new address, and PUT the archive to that."}}
	}
	return out, nil
}

func (s *Service) statusOf(u upload, r operation.Record) (Status, error) {
	var data BuildData
	if err := r.DecodeData(&data); err != nil {
		return Status{}, fmt.Errorf("read the data of build %s: %w", r.ID, err)
	}
	out := Status{
		Status: InProgress, BuildID: u.ID, Steps: steps(r),
		Errors: data.Errors, Warnings: data.Warnings,
	}
	switch r.Status {
	case operation.InProgress:
	case operation.Success:
		out.Status, out.URL = Success, s.parts.Config.DeploymentOrigin(u.Deployment)
	case operation.Failure:
		out.Status = Failure
		if len(out.Errors) == 0 {
			out.Errors = []Finding{{Message: r.Message}}
		}
	}
	return out, nil
}

// steps reads a build's history. A step that was left for Abandon has failed.
func steps(r operation.Record) map[string]Step {
	out := map[string]Step{}
	last := ""
	for _, e := range r.History {
		switch e.State {
		case Download, Validate, Compile, Deploy:
		case Abandon:
			if was, ok := out[last]; ok {
				was.Status = Failure
				out[last] = was
			}
			continue
		default:
			continue
		}
		step, again := out[e.State]
		if !again {
			step.StartedOn = e.StartedOn
		}
		step.FinishedOn, step.Message, step.Status = e.FinishedOn, e.Message, InProgress
		if e.FinishedOn != nil {
			step.Status = Success
			step.Message = ""
		}
		out[e.State] = step
		last = e.State
	}
	if was, ok := out[last]; ok && r.Status == operation.Failure {
		was.Status, was.Message = Failure, r.Message
		out[last] = was
	}
	return out
}
