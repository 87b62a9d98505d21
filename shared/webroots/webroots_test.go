package webroots_test

import (
	"crypto/x509"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/gatewright/gatewright/shared/webroots"
)

// varFall has the tests' binary ask for them, on a system that the environment says has none.
const varFall = "GATEWRIGHT_TEST_FALL"

// TestSystemWithoutAuthoritiesHasThese, in a process of its own, since a process reads its system's once.
func TestSystemWithoutAuthoritiesHasThese(t *testing.T) {
	if times := os.Getenv(varFall); times != "" {
		for range len(times) - 1 {
			webroots.Fall()
		}
		pool, err := x509.SystemCertPool()
		if has := err == nil && !pool.Equal(x509.NewCertPool()); has != (len(times) > 1) {
			t.Errorf("there are authorities: %v, %v", has, err)
		}
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("the environment says which authorities there are on Linux alone")
	}
	none := t.TempDir()
	for _, times := range []string{"-", "-1", "-12"} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), varFall+"="+times, "SSL_CERT_FILE="+none, "SSL_CERT_DIR="+none)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", times, err, out)
		}
	}
}
