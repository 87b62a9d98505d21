//go:build unix

package lambdahost_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/gatewright/gatewright/local/dev/lambdahost"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

// TestMain runs the tests. If TEST_FUNCTION is set, it runs a function of the tests instead.
func TestMain(m *testing.M) {
	if kind := os.Getenv("TEST_FUNCTION"); kind != "" {
		bootstrap(kind)
		return
	}
	os.Exit(m.Run())
}

// callInfo is the response of a function of the tests: information about the call and about its process.
type callInfo struct {
	PID       int
	Event     string
	RequestID string
	ARN       string
	Remaining time.Duration
	Trace     string
	Env       map[string]string
	Calls     int
	Ticks     int64
}

// bootstrap runs a function of the tests. kind selects what the function does when it starts. The event of a call
// selects what the function does in the call.
func bootstrap(kind string) {
	calls := 0
	var ticks int64
	var options []lambda.Option
	switch kind {
	case "extension":
		options = append(options, lambda.WithEnableSIGTERM(func() {
			_ = os.WriteFile(os.Getenv("TEST_END"), []byte("counted"), 0o600)
			os.Exit(0)
		}))
	case "exit":
		fmt.Println("about to end")
		os.Exit(7)
	case "init-error":
		post("init/error", `{"errorType":"Our.Kind","errorMessage":"not today"}`)
		os.Exit(1)
	case "raw":
		runRaw()
		return
	case "ticks":
		go func() {
			for range time.Tick(time.Millisecond) {
				ticks++
			}
		}()
	}
	lambda.StartWithOptions(func(ctx context.Context, event string) (callInfo, error) {
		calls++
		switch event {
		case "error":
			return callInfo{}, errors.New("the function says no")
		case "panic":
			panic("the function breaks")
		case "hang":
			// The function's child processes must be killed with it.
			child := exec.Command("sleep", "60")
			if err := child.Start(); err != nil {
				return callInfo{}, err
			}
			fmt.Printf("started %d\n", child.Process.Pid)
			<-make(chan int)
		case "die":
			os.Exit(3)
		case "grow":
			var blocks [][]byte
			for range 200 {
				block := make([]byte, 1<<20)
				for i := range block {
					block[i] = byte(i)
				}
				blocks = append(blocks, block)
				time.Sleep(2 * time.Millisecond)
			}
			runtime.KeepAlive(blocks)
		case "slow":
			time.Sleep(150 * time.Millisecond)
		case "large":
			return callInfo{Event: strings.Repeat("x", lambdahost.MaxResponseBytes+1)}, nil
		case "log":
			slog.New(slog.NewJSONHandler(os.Stdout, nil)).Warn("noticed", "count", 2, "duration", time.Second)
			fmt.Fprintln(os.Stderr, "plain text")
		}
		lc, _ := lambdacontext.FromContext(ctx)
		deadline, _ := ctx.Deadline()
		out := callInfo{
			PID: os.Getpid(), Event: event, RequestID: lc.AwsRequestID, ARN: lc.InvokedFunctionArn,
			Remaining: time.Until(deadline), Trace: os.Getenv("_X_AMZN_TRACE_ID"), Env: map[string]string{}, Calls: calls,
			Ticks: ticks,
		}
		for _, v := range os.Environ() {
			name, value, _ := strings.Cut(v, "=")
			out.Env[name] = value
		}
		return out, nil
	}, options...)
}

