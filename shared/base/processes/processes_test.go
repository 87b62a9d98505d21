package processes_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/processes"
)

// roleVar is the environment variable that makes this binary a child. The child prints its process id, and waits for
// the end of its input or for an interrupt. With roleParent, it starts a child of its own and prints that child's id.
const (
	roleVar    = "GATEWRIGHT_TEST_PROCESSES_ROLE"
	roleChild  = "child"
	roleParent = "parent"
)

const exitInterrupted = 7

func TestMain(m *testing.M) {
	switch os.Getenv(roleVar) {
	case roleParent:
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), roleVar+"="+roleChild)
		child.Stdin = os.Stdin
		if err := child.Start(); err != nil {
			panic(err)
		}
		wait(child.Process.Pid)
	case roleChild:
		wait(os.Getpid())
	default:
		os.Exit(m.Run())
	}
}

// wait prints a process id and waits for the end of the input or for an interrupt.
func wait(pid int) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		os.Exit(exitInterrupted)
	}()
	fmt.Println(pid)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// start starts a child in a role and returns the process id that it prints.
func start(t *testing.T, role string, attributes *syscall.SysProcAttr) (cmd *exec.Cmd, pid int) {
	t.Helper()
	cmd = exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.SysProcAttr = attributes
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if pid, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	return cmd, pid
}

// waitExit waits until a process has ended. Processes whose parent has not waited for them count as ended.
func waitExit(t *testing.T, pid int) {
	t.Helper()
	for startedAt := time.Now(); processes.Running(pid); time.Sleep(time.Millisecond) {
		if time.Since(startedAt) > 10*time.Second {
			t.Fatalf("process %d still runs after 10s, want it exited", pid)
		}
	}
}

func TestProcessIsFoundUntilExit(t *testing.T) {
	cmd, pid := start(t, roleChild, processes.Group())
	p, ok := processes.Find(pid)
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	if !ok || p.PID != pid || p.Parent != os.Getpid() {
		t.Errorf("Find(%d) = %+v, %v, want a child of %d", pid, p, ok, os.Getpid())
	}
	// Linux and macOS truncate names.
	if p.Name == "" || !strings.HasPrefix(name, p.Name) {
		t.Errorf("Find(%d).Name = %q, want the start of %q", pid, p.Name, name)
	}
	if p.Exited() || !processes.Running(pid) {
		t.Errorf("running child: Exited() = %v, Running() = %v, want false, true", p.Exited(), processes.Running(pid))
	}
	if err := processes.Kill(pid); err != nil {
		t.Fatal(err)
	}
	waitExit(t, pid) // the parent has not waited for the process yet
	if _, ok := processes.Find(pid); ok || !p.Exited() {
		t.Errorf("exited child before Wait: Find() = %v, Exited() = %v, want false, true", ok, p.Exited())
	}
	_ = cmd.Wait()
	if processes.Running(pid) || !p.Exited() {
		t.Errorf("exited child after Wait: Running() = %v, Exited() = %v, want false, true",
			processes.Running(pid), p.Exited())
	}
}

// TestReusedPIDCountsAsExited checks a Process whose PID belongs to a process that started later.
func TestReusedPIDCountsAsExited(t *testing.T) {
	self, ok := processes.Find(os.Getpid())
	if !ok || self.Exited() {
		t.Fatalf("Find(this process) = %+v, %v, exited %v, want it running", self, ok, self.Exited())
	}
	time.Sleep(20 * time.Millisecond) // start times have a resolution of 10 ms
	_, pid := start(t, roleChild, processes.Group())
	self.PID = pid
	if !self.Exited() {
		t.Error("Exited() of a process whose PID was reused = false, want true")
	}
}

func TestImpossiblePIDsAreNotFound(t *testing.T) {
	for _, pid := range []int{0, -1, 1 << 30} {
		if _, ok := processes.Find(pid); ok || processes.Running(pid) {
			t.Errorf("Find(%d) = %v, Running() = %v, want false, false", pid, ok, processes.Running(pid))
		}
	}
}

func TestKillEndsGrandchildren(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows ends no groups")
	}
	cmd, grandchild := start(t, roleParent, processes.Group())
	if err := processes.Kill(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	waitExit(t, grandchild)
	waitExit(t, cmd.Process.Pid)
}

func TestInterruptEndsGracefully(t *testing.T) {
	cmd, pid := start(t, roleChild, processes.Group())
	if err := processes.Interrupt(pid); err != nil {
		t.Fatal(err)
	}
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || exit.ExitCode() != exitInterrupted {
		t.Errorf("process state after Interrupt = %v, want exit code %d", cmd.ProcessState, exitInterrupted)
	}
}

func TestWaitFirstExitReturnsTheExitedProcess(t *testing.T) {
	_, alive := start(t, roleChild, processes.Group())
	_, exiting := start(t, roleChild, processes.Group())
	var watched []processes.Process
	for _, pid := range []int{alive, exiting} {
		p, ok := processes.Find(pid)
		if !ok {
			t.Fatalf("Find(%d) = false, want true", pid)
		}
		watched = append(watched, p)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = processes.Kill(exiting) })
	if exited, ok := processes.WaitFirstExit(t.Context(), watched); !ok || exited != watched[1] {
		t.Errorf("WaitFirstExit() = %+v, %v, want %+v, true", exited, ok, watched[1])
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if exited, ok := processes.WaitFirstExit(canceled, watched[:1]); ok {
		t.Errorf("WaitFirstExit() with a canceled context = %+v, true, want false", exited)
	}
	if exited, ok := processes.WaitFirstExit(t.Context(), nil); ok {
		t.Errorf("WaitFirstExit() without processes = %+v, true, want false", exited)
	}
}
