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
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

const statusID = "3b241101-e2bb-4255-8caf-4136c566a962"

// installation is one that is as bad as it may be.
type installation struct {
	*testing.T
	deployer *deploy.Deployer
	key      string
	// puts are how uploads are answered, one after the other, the last one for all others; statuses the same of a build.
	puts     []func(http.ResponseWriter)
	statuses []string
	upload   string // the address of uploads, "" for the installation's own
	id       string // of the build
	got      []byte // the archive
	put      int
	asked    int // for addresses
	metadata http.Header
	// followed is told of each question about a build before it is answered, nil for nobody.
	followed func(r *http.Request)
	told     []string
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	i := &installation{T: t, key: credential.New(credential.AccountKey, ids.NewSource(storetest.Random(t), nil)), puts: []func(http.ResponseWriter){answers(200)}, id: statusID}
	asked := 0
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			if r.Header.Get("Authorization") != "" {
				t.Error("the key goes along with the sources")
			}
			body, err := io.ReadAll(r.Body)
			i.put++
			i.metadata = r.Header
			i.puts[min(i.put, len(i.puts))-1](w)
			if err == nil {
				i.got = body
			}
		case strings.HasSuffix(r.URL.Path, "/source-url"):
			i.asked++
			to := i.upload
			if to == "" {
				to = server.URL + "/uploads/secret-address"
			}
			_, _ = fmt.Fprintf(w, `{"deploymentId":%q,"uploadUrl":%q}`, i.id, to)
		default:
			if i.followed != nil {
				i.followed(r)
			}
			_, _ = io.WriteString(w, i.statuses[min(asked, len(i.statuses)-1)])
			asked++
		}
	}))
	t.Cleanup(server.Close)
	access, err := (&profile.Profiles{Current: "a", Profiles: map[string]profile.Profile{"a": {URL: server.URL, Account: "acme", Key: i.key}}}).Decide(profile.Typed{}, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	i.deployer = &deploy.Deployer{
		API:  &call.API{Access: access, HTTP: call.Client(), Sleep: func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) }},
		Told: func(s deploy.State) { i.told = append(i.told, s.Step+" "+s.Status) },
	}
	return i
}

func answers(status int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(status) }
}

// cut ends the connection without an answer.
func cut(w http.ResponseWriter) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

// source is an archive of some size.
func source(text string) deploy.Source {
	return deploy.Source{Project: "shop", Branch: "feature/ä", SHA: "1a2b3c4", Pack: func(_ context.Context, w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}}
}

func TestSourcesAreSentUntilTheyAreThere(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("0123456789abcdef", 1<<16)
	for _, c := range []struct {
		name string
		puts []func(http.ResponseWriter)
		sent int
		says string
	}{
		{"at once", []func(http.ResponseWriter){answers(200)}, 1, ""},
		{"with another good answer", []func(http.ResponseWriter){answers(204)}, 1, ""},
		{"after connections that are cut", []func(http.ResponseWriter){cut, cut, answers(200)}, 3, ""},
		{"after a server that is busy", []func(http.ResponseWriter){answers(503), answers(500), answers(429), answers(200)}, 4, ""},
		{"never, as far as anybody knows", []func(http.ResponseWriter){cut}, 4, "gatewright deployment status " + statusID + " --project shop"},
		{"refused after an answer that was lost", []func(http.ResponseWriter){cut, answers(403)}, 2, "may have arrived"},
		{"to an address that is over", []func(http.ResponseWriter){answers(403)}, 1, "nothing is deployed: it answers 403"},
	} {
		i := newInstallation(t)
		i.puts = c.puts
		id, err := i.deployer.Upload(t.Context(), source(large))
		if i.put != c.sent || (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret-address")) {
			t.Errorf("%s: %d times, %v", c.name, i.put, err)
		}
		if err == nil && (id != statusID || !bytes.Equal(i.got, []byte(large))) {
			t.Errorf("%s: %s with %d bytes", c.name, id, len(i.got))
		}
	}
}

