package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/processes"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/deadline"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// The roles of this binary other than running the tests. roleMany is an argument.
// roleUseMemory and roleHang are inputs of children that misbehave.
const (
	roleMany      = "build-many"
	roleVar       = "GATEWRIGHT_TEST_SANDBOX_ROLE"
	roleUseMemory = "greed"
	roleHang      = "sloth"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Command {
		os.Exit(exitCode(child()))
	}
	if len(os.Args) == 2 && os.Args[1] == roleMany {
		os.Exit(exitCode(buildMany()))
	}
	os.Exit(m.Run())
}

func exitCode(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child runs a child like main, unless its input names another role.
func child() error {
	in := bufio.NewReader(os.Stdin)
	role, _ := in.Peek(len(roleUseMemory))
	parentPipe := OpenParentPipe(os.Args[2])
	switch string(role) {
	case roleUseMemory:
		childErr := make(chan error)
		go func() { childErr <- RunChild(context.Background(), blockingReader{}, io.Discard, parentPipe) }()
		time.Sleep(50 * time.Millisecond) // wait until the limits are set
		var blocks [][]byte
		for {
			block := make([]byte, 64<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			blocks = append(blocks, block)
			if len(blocks) > 64 {
				return errors.New("four gibibytes are held")
			}
		}
	case roleHang:
		return RunChild(context.Background(), blockingReader{}, io.Discard, parentPipe)
	}
	return RunChild(context.Background(), in, os.Stdout, parentPipe)
}

// blockingReader is a reader whose reads block forever.
type blockingReader struct{}

func (blockingReader) Read([]byte) (int, error) { select {} }

// requestLine returns the build request that a child reads before an archive, as a line. It has variables of the
// maximum size.
func requestLine() string {
	variables := map[string]string{}
	for i := range 5 {
		variables[fmt.Sprintf("V%d", i)] = strings.Repeat(string(rune('a'+i)), 5<<10)
	}
	text, _ := json.Marshal(map[string]any{"identity": project.Identity{Deployment: "d"}, "variables": variables})
	return string(text) + "\n"
}

// maxCPUTime is the maximum processor time of a build.
const maxCPUTime = 30 * time.Second

// buildMany builds archives one after the other in one process
// with a child's limits, and writes the result of each build.
func buildMany() error {
	in := bufio.NewReader(os.Stdin)
	if err := limitProcess(context.Background()); err != nil {
		return err
	}
	for {
		var size uint64
		if err := binary.Read(in, binary.LittleEndian, &size); err != nil {
			return nil //nolint:nilerr // there are no more archives
		}
		archive := io.LimitReader(in, int64(size))
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // for a busy machine
		cpuStart := cpuTime()
		err := builds.ServeBuild(ctx, io.MultiReader(strings.NewReader(requestLine()), archive), &out)
		cancel()
		if _, drainErr := io.Copy(io.Discard, archive); drainErr != nil {
			return drainErr
		}
		result := buildResult{CPUTime: cpuTime() - cpuStart}
		if err != nil {
			result.Failure = err.Error()
		} else if err := json.Unmarshal(out.Bytes(), &result); err != nil {
			return err
		}
		if result.Artifact != nil {
			result.Served, result.Routes, result.Artifact = true, len(result.Artifact.Routes), nil
		}
		if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
			return err
		}
	}
}

// buildResult is the result of the build of an archive.
type buildResult struct {
	Failure  string
	CPUTime  time.Duration
	Served   bool
	Routes   int            // of the artifact
	Artifact *builtArtifact `json:"artifact,omitempty"`
	Result   project.Result `json:"result"`
}

// builtArtifact is the part of an artifact that tests read.
type builtArtifact struct {
	Routes []json.RawMessage `json:"routes"`
}

// TestHostileArchivesStayWithinLimits builds hostile archives. Each build must take at most 30 s of processor time,
// and its process at most 512 MiB. The budgets have to end a build before the process exceeds its limits.
func TestHostileArchivesStayWithinLimits(t *testing.T) {
	if underRace {
		t.Skip("the race detector needs more memory than a child may have")
	}
	all := uint64(simulations.Runs(len(families()) * 12))
	var peak int64
	var slowest time.Duration
	budgetErrors := map[string]int{}
	const batch = 39
	for from := uint64(0); from < all; from += batch {
		to := min(from+batch, all)
		builder := startBuilder(t)
		for seed := from; seed < to; seed++ {
			family, archive := forgeArchive(seed)
			if len(archive) > 100<<20 {
				t.Fatalf("archive %d, %s, has %d bytes, want at most 100 MiB", seed, family, len(archive))
			}
			result := builder.build(t, fmt.Sprintf("archive %d, %s", seed, family), archive)
			if result.Served == (len(result.Result.Errors) > 0) {
				t.Errorf("archive %d, %s: served: %v, errors: %v, want either an artifact or errors", seed, family, result.Served,
					result.Result.Errors)
			}
			for _, p := range result.Result.Errors {
				if _, after, ok := strings.Cut(p.Message, "budget \""); ok {
					name, _, _ := strings.Cut(after, `"`)
					budgetErrors[name]++
				}
			}
			if testing.Verbose() {
				t.Logf("%3d %-36s %9d B %8v, %d errors", seed, family, len(archive), result.CPUTime.Round(time.Millisecond),
					len(result.Result.Errors))
			}
			slowest = max(slowest, result.CPUTime)
		}
		peak = max(peak, builder.stop(t))
	}
	t.Logf("%d archives: at most %d MiB, %v; budgets %v", all, peak>>20, slowest.Round(time.Millisecond), budgetErrors)
	if peak > project.BuildMemory {
		t.Errorf("peak memory of a process = %d MiB, want at most %d", peak>>20, project.BuildMemory>>20)
	}
	// Each of these budgets must end some builds. Otherwise the archives would not test it.
	for _, name := range []string{"name", "members", "values", "nesting", "options", "address", "pattern steps"} {
		if budgetErrors[name] == 0 {
			t.Errorf("budgets that archives exceed = %v, want %q in them", budgetErrors, name)
		}
	}
}

// builder is a process that builds archives within the limits of a child.
type builder struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	results *json.Decoder
	stderr  outputHead
}

