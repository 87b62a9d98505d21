package releasecheck_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/releasecheck"
	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/cloud/codedeploy"
	"github.com/gatewright/gatewright/shared/trigger/probe"
)

const (
	deploymentID = "d-EXAMPLE11"
	hookID       = "eyJlbmNyeXB0ZWREYXRhIjoi"
)

// The requests that the fake knows.
const (
	getDeployment = "GetDeployment"
	getRevision   = "GetApplicationRevision"
	putStatus     = "PutLifecycleEventHookExecutionStatus"
	invoke        = "Invoke"
)

// reply is what the fake answers a request with.
type reply struct {
	status int
	kind   string // of an error
	body   string
	// failed is the kind of a function's error.
	failed string
	// lost replies break the connection after the request was carried out.
	lost bool
	// late replies wait until the client has given up.
	late bool
}

// services are CodeDeploy and Lambda. Each request has a list of replies; the last one stays.
type services struct {
	mu      sync.Mutex
	replies map[string][]reply
	// asked are the requests, in their order.
	asked []string
	// version is what was called, event what it was called with.
	version, event string
	// status is what CodeDeploy was told first.
	status string
}

func healthy() *services {
	return &services{replies: map[string][]reply{
		getDeployment: {{body: `{"deploymentInfo":{"applicationName":"gatewright-dev","revision":{"revisionType":"String","string":{"sha256":"abc"}}}}`}},
		getRevision:   {{body: revision("gatewright-dev-rollup")}},
		invoke:        {{body: probe.Answer}},
		putStatus:     {{body: `{"lifecycleEventHookExecutionId":"` + hookID + `"}`}},
	}}
}

// revision is the reply of CodeDeploy with the AppSpec that CloudFormation writes for a release of a function.
func revision(function string) string { return as("string", spec(function)) }

func spec(function string) string {
	return fmt.Sprintf(`{"version":"0.0","Resources":[{"function":{"Type":"AWS::Lambda::Function","Properties":{
		"Name":%q,"Alias":"live","CurrentVersion":"6","TargetVersion":"7"}}}],"Hooks":[{"BeforeAllowTraffic":"gatewright-dev-releasecheck"}]}`, function)
}

// as is the reply with an AppSpec under a name.
func as(name, spec string) string {
	text, _ := json.Marshal(spec)
	return fmt.Sprintf(`{"applicationName":"gatewright-dev","revision":{"revisionType":"AppSpecContent",%q:{"content":%s,"sha256":"abc"}}}`, name, text)
}

// ServeHTTP implements http.Handler.
func (s *services) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if path, ok := strings.CutPrefix(r.URL.Path, "/2015-03-31/functions/"); ok {
		name = invoke
		s.mu.Lock()
		s.version, s.event = strings.TrimSuffix(path, "/invocations")+":"+r.URL.Query().Get("Qualifier"), string(body)
		s.mu.Unlock()
	}
	s.answer(w, r, s.take(name, body))
}

// take notes a request and returns its reply.
func (s *services) take(name string, body []byte) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, name)
	all := s.replies[name]
	if len(all) == 0 {
		return reply{status: http.StatusNotImplemented, kind: "Unknown"}
	}
	if len(all) > 1 {
		s.replies[name] = all[1:]
	}
	if name == putStatus && (all[0].status == 0 || all[0].lost) {
		if s.status != "" {
			return reply{status: http.StatusBadRequest, kind: "LifecycleEventAlreadyCompletedException"}
		}
		var in struct{ DeploymentID, LifecycleEventHookExecutionID, Status string }
		if err := json.Unmarshal(body, &in); err != nil || in.DeploymentID != deploymentID || in.LifecycleEventHookExecutionID != hookID {
			return reply{status: http.StatusBadRequest, kind: "InvalidLifecycleEventHookExecutionIdException"}
		}
		s.status = in.Status
	}
	return all[0]
}

