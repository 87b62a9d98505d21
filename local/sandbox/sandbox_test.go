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

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/local/processes"
	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/project"
)

// Roles of this binary beside the test's: the real child, and children that
// do what a project might make it do.
const (
	roleMany  = "build-many"
	roleVar   = "GATEWRIGHT_TEST_SANDBOX_ROLE"
	roleGreed = "greed"
	roleSloth = "sloth"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == Command {
		os.Exit(exitOf(child()))
	}
	if len(os.Args) == 2 && os.Args[1] == roleMany {
		os.Exit(exitOf(buildMany()))
	}
	os.Exit(m.Run())
}

func exitOf(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is what main does, unless the order asks for another role.
func child() error {
	in := bufio.NewReader(os.Stdin)
	role, _ := in.Peek(len(roleGreed))
	alive := Alive(os.Args[2])
	switch string(role) {
	case roleGreed:
		debugged := make(chan error)
		go func() { debugged <- Child(context.Background(), blocked{}, io.Discard, alive) }()
		time.Sleep(50 * time.Millisecond) // its bounds are there
		var held [][]byte
		for {
			block := make([]byte, 64<<20)
			for i := 0; i < len(block); i += 4096 {
				block[i] = 1
			}
			held = append(held, block)
			if len(held) > 64 {
				return errors.New("four gibibytes are held")
			}
		}
	case roleSloth:
		return Child(context.Background(), blocked{}, io.Discard, alive)
	}
	return Child(context.Background(), in, os.Stdout, alive)
}

// blocked is a source that never ends.
type blocked struct{}

func (blocked) Read([]byte) (int, error) { select {} }

// orderLine is an order with variables of the largest size.
func orderLine() string {
	variables := map[string]string{}
	for i := range 5 {
		variables[fmt.Sprintf("V%d", i)] = strings.Repeat(string(rune('a'+i)), 5<<10)
	}
	text, _ := json.Marshal(map[string]any{"identity": project.Identity{Deployment: "d"}, "variables": variables})
	return string(text) + "\n"
}

// buildMany builds one archive after the other under a child's bounds, and writes
// how each ended.
func buildMany() error {
	in := bufio.NewReader(os.Stdin)
	if err := bound(context.Background()); err != nil {
		return err
	}
	for {
		var size uint64
		if err := binary.Read(in, binary.LittleEndian, &size); err != nil {
			return nil //nolint:nilerr // there are no more
		}
		archive := io.LimitReader(in, int64(size))
		var out bytes.Buffer
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // a busy machine's
		started := cpuTime()
		err := builds.Work(ctx, io.MultiReader(strings.NewReader(orderLine()), archive), &out)
		cancel()
		if _, drained := io.Copy(io.Discard, archive); drained != nil {
			return drained
		}
		end := ending{Took: cpuTime() - started}
		if err != nil {
			end.Failure = err.Error()
		} else if err := json.Unmarshal(out.Bytes(), &end); err != nil {
			return err
		}
		end.Served, end.Artifact = len(end.Artifact) > 0, nil
		if err := json.NewEncoder(os.Stdout).Encode(end); err != nil {
			return err
		}
	}
}

// ending is how an archive has ended.
type ending struct {
	Failure  string
	Took     time.Duration // of processor time
	Served   bool
	Artifact json.RawMessage `json:"artifact,omitempty"`
	Result   project.Result  `json:"result"`
}

// TestAnyArchiveEndsWithinItsBounds builds hostile archives, each within 30 s and
// all of them in processes that never hold more than 512 MiB. None is ended by
// its process's bounds: the budgets come before them.
func TestAnyArchiveEndsWithinItsBounds(t *testing.T) {
	if underRace {
		t.Skip("the race detector needs more memory than a child may have")
	}
	all := uint64(simulations.Runs(len(families()) * 12))
	var peak int64
	var slowest time.Duration
	told := map[string]int{}
	const batch = 39
	for from := uint64(0); from < all; from += batch {
		to := min(from+batch, all)
		cmd := exec.CommandContext(t.Context(), os.Args[0], roleMany)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var said tail
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		endings := json.NewDecoder(out)
		for seed := from; seed < to; seed++ {
			family, archive := forge(seed)
			if len(archive) > 100<<20 {
				t.Fatalf("the archive %d, %s, has %d bytes", seed, family, len(archive))
			}
			go func() {
				_ = binary.Write(in, binary.LittleEndian, uint64(len(archive)))
				_, _ = in.Write(archive)
			}()
			var end ending
			if err := endings.Decode(&end); err != nil {
				_ = cmd.Wait()
				t.Fatalf("the archive %d, %s, has ended its process: %v, %s", seed, family, cmd.ProcessState, said.text)
			}
			if end.Failure != "" {
				t.Errorf("the archive %d, %s, of %d bytes: %s after %v", seed, family, len(archive), end.Failure, end.Took)
			}
			if end.Served == (len(end.Result.Errors) > 0) {
				t.Errorf("the archive %d, %s: served %v with errors %v", seed, family, end.Served, end.Result.Errors)
			}
			for _, p := range end.Result.Errors {
				if _, rest, ok := strings.Cut(p.Message, "budget \""); ok {
					name, _, _ := strings.Cut(rest, `"`)
					told[name]++
				}
			}
			if testing.Verbose() {
				t.Logf("%3d %-36s %9d B %8v, %d errors", seed, family, len(archive), end.Took.Round(time.Millisecond), len(end.Result.Errors))
			}
			if slowest = max(slowest, end.Took); end.Took > 30*time.Second {
				t.Errorf("the archive %d, %s, took %v", seed, family, end.Took)
			}
		}
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			t.Fatalf("%v: %s", err, said.text)
		}
		peak = max(peak, peakBytes(cmd.ProcessState))
	}
	t.Logf("%d archives: at most %d MiB, %v; budgets %v", all, peak>>20, slowest.Round(time.Millisecond), told)
	if peak > project.BuildMemory {
		t.Errorf("a process held %d MiB", peak>>20)
	}
	// The families would be no attack if the budgets did not meet them.
	for _, name := range []string{"name", "members", "values", "nesting", "number", "options", "address", "pattern steps"} {
		if told[name] == 0 && name != "number" {
			t.Errorf("no archive has met the budget %q: %v", name, told)
		}
	}
}

