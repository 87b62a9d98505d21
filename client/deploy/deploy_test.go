package deploy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/deploy"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/credential"
)

const statusID = "3b241101-e2bb-4255-8caf-4136c566a962"

// fakeInstallation is an installation whose responses the tests determine.
type fakeInstallation struct {
	*testing.T
	deployer *deploy.Deployer
	key      string
	// uploadHandlers respond to uploads, one after the other. The last handler responds to all further uploads.
	// statuses are the build's statuses in the same way.
	uploadHandlers []func(http.ResponseWriter)
	statuses       []string
	uploadURL      string // the address for uploads, "" for an address of the installation
	id             string // the build's status ID
	got            []byte // the uploaded archive
	uploads        int
	urlRequests    int         // the number of requests for an upload address
	metadata       http.Header // the header of the last upload
	// onStatusRequest is called before the response to each status request. It may be nil.
	onStatusRequest func(r *http.Request)
	states          []string // the reported steps, each with its status
}

func newInstallation(t *testing.T) *fakeInstallation {
	t.Helper()
	i := &fakeInstallation{
		T: t, key: credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil)),
		uploadHandlers: []func(http.ResponseWriter){respondWith(200)}, id: statusID,
	}
	statusRequests := 0
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			if r.Header.Get("Authorization") != "" {
				t.Error("the upload of the sources has an Authorization header, want none")
			}
			body, err := io.ReadAll(r.Body)
			i.uploads++
			i.metadata = r.Header
			i.uploadHandlers[min(i.uploads, len(i.uploadHandlers))-1](w)
			if err == nil {
				i.got = body
			}
		case strings.HasSuffix(r.URL.Path, "/source-url"):
			i.urlRequests++
			uploadURL := i.uploadURL
			if uploadURL == "" {
				uploadURL = server.URL + "/uploads/secret-address"
			}
			_, _ = fmt.Fprintf(w, `{"deploymentId":%q,"uploadUrl":%q}`, i.id, uploadURL)
		default:
			if i.onStatusRequest != nil {
				i.onStatusRequest(r)
			}
			_, _ = io.WriteString(w, i.statuses[min(statusRequests, len(i.statuses)-1)])
			statusRequests++
		}
	}))
	t.Cleanup(server.Close)
	access, err := (&profile.Profiles{
		Current:  "a",
		Profiles: map[string]profile.Profile{"a": {URL: server.URL, Account: "acme", Key: i.key}},
	}).Resolve(
		profile.Overrides{}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	i.deployer = &deploy.Deployer{
		API: &call.API{
			Access: access, HTTP: call.NewHTTPClient(),
			Sleep: func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) },
		},
		OnState: func(s deploy.StepState) { i.states = append(i.states, s.Step+" "+s.Status) },
	}
	return i
}

func respondWith(status int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(status) }
}

// closeConnection closes the connection without a response.
func closeConnection(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// newSource returns a source whose archive is this text.
func newSource(text string) deploy.Source {
	return deploy.Source{
		Project: "shop", Branch: "feature/ä", SHA: "1a2b3c4",
		Pack: func(_ context.Context, w io.Writer) error {
			_, err := io.WriteString(w, text)
			return err
		},
	}
}

func TestUploadIsRetried(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 1<<16)
	for _, c := range []struct {
		name        string
		handlers    []func(http.ResponseWriter)
		wantUploads int
		wantErr     string
	}{
		{"first attempt succeeds", []func(http.ResponseWriter){respondWith(200)}, 1, ""},
		{"another success status", []func(http.ResponseWriter){respondWith(204)}, 1, ""},
		{
			"closed connections",
			[]func(http.ResponseWriter){closeConnection, closeConnection, respondWith(200)},
			3,
			"",
		},
		{"busy server", []func(http.ResponseWriter){
			respondWith(503), respondWith(500), respondWith(429),
			respondWith(200),
		}, 4, ""},
		{"lost responses only", []func(http.ResponseWriter){closeConnection}, 4, "gatewright deployment status " +
			statusID + " --project shop"},
		{
			"refusal after a lost response",
			[]func(http.ResponseWriter){closeConnection, respondWith(403)},
			2,
			"may have arrived",
		},
		{
			"expired address",
			[]func(http.ResponseWriter){respondWith(403)},
			1,
			"nothing is deployed: it answers 403",
		},
	} {
		i := newInstallation(t)
		i.uploadHandlers = c.handlers
		id, err := i.deployer.Upload(t.Context(), newSource(large))
		if i.uploads != c.wantUploads || (err == nil) != (c.wantErr == "") ||
			err != nil && (!strings.Contains(err.Error(), c.wantErr) || strings.Contains(err.Error(), "secret-address")) {
			t.Errorf("%s: Upload() error = %v after %d uploads, want %q after %d, without the upload address",
				c.name, err, i.uploads, c.wantErr, c.wantUploads)
		}
		if err == nil && (id != statusID || !bytes.Equal(i.got, []byte(large))) {
			t.Errorf("%s: Upload() = %s with %d bytes received, want %s with %d", c.name, id, len(i.got), statusID, len(large))
		}
	}
}

