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

	"github.com/gatewright/gatewright/local/processes"
)

// roleVar makes this binary a child: it says that it runs and waits for the end of
// its input, or for an interrupt. As a parent it has a child of its own, whose id
// it says.
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

func wait(say int) {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		os.Exit(exitInterrupted)
	}()
	fmt.Println(say)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

// start starts a child in a role and gives what it says.
func start(t *testing.T, role string, attributes *syscall.SysProcAttr) (cmd *exec.Cmd, said int) {
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
	if said, err = strconv.Atoi(strings.TrimSpace(line)); err != nil {
		t.Fatal(err)
	}
	return cmd, said
}

// ends waits for a process that somebody else has to wait for.
func ends(t *testing.T, pid int) {
	t.Helper()
	for begun := time.Now(); processes.Running(pid); time.Sleep(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("the process %d runs on", pid)
		}
	}
}

func TestProcessIsFoundUntilItEnds(t *testing.T) {
	cmd, pid := start(t, roleChild, processes.Group())
	p, ok := processes.Find(pid)
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	// Linux and macOS cut names.
	if !ok || p.PID != pid || p.Parent != os.Getpid() || p.Name == "" || !strings.HasPrefix(name, p.Name) {
		t.Errorf("found %+v, %v; want %s, a child of %d", p, ok, name, os.Getpid())
	}
	if p.Gone() || !processes.Running(pid) {
		t.Error("it is gone before its end")
	}
	if err := processes.Kill(pid); err != nil {
		t.Fatal(err)
	}
	ends(t, pid) // nobody has waited for it yet
	if _, ok := processes.Find(pid); ok || !p.Gone() {
		t.Error("it is there after its end")
	}
	_ = cmd.Wait()
	if processes.Running(pid) || !p.Gone() {
		t.Error("it runs after its end")
	}
}

// TestIDOfAnotherProcessIsNoSignOfLife: ids are used again.
func TestIDOfAnotherProcessIsNoSignOfLife(t *testing.T) {
	here, ok := processes.Find(os.Getpid())
	if !ok || here.Gone() {
		t.Fatalf("this process is not found: %+v", here)
	}
	time.Sleep(20 * time.Millisecond) // a start is told in ticks of 10 ms
	_, pid := start(t, roleChild, processes.Group())
	here.PID = pid
	if !here.Gone() {
		t.Error("a process is taken for one that was started before it")
	}
}

func TestNobodyHasAnImpossibleID(t *testing.T) {
	for _, pid := range []int{0, -1, 1 << 30} {
		if _, ok := processes.Find(pid); ok || processes.Running(pid) {
			t.Errorf("the process %d runs", pid)
		}
	}
}

func TestKillEndsWhatTheChildHasStarted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows ends no groups")
	}
	cmd, grandchild := start(t, roleParent, processes.Group())
	if err := processes.Kill(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	ends(t, grandchild)
	ends(t, cmd.Process.Pid)
}

func TestInterruptEndsInOrder(t *testing.T) {
	cmd, pid := start(t, roleChild, processes.Group())
	if err := processes.Interrupt(pid); err != nil {
		t.Fatal(err)
	}
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); !ok || exit.ExitCode() != exitInterrupted {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}

func TestFirstGoneNamesTheOneThatEnded(t *testing.T) {
	_, stays := start(t, roleChild, processes.Group())
	_, ends := start(t, roleChild, processes.Group())
	var watched []processes.Process
	for _, pid := range []int{stays, ends} {
		p, ok := processes.Find(pid)
		if !ok {
			t.Fatalf("the process %d is not found", pid)
		}
		watched = append(watched, p)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = processes.Kill(ends) })
	if gone, ok := processes.FirstGone(t.Context(), watched); !ok || gone != watched[1] {
		t.Errorf("%+v is gone, %v; want %+v", gone, ok, watched[1])
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if gone, ok := processes.FirstGone(ended, watched[:1]); ok {
		t.Errorf("%+v is gone", gone)
	}
	if gone, ok := processes.FirstGone(t.Context(), nil); ok {
		t.Errorf("%+v of nobody is gone", gone)
	}
}
