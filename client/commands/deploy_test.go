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

// TestDeployUsesBranchFlag checks that the archive has the branch of --branch, and that stdout has only the URL.
func TestDeployUsesBranchFlag(t *testing.T) {
	t.Parallel()
	const id, url = "3b241101-e2bb-4255-8caf-4136c566a962", "https://shop.example.com"
	uploaded := map[string]string{}
	uploadServer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("the upload of the sources has an Authorization header, want none")
		}
		uploaded = readArchive(t, r.Body)
	}))
	t.Cleanup(uploadServer.Close)
	fx := newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.Method == http.MethodPost {
			_, _ = fmt.Fprintf(w, `{"deploymentId":%q,"uploadUrl":%q}`, id, uploadServer.URL+"/secret-address")
			return
		}
		_, _ = fmt.Fprintf(w, `{"status":"SUCCESS","url":%q,"steps":{},"buildResult":{}}`, url)
	})
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "config", "routes.oas.json"), "{}")
	writeFile(t, filepath.Join(dir, ".env"), "SECRET=x")
	got := fx.run("", "deploy", dir, "--branch", "release/ä")
	if got.code != exit.OK || got.out != url+"\n" || strings.Contains(got.err, "secret-address") {
		t.Errorf("deploy --branch = %+v, want code 0, the output %s, and no upload address", got, url)
	}
	if len(uploaded) != 2 || uploaded["config/routes.oas.json"] != "{}" ||
		uploaded[".gatewright/metadata.json"] != `{"branch":"release/ä"}`+"\n" {
		t.Errorf("deploy --branch uploads %q, want the routes and metadata with the branch", uploaded)
	}
	if !strings.Contains(strings.Join(fx.requests, "\n"), `"environment":"release/ä","projectName":"shop"`) {
		t.Errorf("deploy --branch sends the requests %q, want one with the branch and the project", fx.requests)
	}
}

// TestDeployOfDetachedHeadNeedsBranch checks that deploy fails without --branch if git has no current branch. CI
// pipelines often check out only a commit. If deploy then used the default branch main, a merge request could replace
// production.
func TestDeployOfDetachedHeadNeedsBranch(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	fx := newFixtureWith(t, func(http.ResponseWriter, *http.Request, string) {
		t.Error("deploy of a detached HEAD sends a request, want none")
	})
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "config", "routes.oas.json"), "{}")
	for _, args := range [][]string{{"init"}, {
		"-c", "user.name=t", "-c", "user.email=t@example.com", "commit",
		"--allow-empty", "-m", "x",
	}, {"checkout", "--detach"}} {
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...)
		// Pass no other variables: inside a git hook, they would select the hook's repository.
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_NOSYSTEM=1"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: error = %v, want none\n%s", args, err, out)
		}
	}
	// GITHUB_HEAD_REF alone is empty on pushes.
	const hint = `--branch "${GITHUB_HEAD_REF:-$GITHUB_REF_NAME}"`
	if got := fx.run("", "deploy", dir); got.code != exit.Usage || !strings.Contains(got.err, hint) {
		t.Errorf("deploy of a detached HEAD = %+v, want code %d and %s", got, exit.Usage, hint)
	}
	if len(fx.requests) > 0 {
		t.Errorf("deploy of a detached HEAD sends the requests %q, want none", fx.requests)
	}
}

// readArchive returns the files of an archive by name.
func readArchive(t *testing.T, archive io.Reader) map[string]string {
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
