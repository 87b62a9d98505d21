package scenario_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoSecretIsMadeForAFullDisk: what cannot be kept is not made, so that nobody has to find and delete it.
func TestNoSecretIsMadeForAFullDisk(t *testing.T) {
	client, in := ownClient(t), installation
	dir, name := t.TempDir(), unique(t, "full")
	// A disk of a page, which another file has.
	within := func(command string) (out []byte, err error) {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--map-root-user", "sh", "-c",
			"mount -t tmpfs -o size=4k none "+dir+" && head -c 4096 /dev/zero >"+filepath.Join(dir, "other")+" && "+command)
		cmd.Env = append(os.Environ(), "CI=true", "GATEWRIGHT_PROFILES="+filepath.Join(t.TempDir(), "profiles.json"), "GATEWRIGHT_URL="+in.api, "GATEWRIGHT_KEY="+in.key, "GATEWRIGHT_ACCOUNT=")
		return cmd.CombinedOutput()
	}
	if out, err := within("true"); err != nil {
		t.Skipf("it needs a file system of its own: %v: %s", err, out)
	}
	in.ask(t, http.StatusOK, http.MethodPost, in.path("/key-buckets"), `{"name":"`+name+`"}`)
	at := in.path("/key-buckets/%s", name)
	out, err := within("cd " + dir + " && " + client + " consumer create ada --bucket " + name + " --with-key --out made.key; echo ended with $?; ls")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, want := range []string{"made.key cannot be written, and nothing is made for it: no space left on device", "ended with 1\n", "\nother\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it says\n%s\nwithout %q", out, want)
		}
	}
	if strings.Contains(string(out), "gwk_") || strings.HasSuffix(string(out), "made.key\nother\n") {
		t.Errorf("it leaves a file, or shows a key:\n%s", out)
	}
	if all := in.ask(t, http.StatusOK, http.MethodGet, at+"/consumers", "").data(t); len(all) > 0 {
		t.Errorf("there is %v", all)
	}
	in.ask(t, http.StatusNoContent, http.MethodDelete, at, "")
}