func sandboxed() *Sandbox { return New(os.Args[0], slog.New(slog.DiscardHandler)) }

func TestGoodProjectIsCompiled(t *testing.T) {
	var out bytes.Buffer
	archive := packed("config/routes.oas.json", `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/": `+route(plainOptions, "")+`}}`)
	if err := sandboxed().Run(t.Context(), io.MultiReader(strings.NewReader(orderLine()), bytes.NewReader(archive)), &out); err != nil {
		t.Fatal(err)
	}
	var end ending
	if err := json.Unmarshal(out.Bytes(), &end); err != nil || len(end.Artifact) == 0 {
		t.Errorf("the outcome is %s, %v", &out, err)
	}
}

// TestGreedyProjectEndsAlone has the child hold more than it may.
func TestGreedyProjectEndsAlone(t *testing.T) {
	if underRace {
		t.Skip("the race detector needs more memory than a child may have")
	}
	err := sandboxed().Run(t.Context(), strings.NewReader(roleGreed), io.Discard)
	over, ok := errors.AsType[*installation.ExhaustedError](err)
	if !ok || over.Slow || !strings.Contains(over.Public, `"memory"`) {
		t.Errorf("error %v", err)
	}
}

// TestSlowProjectEndsAlone has the child never end.
func TestSlowProjectEndsAlone(t *testing.T) {
	s := sandboxed()
	s.time = 200 * time.Millisecond
	err := s.Run(t.Context(), strings.NewReader(roleSloth), io.Discard)
	over, ok := errors.AsType[*installation.ExhaustedError](err)
	if !ok || !over.Slow || !strings.Contains(over.Public, `"time"`) {
		t.Errorf("error %v", err)
	}
}

// TestEndOfTheRunIsNoFault: a build whose process is stopped with the product
// goes on after the next start.
func TestEndOfTheRunIsNoFault(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(errStopped) })
	err := sandboxed().Run(ctx, strings.NewReader(roleSloth), io.Discard)
	if _, over := errors.AsType[*installation.ExhaustedError](err); over || !errors.Is(err, errStopped) {
		t.Errorf("error %v", err)
	}
}

var errStopped = errors.New("the product stops")

func TestUnreadableSourceIsItsOwnError(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(orderLine()), broken{})
	if err := sandboxed().Run(t.Context(), broken, io.Discard); !errors.Is(err, errStopped) {
		t.Errorf("error %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errStopped }

// TestChildEndsWithItsParent closes what the kernel closes when a parent dies.
func TestChildEndsWithItsParent(t *testing.T) {
	alive, life, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline.Long())
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], Command)
	cmd.SysProcAttr = processes.Group()
	cmd.Args = append(cmd.Args, inherit(cmd, alive))
	cmd.Stdin = strings.NewReader(roleSloth)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = life.Close()
	_ = alive.Close()
	exit, ok := errors.AsType[*exec.ExitError](cmd.Wait())
	if !ok || exit.ExitCode() != exitOrphan {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}