// startBuilder starts a builder. Call stop to end it.
func startBuilder(t *testing.T) *builder {
	t.Helper()
	b := &builder{cmd: exec.CommandContext(t.Context(), os.Args[0], roleMany)}
	in, err := b.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	b.in, b.results, b.cmd.Stderr = in, json.NewDecoder(out), &b.stderr
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return b
}

// build builds an archive and returns the result. The test fails if the build fails without a result, or
// takes more than maxCPUTime.
func (b *builder) build(t *testing.T, name string, archive []byte) buildResult {
	t.Helper()
	go func() {
		_ = binary.Write(b.in, binary.LittleEndian, uint64(len(archive)))
		_, _ = b.in.Write(archive)
	}()
	var result buildResult
	if err := b.results.Decode(&result); err != nil {
		_ = b.cmd.Wait()
		t.Fatalf("%s ends its process: %v, %s, want a result", name, b.cmd.ProcessState, b.stderr.text)
	}
	if result.Failure != "" {
		t.Errorf("%s, of %d bytes: %s after %v, want no failure", name, len(archive), result.Failure, result.CPUTime)
	}
	if result.CPUTime > maxCPUTime {
		t.Errorf("%s takes %v of processor time, want at most %v", name, result.CPUTime, maxCPUTime)
	}
	return result
}

// stop ends the process and returns the most memory that it has used, in bytes.
func (b *builder) stop(t *testing.T) int64 {
	t.Helper()
	_ = b.in.Close()
	if err := b.cmd.Wait(); err != nil {
		t.Fatalf("the process ends with %v, want success: %s", err, b.stderr.text)
	}
	return peakBytes(b.cmd.ProcessState)
}

func newSandbox() *Sandbox { return New(os.Args[0], slog.New(slog.DiscardHandler)) }

func TestGoodProjectIsCompiled(t *testing.T) {
	var out bytes.Buffer
	archive := packFiles("config/routes.oas.json",
		`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/": `+route(plainOptions, "")+`}}`)
	if err := newSandbox().Run(t.Context(), io.MultiReader(strings.NewReader(requestLine()), bytes.NewReader(archive)),
		&out); err != nil {
		t.Fatal(err)
	}
	var result buildResult
	if err := json.Unmarshal(out.Bytes(), &result); err != nil || result.Artifact == nil {
		t.Errorf("result of the build = %s, %v, want an artifact and no error", &out, err)
	}
}

// TestMemoryLimitEndsOnlyTheChild runs a child that exceeds its memory limit.
func TestMemoryLimitEndsOnlyTheChild(t *testing.T) {
	if underRace {
		t.Skip("the race detector needs more memory than a child may have")
	}
	err := newSandbox().Run(t.Context(), strings.NewReader(roleUseMemory), io.Discard)
	exhausted, ok := errors.AsType[*installation.ExhaustedError](err)
	if !ok || exhausted.Timeout || !strings.Contains(exhausted.Public, `"memory"`) {
		t.Errorf("Run(memory) = %v, want an ExhaustedError of \"memory\" without a timeout", err)
	}
}

// TestTimeLimitEndsOnlyTheChild runs a child that never ends.
func TestTimeLimitEndsOnlyTheChild(t *testing.T) {
	s := newSandbox()
	s.timeout = 200 * time.Millisecond
	err := s.Run(t.Context(), strings.NewReader(roleHang), io.Discard)
	exhausted, ok := errors.AsType[*installation.ExhaustedError](err)
	if !ok || !exhausted.Timeout || !strings.Contains(exhausted.Public, `"time"`) {
		t.Errorf("Run(hang) = %v, want an ExhaustedError of \"time\" with a timeout", err)
	}
}

// TestCanceledBuildIsNoBuildFailure checks that Run does not report the build as
// failed if the product is stopped. The build is repeated after the next start.
func TestCanceledBuildIsNoBuildFailure(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(errStopped) })
	err := newSandbox().Run(ctx, strings.NewReader(roleHang), io.Discard)
	if _, exhausted := errors.AsType[*installation.ExhaustedError](err); exhausted || !errors.Is(err, errStopped) {
		t.Errorf("Run(canceled) = %v, want %v and no ExhaustedError", err, errStopped)
	}
}

var errStopped = errors.New("the product stops")

func TestReadErrorOfSourceIsReturned(t *testing.T) {
	input := io.MultiReader(strings.NewReader(requestLine()), brokenReader{})
	if err := newSandbox().Run(t.Context(), input, io.Discard); !errors.Is(err, errStopped) {
		t.Errorf("Run(unreadable source) = %v, want %v", err, errStopped)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errStopped }

// TestChildEndsWithItsParent checks that a child ends when its
// pipe is closed, as the kernel closes it when the parent ends.
func TestChildEndsWithItsParent(t *testing.T) {
	childEnd, parentEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline.Timeout())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], Command)
	cmd.SysProcAttr = processes.Group()
	cmd.Args = append(cmd.Args, inherit(cmd, childEnd))
	cmd.Stdin = strings.NewReader(roleHang)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = parentEnd.Close()
	_ = childEnd.Close()
	exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	if !ok || exit.ExitCode() != exitOrphan {
		t.Errorf("the child ends with %v, want exit status %d", cmd.ProcessState, exitOrphan)
	}
}
