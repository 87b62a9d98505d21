package server_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"

	"github.com/gatewright/gatewright/shared/base/release"
)

// machine is a root folder into which an archive has installed the server, and a substitute for systemd that runs it.
type machine struct {
	t    *testing.T
	root string
	// archive is the archive of the next version, which is not unpacked yet. binary is the server in the archive.
	archive, binary string
	// stubs is the folder with the substitute for systemctl.
	stubs string
	// process is the process of the unit. The test starts it, and a restart replaces it. reloaded reports whether the
	// units were reloaded.
	process  *server
	reloaded bool
}

// install returns a machine whose server has one more byte at its end than the server in the archive, as if it were another version.
func install(t *testing.T) *machine {
	t.Helper()
	built, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	client := readFile(t, filepath.Join(filepath.Dir(built), "gatewright"))
	m := &machine{t: t, root: t.TempDir(), binary: built, stubs: t.TempDir()}
	binaries, out := t.TempDir(), t.TempDir()
	for _, architecture := range []string{"amd64", "arm64"} { // the archive for one of them is unpacked on this machine
		put(t, filepath.Join(binaries, architecture, "gatewright-server"), readFile(t, built), 0o755)
		put(t, filepath.Join(binaries, architecture, "gatewright"), client, 0o755)
	}
	put(t, filepath.Join(binaries, "man", "gatewright.1"), []byte(".TH\n"), 0o644)
	put(t, filepath.Join(binaries, "LICENSES.txt"), []byte("MIT\n"), 0o644)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./packaging/archives", "-binaries", binaries, "-out", out)
	cmd.Dir = repository
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("create the archive: %v: %s", err, text)
	}
	m.archive = filepath.Join(out, "gatewright-"+release.Version()+"-linux-"+runtime.GOARCH+".tar.gz")
	put(t, m.path(), append(readFile(t, built), 0), 0o755)
	put(t, filepath.Join(filepath.Dir(m.path()), "gatewright"), client, 0o755) // it runs gatewright-server
	systemd := httptest.NewServer(http.HandlerFunc(m.systemd))
	t.Cleanup(systemd.Close)
	put(t, filepath.Join(m.stubs, "systemctl"),
		[]byte("#!/bin/sh\nexec curl -fsS --noproxy '*' --data-raw \"$*\" "+systemd.URL+"\n"), 0o755)
	return m
}

// path returns the path where the archive installs the server.
func (m *machine) path() string {
	return filepath.Join(m.root, "usr", "local", "bin", "gatewright-server")
}

// systemd executes the arguments of systemctl: a restart sends SIGTERM, waits, and starts the unit's command with the
// settings of the test. It does not wait until the server is ready (Type=exec).
func (m *machine) systemd(w http.ResponseWriter, r *http.Request) {
	args, _ := io.ReadAll(r.Body)
	switch string(args) {
	case "daemon-reload":
		m.reloaded = true
	case "restart gatewright@apis.example.com":
		unit := string(readFile(m.t, filepath.Join(m.root, "usr", "local", "lib", "systemd", "system",
			"gatewright@.service")))
		command := regexp.MustCompile(`(?m)^ExecStart=(\S+) serve$`).FindStringSubmatch(unit)
		if command == nil {
			m.t.Errorf("the unit has no ExecStart with serve, want one:\n%s", unit)
			http.Error(w, "the unit starts nothing", http.StatusInternalServerError)
			return
		}
		before := m.process
		before.stop()
		m.process = &server{
			t: m.t, data: before.data, done: make(chan struct{}), plain: before.plain, secure: before.secure,
			path: filepath.Join(m.root, command[1]),
		}
		m.process.start(before.cmd.Env...)
	default:
		m.t.Errorf("systemctl %s, want daemon-reload or a restart of the unit", args)
		http.Error(w, "no such command", http.StatusBadRequest)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// put writes a file and creates the folders that contain it.
func put(t *testing.T, path string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
}