// TestUploadSaysWhatItIsOf, by the fields of contract 3.2: texts of any characters, escaped, and nothing more.
func TestUploadSaysWhatItIsOf(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	s := source("x")
	s.RepositoryURL = "https://git.example.com/acme/shop"
	if _, err := i.deployer.Upload(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, values := range i.metadata {
		if of, is := strings.CutPrefix(name, "X-Goog-Meta-"); is {
			got[of] = strings.Join(values, ", ")
		}
	}
	want := map[string]string{
		"Deployment-Id": statusID, "Account": "acme", "Project": "shop", "Environment": "feature%2F%C3%A4", "Repository-Url": "https:%2F%2Fgit.example.com%2Facme%2Fshop", "Sha": "1a2b3c4",
	}
	if !maps.Equal(got, want) || i.metadata.Get("Content-Type") != "" {
		t.Errorf("it says %v, want %v, in %v", got, want, i.metadata)
	}
}

func TestSourcesGoNowhereElseByPlainHTTP(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"http://uploads.example.com/secret-address", "ftp://uploads.example.com/secret-address", "/secret-address", "https://user:secret-address@/"} {
		i := newInstallation(t)
		i.upload = address
		if _, err := i.deployer.Upload(t.Context(), source("x")); exit.Of(err) != exit.Failure || strings.Contains(err.Error(), "secret-address") {
			t.Errorf("they go to %s: %v", address, err)
		}
	}
	i := newInstallation(t)
	origin, err := profile.Origin("https://127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	i.deployer.API.HTTP = &http.Client{Transport: through(i.deployer.API.Access.Origin.Host)}
	i.deployer.API.Access.Origin = origin
	if _, err := i.deployer.Upload(t.Context(), source("x")); err == nil || !strings.Contains(err.Error(), "plain HTTP") || i.put > 0 {
		t.Errorf("an https API has them go by http: %v", err)
	}
}

// through sends requests for any https host to another one by http.
type through string

func (h through) RoundTrip(r *http.Request) (*http.Response, error) {
	r.URL.Scheme, r.URL.Host = "http", string(h)
	return http.DefaultTransport.RoundTrip(r)
}

func TestNothingIsAskedForAProjectThatIsRefused(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	refused := errors.New("refused")
	if _, err := i.deployer.Upload(t.Context(), deploy.Source{Project: "shop", Branch: "main", Pack: func(context.Context, io.Writer) error { return refused }}); !errors.Is(err, refused) || i.put+i.asked > 0 {
		t.Errorf("it ends with %v, after %d uploads and %d questions", err, i.put, i.asked)
	}
}

func TestBuildIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	const running = `{"status":"IN_PROGRESS","url":"","steps":{"validate":{"status":"IN_PROGRESS"},"download":{"status":"SUCCESS"}},"buildResult":{}}`
	for _, c := range []struct {
		name     string
		statuses []string
		code     exit.Code
		url      string
		told     []string
	}{
		{
			"that is good",
			[]string{running, running, `{"status":"SUCCESS","url":"https://x","steps":{"deploy":{"status":"SUCCESS"},"validate":{"status":"SUCCESS"},"download":{"status":"SUCCESS"}},"buildResult":{"warnings":[{"message":"w"}]}}`},
			exit.OK, "https://x",
			[]string{"download SUCCESS", "validate IN_PROGRESS", "validate SUCCESS", "deploy SUCCESS"},
		},
		{"that fails", []string{`{"status":"ERROR","url":"","steps":{},"buildResult":{"errors":[{"file":"f","message":"m","line":2,"column":3}]}}`}, exit.Invalid, "", nil},
		{"of a status that there is not", []string{`{"status":"ODD","url":"","steps":{},"buildResult":{}}`}, exit.Failure, "", nil},
	} {
		i := newInstallation(t)
		i.statuses = c.statuses
		r, err := i.deployer.Follow(t.Context(), "shop", strings.ToUpper(statusID))
		if err != nil || r.URL != c.url || r.StatusID != statusID || !slices.Equal(i.told, c.told) || exit.Of(deploy.Outcome(r)) != c.code || r.Errors == nil || r.Warnings == nil {
			t.Errorf("%s: %+v, %v, told %v", c.name, r, err, i.told)
		}
	}
}

func TestWhoEndsTheWaitIsToldHowToFollow(t *testing.T) {
	t.Parallel()
	i := newInstallation(t)
	i.statuses = []string{`{"status":"IN_PROGRESS","url":"","steps":{},"buildResult":{}}`}
	for cause, code := range map[error]exit.Code{exit.ErrInterrupted: exit.Interrupted, exit.With(exit.TimedOut, errors.New("late")): exit.TimedOut} {
		for _, asking := range []bool{false, true} { // between two questions, or while one is answered
			ctx, end := context.WithCancelCause(t.Context())
			i.deployer.API.Sleep = func(context.Context, time.Duration) error {
				end(cause)
				return context.Cause(ctx)
			}
			i.followed = func(r *http.Request) {
				if asking {
					end(cause)
					<-r.Context().Done()
				}
			}
			_, err := i.deployer.Follow(ctx, "shop", statusID)
			if exit.Of(err) != code || !strings.Contains(err.Error(), "gatewright deployment status "+statusID+" --project shop") {
				t.Errorf("while it asks %v: it ends with %v (%d)", asking, err, exit.Of(err))
			}
		}
	}
}

