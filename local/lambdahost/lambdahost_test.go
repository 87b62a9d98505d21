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

	"github.com/gatewright/gatewright/internal/printed"
	"github.com/gatewright/gatewright/local/lambdahost"
	"github.com/gatewright/gatewright/shared/ids"
)

// TestMain is both: the tests, and the bootstraps that they run.
func TestMain(m *testing.M) {
	if kind := os.Getenv("TEST_FUNCTION"); kind != "" {
		bootstrap(kind)
		return
	}
	os.Exit(m.Run())
}

// told is what a function learns of a call.
type told struct {
	PID       int
	Event     string
	RequestID string
	ARN       string
	Left      time.Duration
	Trace     string
	Env       map[string]string
	Calls     int
	Ticks     int64
}

func bootstrap(kind string) {
	calls := 0
	var ticks int64
	var options []lambda.Option
	switch kind {
	case "ends":
		options = append(options, lambda.WithEnableSIGTERM(func() {
			_ = os.WriteFile(os.Getenv("TEST_END"), []byte("counted"), 0o600)
			os.Exit(0)
		}))
	case "no-poll":
		select {}
	case "exit":
		fmt.Println("about to end")
		os.Exit(7)
	case "init-error":
		post("init/error", `{"errorType":"Our.Kind","errorMessage":"not today"}`)
		os.Exit(1)
	case "raw":
		raw()
		return
	case "ticks":
		go func() {
			for range time.Tick(time.Millisecond) {
				ticks++
			}
		}()
	}
	lambda.StartWithOptions(func(ctx context.Context, event string) (told, error) {
		calls++
		switch event {
		case "error":
			return told{}, errors.New("the function says no")
		case "panic":
			panic("the function breaks")
		case "hang":
			// What it starts must not outlive it either.
			child := exec.Command("sleep", "60")
			if err := child.Start(); err != nil {
				return told{}, err
			}
			fmt.Printf("started %d\n", child.Process.Pid)
			<-make(chan int)
		case "die":
			os.Exit(3)
		case "grow":
			var held [][]byte
			for range 200 {
				block := make([]byte, 1<<20)
				for i := range block {
					block[i] = byte(i)
				}
				held = append(held, block)
				time.Sleep(2 * time.Millisecond)
			}
			runtime.KeepAlive(held)
		case "slow":
			time.Sleep(150 * time.Millisecond)
		case "large":
			return told{Event: strings.Repeat("x", lambdahost.MaxAnswerBytes+1)}, nil
		case "log":
			slog.New(slog.NewJSONHandler(os.Stdout, nil)).Warn("told", "count", 2, "duration", time.Second)
			fmt.Fprintln(os.Stderr, "plain text")
		}
		lc, _ := lambdacontext.FromContext(ctx)
		deadline, _ := ctx.Deadline()
		out := told{
			PID: os.Getpid(), Event: event, RequestID: lc.AwsRequestID, ARN: lc.InvokedFunctionArn,
			Left: time.Until(deadline), Trace: os.Getenv("_X_AMZN_TRACE_ID"), Env: map[string]string{}, Calls: calls, Ticks: ticks,
		}
		for _, v := range os.Environ() {
			name, value, _ := strings.Cut(v, "=")
			out.Env[name] = value
		}
		return out, nil
	}, options...)
}