// post sends a request to the Runtime API. It returns the status and the body, or 0 and the text of an error.
func post(path, body string) (int, string) {
	r, err := http.Post("http://"+os.Getenv("AWS_LAMBDA_RUNTIME_API")+"/2018-06-01/runtime/"+path, "application/json",
		strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

// runRaw is a function that uses the Runtime API directly. Its response contains the responses of the API.
func runRaw() {
	r, err := http.Get("http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/next")
	if err != nil {
		os.Exit(1)
	}
	defer r.Body.Close()
	id := r.Header.Get("Lambda-Runtime-Aws-Request-Id")
	unknown, text := post("invocation/another-id/response", `{}`)
	out, _ := json.Marshal(map[string]any{"header": r.Header, "unknown": unknown, "text": text})
	post("invocation/"+id+"/response", string(out))
	//nolint:errcheck // the request never gets a response
	http.Get("http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/next")
}

// fixture is a host with one function.
type fixture struct {
	host     *lambdahost.Host
	function *lambdahost.Function
	log      *syncbuffer.Text
}

func newFixture(t *testing.T, kind string, edit func(*lambdahost.Spec)) *fixture {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	fx := &fixture{log: &syncbuffer.Text{}}
	fx.host = lambdahost.New(lambdahost.Options{
		Region: "eu-west-1", Credentials: lambdahost.Credentials{AccessKeyID: "an-id", SecretAccessKey: "a-secret"},
		IDs: ids.NewSource(rand.Reader, time.Now), Random: rand.Reader, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(fx.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	t.Cleanup(fx.host.Close)
	spec := lambdahost.Spec{
		Name: "sample", Bootstrap: self, Env: map[string]string{"TEST_FUNCTION": kind}, Timeout: 20 * time.Second,
		MemoryMB: 128,
	}
	if edit != nil {
		edit(&spec)
	}
	if fx.function, err = fx.host.Add(spec); err != nil {
		t.Fatal(err)
	}
	return fx
}

func (f *fixture) call(t *testing.T, event string) (callInfo, error) {
	t.Helper()
	payload, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := f.function.Invoke(t.Context(), payload)
	var out callInfo
	if err == nil {
		if err := json.Unmarshal(resp, &out); err != nil {
			t.Fatalf("response = %s, want JSON (%v)", resp, err)
		}
	}
	return out, err
}

// expectError calls the function with event, and expects a FunctionError. kind is the type of the expected error, and
// text is a part of its message.
func (f *fixture) expectError(t *testing.T, event, kind, text string) {
	t.Helper()
	_, err := f.call(t, event)
	e, ok := errors.AsType[*lambdahost.FunctionError](err)
	if !ok || e.Type != kind || !strings.Contains(e.Message, text) {
		t.Errorf("call(%s) = %v, want %s with %q", event, err, kind, text)
	}
}

func TestFunctionReceivesLambdaContextAndEnvironment(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "plain", nil)
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "the-request"})
	resp, err := fx.function.Invoke(ctx, []byte(`"hello"`))
	if err != nil {
		t.Fatal(err)
	}
	var got callInfo
	if err := json.Unmarshal(resp, &got); err != nil {
		t.Fatal(err)
	}
	if got.Event != "hello" || got.RequestID != "the-request" ||
		got.ARN != "arn:aws:lambda:eu-west-1:000000000000:function:sample" {
		t.Errorf("the function receives %+v, want the event hello, the request id the-request and the ARN of sample", got)
	}
	if got.Remaining <= 0 || got.Remaining > 20*time.Second {
		t.Errorf("remaining time = %s, want more than 0 and at most 20 s", got.Remaining)
	}
	if !strings.HasPrefix(got.Trace, "Root=1-") || strings.Count(got.Trace, ";") != 2 {
		t.Errorf("trace = %q, want Root=1- and three parts", got.Trace)
	}
	for name, want := range map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": "sample", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128",
		"AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
		"AWS_REGION":                  "eu-west-1", "AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret",
		"TEST_FUNCTION": "plain", "TZ": ":UTC", "_HANDLER": "bootstrap", "HOME": "",
	} {
		if got.Env[name] != want {
			t.Errorf("variable %s = %q, want %q", name, got.Env[name], want)
		}
	}
}

func TestWarmProcessIsReusedAndFrozenBetweenCalls(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "ticks", nil)
	first, err := fx.call(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	for { // the signal is delivered with a delay
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", first.PID))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stat), ") T ") {
			break
		}
	}
	second, err := fx.call(t, "b")
	if err != nil {
		t.Fatal(err)
	}
	if second.PID != first.PID || second.Calls != 2 || fx.function.Starts() != 1 {
		t.Errorf("second call is number %d in process %d, %d starts, want number 2 in process %d, 1 start", second.Calls,
			second.PID, fx.function.Starts(), first.PID)
	}
}

