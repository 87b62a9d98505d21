package servercert

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
)

// TestIrregularFileIsRefused checks that files that are not regular, or are too
// large, are refused. Reading a pipe or a device could block every handshake forever.
func TestIrregularFileIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFileBytes+1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		dir: "no regular file", os.DevNull: "no regular file", large: "more than",
		filepath.Join(dir, "none"): "no such file",
	} {
		if runtime.GOOS == "windows" && name == os.DevNull {
			continue
		}
		err := Check(name, name, "a.example.com")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("Check(%s) = %v, want %q", name, err, want)
		}
		f := Files{o: FileOptions{Certificate: name, Key: name}}
		if _, err := f.stamps(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("stamps() of %s: error = %v, want %q", name, err, want)
		}
	}
}

// TestUnsafeOrExpiringFilesAreLogged checks the warnings about a key that every user
// of the machine can read, and about a certificate that is not replaced in time.
func TestUnsafeOrExpiringFilesAreLogged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	cert := pkitest.CA(t, "CA", now).Client(t, "x", now, func(x *x509.Certificate) {
		x.DNSNames, x.NotBefore, x.NotAfter = []string{"a.example.com"}, now.Add(-80*24*time.Hour),
			now.Add(renewalMargin+checkInterval/2)
	})
	o := FileOptions{
		Certificate: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), Names: fakeNames{},
		Hosts: []string{"a.example.com"}, Now: func() time.Time { return now },
	}
	for name, content := range map[string]string{o.Certificate: cert.PEM(), o.Key: cert.KeyPEM(t)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		if err := os.Chmod(o.Key, mode); err != nil {
			t.Fatal(err)
		}
		var l logLines
		o.Log = l.log()
		if _, err := OpenFiles(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(l.String(), "may read the key"); got != (warned && runtime.GOOS != "windows") {
			t.Errorf("OpenFiles(key with mode %o) logs %s, want a warning: %v", mode, l.String(), warned)
		}
	}
	var l logLines
	o.Log = l.log()
	f, err := OpenFiles(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{0, 1, 1} {
		if _, err := f.Certificate(t.Context(), "a.example.com"); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(l.String(), "ends soon"); got != want {
			t.Errorf("warnings after %d calls of Certificate() = %d, want %d; log: %s", i+1, got, want, l.String())
		}
		now = now.Add(checkInterval)
	}
}