func post(path, body string) (int, string) {
	r, err := http.Post("http://"+os.Getenv("AWS_LAMBDA_RUNTIME_API")+"/2018-06-01/runtime/"+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	text, _ := io.ReadAll(r.Body)
	return r.StatusCode, string(text)
}

// raw speaks the Runtime API itself and answers what it was answered.
func raw() {
	r, err := http.Get("http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/next")
	if err != nil {
		os.Exit(1)
	}
	defer r.Body.Close()
	id := r.Header.Get("Lambda-Runtime-Aws-Request-Id")
	unknown, text := post("invocation/another-id/response", `{}`)
	out, _ := json.Marshal(map[string]any{"header": r.Header, "unknown": unknown, "text": text})
	post("invocation/"+id+"/response", string(out))
	http.Get("http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/next") //nolint:errcheck // it never returns
}

// world is a host with one function.
type world struct {
	host *lambdahost.Host
	f    *lambdahost.Function
	log  *printed.Text
}

func newWorld(t *testing.T, kind string, change func(*lambdahost.Spec)) *world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{log: &printed.Text{}}
	w.host = lambdahost.New(lambdahost.Options{
		Region: "eu-west-1", Credentials: lambdahost.Credentials{AccessKeyID: "an-id", SecretAccessKey: "a-secret"},
		IDs: ids.NewSource(rand.Reader, time.Now), Random: rand.Reader, Now: time.Now,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	t.Cleanup(w.host.Close)
	spec := lambdahost.Spec{
		Name: "told", Bootstrap: self, Env: map[string]string{"TEST_FUNCTION": kind}, Timeout: 20 * time.Second, MemoryMB: 128,
	}
	if change != nil {
		change(&spec)
	}
	if w.f, err = w.host.Add(spec); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) call(t *testing.T, event string) (told, error) {
	t.Helper()
	payload, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := w.f.Invoke(t.Context(), payload)
	var out told
	if err == nil {
		if err := json.Unmarshal(answer, &out); err != nil {
			t.Fatalf("%v in %s", err, answer)
		}
	}
	return out, err
}

// fails calls and wants a FunctionError of a type whose message holds a text.
func (w *world) fails(t *testing.T, event, kind, text string) {
	t.Helper()
	_, err := w.call(t, event)
	e, ok := errors.AsType[*lambdahost.FunctionError](err)
	if !ok || e.Type != kind || !strings.Contains(e.Message, text) {
		t.Errorf("%s: %v, want %s with %q", event, err, kind, text)
	}
}

func TestFunctionIsToldWhatLambdaTells(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "plain", nil)
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "the-request"})
	answer, err := w.f.Invoke(ctx, []byte(`"hello"`))
	if err != nil {
		t.Fatal(err)
	}
	var got told
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	if got.Event != "hello" || got.RequestID != "the-request" || got.ARN != "arn:aws:lambda:eu-west-1:000000000000:function:told" {
		t.Errorf("told %+v", got)
	}
	if got.Left <= 0 || got.Left > 20*time.Second {
		t.Errorf("%s are left of 20 s", got.Left)
	}
	if !strings.HasPrefix(got.Trace, "Root=1-") || strings.Count(got.Trace, ";") != 2 {
		t.Errorf("trace %q", got.Trace)
	}
	for name, want := range map[string]string{
		"AWS_LAMBDA_FUNCTION_NAME": "told", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "128", "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "an-id", "AWS_SECRET_ACCESS_KEY": "a-secret",
		"TEST_FUNCTION": "plain", "TZ": ":UTC", "_HANDLER": "bootstrap", "HOME": "",
	} {
		if got.Env[name] != want {
			t.Errorf("%s=%q, want %q", name, got.Env[name], want)
		}
	}
}

func TestWarmProcessIsUsedAgainAndFrozenInBetween(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ticks", nil)
	first, err := w.call(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	for { // the signal takes its time
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", first.PID))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stat), ") T ") {
			break
		}
	}
	second, err := w.call(t, "b")
	if err != nil {
		t.Fatal(err)
	}
	if second.PID != first.PID || second.Calls != 2 || w.f.Starts() != 1 {
		t.Errorf("the second call is number %d of process %d, after one of %d; %d starts", second.Calls, second.PID, first.PID, w.f.Starts())
	}
}

func TestCallsAtOnceHaveAProcessEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "plain", func(s *lambdahost.Spec) { s.Processes = 3 })
	var group sync.WaitGroup
	var mu sync.Mutex
	seen := map[int]int{}
	for range 9 {
		group.Go(func() {
			got, err := w.call(t, "slow")
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			seen[got.PID]++
		})
	}
	group.Wait()
	if len(seen) != 3 || w.f.Starts() != 3 {
		t.Errorf("9 calls by %d processes, %d starts, want 3: %v", len(seen), w.f.Starts(), seen)
	}
}

func TestFailuresAreToldAsLambdaTellsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "plain", nil)
	w.fails(t, "error", "errorString", "the function says no")
	before, err := w.call(t, "a")
	if err != nil || before.Calls != 2 {
		t.Errorf("after an error the process goes on: call %d, %v", before.Calls, err)
	}
	w.fails(t, "panic", "string", "the function breaks")
	w.fails(t, "die", "Runtime.ExitError", "exit status 3")
	after, err := w.call(t, "a")
	if err != nil || after.PID == before.PID || after.Calls != 1 {
		t.Errorf("after its end there is a new process: call %d of %d, %v", after.Calls, after.PID, err)
	}
	w.fails(t, "large", "Function.ResponseSizeTooLarge", "6 MB")
	if _, err := w.f.Invoke(t.Context(), make([]byte, lambdahost.MaxEventBytes+1)); !errors.Is(err, lambdahost.ErrEventTooLarge) {
		t.Errorf("a large event: %v", err)
	}
}

