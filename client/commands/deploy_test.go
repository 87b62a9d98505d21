package commands_test

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

// TestDeployUploadsWhatItSays: the branch that was typed is the archive's too, whatever git has, and the URL alone is on stdout.
func TestDeployUploadsWhatItSays(t *testing.T) {
	t.Parallel()
	const id, url = "3b241101-e2bb-4255-8caf-4136c566a962", "https://shop.example.com"
	packed := map[string]string{}
	uploads := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the key goes along with the sources")
		}
		packed = unpacked(t, r.Body)
	}))
	t.Cleanup(uploads.Close)
	l := newLineOf(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.Method == http.MethodPost {
			_, _ = fmt.Fprintf(w, `{"deploymentId":%q,"uploadUrl":%q}`, id, uploads.URL+"/secret-address")
			return
		}
		_, _ = fmt.Fprintf(w, `{"status":"SUCCESS","url":%q,"steps":{},"buildResult":{}}`, url)
	})
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config", "routes.oas.json"), "{}")
	write(t, filepath.Join(dir, ".env"), "SECRET=x")
	got := l.run("", "deploy", dir, "--branch", "release/ä")
	if got.code != exit.OK || got.out != url+"\n" || strings.Contains(got.err, "secret-address") {
		t.Errorf("%+v", got)
	}
	if len(packed) != 2 || packed["config/routes.oas.json"] != "{}" || packed[".gatewright/metadata.json"] != `{"branch":"release/ä"}`+"\n" {
		t.Errorf("it uploads %q", packed)
	}
	if !strings.Contains(strings.Join(l.asked, "\n"), `"environment":"release/ä","projectName":"shop"`) {
		t.Errorf("it asks for %q", l.asked)
	}
}

// TestDeployGuessesNoBranchOfACommit: pipelines check out a commit, of any branch, and main is production.
func TestDeployGuessesNoBranchOfACommit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	l := newLineOf(t, func(http.ResponseWriter, *http.Request, string) { t.Error("the API is asked") })
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "config", "routes.oas.json"), "{}")
	for _, args := range [][]string{{"init"}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "--allow-empty", "-m", "x"}, {"checkout", "--detach"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1"} // nothing of a hook that runs this
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	if got := l.run("", "deploy", dir); got.code != exit.Usage || !strings.Contains(got.err, "--branch") {
		t.Errorf("without --branch: %+v", got)
	}
	if len(l.asked) > 0 {
		t.Errorf("it asks %q", l.asked)
	}
}

// unpacked are the files of an archive, by their names.
func unpacked(t *testing.T, archive io.Reader) map[string]string {
	t.Helper()
	z, err := gzip.NewReader(archive)
	if err != nil {
		t.Error(err)
		return nil
	}
	files := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Error(err)
			return nil
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Error(err)
		}
		if h.Typeflag == tar.TypeReg {
			files[h.Name] = string(content)
		}
	}
}
