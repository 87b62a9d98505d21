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
	"github.com/gatewright/gatewright/shared/runtime/cloud"
	"github.com/gatewright/gatewright/shared/runtime/cloud/codedeploy"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

const (
	deploymentID = "d-EXAMPLE11"
	hookID       = "eyJlbmNyeXB0ZWREYXRhIjoi"
)

// The requests that fakeAWS handles.
const (
	getDeployment = "GetDeployment"
	getRevision   = "GetApplicationRevision"
	putStatus     = "PutLifecycleEventHookExecutionStatus"
	invoke        = "Invoke"
)

// fakeReply is a response of fakeAWS.
type fakeReply struct {
	status    int    // the status of an error response, 0 for a success
	errorType string // the type of an error response
	body      string
	// functionError is the kind of a function's error.
	functionError string
	// dropResponse closes the connection without a response after the request has taken effect.
	dropResponse bool
	// hang sends no response until the client ends the request.
	hang bool
}

// fakeAWS replaces CodeDeploy and Lambda. It has a list of replies for each kind of request. The last reply of a list
// is repeated.
type fakeAWS struct {
	mu      sync.Mutex
	replies map[string][]fakeReply
	// requests has the received requests in their order.
	requests []string
	// version is the version that was called last, and event is the event of this call.
	version, event string
	// status is the first status that the hook has reported.
	status string
}

func newFakeAWS() *fakeAWS {
	return &fakeAWS{replies: map[string][]fakeReply{
		getDeployment: {
			{body: `{"deploymentInfo":{"applicationName":"gatewright-dev","revision":{"revisionType":"String",` +
				`"string":{"sha256":"abc"}}}}`},
		},
		getRevision: {{body: revisionReply("gatewright-dev-rollup")}},
		invoke:      {{body: probe.Response}},
		putStatus:   {{body: `{"lifecycleEventHookExecutionId":"` + hookID + `"}`}},
	}}
}

// revisionReply returns the reply of CodeDeploy with the AppSpec that CloudFormation creates for the release of a
// function.
func revisionReply(function string) string { return appSpecReply("string", spec(function)) }

func spec(function string) string {
	return fmt.Sprintf(`{"version":"0.0","Resources":[{"function":{"Type":"AWS::Lambda::Function","Properties":{
		"Name":%q,"Alias":"live","CurrentVersion":"6","TargetVersion":"7"}}}],"Hooks":[{"BeforeAllowTraffic":"gatewright-dev-releasecheck"}]}`, function)
}

// appSpecReply returns the reply of CodeDeploy with an AppSpec in the field with this name.
func appSpecReply(name, spec string) string {
	text, _ := json.Marshal(spec)
	return fmt.Sprintf(
		`{"applicationName":"gatewright-dev","revision":{"revisionType":"AppSpecContent",%q:{"content":%s,"sha256":"abc"}}}`,
		name, text)
}

// ServeHTTP implements http.Handler.
func (fa *fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, name, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	if path, ok := strings.CutPrefix(r.URL.Path, "/2015-03-31/functions/"); ok {
		name = invoke
		fa.mu.Lock()
		fa.version, fa.event = strings.TrimSuffix(path, "/invocations")+":"+r.URL.Query().Get("Qualifier"), string(body)
		fa.mu.Unlock()
	}
	fa.respond(w, r, fa.nextReply(name, body))
}

// nextReply records a request and returns its reply.
func (fa *fakeAWS) nextReply(name string, body []byte) fakeReply {
	fa.mu.Lock()
	defer fa.mu.Unlock()
	fa.requests = append(fa.requests, name)
	replies := fa.replies[name]
	if len(replies) == 0 {
		return fakeReply{status: http.StatusNotImplemented, errorType: "Unknown"}
	}
	if len(replies) > 1 {
		fa.replies[name] = replies[1:]
	}
	if name == putStatus && (replies[0].status == 0 || replies[0].dropResponse) {
		if fa.status != "" {
			return fakeReply{status: http.StatusBadRequest, errorType: "LifecycleEventAlreadyCompletedException"}
		}
		var in struct{ DeploymentID, LifecycleEventHookExecutionID, Status string }
		if err := json.Unmarshal(body, &in); err != nil || in.DeploymentID != deploymentID ||
			in.LifecycleEventHookExecutionID != hookID {
			return fakeReply{status: http.StatusBadRequest, errorType: "InvalidLifecycleEventHookExecutionIdException"}
		}
		fa.status = in.Status
	}
	return replies[0]
}

