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

	"github.com/gatewright/gatewright/shared/release"
)

// machine is a root folder in which an archive has installed the server, and a stand-in for the systemd that runs it.
type machine struct {
	t    *testing.T
	root string
	// archive is the next version's, which is not unpacked yet, and binary what it has of the server.
	archive, binary string
	// stands is the folder with the stand-in's systemctl.
	stands string
	// runs is the process of the unit, which the test starts and a restart replaces; reloaded says that units were read again.
	runs     *server
	reloaded bool
}

// install makes one whose version differs from the archive's in its last byte alone.
func install(t *testing.T) *machine {
	t.Helper()
	built, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	client := content(t, filepath.Join(filepath.Dir(built), "gatewright"))
	m := &machine{t: t, root: t.TempDir(), binary: built, stands: t.TempDir()}
	binaries, out := t.TempDir(), t.TempDir()
	for _, architecture := range []string{"amd64", "arm64"} { // of which this machine's is unpacked
		put(t, filepath.Join(binaries, architecture, "gatewright-server"), content(t, built), 0o755)
		put(t, filepath.Join(binaries, architecture, "gatewright"), client, 0o755)
	}
	put(t, filepath.Join(binaries, "man", "gatewright.1"), []byte(".TH\n"), 0o644)
	put(t, filepath.Join(binaries, "LICENSES.txt"), []byte("MIT\n"), 0o644)
	cmd := exec.CommandContext(t.Context(), "go", "run", "./packaging/archives", "-binaries", binaries, "-out", out)
	cmd.Dir = repository
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make the archive: %v: %s", err, text)
	}
	m.archive = filepath.Join(out, "gatewright-"+release.Version()+"-linux-"+runtime.GOARCH+".tar.gz")
	put(t, m.path(), append(content(t, built), 0), 0o755)
	put(t, filepath.Join(filepath.Dir(m.path()), "gatewright"), client, 0o755) // which hands over what is typed
	systemd := httptest.NewServer(http.HandlerFunc(m.systemd))
	t.Cleanup(systemd.Close)
	put(t, filepath.Join(m.stands, "systemctl"), []byte("#!/bin/sh\nexec curl -fsS --noproxy '*' --data-raw \"$*\" "+systemd.URL+"\n"), 0o755)
	return m
}

// path is where the archive installs the server.
func (m *machine) path() string {
	return filepath.Join(m.root, "usr", "local", "bin", "gatewright-server")
}

// systemd does what is typed of systemctl: a restart sends SIGTERM, waits, and starts what the unit says, with no word about
// when that serves (Type=exec). The settings are the test's.
func (m *machine) systemd(w http.ResponseWriter, r *http.Request) {
	words, _ := io.ReadAll(r.Body)
	switch string(words) {
	case "daemon-reload":
		m.reloaded = true
	case "restart gatewright@apis.example.com":
		unit := string(content(m.t, filepath.Join(m.root, "usr", "local", "lib", "systemd", "system", "gatewright@.service")))
		starts := regexp.MustCompile(`(?m)^ExecStart=(\S+) serve$`).FindStringSubmatch(unit)
		if starts == nil {
			m.t.Errorf("the unit does not start it:\n%s", unit)
			http.Error(w, "the unit starts nothing", http.StatusInternalServerError)
			return
		}
		before := m.runs
		before.stop()
		m.runs = &server{t: m.t, data: before.data, ended: make(chan struct{}), plain: before.plain, secure: before.secure, path: filepath.Join(m.root, starts[1])}
		m.runs.start(before.cmd.Env...)
	default:
		m.t.Errorf("nobody stands in for systemctl %s", words)
		http.Error(w, "no such command", http.StatusBadRequest)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	out, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// put writes a file and makes the folders that it lies in.
func put(t *testing.T, path string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		t.Fatal(err)
	}
}