func (s *services) answer(w http.ResponseWriter, r *http.Request, a reply) {
	switch {
	case a.lost:
		panic(http.ErrAbortHandler)
	case a.late:
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", "r-1")
	if a.failed != "" {
		w.Header().Set("X-Amz-Function-Error", a.failed)
	}
	if a.status != 0 {
		w.Header().Set("X-Amzn-Errortype", a.kind)
		w.WriteHeader(a.status)
		_, _ = fmt.Fprintf(w, `{"__type":%q,"message":"no"}`, a.kind)
		return
	}
	_, _ = io.WriteString(w, a.body)
}

// newCheck returns the hook of an installation in which the services are all of AWS.
func newCheck(t *testing.T, s http.Handler, log io.Writer) *releasecheck.Check {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	sdk, err := cloud.SDK(func(name string) string {
		return map[string]string{
			"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "the-secret",
		}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return &releasecheck.Check{
		Releases: codedeploy.New(sdk),
		Probes: func() (releasecheck.Probes, error) {
			return releasecheck.Probes{"rollup": {Event: []byte(probe.Event), Judge: func(answer []byte) error {
				if string(answer) != probe.Answer {
					return errors.New("it answers something else")
				}
				return nil
			}}}, nil
		},
		Prefix: "gatewright-dev-", Log: slog.New(slog.NewJSONHandler(log, nil)), Pause: time.Millisecond,
	}
}

// handle calls the hook with the event that CodeDeploy sends.
func handle(ctx context.Context, c *releasecheck.Check) error {
	var event releasecheck.Event
	raw := fmt.Sprintf(`{"DeploymentId":%q,"LifecycleEventHookExecutionId":%q}`, deploymentID, hookID)
	if err := json.Unmarshal([]byte(raw), &event); err != nil {
		return err
	}
	return c.Handle(ctx, event)
}

var (
	throttled = reply{status: http.StatusBadRequest, kind: "ThrottlingException"}
	broken    = reply{status: http.StatusInternalServerError, kind: "InternalFailure"}
	refused   = reply{status: http.StatusForbidden, kind: "AccessDeniedException"}
	pending   = reply{status: http.StatusConflict, kind: "ResourceConflictException"}
	busy      = reply{status: http.StatusTooManyRequests, kind: "TooManyRequestsException"}
)

// TestCodeDeployIsTold whether a version may get traffic, whatever the services do meanwhile.
func TestCodeDeployIsTold(t *testing.T) {
	for name, tt := range map[string]struct {
		request string
		replies []reply // before and in place of the good one
		stays   bool    // the last of them is the answer to all requests
		want    string
		says    string
	}{
		"a good version":                 {want: "Succeeded"},
		"a throttle":                     {request: getDeployment, replies: []reply{throttled, throttled}, want: "Succeeded"},
		"no deployment at first":         {request: getDeployment, replies: []reply{{body: `{}`}, {body: `{"deploymentInfo":{}}`}}, want: "Succeeded"},
		"a role that does not work yet":  {request: getDeployment, replies: []reply{refused, refused, refused}, want: "Succeeded"},
		"a lost reply":                   {request: getDeployment, replies: []reply{{lost: true}}, want: "Succeeded"},
		"no revision at first":           {request: getRevision, replies: []reply{{body: `{}`}, {body: `{"revision":{"revisionType":"String"}}`}}, want: "Succeeded"},
		"no content at first":            {request: getRevision, replies: []reply{{body: `{"revision":{"string":{"sha256":"abc"}}}`}, {body: as("string", "")}}, want: "Succeeded"},
		"a revision without resources":   {request: getRevision, replies: []reply{{body: as("string", `{"Resources":[]}`)}, {body: as("string", `{"version":"0.0"}`)}}, want: "Succeeded"},
		"a revision without a version":   {request: getRevision, replies: []reply{{body: as("string", strings.Replace(spec("gatewright-dev-rollup"), "TargetVersion", "x", 1))}}, want: "Succeeded"},
		"a revision that is no AppSpec":  {request: getRevision, replies: []reply{{body: as("string", "- [")}, {body: as("string", `{"Resources":"x"}`)}}, want: "Succeeded"},
		"a failure of CodeDeploy":        {request: getRevision, replies: []reply{broken, throttled}, want: "Succeeded"},
		"content of the newer name":      {request: getRevision, replies: []reply{{body: as("appSpecContent", spec("gatewright-dev-rollup"))}}, stays: true, want: "Succeeded"},
		"resources as one mapping":       {request: getRevision, replies: []reply{{body: as("string", strings.NewReplacer("[{", "{", "}]", "}").Replace(spec("gatewright-dev-rollup")))}}, stays: true, want: "Succeeded"},
		"YAML":                           {request: getRevision, replies: []reply{{body: as("appSpecContent", "version: 0.0\nResources:\n  - f:\n      Type: AWS::Lambda::Function\n      Properties: {Name: gatewright-dev-rollup, Alias: live, CurrentVersion: 6, TargetVersion: 7}\n")}}, stays: true, want: "Succeeded"},
		"an ARN in place of a name":      {request: getRevision, replies: []reply{{body: revision("arn:aws:lambda:eu-west-1:000000000000:function:gatewright-dev-rollup")}}, stays: true, want: "Succeeded"},
		"a version that is not active":   {request: invoke, replies: []reply{pending, busy, broken}, want: "Succeeded"},
		"a lost answer of the version":   {request: invoke, replies: []reply{{lost: true}}, want: "Succeeded"},
		"a lost report":                  {request: putStatus, replies: []reply{{lost: true}}, want: "Succeeded"},
		"a report that is throttled":     {request: putStatus, replies: []reply{throttled, broken, {lost: true}}, want: "Succeeded"},
		"another answer":                 {request: invoke, replies: []reply{{body: `{"probe":"no"}`}}, stays: true, want: "Failed", says: "it answers something else"},
		"a version that fails":           {request: invoke, replies: []reply{{failed: "Unhandled", body: `{"errorType":"Runtime.ExitError","errorMessage":"the-secret of somebody"}`}}, stays: true, want: "Failed", says: "Runtime.ExitError"},
		"a version that fails unusually": {request: invoke, replies: []reply{{failed: "Unhandled", body: `no JSON`}}, stays: true, want: "Failed", says: "Unhandled"},
		"a function of others":           {request: getRevision, replies: []reply{{body: revision("gatewright-dev-2-rollup")}}, stays: true, want: "Failed", says: "none of this installation"},
		"a function that nobody knows":   {request: getRevision, replies: []reply{{body: revision("gatewright-dev-new")}}, stays: true, want: "Failed", says: "none of this installation"},
		"an end of the services":         {request: getDeployment, replies: []reply{broken}, stays: true, want: "Failed", says: "no time left"},
		"a role that never works":        {request: invoke, replies: []reply{refused}, stays: true, want: "Failed", says: "no time left"},
		"a version that never answers":   {request: invoke, replies: []reply{{late: true}}, stays: true, want: "Failed", says: "no time left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy()
			if tt.request != "" {
				if tt.stays {
					s.replies[tt.request] = tt.replies
				} else {
					s.replies[tt.request] = append(tt.replies, s.replies[tt.request]...)
				}
			}
			var log bytes.Buffer
			c := newCheck(t, s, &log)
			within := deadline.Long()
			if strings.Contains(tt.says, "no time") {
				within = 2 * time.Second // the check has none of it: all is for the report
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+within)
			defer cancel()
			if err := handle(ctx, c); err != nil {
				t.Fatalf("Handle() = %v, want nil", err)
			}
			if s.status != tt.want {
				t.Errorf("CodeDeploy was told %q, want %q; the log is\n%s", s.status, tt.want, log.String())
			}
			if !strings.Contains(log.String(), tt.says) || tt.want == "Failed" && !strings.Contains(log.String(), `"level":"ERROR"`) {
				t.Errorf("the log does not say %q as an error:\n%s", tt.says, log.String())
			}
			if strings.Contains(log.String(), "the-secret") {
				t.Errorf("the log repeats what a function works on, or credentials:\n%s", log.String())
			}
			if s.version != "" && (!strings.HasSuffix(s.version, "gatewright-dev-rollup:7") || s.event != probe.Event) {
				t.Errorf("%s was called with %s, want version 7 with %s", s.version, s.event, probe.Event)
			}
		})
	}
}

// TestTheHookIsCalledTwice by CodeDeploy or Lambda for one deployment: the first status stays, and the second call is no error.
func TestTheHookIsCalledTwice(t *testing.T) {
	s := healthy()
	c := newCheck(t, s, io.Discard)
	for range 2 {
		if err := handle(t.Context(), c); err != nil {
			t.Errorf("Handle() = %v, want nil", err)
		}
		s.mu.Lock()
		s.replies[invoke] = []reply{{body: "broken meanwhile"}}
		s.mu.Unlock()
	}
	if s.status != "Succeeded" {
		t.Errorf("CodeDeploy was told %q, want the first status", s.status)
	}
}

// TestADeploymentThatIsGone, and an event that CodeDeploy has not sent, are errors at once: nothing is called, and nothing is repeated.
func TestADeploymentThatIsGone(t *testing.T) {
	for _, kind := range []string{"DeploymentDoesNotExistException", "InvalidDeploymentIdException"} {
		s := healthy()
		s.replies[getDeployment] = []reply{{status: http.StatusBadRequest, kind: kind}}
		if err := handle(t.Context(), newCheck(t, s, io.Discard)); !errors.Is(err, codedeploy.ErrNoDeployment) || len(s.asked) != 1 {
			t.Errorf("Handle() of a deployment with %s = %v after %v, want an error after one request", kind, err, s.asked)
		}
	}
	s := healthy()
	s.replies[putStatus] = []reply{{status: http.StatusBadRequest, kind: "InvalidLifecycleEventHookExecutionIdException"}}
	if err := handle(t.Context(), newCheck(t, s, io.Discard)); !errors.Is(err, codedeploy.ErrNoDeployment) {
		t.Errorf("Handle() of a hook that is not known = %v, want an error", err)
	}
	s = healthy()
	for _, event := range []releasecheck.Event{{}, {Deployment: deploymentID}, {Hook: hookID}} {
		if err := newCheck(t, s, io.Discard).Handle(t.Context(), event); err == nil || len(s.asked) > 0 {
			t.Errorf("Handle(%+v) = %v after %v, want an error before any request", event, err, s.asked)
		}
	}
}

// TestAStatusThatCannotBeReported is an error of the hook, which Lambda counts.
func TestAStatusThatCannotBeReported(t *testing.T) {
	s := healthy()
	s.replies[putStatus] = []reply{broken}
	ctx, cancel := context.WithCancel(t.Context())
	c := newCheck(t, s, io.Discard)
	c.Releases = ending{c.Releases, cancel}
	if err := handle(ctx, c); err == nil || !strings.Contains(err.Error(), "no time left") {
		t.Errorf("Handle() = %v, want an error", err)
	}
}

// ending has the time of a call end with the first report.
type ending struct {
	releasecheck.Releases
	end func()
}

// Report implements releasecheck.Releases.
func (e ending) Report(ctx context.Context, deployment, hook string, passed bool) error {
	err := e.Releases.Report(ctx, deployment, hook, passed)
	e.end()
	return err
}