// TestUploadSendsMetadata checks that an upload sends exactly the metadata fields of contract 3.2, and escapes their
// values.
func TestUploadSendsMetadata(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	s := newSource("x")
	s.RepositoryURL = "https://git.example.com/acme/shop"
	if _, err := i.deployer.Upload(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, values := range i.metadata {
		if key, ok := strings.CutPrefix(name, "X-Goog-Meta-"); ok {
			got[key] = strings.Join(values, ", ")
		}
	}
	want := map[string]string{
		"Deployment-Id": statusID, "Account": "acme", "Project": "shop", "Environment": "feature%2F%C3%A4",
		"Repository-Url": "https:%2F%2Fgit.example.com%2Facme%2Fshop", "Sha": "1a2b3c4",
	}
	if !maps.Equal(got, want) || i.metadata.Get("Content-Type") != "" {
		t.Errorf("metadata of the upload = %v in %v, want %v and no Content-Type", got, i.metadata, want)
	}
}

func TestUploadToUntrustedURLIsRefused(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"http://uploads.example.com/secret-address",
		"ftp://uploads.example.com/secret-address", "/secret-address", "https://user:secret-address@/",
	} {
		i := newInstallation(t)
		i.uploadURL = address
		if _, err := i.deployer.Upload(t.Context(), newSource("x")); exit.CodeOf(err) != exit.Failure ||
			strings.Contains(err.Error(), "secret-address") {
			t.Errorf("Upload() to %s: error = %v, want code %d without the upload address", address, err, exit.Failure)
		}
	}
	i := newInstallation(t)
	origin, err := profile.ParseOrigin("https://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	i.deployer.API.HTTP = &http.Client{Transport: plainHTTPRewriter(i.deployer.API.Access.Origin.Host)}
	i.deployer.API.Access.Origin = origin
	if _, err := i.deployer.Upload(t.Context(), newSource("x")); err == nil ||
		!strings.Contains(err.Error(), "plain HTTP") || i.uploads > 0 {
		t.Errorf("Upload() to a plain HTTP address from an HTTPS API: error = %v after %d uploads, want a refusal after 0",
			err, i.uploads)
	}
}

// plainHTTPRewriter is an http.RoundTripper that sends requests for any https host to this host by http.
type plainHTTPRewriter string

func (h plainHTTPRewriter) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host = "http", string(h)
	return http.DefaultTransport.RoundTrip(r)
}

func TestPackErrorSendsNoRequest(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	packErr := errors.New("refused")
	if _, err := i.deployer.Upload(t.Context(), deploy.Source{
		Project: "shop", Branch: "main",
		Pack: func(context.Context, io.Writer) error {
			return packErr
		},
	}); !errors.Is(err, packErr) || i.uploads+i.urlRequests > 0 {
		t.Errorf("Upload() that cannot pack: error = %v after %d uploads and %d requests for an address, want %v after none",
			err, i.uploads, i.urlRequests, packErr)
	}
}

