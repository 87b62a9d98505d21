// Package deploy uploads a project, and follows the project's build to the end.
//
// It reads no folder (package folder) and writes no output: it calls Deployer.OnState for each state, and returns the
// build's problems in the Result.
//
// An upload can be repeated at any time, and a build continues when the client stops following it. The protocol is in
// contract 3.1 and 3.2.
package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Source is the project that is deployed.
type Source struct {
	Project, Branch string
	// RepositoryURL and SHA are information for people, "" for none.
	RepositoryURL, SHA string
	// Pack writes the project's archive.
	Pack func(context.Context, io.Writer) error
}

// Deployer deploys through an installation's API.
type Deployer struct {
	API *call.API
	// OnState is called each time the state of a step changes. It can be nil.
	OnState func(StepState)
	// PollInterval is the interval between two status requests.
	PollInterval time.Duration
}

// StepState is the state of a step of a deployment.
type StepState struct {
	// Step is pack, upload, or one of the builder's steps: download, validate, build, deploy.
	Step string `json:"step"`
	// Status is IN_PROGRESS, SUCCESS or ERROR.
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// These are the statuses of a build and of its steps (contract 3.1).
const (
	inProgress = "IN_PROGRESS"
	succeeded  = "SUCCESS"
	failed     = "ERROR"
)

// Result is the result of a build. Status is SUCCESS, ERROR, or a status that this client does not know.
type Result struct {
	Project  string `json:"project"`
	StatusID string `json:"statusId"`
	BuildID  string `json:"buildId,omitempty"`
	Status   string `json:"status"`
	URL      string `json:"url"`
	// Reason is the message of the step that failed, "" for none.
	Reason   string            `json:"reason,omitempty"`
	Errors   []project.Problem `json:"errors"`
	Warnings []project.Problem `json:"warnings"`
}

// Failed reports whether the build has failed.
func (r Result) Failed() bool { return r.Status == failed }

// FollowError says that the client no longer waits for a build, but that the build continues.
type FollowError struct {
	Project, StatusID string
	// DeliveryUnknown says that the sources were sent, but that it is unknown whether they arrived. If they did not
	// arrive, there is no build.
	DeliveryUnknown bool
	cause           error
}

func (e *FollowError) Error() string {
	if e.DeliveryUnknown {
		return fmt.Sprintf("%v; the sources may have arrived all the same: then a build goes on, and `gatewright "+
			"deployment status %s --project %s` says how it ends", e.cause, e.StatusID, e.Project)
	}
	return fmt.Sprintf("%v; the build goes on, and `gatewright deployment status %s --project %s` says how it ends",
		e.cause, e.StatusID, e.Project)
}

func (e *FollowError) Unwrap() error { return e.cause }

// Upload packs a project, uploads it, and returns the status ID of its build. Callers follow the build with this ID. If
// Pack returns an error, Upload returns this error and sends no request. If the upload fails, but the sources may have
// arrived, the error is a *FollowError.
func (d *Deployer) Upload(ctx context.Context, s Source) (statusID string, err error) {
	d.notify(StepState{Step: "pack", Status: inProgress})
	spool, err := os.CreateTemp("", "gatewright-*.tar.gz")
	if err != nil {
		return "", fmt.Errorf("make a file for the archive: %w", err)
	}
	defer func() { _ = os.Remove(spool.Name()) }()
	defer func() { _ = spool.Close() }()
	if err := s.Pack(ctx, spool); err != nil {
		return "", err
	}
	size, err := spool.Seek(0, io.SeekEnd)
	if err != nil {
		return "", fmt.Errorf("measure the archive: %w", err)
	}
	d.notify(StepState{Step: "pack", Status: succeeded, Message: fmt.Sprintf("%d bytes", size)})
	arguments := map[string]any{"projectName": s.Project, "environment": s.Branch}
	for name, value := range map[string]string{"repositoryUrl": s.RepositoryURL, "sha": s.SHA} {
		if value != "" {
			arguments[name] = value
		}
	}
	if arguments[call.AccountArgument], err = d.API.Account(ctx); err != nil {
		return "", err
	}
	resp, err := d.API.Call(ctx, "DeployService_sourceUrl", arguments)
	if err != nil {
		return "", err
	}
	var target struct{ UploadURL, DeploymentID string }
	if err := json.Unmarshal(resp.Body, &target); err != nil || target.UploadURL == "" {
		return "", errors.New("the API names no address for the upload")
	}
	if uuid.Validate(target.DeploymentID) != nil {
		// The message about following the build contains the status ID, and users may paste it into a shell.
		return "", errors.New("the API names no id for the build")
	}
	d.notify(StepState{Step: "upload", Status: inProgress})
	if err := d.upload(ctx, s, target.UploadURL, target.DeploymentID, spool, size); err != nil {
		return "", err
	}
	d.notify(StepState{Step: "upload", Status: succeeded})
	return target.DeploymentID, nil
}

// maxUploadAttempts is the maximum number of attempts to send an archive. An address accepts only one archive, but
// accepts the same archive several times.
const maxUploadAttempts = 4

// upload sends the archive to its address, without the account key, which is only for the API.
func (d *Deployer) upload(ctx context.Context, s Source, address, id string, archive *os.File, size int64) error {
	target, err := url.Parse(address)
	if err != nil || target.Host == "" || target.Scheme != "https" && target.Scheme != "http" {
		return errors.New("the API names no address for the upload")
	}
	if target.Scheme != "https" && (d.API.Access.Origin.Scheme == "https" || !profile.IsLoopback(target.Hostname())) {
		return fmt.Errorf("the sources would go to %s by plain HTTP, where whoever is in between reads them: the "+
			"installation has to name an https address for uploads", target.Host)
	}
	backoff, deliveryUnknown := 500*time.Millisecond, false
	// fail returns a FollowError if an attempt may have delivered the archive, because the archive's build then begins.
	fail := func(err error) error {
		if !deliveryUnknown {
			return err
		}
		return &FollowError{s.Project, id, true, err}
	}
	for attempt := 1; ; attempt++ {
		status, sent, err := d.uploadOnce(ctx, s, address, id, io.NewSectionReader(archive, 0, size), size)
		deliveryUnknown = deliveryUnknown || err != nil && sent || status >= http.StatusInternalServerError
		switch {
		case err == nil && status/100 == 2:
			return nil
		case ctx.Err() != nil:
			return fail(fmt.Errorf("upload the sources: %w", context.Cause(ctx)))
		case attempt == maxUploadAttempts, err == nil && status/100 == 4 && status != http.StatusRequestTimeout &&
			status != http.StatusTooManyRequests:
			if err == nil {
				err = fmt.Errorf("it answers %d", status)
			}
			if deliveryUnknown {
				return fail(fmt.Errorf("the upload to %s has not ended well: %w", target.Host, err))
			}
			return fmt.Errorf("the sources cannot be uploaded to %s, and nothing is deployed: %w", target.Host, err)
		}
		if err := d.API.Sleep(ctx, backoff); err != nil {
			return fail(fmt.Errorf("upload the sources: %w", err))
		}
		backoff *= 2
	}
}

func (d *Deployer) uploadOnce(
	ctx context.Context, s Source, address, id string, archive io.Reader, size int64,
) (status int, sent bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, address, archive)
	if err != nil {
		return 0, false, errors.New("its address cannot be read")
	}
	r.ContentLength = size
	r.Header.Set("User-Agent", "gatewright/"+release.Version())
	for name, value := range map[string]string{
		"deployment-id": id, "account": d.API.Access.Account, "project": s.Project, "environment": s.Branch,
		"repository-url": s.RepositoryURL, "sha": s.SHA,
	} {
		r.Header.Set("X-Goog-Meta-"+name, url.PathEscape(value)) // contract 3.2
	}
	r, wasSent := call.TraceSent(r)
	resp, err := d.API.HTTP.Do(r)
	if err != nil {
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err // without the URL, with which anybody could upload
		}
		return 0, wasSent(), err
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, true, err
}

