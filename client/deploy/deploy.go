// Package deploy uploads a project and follows its build to the end.
//
// What it is not: it reads no folder (package folder) and shows nothing: states are told to whoever asks, and what a build has
// found is in the result.
//
// An upload may be repeated at any moment, and a build goes on when nobody follows it. The protocol is contract 3.1 and 3.2.
package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
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
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/release"
)

// Source is what is deployed.
type Source struct {
	Project, Branch string
	// RepositoryURL and SHA are for people, "" for none.
	RepositoryURL, SHA string
	// Pack writes the archive.
	Pack func(context.Context, io.Writer) error
}

// Deployer deploys by an installation's API.
type Deployer struct {
	API *call.API
	// Told is told each state that a build comes to, in its order.
	Told func(State)
	// Poll is how long it waits before it asks again how a build goes.
	Poll time.Duration
}

// State is a step of a deployment that has begun or ended.
type State struct {
	// Step is pack, upload, or one of the builder's: download, validate, build, deploy.
	Step string `json:"step"`
	// Status is IN_PROGRESS, SUCCESS or ERROR.
	Status  string `json:"status"`
	Message string `json:"message,omitempty"`
}

// The statuses of a build and of its steps (contract 3.1).
const (
	inProgress = "IN_PROGRESS"
	succeeded  = "SUCCESS"
	failed     = "ERROR"
)

// Result is how a build ended.
type Result struct {
	Project  string `json:"project"`
	StatusID string `json:"statusId"`
	BuildID  string `json:"buildId,omitempty"`
	Status   string `json:"status"`
	URL      string `json:"url"`
	// Reason is what the step that failed says, "" for none.
	Reason   string            `json:"reason,omitempty"`
	Errors   []project.Problem `json:"errors"`
	Warnings []project.Problem `json:"warnings"`
}

// Failed reports whether the build has failed.
func (r Result) Failed() bool { return r.Status == failed }

// FollowError tells of a build that goes on, though nobody waits for it any more.
type FollowError struct {
	Project, StatusID string
	// Unsure says that the sources were sent, and that nobody knows whether they have arrived.
	Unsure bool
	cause  error
}

func (e *FollowError) Error() string {
	if e.Unsure {
		return fmt.Sprintf("%v; the sources may have arrived all the same: then a build goes on, and `gatewright deployment status %s --project %s` says how it ends", e.cause, e.StatusID, e.Project)
	}
	return fmt.Sprintf("%v; the build goes on, and `gatewright deployment status %s --project %s` says how it ends", e.cause, e.StatusID, e.Project)
}

func (e *FollowError) Unwrap() error { return e.cause }

// Upload packs a project and uploads it, and gives the id under which its build is followed. What is wrong with it before that is as Pack
// has it, and nothing is asked of the API.
func (d *Deployer) Upload(ctx context.Context, s Source) (statusID string, err error) {
	d.tell(State{Step: "pack", Status: inProgress})
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
	d.tell(State{Step: "pack", Status: succeeded, Message: fmt.Sprintf("%d bytes", size)})
	arguments := map[string]any{"projectName": s.Project, "environment": s.Branch}
	for name, value := range map[string]string{"repositoryUrl": s.RepositoryURL, "sha": s.SHA} {
		if value != "" {
			arguments[name] = value
		}
	}
	if arguments[call.AccountArgument], err = d.API.Account(ctx); err != nil {
		return "", err
	}
	answer, err := d.API.Named(ctx, "DeployService_sourceUrl", arguments)
	if err != nil {
		return "", err
	}
	var issued struct{ UploadURL, DeploymentID string }
	if err := json.Unmarshal(answer.Body, &issued); err != nil || issued.UploadURL == "" {
		return "", errors.New("the API names no address for the upload")
	}
	if uuid.Validate(issued.DeploymentID) != nil {
		// It is part of the line that says how to follow the build, which somebody may paste into a shell.
		return "", errors.New("the API names no id for the build")
	}
	d.tell(State{Step: "upload", Status: inProgress})
	if err := d.put(ctx, s, issued.UploadURL, issued.DeploymentID, spool, size); err != nil {
		return "", err
	}
	d.tell(State{Step: "upload", Status: succeeded})
	return issued.DeploymentID, nil
}

// uploads is how often an archive is sent at most: an address takes one, and the same one again.
const uploads = 4

