package product

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/local/dev/emulator/process"
	"github.com/gatewright/gatewright/local/sandbox"
	"github.com/gatewright/gatewright/shared/core/config"
)

func TestMain(m *testing.M) {
	if len(os.Args) >= 2 && os.Args[1] == sandbox.Command {
		os.Exit(Laptop.Main(context.Background(), os.Args[1:]))
	}
	testscript.Main(m, map[string]func(){
		"local":              func() { os.Exit(Laptop.Main(context.Background(), os.Args[1:])) },
		"make":               runLauncher,
		emulator.ProgramName: func() { os.Exit(process.Main(context.Background(), os.Args[1:])) },
	})
}

// runLauncher is the main of a launcher like `make` and `go run`, which the product recognizes by
// their names. It runs its arguments as a command. If the launcher is killed, the command continues.
func runLauncher() {
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		os.Exit(1)
	}
}

// TestScenarios runs the scenarios in testdata/stories: typical uses and failures of the local run.
func TestScenarios(t *testing.T) {
	t.Parallel()
	binary := dynoxide(t)
	emulators, err := exec.LookPath(emulator.ProgramName) // testscript.Main has created it
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/stories",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("GATEWRIGHT_DYNOXIDE", binary)
			e.Setenv("EMULATORS", emulators)
			e.Setenv(config.VarAPIAddr, "127.0.0.1:0")
			e.Setenv(config.VarGatewayAddr, "127.0.0.1:0")
			e.Setenv(config.VarTLSAddr, "127.0.0.1:0")
			e.Setenv(config.VarRelayAddr, "127.0.0.1:0")
			e.Setenv(config.VarReadyFile, filepath.Join(e.WorkDir, "ready"))
			hello, err := examplePath("hello")
			e.Setenv("HELLO", hello)
			return err
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"wait-built":                 waitBuilt,
			"deploy":                     deployFolder,
			"start-emulators":            startEmulators,
			"wait-chained":               waitChained,
			"consumer":                   createConsumer,
			"write-self-calling-project": writeSelfCallingProject,
			"verify-noted":               verifyNoted,
			"wait-ready":                 waitReady,
			"wait-ended":                 waitEnded,
			"get":                        getURL,
			"write-hostile-project":      writeHostileProject,
			"killrun":                    killRun,
			"listen":                     occupy,
			"mode":                       checkMode,
			"wait-refused":               waitRefused,
		},
	})
}

// dynoxide returns the path of the DynamoDB emulator. If it is missing, the test fails in CI and is skipped otherwise.
func dynoxide(t *testing.T) string {
	t.Helper()
	path, err := emulator.FindDynoxide(os.Getenv)
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return path
}

// waitTimeout is the maximum time of a wait. It is long enough for a build whose worker was killed:
// the worker's lease ends after 40 s, and the sweep that then resumes the build runs every minute.
const waitTimeout = 2 * time.Minute

// waitUntil waits until cond returns true. The test fails after waitTimeout.
func waitUntil(ts *testscript.TestScript, description string, cond func() bool) {
	deadline := time.Now().Add(waitTimeout)
	for !cond() {
		if time.Now().After(deadline) {
			ts.Fatalf("waited %s for %s, want it earlier", waitTimeout, description)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// waitChained waits until all audit records of an account are chained: `wait-chained demo`.
func waitChained(ts *testscript.TestScript, _ bool, args []string) {
	waitUntil(ts, "a whole chain", func() bool {
		return ts.Exec("local", "audit", "verify", args[0]) == nil && strings.Contains(ts.ReadFile("stderr"),
			" 0 wait to be chained")
	})
}

// waitReady waits for the ready file, sets $API, $GATEWAY and $TLS to its
// first lines, and removes the file: `wait-ready`.
func waitReady(ts *testscript.TestScript, _ bool, _ []string) {
	path := ts.MkAbs("ready")
	var content []byte
	waitUntil(ts, "the ready file", func() bool {
		var err error
		content, err = os.ReadFile(path)
		return err == nil
	})
	addresses := strings.Fields(string(content))
	if len(addresses) != 4 {
		ts.Fatalf("ready file = %q, want 4 addresses", content)
	}
	ts.Setenv("API", addresses[0])
	ts.Setenv("GATEWAY", addresses[1])
	ts.Setenv("TLS", addresses[2])
	ts.Check(os.Remove(path))
}

// waitEnded waits until a run has ended, so that neither a lock nor a process uses its directory: `wait-ended DIR`.
func waitEnded(ts *testscript.TestScript, _ bool, args []string) {
	path := ts.MkAbs(args[0])
	waitUntil(ts, "the end of everything in "+path, func() bool {
		dir, err := datadir.Open(path)
		ts.Check(err)
		l, err := dir.Lock()
		if err != nil {
			return false
		}
		l.Release()
		return len(processesOf(path)) == 0
	})
}

// processesOf returns the processes that have dir in their arguments or as their working directory. It returns none on
// systems without /proc.
func processesOf(dir string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		arguments, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		workDir, _ := os.Readlink(filepath.Join("/proc", e.Name(), "cwd"))
		if bytes.Contains(arguments, []byte(dir)) || strings.HasPrefix(workDir, dir) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killRun kills the process that has locked a data directory: `killrun DIR`.
func killRun(ts *testscript.TestScript, _ bool, args []string) {
	dir, err := datadir.Open(ts.MkAbs(args[0]))
	ts.Check(err)
	state, err := dir.LoadState()
	ts.Check(err)
	ts.Check(kill(state.PID))
}

// kill kills one process.
func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// getURL sends a request, with the key in KEYFILE if it is given, and fails if the response has
// another status: `get STATUS URL [KEYFILE]`. It writes the body of the response to the file "body".
func getURL(ts *testscript.TestScript, _ bool, args []string) {
	request, err := http.NewRequest(http.MethodGet, args[1], nil)
	ts.Check(err)
	if len(args) > 2 {
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[2])))
	}
	response, err := localhostClient().Do(request)
	ts.Check(err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("body"), body, 0o600))
	if want := args[0]; strconv.Itoa(response.StatusCode) != want {
		ts.Fatalf("status of %s = %s, want %s: %s", args[1], response.Status, want, body)
	}
}

// occupy listens on a port and sets a variable to its address: `listen VAR`.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// checkMode fails unless a file has the permissions: `mode 0600 FILE`.
func checkMode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}