// status is the status of a build in the API (contract 3.1).
type status struct {
	Status, URL, BuildID string
	Steps                map[string]struct{ Status, Message string }
	BuildResult          struct{ Errors, Warnings []project.Problem }
}

// stepOrder is the order of the builder's steps.
var stepOrder = []string{"download", "validate", "build", "deploy"}

// Follow waits until a build has ended. If ctx ends first, or if a request for the status fails, it returns a
// *FollowError, and the build continues. It returns another error if the API does not know the build, or if the API's
// response cannot be read. Result.Status can be a status that this client does not know (ResultError).
func (d *Deployer) Follow(ctx context.Context, projectName, statusID string) (Result, error) {
	notified := map[string]string{}
	for {
		resp, err := d.API.Call(ctx, "V1_deploymentStatus", map[string]any{"projectName": projectName, "statusId": statusID})
		if err != nil && ctx.Err() != nil {
			return Result{}, &FollowError{projectName, statusID, false, context.Cause(ctx)}
		}
		if err != nil && exit.CodeOf(err) != exit.NotFound { // NotFound: the API has deleted the build's status
			return Result{}, &FollowError{projectName, statusID, false, err}
		}
		if err != nil {
			return Result{}, err
		}
		var s status
		if err := call.Decode(resp.Body, &s); err != nil {
			return Result{}, fmt.Errorf("read the status of the build: %w", err)
		}
		d.notifySteps(s, notified)
		if s.Status != inProgress {
			return Result{
				Project: projectName, StatusID: strings.ToLower(statusID), BuildID: s.BuildID, Status: s.Status, URL: s.URL,
				Reason: s.reason(), Errors: nonNil(s.BuildResult.Errors), Warnings: nonNil(s.BuildResult.Warnings),
			}, nil
		}
		if err := d.API.Sleep(ctx, d.PollInterval); err != nil {
			return Result{}, &FollowError{projectName, statusID, false, context.Cause(ctx)}
		}
	}
}