func TestFollowReturnsBuildResult(t *testing.T) {
	t.Parallel()
	const running = `{"status":"IN_PROGRESS","url":"","steps":{"validate":{"status":"IN_PROGRESS"},` +
		`"download":{"status":"SUCCESS"}},"buildResult":{}}`
	for _, c := range []struct {
		name       string
		statuses   []string
		code       exit.Code
		url        string
		wantStates []string
	}{
		{
			"successful build",
			[]string{
				running, running,
				`{"status":"SUCCESS","url":"https://x","steps":{"deploy":{"status":"SUCCESS"},"validate":{"status":"SUCCESS"},` +
					`"download":{"status":"SUCCESS"}},"buildResult":{"warnings":[{"message":"w"}]}}`,
			},
			exit.OK, "https://x",
			[]string{"download SUCCESS", "validate IN_PROGRESS", "validate SUCCESS", "deploy SUCCESS"},
		},
		{
			"failed build",
			[]string{`{"status":"ERROR","url":"","steps":{},"buildResult":{"errors":[{"file":"f","message":"m","line":2,` +
				`"column":3}]}}`},
			exit.Invalid, "", nil,
		},
		{
			"unknown status",
			[]string{`{"status":"ODD","url":"","steps":{},"buildResult":{}}`},
			exit.Failure, "",
			nil,
		},
	} {
		i := newInstallation(t)
		i.statuses = c.statuses
		r, err := i.deployer.Follow(t.Context(), "shop", strings.ToUpper(statusID))
		if err != nil || r.URL != c.url || r.StatusID != statusID {
			t.Errorf("%s: Follow() = %+v, %v, want the URL %q and the StatusID %s", c.name, r, err, c.url, statusID)
		}
		if !slices.Equal(i.states, c.wantStates) {
			t.Errorf("%s: Follow() reports the states %q, want %q", c.name, i.states, c.wantStates)
		}
		if code := exit.CodeOf(deploy.ResultError(r)); code != c.code {
			t.Errorf("%s: ResultError() has code %d, want %d", c.name, code, c.code)
		}
		if r.Errors == nil || r.Warnings == nil {
			t.Errorf("%s: Follow() Errors = %#v and Warnings = %#v, want lists that are not nil", c.name, r.Errors, r.Warnings)
		}
	}
}

func TestCanceledFollowExplainsHowToContinue(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.statuses = []string{`{"status":"IN_PROGRESS","url":"","steps":{},"buildResult":{}}`}
	for cause, code := range map[error]exit.Code{
		exit.ErrInterrupted: exit.Interrupted,
		exit.WithCode(exit.TimedOut, errors.New("late")): exit.TimedOut,
	} {
		for _, duringRequest := range []bool{false, true} { // cancel between two requests, or during a request
			ctx, cancel := context.WithCancelCause(t.Context())
			i.deployer.API.Sleep = func(context.Context, time.Duration) error {
				cancel(cause)
				return context.Cause(ctx)
			}
			i.onStatusRequest = func(r *http.Request) {
				if duringRequest {
					cancel(cause)
					<-r.Context().Done()
				}
			}
			_, err := i.deployer.Follow(ctx, "shop", statusID)
			if exit.CodeOf(err) != code ||
				!strings.Contains(err.Error(), "gatewright deployment status "+statusID+" --project shop") {
				t.Errorf("Follow() canceled, during a request %t: error = %v with code %d, want code %d and how to continue",
					duringRequest, err, exit.CodeOf(err), code)
			}
		}
	}
}

