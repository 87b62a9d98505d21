package scenario_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestFullDiskCreatesNoSecret checks that the client creates no secret if the disk is full, because it could not store
// the secret. A person would have to find and delete such a secret.
func TestFullDiskCreatesNoSecret(t *testing.T) {
	client, inst := isolatedClient(t), installation
	dir, name := t.TempDir(), unique(t, "full")
	// The disk has one page of memory, which another file fills.
	runOnFullDisk := func(command string) (out []byte, err error) {
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--map-root-user", "sh", "-c",
			"mount -t tmpfs -o size=4k none "+dir+" && head -c 4096 /dev/zero >"+filepath.Join(dir, "other")+" && "+command)
		cmd.Env = append(os.Environ(), "CI=true", "GATEWRIGHT_PROFILES="+filepath.Join(t.TempDir(), "profiles.json"),
			"GATEWRIGHT_URL="+inst.api, "GATEWRIGHT_KEY="+inst.key, "GATEWRIGHT_ACCOUNT=")
		return cmd.CombinedOutput()
	}
	if out, err := runOnFullDisk("true"); err != nil {
		t.Skipf("a separate file system cannot be mounted: %v: %s", err, out)
	}
	inst.ask(t, http.StatusOK, http.MethodPost, inst.path("/key-buckets"), `{"name":"`+name+`"}`)
	bucket := inst.path("/key-buckets/%s", name)
	out, err := runOnFullDisk("cd " + dir + " && " + client + " consumer create ada --bucket " +
		name + " --with-key --out made.key; echo ended with $?; ls")
	if err != nil {
		t.Fatalf("run of the client on a full disk: error = %v, want none: %s", err, out)
	}
	for _, want := range []string{
		"made.key cannot be written, and nothing is made for it: no space left on device",
		"ended with 1\n", "\nother\n",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("output =\n%s\nwant %q in it", out, want)
		}
	}
	if strings.Contains(string(out), "gwk_") || strings.HasSuffix(string(out), "made.key\nother\n") {
		t.Errorf("the command on a full disk prints a key, or leaves its file, want neither:\n%s", out)
	}
	if all := inst.ask(t, http.StatusOK, http.MethodGet, bucket+"/consumers", "").data(t); len(all) > 0 {
		t.Errorf("GET %s/consumers after the command on a full disk = %v, want none", bucket, all)
	}
	inst.ask(t, http.StatusNoContent, http.MethodDelete, bucket, "")
}