// gone waits until a process is no more.
func gone(t *testing.T, pid int) {
	t.Helper()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestTimeoutKillsTheProcessAndWhatItStarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "plain", func(s *lambdahost.Spec) { s.Timeout = 500 * time.Millisecond })
	first, err := w.call(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	w.fails(t, "hang", "Sandbox.Timedout", "Task timed out after 0.50 seconds")
	gone(t, first.PID)
	_, rest, ok := strings.Cut(w.log.String(), `line="started `)
	var child int
	if _, err := fmt.Sscanf(rest, "%d", &child); !ok || err != nil {
		t.Fatalf("no child in the log: %s", w.log)
	}
	gone(t, child)
	if second, err := w.call(t, "a"); err != nil || second.PID == first.PID {
		t.Errorf("process %d after %d, %v", second.PID, first.PID, err)
	}
}

func TestProcessBeyondItsMemoryIsKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "plain", func(s *lambdahost.Spec) { s.MemoryMB = 64 })
	w.fails(t, "grow", "Runtime.OutOfMemory", "may hold 64 MB")
	if _, err := w.call(t, "a"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestFunctionsThatCannotStartSayWhy(t *testing.T) {
	t.Parallel()
	newWorld(t, "exit", nil).fails(t, "a", "Runtime.ExitError", "exit status 7")
	newWorld(t, "init-error", nil).fails(t, "a", "Our.Kind", "not today")
	w := newWorld(t, "plain", func(s *lambdahost.Spec) { s.Bootstrap = "/no/such/bootstrap" })
	if _, err := w.call(t, "a"); err == nil || !strings.Contains(err.Error(), "start told") {
		t.Errorf("no bootstrap: %v", err)
	}
}

func TestRuntimeAPIRefusesAnswersToOtherCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "raw", nil)
	answer, err := w.f.Invoke(t.Context(), []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Header  http.Header
		Unknown int
		Text    string
	}
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	if got.Unknown != http.StatusBadRequest || !strings.Contains(got.Text, "InvalidRequestID") {
		t.Errorf("an unknown id is answered with %d %s", got.Unknown, got.Text)
	}
	for _, name := range []string{"Lambda-Runtime-Aws-Request-Id", "Lambda-Runtime-Deadline-Ms", "Lambda-Runtime-Invoked-Function-Arn", "Lambda-Runtime-Trace-Id"} {
		if got.Header.Get(name) == "" {
			t.Errorf("no %s", name)
		}
	}
}

func TestOutputIsLogged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "plain", nil)
	if _, err := w.call(t, "log"); err != nil {
		t.Fatal(err)
	}
	w.host.Close()
	for _, want := range []string{
		"level=WARN msg=told function=told count=2 duration=1s", `line="plain text"`, "msg=call function=told", "initDuration=", "memoryLimitMb=128",
	} {
		if !strings.Contains(w.log.String(), want) {
			t.Errorf("no %q in the log:\n%s", want, w.log)
		}
	}
	if strings.Contains(w.log.String(), "a-secret") {
		t.Error("the log holds a secret")
	}
}

func TestCloseEndsAllProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "plain", nil)
	idle, err := w.call(t, "a")
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() {
		_, err := w.call(t, "hang")
		failed <- err
	}()
	for !strings.Contains(w.log.String(), "started ") {
		time.Sleep(5 * time.Millisecond)
	}
	w.host.Close()
	if err := <-failed; err == nil {
		t.Error("the call under way succeeds")
	}
	if err := syscall.Kill(idle.PID, 0); err == nil {
		t.Error("a process is left")
	}
	if _, err := w.call(t, "a"); !errors.Is(err, lambdahost.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
	if _, err := w.host.Add(lambdahost.Spec{Name: "x", Timeout: 1, MemoryMB: 1}); !errors.Is(err, lambdahost.ErrClosed) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestClientThatGoesAwayDoesNotStopTheFunction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "plain", func(s *lambdahost.Spec) { s.Processes = 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := w.f.Invoke(ctx, []byte(`"slow"`)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the client that leaves gets %v", err)
	}
	if got, err := w.call(t, "a"); err != nil || got.Calls != 2 {
		t.Errorf("the next call is number %d, %v", got.Calls, err)
	}
}

// TestProcessWithAnExtensionHearsOfItsEnd, frozen as it is by then, as in Lambda; and without one none does.
func TestProcessWithAnExtensionHearsOfItsEnd(t *testing.T) {
	t.Parallel()
	said := filepath.Join(t.TempDir(), "said")
	for kind, want := range map[string]string{"ends": "counted", "plain": ""} {
		w := newWorld(t, kind, func(s *lambdahost.Spec) { s.Env["TEST_END"] = said })
		if _, err := w.call(t, "a"); err != nil {
			t.Fatal(err)
		}
		w.host.Close()
		if text, _ := os.ReadFile(said); string(text) != want {
			t.Errorf("%s: it has said %q, want %q", kind, text, want)
		}
		_ = os.Remove(said)
	}
}
