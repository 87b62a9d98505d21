//go:build linux

package scenario_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestReadmeWithoutANetwork types the README's five minutes where no route leads out of the machine, over the data of a
// first start: what is downloaded later than that would be missed there.
func TestReadmeWithoutANetwork(t *testing.T) {
	if os.Getenv(varAPI) != "" || os.Getenv(varOffline) != "" {
		t.Skip("it is about the local run, and starts itself")
	}
	t.Parallel()
	ip, err := exec.LookPath("ip")
	if err != nil {
		ip, err = exec.LookPath("/usr/sbin/ip")
	}
	if err != nil {
		noNamespaces(t, err)
	}
	dir := t.TempDir()
	running(t, dir, "dist/local").Stop()

	const typed = "TestReadmeFiveMinutes"
	const alone = `"$0" link set lo up && test -z "$("$0" route show)" && exec "$@"`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", alone, ip, os.Args[0], "-test.v", "-test.run=^("+typed+"|TestNothingLeadsOut)$")
	cmd.Env = append(os.Environ(), varOffline+"="+dir, "GOPROXY=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
		noNamespaces(t, err)
	}
	for _, name := range []string{typed, "TestNothingLeadsOut"} {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s: %v:\n%s", name, err, out)
		}
	}
}

// noNamespaces skips where network namespaces can't be made, but not where they have to be: as root in continuous
// integration.
func noNamespaces(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" && os.Getuid() == 0 {
		t.Fatalf("network namespaces have to be possible in continuous integration: %v", err)
	}
	t.Skipf("it needs network namespaces and the command ip (iproute2), as root or with user namespaces: %v", err)
}

// TestNothingLeadsOut is run by TestReadmeWithoutANetwork, where it shows that there is none.
func TestNothingLeadsOut(t *testing.T) {
	if os.Getenv(varOffline) == "" {
		t.Skip("TestReadmeWithoutANetwork runs it")
	}
	const documented = "192.0.2.1:443" // RFC 5737
	_, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", documented)
	if !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("a connection that leads out ends with %v", err)
	}
}