func TestConcurrentCallsUseSeparateProcesses(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "plain", func(s *lambdahost.Spec) { s.Processes = 3 })
	var group sync.WaitGroup
	var mu sync.Mutex
	callsByPID := map[int]int{}
	for range 9 {
		group.Go(func() {
			got, err := fx.call(t, "slow")
			if err != nil {
				t.Errorf("call(slow) error = %v, want none", err)
			}
			mu.Lock()
			defer mu.Unlock()
			callsByPID[got.PID]++
		})
	}
	group.Wait()
	if len(callsByPID) != 3 || fx.function.Starts() != 3 {
		t.Errorf("9 calls by %d processes, %d starts, want 3: %v", len(callsByPID), fx.function.Starts(), callsByPID)
	}
}

func TestFailuresAreReportedAsByLambda(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "plain", nil)
	fx.expectError(t, "error", "errorString", "the function says no")
	before, err := fx.call(t, "a")
	if err != nil || before.Calls != 2 {
		t.Errorf("call after an error is number %d, %v, want 2 in the same process", before.Calls, err)
	}
	fx.expectError(t, "panic", "string", "the function breaks")
	fx.expectError(t, "die", "Runtime.ExitError", "exit status 3")
	after, err := fx.call(t, "a")
	if err != nil || after.PID == before.PID || after.Calls != 1 {
		t.Errorf("call after an exit is number %d of process %d, %v, want 1 of another than %d", after.Calls, after.PID,
			err, before.PID)
	}
	fx.expectError(t, "large", "Function.ResponseSizeTooLarge", "6 MB")
	if _, err := fx.function.Invoke(t.Context(), make([]byte, lambdahost.MaxEventBytes+1)); !errors.Is(err,
		lambdahost.ErrEventTooLarge) {
		t.Errorf("Invoke(large event) = %v, want %v", err, lambdahost.ErrEventTooLarge)
	}
}

// waitExited waits until a process has ended.
func waitExited(t *testing.T, pid int) {
	t.Helper()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestTimeoutKillsTheProcessGroup(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "plain", func(s *lambdahost.Spec) { s.Timeout = 500 * time.Millisecond })
	first, err := fx.call(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	fx.expectError(t, "hang", "Sandbox.Timedout", "Task timed out after 0.50 seconds")
	waitExited(t, first.PID)
	_, rest, ok := strings.Cut(fx.log.String(), `line="started `)
	var child int
	if _, err := fmt.Sscanf(rest, "%d", &child); !ok || err != nil {
		t.Fatalf("log = %s, want the process id of the child", fx.log)
	}
	waitExited(t, child)
	if second, err := fx.call(t, "a"); err != nil || second.PID == first.PID {
		t.Errorf("call after the timeout = process %d, %v, want another than %d", second.PID, err, first.PID)
	}
}

func TestProcessOverMemoryLimitIsKilled(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "plain", func(s *lambdahost.Spec) { s.MemoryMB = 64 })
	fx.expectError(t, "grow", "Runtime.OutOfMemory", "may hold 64 MB")
	if _, err := fx.call(t, "a"); err != nil {
		t.Errorf("call after Runtime.OutOfMemory: error = %v, want none", err)
	}
}

func TestStartFailureIsReported(t *testing.T) {
	t.Parallel()
	newFixture(t, "exit", nil).expectError(t, "a", "Runtime.ExitError", "exit status 7")
	newFixture(t, "init-error", nil).expectError(t, "a", "Our.Kind", "not today")
	fx := newFixture(t, "plain", func(s *lambdahost.Spec) { s.Bootstrap = "/no/such/bootstrap" })
	if _, err := fx.call(t, "a"); err == nil || !strings.Contains(err.Error(), "start sample") {
		t.Errorf("call without a bootstrap = %v, want an error with \"start sample\"", err)
	}
}

