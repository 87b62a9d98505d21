package webroots_test

import (
	"crypto/x509"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/gatewright/gatewright/shared/base/webroots"
)

// varFallback is the environment variable that makes the test binary call InstallFallback. Its value has one character
// more than the number of calls. Other variables make the system appear to have no authorities.
const varFallback = "GATEWRIGHT_TEST_FALL"

// TestFallbackRootsWithoutSystemRoots runs a separate process, since a process reads the system's authorities only
// once.
func TestFallbackRootsWithoutSystemRoots(t *testing.T) {
	if times := os.Getenv(varFallback); times != "" {
		for range len(times) - 1 {
			webroots.InstallFallback()
		}
		pool, err := x509.SystemCertPool()
		if hasRoots := err == nil && !pool.Equal(x509.NewCertPool()); hasRoots != (len(times) > 1) {
			t.Errorf("SystemCertPool() has roots: %t, error %v, want %t", hasRoots, err, len(times) > 1)
		}
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("environment variables choose the system's authorities only on Linux")
	}
	emptyFolder := t.TempDir()
	for _, times := range []string{"-", "-1", "-12"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), varFallback+"="+times, "SSL_CERT_FILE="+emptyFolder, "SSL_CERT_DIR="+emptyFolder)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("test process with %s=%s: error %v, want none; output %s", varFallback, times, err, out)
		}
	}
}
