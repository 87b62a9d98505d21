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

// TestReadmeWithoutANetwork runs the commands of the section "Five minutes" of the README on a machine without a
// network, with the data of an earlier start. It fails if the product downloads anything after its first start.
func TestReadmeWithoutANetwork(t *testing.T) {
	if os.Getenv(varAPI) != "" || os.Getenv(varOffline) != "" {
		t.Skip("this test needs the local run, and must not run in its own child process")
	}
	t.Parallel()
	ip, err := exec.LookPath("ip")
	if err != nil {
		ip, err = exec.LookPath("/usr/sbin/ip")
	}
	if err != nil {
		skipWithoutNamespaces(t, err)
	}
	dir := t.TempDir()
	startProduct(t, dir, "dist/local").Stop()

	const readmeTest = "TestReadmeFiveMinutes"
	const isolated = `"$0" link set lo up && test -z "$("$0" route show)" && exec "$@"`
	cmd := exec.CommandContext(t.Context(), "sh", "-c", isolated, ip, os.Args[0], "-test.v",
		"-test.run=^("+readmeTest+"|TestOfflineHasNoRoutes)$")
	cmd.Env = append(os.Environ(), varOffline+"="+dir, "GOPROXY=off")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
		skipWithoutNamespaces(t, err)
	}
	for _, name := range []string{readmeTest, "TestOfflineHasNoRoutes"} {
		if !strings.Contains(string(out), "--- PASS: "+name+" ") {
			t.Errorf("%s has not passed, want it to pass: %v:\n%s", name, err, out)
		}
	}
}

// skipWithoutNamespaces skips the test if network namespaces cannot be created. As root in continuous integration the test fails instead.
func skipWithoutNamespaces(t *testing.T, err error) {
	t.Helper()
	if os.Getenv("CI") != "" && os.Getuid() == 0 {
		t.Fatalf("create a network namespace: %v, want success in continuous integration", err)
	}
	t.Skipf("network namespaces or the command ip (iproute2) are not available: run as root, or with user namespaces: %v",
		err)
}

// TestOfflineHasNoRoutes checks that there is no network. TestReadmeWithoutANetwork runs it.
func TestOfflineHasNoRoutes(t *testing.T) {
	if os.Getenv(varOffline) == "" {
		t.Skip("TestReadmeWithoutANetwork runs this test")
	}
	const documented = "192.0.2.1:443" // RFC 5737
	_, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", documented)
	if !errors.Is(err, syscall.ENETUNREACH) {
		t.Errorf("DialContext(%s) = %v, want %v", documented, err, syscall.ENETUNREACH)
	}
}