// TestDeployIsInterruptedAtEachState: before the sources are sent nothing is deployed; from there on it is told how to follow a build that may go on.
func TestDeployIsInterruptedAtEachState(t *testing.T) {
	t.Parallel()
	for state, follows := range map[string]bool{"pack": false, "upload": true, "after an upload that was lost": true, "follow": true} {
		i := newInstallation(t)
		i.statuses = []string{`{"status":"IN_PROGRESS","url":"","steps":{},"buildResult":{}}`}
		ctx, end := context.WithCancelCause(t.Context())
		ended, s := make(chan struct{}), source("x")
		switch state {
		case "pack":
			s.Pack = func(ctx context.Context, _ io.Writer) error {
				end(exit.ErrInterrupted)
				return context.Cause(ctx)
			}
		case "upload":
			i.puts = []func(http.ResponseWriter){func(http.ResponseWriter) {
				end(exit.ErrInterrupted)
				<-ended
			}}
		case "after an upload that was lost":
			i.puts = []func(http.ResponseWriter){cut}
			i.deployer.API.Sleep = func(ctx context.Context, _ time.Duration) error {
				end(exit.ErrInterrupted)
				return context.Cause(ctx)
			}
		default:
			i.puts = []func(http.ResponseWriter){answers(http.StatusOK)}
			i.followed = func(*http.Request) {
				end(exit.ErrInterrupted)
				<-ended
			}
		}
		id, err := i.deployer.Upload(ctx, s)
		if err == nil {
			_, err = i.deployer.Follow(ctx, "shop", id)
		}
		close(ended)
		if exit.Of(err) != exit.Interrupted || strings.Contains(err.Error(), "gatewright deployment status "+statusID+" --project shop") != follows {
			t.Errorf("%s: it ends with %v (%d)", state, err, exit.Of(err))
		}
		if state == "pack" && i.asked+i.put > 0 {
			t.Errorf("%s: %d addresses are asked for, and it uploads %d times", state, i.asked, i.put)
		}
	}
}

// TestBuildGoesOnWithoutAnAnswer: who is told that an installation does not answer is told too how to follow what goes on there.
func TestBuildGoesOnWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	for status, follows := range map[int]bool{http.StatusForbidden: true, http.StatusInternalServerError: true, http.StatusNotFound: false} {
		i := newInstallation(t)
		i.statuses = []string{""}
		i.deployer.API.HTTP = &http.Client{Transport: always(status)}
		_, err := i.deployer.Follow(t.Context(), "shop", statusID)
		if err == nil || strings.Contains(err.Error(), "gatewright deployment status "+statusID) != follows {
			t.Errorf("%d: it ends with %v", status, err)
		}
	}
}

// always answers with a status.
type always int

// RoundTrip implements http.RoundTripper.
func (a always) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.WriteHeader(int(a))
	_, _ = fmt.Fprintf(w, `{"title":"t","status":%d,"detail":"d"}`, int(a))
	return w.Result(), r.Context().Err()
}

// TestAFailedBuildSaysNothingOfWhatIsServed: it may fail because its deployment was deleted, after which nothing is.
func TestAFailedBuildSaysNothingOfWhatIsServed(t *testing.T) {
	t.Parallel()
	err := deploy.Outcome(deploy.Result{Status: "ERROR", Reason: "The deployment was deleted while it was built."})
	if err == nil || exit.Of(err) != exit.Invalid || strings.Contains(err.Error(), "served on") || !strings.Contains(err.Error(), "deleted while it was built") {
		t.Errorf("it ends with %v", err)
	}
}

// TestIDsOfBuildsAreNoCommands has an installation name a build by what a shell would run: who ends the wait is told a line to paste.
func TestIDsOfBuildsAreNoCommands(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"", "x; rm -rf ~", "$(id)", statusID + "/..", statusID + "\n"} {
		i := newInstallation(t)
		i.id = id
		if _, err := i.deployer.Upload(t.Context(), source("x")); err == nil || !strings.Contains(err.Error(), "names no id") || i.put > 0 {
			t.Errorf("%q: %v, after %d uploads", id, err, i.put)
		}
	}
}