func (fa *fakeAWS) respond(w http.ResponseWriter, r *http.Request, a fakeReply) {
	switch {
	case a.dropResponse:
		panic(http.ErrAbortHandler)
	case a.hang:
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	w.Header().Set("X-Amzn-Requestid", "r-1")
	if a.functionError != "" {
		w.Header().Set("X-Amz-Function-Error", a.functionError)
	}
	if a.status != 0 {
		w.Header().Set("X-Amzn-Errortype", a.errorType)
		w.WriteHeader(a.status)
		_, _ = fmt.Fprintf(w, `{"__type":%q,"message":"no"}`, a.errorType)
		return
	}
	_, _ = io.WriteString(w, a.body)
}

// newCheck returns the hook of an installation. It sends all its requests to s instead of AWS.
func newCheck(t *testing.T, s http.Handler, log io.Writer) *releasecheck.Check {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	sdk, err := cloud.SDK(func(name string) string {
		return map[string]string{
			"AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "id",
			"AWS_SECRET_ACCESS_KEY": "the-secret",
		}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return &releasecheck.Check{
		Releases: codedeploy.New(sdk),
		Probes: func() (releasecheck.Probes, error) {
			return releasecheck.Probes{"rollup": {Event: []byte(probe.Event), Evaluate: func(response []byte) error {
				if string(response) != probe.Response {
					return errors.New("it answers something else")
				}
				return nil
			}}}, nil
		},
		Prefix: "gatewright-dev-", Log: slog.New(slog.NewJSONHandler(log, nil)), Backoff: time.Millisecond,
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
	throttled       = fakeReply{status: http.StatusBadRequest, errorType: "ThrottlingException"}
	internalFailure = fakeReply{status: http.StatusInternalServerError, errorType: "InternalFailure"}
	accessDenied    = fakeReply{status: http.StatusForbidden, errorType: "AccessDeniedException"}
	pending         = fakeReply{status: http.StatusConflict, errorType: "ResourceConflictException"}
	busy            = fakeReply{status: http.StatusTooManyRequests, errorType: "TooManyRequestsException"}
)

// hookCases has replies of AWS, and the status that the hook must report.
var hookCases = map[string]struct {
	request    string
	replies    []fakeReply // the replies before the successful one
	repeatLast bool        // the last reply is repeated, and there is no successful one
	want       string
	wantLog    string
}{
	"healthy version":   {want: "Succeeded"},
	"throttled request": {request: getDeployment, replies: []fakeReply{throttled, throttled}, want: "Succeeded"},
	"late deployment": {
		request: getDeployment, replies: []fakeReply{{body: `{}`}, {body: `{"deploymentInfo":{}}`}}, want: "Succeeded",
	},
	"role without access at first": {
		request: getDeployment, replies: []fakeReply{accessDenied, accessDenied, accessDenied}, want: "Succeeded",
	},
	"a lost reply": {request: getDeployment, replies: []fakeReply{{dropResponse: true}}, want: "Succeeded"},
	"late revision": {
		request: getRevision, replies: []fakeReply{{body: `{}`}, {body: `{"revision":{"revisionType":"String"}}`}},
		want: "Succeeded",
	},
	"late content": {
		request: getRevision,
		replies: []fakeReply{{body: `{"revision":{"string":{"sha256":"abc"}}}`}, {body: appSpecReply("string", "")}},
		want:    "Succeeded",
	},
	"a revision without resources": {
		request: getRevision,
		replies: []fakeReply{
			{body: appSpecReply("string", `{"Resources":[]}`)},
			{body: appSpecReply("string", `{"version":"0.0"}`)},
		},
		want: "Succeeded",
	},
	"a revision without a version": {
		request: getRevision,
		replies: []fakeReply{
			{body: appSpecReply("string", strings.Replace(spec("gatewright-dev-rollup"), "TargetVersion", "x", 1))},
		},
		want: "Succeeded",
	},
	"a revision that is no AppSpec": {
		request: getRevision,
		replies: []fakeReply{{body: appSpecReply("string", "- [")}, {body: appSpecReply("string", `{"Resources":"x"}`)}},
		want:    "Succeeded",
	},
	"a failure of CodeDeploy": {request: getRevision, replies: []fakeReply{internalFailure, throttled}, want: "Succeeded"},
	"content in appSpecContent": {
		request: getRevision, replies: []fakeReply{{body: appSpecReply("appSpecContent", spec("gatewright-dev-rollup"))}},
		repeatLast: true, want: "Succeeded",
	},
	"resources as an object": {
		request: getRevision,
		replies: []fakeReply{
			{body: appSpecReply("string", strings.NewReplacer("[{", "{", "}]", "}").Replace(spec("gatewright-dev-rollup")))},
		},
		repeatLast: true, want: "Succeeded",
	},
	"YAML": {
		request: getRevision,
		replies: []fakeReply{{body: appSpecReply("appSpecContent", "version: 0.0\nResources:\n  - f:\n"+
			"      Type: AWS::Lambda::Function\n"+
			"      Properties: {Name: gatewright-dev-rollup, Alias: live, CurrentVersion: 6, TargetVersion: 7}\n")}},
		repeatLast: true, want: "Succeeded",
	},
	"an ARN in place of a name": {
		request: getRevision,
		replies: []fakeReply{
			{body: revisionReply("arn:aws:lambda:eu-west-1:000000000000:function:gatewright-dev-rollup")},
		},
		repeatLast: true, want: "Succeeded",
	},
	"inactive version at first": {
		request: invoke, replies: []fakeReply{pending, busy, internalFailure}, want: "Succeeded",
	},
	"lost response of the version": {request: invoke, replies: []fakeReply{{dropResponse: true}}, want: "Succeeded"},
	"a lost report":                {request: putStatus, replies: []fakeReply{{dropResponse: true}}, want: "Succeeded"},
	"throttled report": {
		request: putStatus, replies: []fakeReply{throttled, internalFailure, {dropResponse: true}}, want: "Succeeded",
	},
	"another response": {
		request: invoke, replies: []fakeReply{{body: `{"probe":"no"}`}}, repeatLast: true, want: "Failed",
		wantLog: "it answers something else",
	},
	"failing version": {
		request: invoke,
		replies: []fakeReply{{functionError: "Unhandled", body: `{"errorType":"Runtime.ExitError",` +
			`"errorMessage":"the-secret of somebody"}`}},
		repeatLast: true, want: "Failed", wantLog: "Runtime.ExitError",
	},
	"failing version with invalid JSON": {
		request: invoke, replies: []fakeReply{{functionError: "Unhandled", body: `no JSON`}}, repeatLast: true,
		want: "Failed", wantLog: "Unhandled",
	},
	"function of another installation": {
		request: getRevision, replies: []fakeReply{{body: revisionReply("gatewright-dev-2-rollup")}}, repeatLast: true,
		want: "Failed", wantLog: "none of this installation",
	},
	"unknown function": {
		request: getRevision, replies: []fakeReply{{body: revisionReply("gatewright-dev-new")}}, repeatLast: true,
		want: "Failed", wantLog: "none of this installation",
	},
	"unavailable CodeDeploy": {
		request: getDeployment, replies: []fakeReply{internalFailure}, repeatLast: true, want: "Failed",
		wantLog: "no time left",
	},
	"role without access": {
		request: invoke, replies: []fakeReply{accessDenied}, repeatLast: true, want: "Failed", wantLog: "no time left",
	},
	"version that never responds": {
		request: invoke, replies: []fakeReply{{hang: true}}, repeatLast: true, want: "Failed", wantLog: "no time left",
	},
}

// TestHookReportsStatus checks that the hook reports whether a version can get traffic, even if requests to CodeDeploy
// and Lambda fail.
func TestHookReportsStatus(t *testing.T) {
	for name, tt := range hookCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeAWS()
			if tt.request != "" {
				if tt.repeatLast {
					s.replies[tt.request] = tt.replies
				} else {
					s.replies[tt.request] = append(tt.replies, s.replies[tt.request]...)
				}
			}
			var log bytes.Buffer
			c := newCheck(t, s, &log)
			checkTimeout := deadline.Timeout()
			if strings.Contains(tt.wantLog, "no time") {
				checkTimeout = 2 * time.Second // no time for the check, because all of it is reserved for the report
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute+checkTimeout)
			defer cancel()
			if err := handle(ctx, c); err != nil {
				t.Fatalf("Handle() = %v, want nil", err)
			}
			if s.status != tt.want {
				t.Errorf("status at CodeDeploy = %q, want %q; the log is\n%s", s.status, tt.want, log.String())
			}
			if !strings.Contains(log.String(), tt.wantLog) || tt.want == "Failed" &&
				!strings.Contains(log.String(), `"level":"ERROR"`) {
				t.Errorf("log = %s, want %q in it, as an error if the status is Failed", log.String(), tt.wantLog)
			}
			if strings.Contains(log.String(), "the-secret") {
				t.Errorf("the log contains the-secret, want no payload and no credentials:\n%s", log.String())
			}
			if s.version != "" && (!strings.HasSuffix(s.version, "gatewright-dev-rollup:7") || s.event != probe.Event) {
				t.Errorf("called version = %s with the event %s, want gatewright-dev-rollup:7 with %s",
					s.version, s.event, probe.Event)
			}
		})
	}
}

// TestRepeatedHookKeepsFirstStatus calls the hook twice for one deployment, as CodeDeploy or Lambda can do. The second
// call must not return an error, and the first status must stay.
func TestRepeatedHookKeepsFirstStatus(t *testing.T) {
	s := newFakeAWS()
	c := newCheck(t, s, io.Discard)
	for range 2 {
		if err := handle(t.Context(), c); err != nil {
			t.Errorf("Handle() = %v, want nil", err)
		}
		s.mu.Lock()
		s.replies[invoke] = []fakeReply{{body: "broken meanwhile"}}
		s.mu.Unlock()
	}
	if s.status != "Succeeded" {
		t.Errorf("status at CodeDeploy = %q, want the first status", s.status)
	}
}

// TestUnknownDeploymentIsAnError checks that the hook returns an error for an unknown deployment, after one request. It
// must also return an error if CodeDeploy does not know the hook's execution. For an event that is not from CodeDeploy,
// it must return an error before any request.
func TestUnknownDeploymentIsAnError(t *testing.T) {
	for _, kind := range []string{"DeploymentDoesNotExistException", "InvalidDeploymentIdException"} {
		s := newFakeAWS()
		s.replies[getDeployment] = []fakeReply{{status: http.StatusBadRequest, errorType: kind}}
		if err := handle(t.Context(), newCheck(t, s, io.Discard)); !errors.Is(err, codedeploy.ErrNoDeployment) ||
			len(s.requests) != 1 {
			t.Errorf("Handle() of a deployment with %s = %v after %v, want an error after one request", kind, err, s.requests)
		}
	}
	s := newFakeAWS()
	s.replies[putStatus] = []fakeReply{{
		status:    http.StatusBadRequest,
		errorType: "InvalidLifecycleEventHookExecutionIdException",
	}}
	if err := handle(t.Context(), newCheck(t, s, io.Discard)); !errors.Is(err, codedeploy.ErrNoDeployment) {
		t.Errorf("Handle() of a hook that is not known = %v, want an error", err)
	}
	s = newFakeAWS()
	for _, event := range []releasecheck.Event{{}, {Deployment: deploymentID}, {Hook: hookID}} {
		if err := newCheck(t, s, io.Discard).Handle(t.Context(), event); err == nil || len(s.requests) > 0 {
			t.Errorf("Handle(%+v) = %v after %v, want an error before any request", event, err, s.requests)
		}
	}
}

// TestUnreportableStatusIsAnError checks that the hook returns an error if it cannot report the status, because Lambda
// counts its errors.
func TestUnreportableStatusIsAnError(t *testing.T) {
	s := newFakeAWS()
	s.replies[putStatus] = []fakeReply{internalFailure}
	ctx, cancel := context.WithCancel(t.Context())
	c := newCheck(t, s, io.Discard)
	c.Releases = cancelingReleases{c.Releases, cancel}
	if err := handle(ctx, c); err == nil || !strings.Contains(err.Error(), "no time left") {
		t.Errorf("Handle() = %v, want an error with \"no time left\"", err)
	}
}

// cancelingReleases cancels the context of the hook's call at the first report.
type cancelingReleases struct {
	releasecheck.Releases
	cancel func()
}

// Report implements releasecheck.Releases.
func (r cancelingReleases) Report(ctx context.Context, deployment, hook string, passed bool) error {
	err := r.Releases.Report(ctx, deployment, hook, passed)
	r.cancel()
	return err
}
