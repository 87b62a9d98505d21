package owncert

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/pki/pkitest"
)

// TestFileThatIsNoneIsRefusedAtOnce: to read a pipe, or a device, would hold every handshake for ever.
func TestFileThatIsNoneIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(large, maxFileBytes+1); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{dir: "no regular file", os.DevNull: "no regular file", large: "more than", filepath.Join(dir, "none"): "no such file"} {
		if runtime.GOOS == "windows" && name == os.DevNull {
			continue
		}
		err := Check(name, name, "a.example.com")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		f := Files{o: FileOptions{Certificate: name, Key: name}}
		if _, err := f.stamps(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("looked at again, %s: %v, want %q", name, err, want)
		}
	}
}

// TestOperatorIsToldOfFiles whose key everybody may read, and of a certificate that nobody replaces.
func TestOperatorIsToldOfFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	its := pkitest.CA(t, "CA", now).Client(t, "x", now, func(x *x509.Certificate) {
		x.DNSNames, x.NotBefore, x.NotAfter = []string{"a.example.com"}, now.Add(-80*24*time.Hour), now.Add(late+lookEvery/2)
	})
	o := FileOptions{Certificate: filepath.Join(dir, "cert"), Key: filepath.Join(dir, "key"), Names: fewNames{}, For: []string{"a.example.com"}, Now: func() time.Time { return now }}
	for name, content := range map[string]string{o.Certificate: its.PEM(), o.Key: its.KeyPEM(t)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for mode, told := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		if err := os.Chmod(o.Key, mode); err != nil {
			t.Fatal(err)
		}
		var l lines
		o.Log = l.log()
		if _, err := OpenFiles(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(l.String(), "may read the key"); got != (told && runtime.GOOS != "windows") {
			t.Errorf("of a key with mode %o it prints %s", mode, l.String())
		}
	}
	var l lines
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
			t.Errorf("at look %d it is told %d times: %s", i, got, l.String())
		}
		now = now.Add(lookEvery)
	}
}