func TestResponseToUnknownCallIsRefused(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "raw", nil)
	resp, err := fx.function.Invoke(t.Context(), []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Header  http.Header
		Unknown int
		Text    string
	}
	if err := json.Unmarshal(resp, &got); err != nil {
		t.Fatal(err)
	}
	if got.Unknown != http.StatusBadRequest || !strings.Contains(got.Text, "InvalidRequestID") {
		t.Errorf("response to an unknown id = %d %s, want 400 InvalidRequestID", got.Unknown, got.Text)
	}
	for _, name := range []string{
		"Lambda-Runtime-Aws-Request-Id", "Lambda-Runtime-Deadline-Ms",
		"Lambda-Runtime-Invoked-Function-Arn", "Lambda-Runtime-Trace-Id",
	} {
		if got.Header.Get(name) == "" {
			t.Errorf("header %s is missing, want a value", name)
		}
	}
}

func TestOutputIsLogged(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "plain", nil)
	if _, err := fx.call(t, "log"); err != nil {
		t.Fatal(err)
	}
	fx.host.Close()
	for _, want := range []string{
		"level=WARN msg=noticed function=sample count=2 duration=1s", `line="plain text"`, "msg=call function=sample",
		"initDuration=", "memoryLimitMb=128",
	} {
		if !strings.Contains(fx.log.String(), want) {
			t.Errorf("log lacks a line, want %q:\n%s", want, fx.log)
		}
	}
	if strings.Contains(fx.log.String(), "a-secret") {
		t.Error("the log contains a-secret, want no secret")
	}
}

func TestCloseEndsAllProcesses(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "plain", nil)
	failed := make(chan error, 1)
	go func() {
		_, err := fx.call(t, "hang")
		failed <- err
	}()
	for !strings.Contains(fx.log.String(), "started ") {
		time.Sleep(5 * time.Millisecond)
	}
	idle, err := fx.call(t, "a") // starts a second process, because the first one hangs
	if err != nil {
		t.Fatal(err)
	}
	fx.host.Close()
	if err := <-failed; err == nil {
		t.Error("call during Close() = nil, want an error")
	}
	if err := syscall.Kill(idle.PID, 0); err == nil {
		t.Errorf("idle process %d runs after Close(), want it ended", idle.PID)
	}
	if _, err := fx.call(t, "a"); !errors.Is(err, lambdahost.ErrClosed) {
		t.Errorf("call after Close() = %v, want %v", err, lambdahost.ErrClosed)
	}
	if _, err := fx.host.Add(lambdahost.Spec{Name: "x", Timeout: 1, MemoryMB: 1}); !errors.Is(err, lambdahost.ErrClosed) {
		t.Errorf("Add() after Close() = %v, want %v", err, lambdahost.ErrClosed)
	}
}

func TestClientDisconnectDoesNotStopTheFunction(t *testing.T) {
	t.Parallel()
	fx := newFixture(t, "plain", func(s *lambdahost.Spec) { s.Processes = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := fx.function.Invoke(ctx, []byte(`"slow"`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Invoke() of a client that disconnects = %v, want %v", err, context.DeadlineExceeded)
	}
	if got, err := fx.call(t, "a"); err != nil || got.Calls != 2 {
		t.Errorf("next call is number %d, %v, want 2 and no error", got.Calls, err)
	}
}

// TestProcessWithExtensionReceivesSIGTERM checks that, as in Lambda, a process with an extension
// receives SIGTERM although it is frozen, and a process without an extension does not receive it.
func TestProcessWithExtensionReceivesSIGTERM(t *testing.T) {
	t.Parallel()
	endFile := filepath.Join(t.TempDir(), "end")
	for kind, want := range map[string]string{"extension": "counted", "plain": ""} {
		fx := newFixture(t, kind, func(s *lambdahost.Spec) { s.Env["TEST_END"] = endFile })
		if _, err := fx.call(t, "a"); err != nil {
			t.Fatal(err)
		}
		fx.host.Close()
		if text, _ := os.ReadFile(endFile); string(text) != want {
			t.Errorf("%s: text written after SIGTERM = %q, want %q", kind, text, want)
		}
		_ = os.Remove(endFile)
	}
}
