package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/testing/freeport"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestHandbook runs the commands of docs/one-server.md. It starts the server with addresses and files of the test, and
// runs the other commands unchanged.
func TestHandbook(t *testing.T) {
	t.Parallel()
	page := filepath.Join(repository, "docs", "one-server.md")
	startSteps, err := readme.ReadSteps(page, "Start it", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(startSteps) != 1 || !strings.Contains(startSteps[0].Commands, "gatewright serve") {
		t.Fatalf("the page has the start steps %v, want one with gatewright serve", startSteps)
	}
	operators, management := freeport.Address(t).String(), freeport.Address(t).String()
	m := install(t)
	s, a := serveInstalledWithACME(t, m.path(), config.VarAdminAddr+"="+operators, config.VarAPIAddr+"="+management)
	m.process = s
	for _, setting := range strings.Fields(startSteps[0].Commands) {
		if name, _, set := strings.Cut(setting, "="); set && name != config.VarDomain && name != config.VarACMEDirectory {
			t.Errorf("the page sets %s, want only variables that the test also sets", name)
		}
	}
	otherFolder := t.TempDir()
	replacer := strings.NewReplacer("/elsewhere", otherFolder, "/var/lib/gatewright/account-key",
		filepath.Join(s.data, datadir.AccountKey), "127.0.0.1:9004", operators, "127.0.0.1:9000", management,
		"gatewright-VERSION-linux-amd64.tar.gz", m.archive, "-C / ", "-C "+m.root+" ", "gatewright-server VERSION",
		"gatewright-server "+release.Version())
	var steps []readme.Step
	for _, heading := range []string{"The first request", "Accounts, backups, stops", "Upgrade", "Watch"} {
		moreSteps, err := readme.ReadSteps(page, heading, replacer)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, moreSteps...)
	}
	env := append(s.cmd.Env, fmt.Sprintf("PATH=%s%c%s%[2]c%[4]s", filepath.Dir(m.path()), os.PathListSeparator, m.stubs,
		os.Getenv("PATH")), "GATEWRIGHT_PROFILES="+filepath.Join(t.TempDir(), "profiles.json"))
	if _, err := readme.Run(t.Context(), repository, env, steps); err != nil {
		t.Errorf("run the documented commands: %v, want no error", err)
	}
	if m.process == s || !m.reloaded {
		t.Errorf("after the upgrade: the old process runs = %v, the units were reloaded = %v, want false and true",
			m.process == s, m.reloaded)
	}
	if current, want := readFile(t, m.path()), readFile(t, m.binary); !bytes.Equal(current, want) {
		t.Errorf("the server installed by the upgrade has %d bytes and differs, want the %d bytes of the archive",
			len(current), len(want))
	}
	s = m.process
	accountKey := s.key()
	s.stop()

	// Another machine serves the data of the backup.
	restored := filepath.Join(t.TempDir(), "data")
	restoredServer := &server{t: t, cmd: s.cmd}
	restoredServer.cmd.Env = append(restoredServer.cmd.Env, config.VarDataDir+"="+restored)
	restoredServer.command("restore", filepath.Join(otherFolder, "gatewright.backup"))
	restarted := newStoppedServer(t, restored)
	a.ValidateAt(t, portOf(t, restarted.plain), portOf(t, restarted.secure))
	restarted.serve(config.VarACMEDirectory+"="+a.Directory, "SSL_CERT_FILE="+valueOf(s.cmd.Env, "SSL_CERT_FILE"))
	restarted.until("the restored server accepts the account key of the backup", func() bool {
		resp, _, err := ask(t, restarted.client(a.Roots()), http.MethodGet, "https://api."+domain+"/v1/who-am-i", accountKey)
		return err == nil && resp.StatusCode == http.StatusOK
	})
	restarted.stop()
}

// valueOf returns the value of a variable of an environment.
func valueOf(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