// reason returns the message of the step that failed.
func (s status) reason() string {
	for _, name := range stepOrder {
		if step := s.Steps[name]; step.Status == failed {
			return step.Message
		}
	}
	return ""
}

// nonNil returns an empty list for nil, so that JSON has [] instead of null.
func nonNil(problems []project.Problem) []project.Problem {
	return append([]project.Problem{}, problems...)
}

// notifySteps calls OnState for each step that has changed. notified has the last reported state of each step.
func (d *Deployer) notifySteps(s status, notified map[string]string) {
	steps := slices.Collect(maps.Keys(s.Steps))
	slices.SortFunc(steps, func(a, b string) int {
		if diff := slices.Index(stepOrder, a) - slices.Index(stepOrder, b); diff != 0 {
			return diff
		}
		return strings.Compare(a, b)
	})
	for _, name := range steps {
		step := s.Steps[name]
		if current := step.Status + step.Message; notified[name] != current {
			notified[name] = current
			d.notify(StepState{name, step.Status, step.Message})
		}
	}
}

func (d *Deployer) notify(s StepState) {
	if d.OnState != nil {
		d.OnState(s)
	}
}

// ResultError returns the error for the result of a build, nil if it succeeded.
func ResultError(r Result) error {
	switch r.Status {
	case succeeded:
		return nil
	case failed:
		text := "the build failed, and has changed nothing of what is served"
		if len(r.Errors) == 0 && r.Reason != "" {
			text += ": " + r.Reason
		}
		return exit.WithCode(exit.Invalid, errors.New(text))
	}
	return fmt.Errorf("the API says of the build %q, which is no status", r.Status)
}
