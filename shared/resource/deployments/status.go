package deployments

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// BuildStatus is the status that clients poll (contract 3.1).
type BuildStatus string

// The values of a BuildStatus. Success and Failure are final.
const (
	InProgress BuildStatus = "IN_PROGRESS"
	Success    BuildStatus = "SUCCESS"
	Failure    BuildStatus = "ERROR"
)

// Status is the status of an upload and its build.
type Status struct {
	Status BuildStatus
	// URL is the deployment's public address, "" until Success.
	URL string
	// BuildID is a UUID, "" until a build exists.
	BuildID string
	// Steps are the steps that the build has begun, by their names: Download, Validate, Compile and Deploy.
	Steps            map[string]Step
	Errors, Warnings []Finding
}

// Step is a step of a build.
type Step struct {
	Status    BuildStatus
	StartedOn time.Time
	// FinishedOn is nil while the step runs.
	FinishedOn *time.Time
	// Message is the reason why the step failed or is repeated, in the form for clients, "" for neither.
	Message string
}

// StatusLocator identifies an upload by its project and its StatusID.
type StatusLocator struct {
	auth.Owner
	Project, StatusID string
}

var errNoUpload = fault.Missing("upload")

// loadUpload reads an upload and the operation that builds it. The operation is nil if no build has begun or if its
// record has expired.
func (s *Service) loadUpload(ctx context.Context, at StatusLocator) (upload, *operation.Record, error) {
	if at.StatusID == "" {
		return upload{}, nil, errNoUpload
	}
	var u upload
	var r operation.Record
	build := store.Get(operation.Key(at.StatusID), &r)
	if err := s.parts.Table.Load(ctx, store.Get(uploadKey(at.StatusID), &u), build); err != nil {
		return upload{}, nil, err
	}
	if u.ID == "" || u.AccountID != at.AccountID || u.Project != at.Project || !at.Viewer.CanSee(u.Project, u.Kind) {
		return upload{}, nil, errNoUpload
	}
	if !build.Found || r.Kind != Build {
		return u, nil, nil
	}
	return u, &r, nil
}

// ReadStatus returns the status of an upload's build. It returns NotFound for an upload that is missing or invisible,
// and if the record of its build has expired.
func (s *Service) ReadStatus(ctx context.Context, at StatusLocator) (Status, error) {
	u, build, err := s.loadUpload(ctx, at)
	switch {
	case err != nil:
		return Status{}, err
	case build != nil:
		return s.statusOf(u, *build)
	case u.State == uploadClaimed:
		return Status{}, errNoUpload // the build has expired, with its record
	case u.claimable(u.ExpiresOn, s.now().Add(-claimMargin)):
		return s.pendingStatus(ctx, u)
	default:
		return Status{Status: Failure, Steps: map[string]Step{}, Errors: []Finding{
			{Message: "No archive arrived before the upload address expired. Ask for a new address, and PUT the archive to it " +
				"within 15 minutes."},
		}}, nil
	}
}

// BuildSource returns the name of the sources of an upload's build, also if the build has failed. It returns "" if
// there is no build or if the build has not stored its sources yet. The sources may have been removed since. Fault:
// NotFound.
func (s *Service) BuildSource(ctx context.Context, at StatusLocator) (string, error) {
	_, build, err := s.loadUpload(ctx, at)
	if err != nil || build == nil {
		return "", err
	}
	var data BuildData
	if err := build.DecodeData(&data); err != nil {
		return "", fmt.Errorf("read the data of build %s: %w", build.ID, err)
	}
	return data.Source, nil
}

// pendingStatus returns the status of an upload without a build: InProgress, or Failure if the deployment was deleted,
// because then no build can begin.
func (s *Service) pendingStatus(ctx context.Context, u upload) (Status, error) {
	out := Status{Status: InProgress, Steps: map[string]Step{}}
	var r Record
	if err := s.parts.Table.Load(ctx, store.Get(Key(u.Deployment), &r)); err != nil {
		return Status{}, err
	}
	if !r.exists() {
		out.Status, out.Errors = Failure, []Finding{{Message: "The deployment was deleted before an archive arrived for " +
			"it. Ask for a new address, and PUT the archive to that."}}
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

// steps returns the steps in a build's history, by their names. A step before Abandon has failed.
func steps(r operation.Record) map[string]Step {
	out := map[string]Step{}
	last := ""
	for _, e := range r.History {
		switch e.State {
		case Download, Validate, Compile, Deploy:
		case Abandon:
			if prev, ok := out[last]; ok {
				prev.Status = Failure
				out[last] = prev
			}
			continue
		default:
			continue
		}
		step, seen := out[e.State]
		if !seen {
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
	if prev, ok := out[last]; ok && r.Status == operation.Failure {
		prev.Status, prev.Message = Failure, r.Message
		out[last] = prev
	}
	return out
}
