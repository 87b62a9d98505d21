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

	"github.com/gatewright/gatewright/local/processes"
	"github.com/gatewright/gatewright/local/supervise"
)

// part is the variable by which this test binary learns that it is a child.
const part = "GATEWRIGHT_TEST_PART"

func TestMain(m *testing.M) {
	switch os.Getenv(part) {
	case "":
		os.Exit(m.Run())
	case "worker":
		worker()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		worker()
	case "stillborn":
		fmt.Fprintln(os.Stderr, "something to read")
		os.Exit(3)
	case "parent":
		parent()
	}
}

// worker says that it runs by its process id in a file, and repeats what it
// was told on descriptor 3 until its input ends.
func worker() {
	in := bufio.NewReader(os.Stdin)
	line, _ := in.ReadString('\n')
	notes := os.NewFile(3, "notes")
	if notes != nil {
		_, _ = fmt.Fprint(notes, "heard ", line)
	}
	if err := os.WriteFile(os.Args[1], []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		os.Exit(1)
	}
	fmt.Println("worker is ready")
	for os.Getenv(part) == "stubborn" {
		time.Sleep(time.Hour)
	}
	_, _ = io.Copy(io.Discard, in)
}

// parent supervises a worker that does not look at its input's end, and waits
// to be killed.
func parent() {
	spec := specOf("stubborn", os.Args[1])
	spec.Log = io.Discard
	if _, err := supervise.Start(context.Background(), spec, slog.New(slog.DiscardHandler)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("started")
	time.Sleep(time.Hour)
}

func specOf(name, pidFile string) supervise.Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return supervise.Spec{
		Name:  name,
		Path:  self,
		Args:  []string{pidFile},
		Env:   append(os.Environ(), part+"="+name),
		Input: []byte("hello\n"),
		Ready: func(context.Context) error {
			_, err := os.Stat(pidFile)
			return err
		},
	}
}

func start(t *testing.T, spec supervise.Spec) (*supervise.Child, error) {
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

// eventually waits for something that has to happen; the test's own deadline
// is the only limit.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-t.Context().Done():
			t.Fatalf("never: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestChildThatDiesIsStartedAgain(t *testing.T) {
	t.Parallel()
	c, err := start(t, specOf("worker", filepath.Join(t.TempDir(), "pid")))
	if err != nil {
		t.Fatal(err)
	}
	first := c.PID()
	if err := processes.Kill(first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a second life", func() bool { return c.PID() != 0 && c.PID() != first })
	if c.Restarts() != 1 {
		t.Errorf("restarts: %d, want 1", c.Restarts())
	}
}

func TestStopEndsTheChild(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"worker", "stubborn"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := specOf(name, filepath.Join(t.TempDir(), "pid"))
			spec.StopTimeout = 50 * time.Millisecond
			c, err := start(t, spec)
			if err != nil {
				t.Fatal(err)
			}
			pid := c.PID()
			c.Stop()
			if processes.Running(pid) {
				t.Error("the process is still there")
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
	cmd.Env = append(os.Environ(), part+"=parent")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Fatalf("the parent said %q", line)
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
		t.Fatal("the child is not there to begin with")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	eventually(t, "the child's end", func() bool { return !processes.Running(pid) })
}

func TestStillbornChildIsReportedWithItsLastWords(t *testing.T) {
	t.Parallel()
	_, err := start(t, specOf("stillborn", filepath.Join(t.TempDir(), "pid")))
	want := "stillborn ended at once (exit status 3): something to read"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestSilentChildIsGivenUp(t *testing.T) {
	t.Parallel()
	spec := specOf("worker", filepath.Join(t.TempDir(), "pid"))
	spec.StartTimeout = 100 * time.Millisecond
	spec.Ready = func(context.Context) error { return os.ErrNotExist }
	_, err := start(t, spec)
	if err == nil || !strings.HasPrefix(err.Error(), "worker did not answer within 100ms") {
		t.Errorf("got %v", err)
	}
}

func TestMissingExecutableIsReported(t *testing.T) {
	t.Parallel()
	spec := specOf("worker", filepath.Join(t.TempDir(), "pid"))
	spec.Path = filepath.Join(t.TempDir(), "nothing")
	_, err := start(t, spec)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v", err)
	}
}

func TestInputReachesTheChildAndNotesComeBack(t *testing.T) {
	t.Parallel()
	notes := make(chan string, 1)
	spec := specOf("worker", filepath.Join(t.TempDir(), "pid"))
	spec.Notes = func(r io.Reader) {
		text, _ := io.ReadAll(r)
		notes <- string(text)
	}
	c, err := start(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	c.Stop()
	if got := <-notes; got != "heard hello\n" {
		t.Errorf("got %q", got)
	}
}

func TestLogKeepsItsBound(t *testing.T) {
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
			t.Errorf("%s has %d bytes", filepath.Base(name), info.Size())
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", filepath.Base(name), info.Mode())
		}
	}
	if log.Last() != "after the end" {
		t.Errorf("last line is %q", log.Last())
	}
}