// put sends the archive to its address, without the key, which is for the API alone.
func (d *Deployer) put(ctx context.Context, s Source, address, id string, archive *os.File, size int64) error {
	to, err := url.Parse(address)
	if err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
		return errors.New("the API names no address for the upload")
	}
	if to.Scheme != "https" && (d.API.Access.Origin.Scheme == "https" || !profile.Loopback(to.Hostname())) {
		return fmt.Errorf("the sources would go to %s by plain HTTP, where whoever is in between reads them: the installation has to name an https address for uploads", to.Host)
	}
	wait, unsure := 500*time.Millisecond, false
	// ended has a try that may have brought the sources be told of: their build begins by itself.
	ended := func(err error) error {
		if !unsure {
			return err
		}
		return &FollowError{s.Project, id, true, err}
	}
	for try := 1; ; try++ {
		status, err := d.putOnce(ctx, s, address, id, io.NewSectionReader(archive, 0, size), size)
		unsure = unsure || err != nil && !unsent(err) || status >= http.StatusInternalServerError
		switch {
		case err == nil && status/100 == 2:
			return nil
		case ctx.Err() != nil:
			return ended(fmt.Errorf("upload the sources: %w", context.Cause(ctx)))
		case try == uploads, err == nil && status/100 == 4 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests:
			if err == nil {
				err = fmt.Errorf("it answers %d", status)
			}
			if unsure {
				return ended(fmt.Errorf("the upload to %s has not ended well: %w", to.Host, err))
			}
			return fmt.Errorf("the sources cannot be uploaded to %s, and nothing is deployed: %w", to.Host, err)
		}
		if err := d.API.Sleep(ctx, wait); err != nil {
			return ended(fmt.Errorf("upload the sources: %w", err))
		}
		wait *= 2
	}
}

// unsent reports whether an error says that there was no connection on which anything could be sent.
func unsent(err error) bool {
	of, is := errors.AsType[*net.OpError](err)
	return is && of.Op == "dial"
}

func (d *Deployer) putOnce(ctx context.Context, s Source, address, id string, archive io.Reader, size int64) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, address, archive)
	if err != nil {
		return 0, errors.New("its address cannot be read")
	}
	r.ContentLength = size
	r.Header.Set("User-Agent", "gatewright/"+release.Version())
	for name, value := range map[string]string{
		"deployment-id": id, "account": d.API.Access.Account, "project": s.Project, "environment": s.Branch, "repository-url": s.RepositoryURL, "sha": s.SHA,
	} {
		r.Header.Set("X-Goog-Meta-"+name, url.PathEscape(value)) // contract 3.2
	}
	answer, err := d.API.HTTP.Do(r)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the address, by which anybody uploads
		}
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, err
}

// status is what the API says of a build (contract 3.1).
type status struct {
	Status, URL, BuildID string
	Steps                map[string]struct{ Status, Message string }
	BuildResult          struct{ Errors, Warnings []project.Problem }
}

// order is that of the builder's steps.
var order = []string{"download", "validate", "build", "deploy"}

// Follow waits until a build has ended. Who ends the wait gets a *FollowError: the build goes on.
func (d *Deployer) Follow(ctx context.Context, projectName, statusID string) (Result, error) {
	told := map[string]string{}
	for {
		answer, err := d.API.Named(ctx, "V1_deploymentStatus", map[string]any{"projectName": projectName, "statusId": statusID})
		if err != nil && ctx.Err() != nil {
			return Result{}, &FollowError{projectName, statusID, false, context.Cause(ctx)}
		}
		if err != nil && exit.Of(err) != exit.NotFound { // which nobody is told of any more
			return Result{}, &FollowError{projectName, statusID, false, err}
		}
		if err != nil {
			return Result{}, err
		}
		var s status
		if err := call.Read(answer.Body, &s); err != nil {
			return Result{}, fmt.Errorf("read the status of the build: %w", err)
		}
		d.tellSteps(s, told)
		if s.Status != inProgress {
			return Result{
				Project: projectName, StatusID: strings.ToLower(statusID), BuildID: s.BuildID, Status: s.Status, URL: s.URL,
				Reason: s.reason(), Errors: all(s.BuildResult.Errors), Warnings: all(s.BuildResult.Warnings),
			}, nil
		}
		if err := d.API.Sleep(ctx, d.Poll); err != nil {
			return Result{}, &FollowError{projectName, statusID, false, context.Cause(ctx)}
		}
	}
}

// reason is what the step that failed says.
func (s status) reason() string {
	for _, name := range order {
		if step := s.Steps[name]; step.Status == failed {
			return step.Message
		}
	}
	return ""
}

// all is a list that is never null in JSON.
func all(problems []project.Problem) []project.Problem {
	return append([]project.Problem{}, problems...)
}

func (d *Deployer) tellSteps(s status, told map[string]string) {
	steps := slices.Collect(maps.Keys(s.Steps))
	slices.SortFunc(steps, func(a, b string) int {
		if by := slices.Index(order, a) - slices.Index(order, b); by != 0 {
			return by
		}
		return strings.Compare(a, b)
	})
	for _, name := range steps {
		step := s.Steps[name]
		if said := step.Status + step.Message; told[name] != said {
			told[name] = said
			d.tell(State{name, step.Status, step.Message})
		}
	}
}

func (d *Deployer) tell(s State) {
	if d.Told != nil {
		d.Told(s)
	}
}

// Outcome is the error with which a build's result ends a command, nil for one that succeeded.
func Outcome(r Result) error {
	switch r.Status {
	case succeeded:
		return nil
	case failed:
		text := "the build failed, and has changed nothing of what is served"
		if len(r.Errors) == 0 && r.Reason != "" {
			text += ": " + r.Reason
		}
		return exit.With(exit.Invalid, errors.New(text))
	}
	return fmt.Errorf("the API says of the build %q, which is no status", r.Status)
}