// TestInterruptedDeployIsExplained checks the error of an interrupted deploy. Before the archive is sent, nothing is
// deployed. After that, the error must say how to follow the build, which may continue.
func TestInterruptedDeployIsExplained(t *testing.T) {
	t.Parallel()
	for state, wantFollowHint := range map[string]bool{
		"pack": false, "upload": true,
		"upload with a lost response": true, "follow": true,
	} {
		i := newInstallation(t)
		i.statuses = []string{`{"status":"IN_PROGRESS","url":"","steps":{},"buildResult":{}}`}
		ctx, cancel := context.WithCancelCause(t.Context())
		done, s := make(chan struct{}), newSource("x")
		switch state {
		case "pack":
			s.Pack = func(ctx context.Context, _ io.Writer) error {
				cancel(exit.ErrInterrupted)
				return context.Cause(ctx)
			}
		case "upload":
			i.uploadHandlers = []func(http.ResponseWriter){func(http.ResponseWriter) {
				cancel(exit.ErrInterrupted)
				<-done
			}}
		case "upload with a lost response":
			i.uploadHandlers = []func(http.ResponseWriter){closeConnection}
			i.deployer.API.Sleep = func(ctx context.Context, _ time.Duration) error {
				cancel(exit.ErrInterrupted)
				return context.Cause(ctx)
			}
		default:
			i.uploadHandlers = []func(http.ResponseWriter){respondWith(http.StatusOK)}
			i.onStatusRequest = func(*http.Request) {
				cancel(exit.ErrInterrupted)
				<-done
			}
		}
		id, err := i.deployer.Upload(ctx, s)
		if err == nil {
			_, err = i.deployer.Follow(ctx, "shop", id)
		}
		close(done)
		if exit.CodeOf(err) != exit.Interrupted ||
			strings.Contains(err.Error(), "gatewright deployment status "+statusID+" --project shop") != wantFollowHint {
			t.Errorf("%s: the interrupted deploy ends with %v (%d), want code %d, and how to continue: %t",
				state, err, exit.CodeOf(err), exit.Interrupted, wantFollowHint)
		}
		if state == "pack" && i.urlRequests+i.uploads > 0 {
			t.Errorf("%s: the interrupted deploy requests %d addresses and sends %d uploads, want none",
				state, i.urlRequests, i.uploads)
		}
	}
}

// TestFailedStatusRequestIsExplained checks that the error says how to follow the build if the installation refuses a
// status request or fails. If the API has no status of the build, the error must not say how to follow it.
func TestFailedStatusRequestIsExplained(t *testing.T) {
	t.Parallel()
	for status, wantFollowHint := range map[int]bool{
		http.StatusForbidden: true, http.StatusInternalServerError: true,
		http.StatusNotFound: false,
	} {
		i := newInstallation(t)
		i.statuses = []string{""}
		i.deployer.API.HTTP = &http.Client{Transport: fixedStatus(status)}
		_, err := i.deployer.Follow(t.Context(), "shop", statusID)
		if err == nil || strings.Contains(err.Error(), "gatewright deployment status "+statusID) != wantFollowHint {
			t.Errorf("Follow() with status %d: error = %v, want an error, and how to continue: %t", status, err, wantFollowHint)
		}
	}
}

// fixedStatus is an http.RoundTripper that responds to each request with this status.
type fixedStatus int

// RoundTrip implements http.RoundTripper.
func (s fixedStatus) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(int(s))
	_, _ = fmt.Fprintf(w, `{"title":"t","status":%d,"detail":"d"}`, int(s))
	return w.Result(), r.Context().Err()
}

// TestFailedBuildDoesNotClaimServedVersion checks that the error does not claim that an earlier build is served. If the
// build has failed because its deployment was deleted, nothing is served.
func TestFailedBuildDoesNotClaimServedVersion(t *testing.T) {
	t.Parallel()
	err := deploy.ResultError(deploy.Result{Status: "ERROR", Reason: "The deployment was deleted while it was built."})
	if err == nil || exit.CodeOf(err) != exit.Invalid || strings.Contains(err.Error(), "still served") ||
		!strings.Contains(err.Error(), "deleted while it was built") {
		t.Errorf("ResultError() of a deleted deployment = %v, want code %d and the reason, without a version that is served",
			err, exit.Invalid)
	}
}

// TestInvalidBuildIDIsRefused checks that Upload refuses a status ID that could be a path or a shell command: error
// messages contain command lines with the ID, which users paste into a shell.
func TestInvalidBuildIDIsRefused(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "x; rm -rf ~", "$(id)", statusID + "/..", statusID + "\n"} {
		i := newInstallation(t)
		i.id = id
		if _, err := i.deployer.Upload(t.Context(), newSource("x")); err == nil ||
			!strings.Contains(err.Error(), "names no id") || i.uploads > 0 {
			t.Errorf("Upload() with the build id %q: error = %v after %d uploads, want \"names no id\" after none",
				id, err, i.uploads)
		}
	}
}
