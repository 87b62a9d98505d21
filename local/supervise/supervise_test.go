//go:build unix

package supervise_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/supervise"
	"github.com/gatewright/gatewright/shared/base/processes"
)

// roleVar is the environment variable with the role of this binary: "" for running the tests.
const roleVar = "GATEWRIGHT_TEST_PART"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case "":
		os.Exit(m.Run())
	case "worker":
		runWorker()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		runWorker()
	case "stillborn":
		fmt.Fprintln(os.Stderr, "something to read")
		os.Exit(3)
	case "parent":
		runParent()
	}
}

// runWorker writes the first line of its input to file descriptor 3, and its process ID to a file. It ends at the end
// of its input, unless its role is stubborn.
func runWorker() {
	in := bufio.NewReader(os.Stdin)
	line, _ := in.ReadString('\n')
	pipe := os.NewFile(3, "notes")
	if pipe != nil {
		_, _ = fmt.Fprint(pipe, "heard ", line)
	}
	if err := os.WriteFile(os.Args[1], []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		os.Exit(1)
	}
	fmt.Println("worker is ready")
	for os.Getenv(roleVar) == "stubborn" {
		time.Sleep(time.Hour)
	}
	_, _ = io.Copy(io.Discard, in)
}

// runParent supervises a worker that ignores the end of its input, and waits until it is killed.
func runParent() {
	spec := newSpec("stubborn", os.Args[1])
	spec.Log = io.Discard
	if _, err := supervise.Start(context.Background(), spec, slog.New(slog.DiscardHandler)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("started")
	time.Sleep(time.Hour)
}

func newSpec(name, pidFile string) supervise.Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return supervise.Spec{
		Name:  name,
		Path:  self,
		Args:  []string{pidFile},
		Env:   append(os.Environ(), roleVar+"="+name),
		Input: []byte("hello\n"),
		Ready: func(context.Context) error {
			_, err := os.Stat(pidFile)
			return err
		},
	}
}

func startChild(t *testing.T, spec supervise.Spec) (*supervise.Child, error) {
	t.Helper()
	log, err := supervise.OpenLog(filepath.Join(t.TempDir(), "child.log"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	spec.Log, spec.Tail = log, log.Last
	c, err := supervise.Start(t.Context(), spec, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(c.Stop)
	}
	return c, err
}

// eventually waits until cond returns true. It is limited only by the deadline of the test.
func eventually(t *testing.T, description string, cond func() bool) {
	t.Helper()
	for !cond() {
		select {
		case <-t.Context().Done():
			t.Fatalf("waited for %s until the deadline of the test, want it earlier", description)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestKilledChildIsRestarted(t *testing.T) {
	t.Parallel()
	c, err := startChild(t, newSpec("worker", filepath.Join(t.TempDir(), "pid")))
	if err != nil {
		t.Fatal(err)
	}
	first := c.PID()
	if err := processes.Kill(first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process of the child", func() bool { return c.PID() != 0 && c.PID() != first })
	if c.Restarts() != 1 {
		t.Errorf("Restarts() = %d, want 1", c.Restarts())
	}
}

func TestStopEndsTheChild(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"worker", "stubborn"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := newSpec(name, filepath.Join(t.TempDir(), "pid"))
			spec.StopTimeout = 50 * time.Millisecond
			c, err := startChild(t, spec)
			if err != nil {
				t.Fatal(err)
			}
			pid := c.PID()
			c.Stop()
			if processes.Running(pid) {
				t.Errorf("process %d runs after Stop(), want it ended", pid)
			}
		})
	}
}

func TestChildIsNotOrphanedByAKilledParent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(t.TempDir(), "pid")
	cmd := exec.CommandContext(t.Context(), self, pidFile)
	cmd.Env = append(os.Environ(), roleVar+"=parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatalf("first line of the parent = %q, want %q", line, "started\n")
	}
	var pid int
	eventually(t, "the child's id in its file", func() bool {
		text, err := os.ReadFile(pidFile)
		if err == nil {
			pid, err = strconv.Atoi(string(text))
		}
		return err == nil
	})
	if !processes.Running(pid) {
		t.Fatalf("child %d does not run before the kill, want it running", pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the child's end", func() bool { return !processes.Running(pid) })
}

func TestChildThatExitsAtStartIsReportedWithItsLastLine(t *testing.T) {
	t.Parallel()
	_, err := startChild(t, newSpec("stillborn", filepath.Join(t.TempDir(), "pid")))
	want := "stillborn ended at once (exit status 3): something to read"
	if err == nil || err.Error() != want {
		t.Errorf("Start() = %v, want %s", err, want)
	}
}

func TestUnresponsiveChildTimesOut(t *testing.T) {
	t.Parallel()
	spec := newSpec("worker", filepath.Join(t.TempDir(), "pid"))
	spec.StartTimeout = 100 * time.Millisecond
	spec.Ready = func(context.Context) error { return os.ErrNotExist }
	_, err := startChild(t, spec)
	if err == nil || !strings.HasPrefix(err.Error(), "worker did not answer within 100ms") {
		t.Errorf("Start(unresponsive child) = %v, want \"worker did not answer within 100ms\"", err)
	}
}

func TestMissingExecutableIsReported(t *testing.T) {
	t.Parallel()
	spec := newSpec("worker", filepath.Join(t.TempDir(), "pid"))
	spec.Path = filepath.Join(t.TempDir(), "nothing")
	_, err := startChild(t, spec)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("Start(missing executable) = %v, want \"no such file\"", err)
	}
}

func TestInputAndPipeConnectToTheChild(t *testing.T) {
	t.Parallel()
	messages := make(chan string, 1)
	spec := newSpec("worker", filepath.Join(t.TempDir(), "pid"))
	spec.ReadPipe = func(r io.Reader) {
		text, _ := io.ReadAll(r)
		messages <- string(text)
	}
	c, err := startChild(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	c.Stop()
	if got := <-messages; got != "heard hello\n" {
		t.Errorf("message through the pipe = %q, want %q", got, "heard hello\n")
	}
}

func TestLogSizeIsLimited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	log, err := supervise.OpenLog(path, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		_, _ = fmt.Fprintf(log, "line %d of some words\n", i)
	}
	_, _ = fmt.Fprint(log, strings.Repeat("x", 1000))
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprint(log, "after the end\n")
	for _, name := range []string{path, path + ".1"} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > 100 {
			t.Errorf("size of %s = %d bytes, want at most 100", filepath.Base(name), info.Size())
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s = %v, want 0600", filepath.Base(name), info.Mode())
		}
	}
	if log.Last() != "after the end" {
		t.Errorf("Last() = %q, want \"after the end\"", log.Last())
	}
}
