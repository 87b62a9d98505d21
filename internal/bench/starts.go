package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/releasecheck"
	"github.com/gatewright/gatewright/functions/syntheticcheck"
	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/core/config"
)

// The limits of a start, on a machine with two cores.
const (
	maxPoll = 15 * time.Millisecond // for the median time from the start of a function to its first poll
	// maxPollLarge is the limit for MCP servers, which prepare JSON Schemas when they start, and for functions that
	// contain all groups, such as functions/mcp and functions/releasecheck.
	maxPollLarge   = 25 * time.Millisecond
	maxFunction    = 40 << 20   // the peak memory of a function in bytes
	maxClient      = 25_000_000 // size of the client's file in bytes
	maxClientTimes = 4          // the time of the client's --help, divided by the time of a bare program
)

func starts() []scenario {
	return []scenario{
		{
			title: "The start of a function",
			text: "The binary of each function with a simulated Lambda Runtime API: its size, the time from its start to its " +
				"first poll, and its memory. The limits\n" +
				"are 15 ms at the median, 25 ms for functions that speak MCP or contain all groups, and 40 MB. The time is only " +
				"the function's share of a cold start, because no sandbox is created here.",
			options: "starts=21 requests=500 dist=dist/" + runtime.GOARCH + " under=",
			run:     functionStarts,
		},
		{
			title: "The start of the client",
			text: "The client `gatewright`: its size, and the time of `gatewright --help` compared with a cobra program that " +
				"does nothing, in turns. The limits are\n" +
				"25 MB and 4 times. The server is shown for comparison: the client would be like it if it linked everything " +
				"([0068](decisions/0068-the-server-is-a-binary-of-its-own.md)).",
			options: "starts=21",
			run:     clientStart,
		},
	}
}

// functionStarts starts the binaries of all functions as Lambda does. The kernel has the files in its cache, and no
// request reaches a table. The option "under" is a processor emulator that runs the binaries, such as
// qemu-aarch64-static. With an emulator, no limit applies.
func functionStarts(ctx context.Context, m *measurement) error {
	binaries, err := filepath.Glob(filepath.Join(m.Text("dist"), "*", "bootstrap"))
	if err != nil || len(binaries) == 0 {
		return fmt.Errorf("no */bootstrap in %[1]s: run make build GOARCH=%[2]s first", m.Text("dist"),
			filepath.Base(m.Text("dist")))
	}
	groups := map[string]bool{} // the functions that serve operations
	for _, g := range functions.Groups() {
		groups[g.Name] = true
	}
	m.Printf("| function | size, MB | start to first poll, ms: p50 | p99 | memory at the first poll, MB | after " +
		"requests without a key, MB |\n|---|---|---|---|---|---|\n")
	mb := func(bytes int64) string { return fmt.Sprintf("%.1f", float64(bytes)/1e6) }
	for _, binary := range binaries {
		name := filepath.Base(filepath.Dir(binary))
		info, err := os.Stat(binary)
		if err != nil {
			return fmt.Errorf("find a function: %w", err)
		}
		var durations []time.Duration
		var idle, busy int64
		for range m.Number("starts") {
			elapsed, memory, err := startFunction(ctx, binary, m.Text("under"), 0)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			durations, idle = append(durations, elapsed), max(idle, memory)
		}
		after := "–"
		if groups[name] && m.Number("requests") > 0 {
			if _, busy, err = startFunction(ctx, binary, m.Text("under"), m.Number("requests")); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			after = mb(busy)
		}
		median, _ := medianAndLongest(durations)
		m.Printf("| %s | %s | %.1f | %.1f | %s | %s |\n", name, mb(info.Size()), median.Seconds()*1e3,
			load.Percentile(durations, 99).Seconds()*1e3, mb(idle), after)
		if m.Text("under") != "" {
			continue
		}
		limit := maxPoll
		if strings.HasPrefix(name, "mcp") || name == releasecheck.Function.Name {
			limit = maxPollLarge
		}
		if median > limit {
			m.Exceeds("%s: starts in %v, the limit is %v", name, median, limit)
		}
		if memory := max(idle, busy); memory > maxFunction {
			m.Exceeds("%s: uses %s, the limit is %s", name, megabytes(memory), megabytes(maxFunction))
		}
	}
	return nil
}

