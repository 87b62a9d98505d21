package server_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/freeport"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestInstallFromAnArchive runs the commands of docs/install.md, with an archive of this checkout. A server of the test
// serves the archive instead of a release.
func TestInstallFromAnArchive(t *testing.T) {
	t.Parallel()
	m := install(t)
	releaseFolder := t.TempDir()
	archive := filepath.Base(m.archive)
	put(t, filepath.Join(releaseFolder, archive), readFile(t, m.archive), 0o644)
	put(t, filepath.Join(releaseFolder, "SHA256SUMS"), fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(readFile(t, m.archive)),
		archive), 0o644)
	key := filepath.Join(t.TempDir(), "key")
	for _, args := range [][]string{
		{"-q", "-t", "ed25519", "-N", "", "-f", key},
		{"-q", "-Y", "sign", "-f", key, "-n", "gatewright-release", filepath.Join(releaseFolder, "SHA256SUMS")},
	} {
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", args...).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen %v: %v: %s", args, err, out)
		}
	}
	signers := bytes.Join([][]byte{[]byte(`gatewright namespaces="gatewright-release"`), readFile(t, key+".pub")},
		[]byte(" "))
	put(t, filepath.Join(releaseFolder, "allowed_signers"), signers, 0o644)
	host := httptest.NewServer(http.FileServer(http.Dir(releaseFolder)))
	t.Cleanup(host.Close)

	version, system, found := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(archive, "gatewright-"), ".tar.gz"),
		"-linux-")
	if !found {
		t.Fatalf("the archive is named %s, want gatewright-VERSION-linux-ARCHITECTURE.tar.gz", archive)
	}
	replacer := strings.NewReplacer("https://github.com/gatewright/gatewright/releases/download/v$version", host.URL,
		"https://raw.githubusercontent.com/gatewright/gatewright/main/packaging/release", host.URL,
		"version=0.1.0", "version="+version, "linux-amd64", "linux-"+system,
		"127.0.0.1:9000", freeport.Address(t).String(), "127.0.0.1:9001", freeport.Address(t).String())
	steps, err := readme.ReadSteps(filepath.Join(repository, "docs", "install.md"), "From an archive", replacer)
	if err != nil {
		t.Fatal(err)
	}
	lastStep := steps[len(steps)-1].Commands
	if !strings.Contains(lastStep, "-C / ") {
		t.Fatalf("the last step is %q, want the one that unpacks the archive at the root", lastStep)
	}
	folder := t.TempDir()
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + folder, "GATEWRIGHT_PROFILES=" + filepath.Join(folder, "profiles.json"),
		"no_proxy=127.0.0.1",
		"GATEWRIGHT_API_ADDR=" + replacer.Replace("127.0.0.1:9000"),
	}
	// The last step installs a unit on this machine, which TestHandbook tests in a folder.
	if _, err := readme.Run(t.Context(), folder, env, steps[:len(steps)-1]); err != nil {
		t.Errorf("run the documented commands: %v, want no error", err)
	}
}

// TestChangedReleaseDoesNotVerify changes the files that docs/install.md verifies, and checks that the checksum or the
// signature does not match.
func TestChangedReleaseDoesNotVerify(t *testing.T) {
	t.Parallel()
	page := filepath.Join(repository, "docs", "install.md")
	steps, err := readme.ReadSteps(page, "From an archive", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, verify, found := strings.Cut(steps[1].Commands, "\n")
	if !found || !strings.Contains(verify, "ssh-keygen -Y verify") || !strings.Contains(verify, "sha256sum --check") {
		t.Fatalf("the second step is %q, want the verification", steps[1].Commands)
	}
	key := filepath.Join(t.TempDir(), "key")
	if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f",
		key).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	for _, tt := range []struct {
		name, changed, namespace string
		fails                    bool
	}{
		{"unchanged", "", "gatewright-release", false},
		{"another archive", "gatewright-1.2.3-linux-amd64.tar.gz", "gatewright-release", true},
		{"other checksums", "SHA256SUMS", "gatewright-release", true},
		{"a signature of another namespace", "", "git", true},
	} {
		folder := t.TempDir()
		put(t, filepath.Join(folder, "allowed_signers"), append([]byte(`gatewright namespaces="gatewright-release" `),
			readFile(t, key+".pub")...), 0o644)
		put(t, filepath.Join(folder, "gatewright-1.2.3-linux-amd64.tar.gz"), []byte("archive"), 0o644)
		put(t, filepath.Join(folder, "SHA256SUMS"), fmt.Appendf(nil, "%x  gatewright-1.2.3-linux-amd64.tar.gz\n",
			sha256.Sum256([]byte("archive"))), 0o644)
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", tt.namespace,
			filepath.Join(folder, "SHA256SUMS")).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen -Y sign: %v: %s", err, out)
		}
		if tt.changed != "" {
			file := filepath.Join(folder, tt.changed)
			put(t, file, append(readFile(t, file), []byte("0000  other\n")...), 0o644)
		}
		_, err := readme.Run(t.Context(), folder, []string{"PATH=" + os.Getenv("PATH")},
			[]readme.Step{{Line: 1, Commands: verify}})
		if (err != nil) != tt.fails {
			t.Errorf("%s: the verification = %v, want an error: %t", tt.name, err, tt.fails)
		}
	}
}