// functionTimeout is the maximum duration of one start with all its requests.
const functionTimeout = 30 * time.Second

// startFunction runs a function until it has responded to the requests and polls again. wrapper is the program that
// runs the binary, or "". It returns the time to the first poll and the peak memory.
func startFunction(
	ctx context.Context, binary, wrapper string, requests int,
) (elapsed time.Duration, maxMemory int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, functionTimeout)
	defer cancel()
	event, err := json.Marshal(eventWithoutKey())
	if err != nil {
		return 0, 0, fmt.Errorf("encode an event: %w", err)
	}
	api := &runtimeAPI{polled: make(chan time.Time, 1), done: make(chan error, 1), remaining: requests, event: event}
	server := httptest.NewServer(api)
	defer server.Close()
	command := []string{binary}
	if wrapper != "" {
		command = []string{wrapper, binary}
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // G204: a binary that was built here
	// Set the variables that Lambda and the infrastructure set. The table and the other resources do not exist, because
	// no request here reaches them.
	const unusedAddress = "http://127.0.0.1:9"
	cmd.Env = []string{
		"AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(server.URL, "http://"), "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128",
		"AWS_REGION=eu-west-1", "AWS_ACCESS_KEY_ID=none", "AWS_SECRET_ACCESS_KEY=none",
		config.VarTable + "=none", config.VarBucket + "=none", config.VarKMSKey + "=none",
		config.VarDeploymentURL + "=https://{deployment}.apis.example.com", config.VarDynamoDBEndpoint + "=" + unusedAddress,
		config.VarS3Endpoint + "=" + unusedAddress,
		syntheticcheck.VarStage + "=none", syntheticcheck.VarAPI + "=https://api.example.com",
		syntheticcheck.VarGateway + "=https://apis.example.com", syntheticcheck.VarParameter + "=none",
	}
	startedAt := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, fmt.Errorf("start: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case polled := <-api.polled:
		elapsed = polled.Sub(startedAt)
	case err := <-exited:
		return 0, 0, fmt.Errorf("the function ended before its first poll: %w", err)
	}
	select {
	case err = <-api.done:
	case err := <-exited:
		return 0, 0, fmt.Errorf("the function ended before it had responded to all requests: %w", err)
	}
	// Read the memory before the process ends: the usage of an ended process includes the peak of the larger process
	// that it was forked from.
	memory, memoryErr := instance.MemoryOf(cmd.Process.Pid)
	_ = cmd.Process.Kill()
	<-exited
	server.CloseClientConnections()
	return elapsed, memory.Max, errors.Join(err, memoryErr)
}

// eventWithoutKey returns the event of a request to who-am-i without a key.
func eventWithoutKey() events.APIGatewayProxyRequest {
	return events.APIGatewayProxyRequest{
		Resource: "/v1/who-am-i", Path: "/v1/who-am-i", HTTPMethod: http.MethodGet,
		Headers:           map[string]string{"Accept": "application/json", "Host": "api.example.com"},
		MultiValueHeaders: map[string][]string{"Accept": {"application/json"}, "Host": {"api.example.com"}},
		RequestContext: events.APIGatewayProxyRequestContext{
			RequestID: "9f3c1c2e-0000-4000-8000-000000000000", HTTPMethod: http.MethodGet, Path: "/v1/who-am-i", Stage: "v1",
		},
	}
}

// runtimeAPI is a Lambda Runtime API that delivers a fixed number of requests. Later polls block.
type runtimeAPI struct {
	polled chan time.Time // receives the time of the first poll
	// receives nil when the function polls after its last response, or an error if a response is wrong
	done  chan error
	event []byte

	mu               sync.Mutex
	polls, remaining int
}

// ServeHTTP implements http.Handler.
func (r *runtimeAPI) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	switch {
	case strings.HasSuffix(request.URL.Path, "/invocation/next"):
		r.next(w, request)
		return
	case strings.HasSuffix(request.URL.Path, "/response"):
		// Most groups do not know the path, and none knows the caller, so each response is a problem document.
		var response events.APIGatewayProxyResponse
		err := json.NewDecoder(request.Body).Decode(&response)
		if err == nil && (response.StatusCode < 400 || response.StatusCode >= 500 ||
			!strings.Contains(response.Body, `"title"`)) {
			err = fmt.Errorf("status %d, want a problem document with a status from 400 to 499", response.StatusCode)
		}
		if err != nil {
			r.end(fmt.Errorf("read a response of the function: %w", err))
		}
	default:
		text, _ := io.ReadAll(io.LimitReader(request.Body, 1<<10))
		r.end(fmt.Errorf("the function reports an error: %s", text))
	}
	w.WriteHeader(http.StatusAccepted)
}

// next responds to a poll of the function with an event. After the last event, it ends the run and blocks.
func (r *runtimeAPI) next(w http.ResponseWriter, request *http.Request) {
	at := time.Now()
	r.mu.Lock()
	r.polls++
	poll, remaining := r.polls, r.remaining
	r.remaining--
	r.mu.Unlock()
	if poll == 1 {
		r.polled <- at
	}
	if remaining <= 0 {
		r.end(nil)
		<-request.Context().Done() // block, as Lambda does while there are no requests
		return
	}
	w.Header().Set("Lambda-Runtime-Aws-Request-Id", strconv.Itoa(poll))
	w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(at.Add(functionTimeout).UnixMilli(), 10))
	w.Header().Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-west-1:000000000000:function:none")
	_, _ = w.Write(r.event)
}

// end reports the first outcome. It ignores later outcomes.
func (r *runtimeAPI) end(err error) {
	select {
	case r.done <- err:
	default:
	}
}

// clientStart compares the size and the start of the client with those of a bare program and of the server.
func clientStart(ctx context.Context, m *measurement) error {
	packages := []string{"./internal/bench/bare", fixture.Client, fixture.Server}
	var paths []string
	var sizes []int64
	for _, pkg := range packages {
		path, err := m.Build(ctx, pkg)
		if err != nil {
			return err
		}
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("read the size of %s: %w", pkg, err)
		}
		paths, sizes = append(paths, path), append(sizes, info.Size())
	}
	// Each start is a round, as in load.Compare.
	rounds := make([]load.Rounds, len(paths))
	for n := range max(m.Number("starts"), 1) + 1 {
		for i, path := range paths {
			startedAt := time.Now()
			if err := exec.CommandContext(ctx, path, "--help").Run(); err != nil { //nolint:gosec // G204: built here
				return fmt.Errorf("%s --help: %w", packages[i], err)
			}
			if n > 0 { // the first start reads the file from the disk and is not counted
				rounds[i] = append(rounds[i], load.Round{P50: time.Since(startedAt)})
			}
		}
	}
	help := func(i int) string { return fmt.Sprintf("%.1f ms", rounds[i].Median(load.P50)) }
	size := func(i int) string { return fmt.Sprintf("%.1f MB", float64(sizes[i])/1e6) }
	const bare, client, server = 0, 1, 2
	ratio := rounds[client].Ratio(rounds[bare], load.P50)
	m.Row("the client, stripped", fmt.Sprintf("%d MB", maxClient/1_000_000), size(client), sizes[client] <= maxClient)
	m.Row("its `--help`, times that of a bare cobra program", strconv.Itoa(maxClientTimes), fmt.Sprintf("%.1f", ratio),
		ratio <= maxClientTimes)
	m.Row("its `--help`, median", "", help(client), true)
	m.Row("the bare program: size, and `--help`", "", size(bare)+", "+help(bare), true)
	m.Row("the server: size, and `--help`", "", size(server)+", "+help(server), true)
	m.Row("the server's `--help`, times that of the bare program", "",
		fmt.Sprintf("%.1f", rounds[server].Ratio(rounds[bare], load.P50)), true)
	return nil
}
