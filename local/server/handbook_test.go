package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/internal/readme"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/release"
)

// TestHandbook types what docs/one-server.md says: the start with addresses and files of the test's own, and the
// commands as they stand there.
func TestHandbook(t *testing.T) {
	t.Parallel()
	page := filepath.Join(repository, "docs", "one-server.md")
	start, err := readme.Page(page, "Start it", nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(start) != 1 || !strings.Contains(start[0].Commands, "gatewright serve") {
		t.Fatalf("the page starts it by %v", start)
	}
	operators, management := free.Address(t).String(), free.Address(t).String()
	m := install(t)
	s, a := installedByACME(t, m.path(), config.VarAdminAddr+"="+operators, config.VarAPIAddr+"="+management)
	m.runs = s
	for _, word := range strings.Fields(start[0].Commands) {
		if name, _, set := strings.Cut(word, "="); set && name != config.VarDomain && name != config.VarACMEDirectory {
			t.Errorf("the page sets %s, which the test's server is started without", name)
		}
	}
	elsewhere := t.TempDir()
	here := strings.NewReplacer("/elsewhere", elsewhere, "/var/lib/gatewright/account-key", filepath.Join(s.data, datadir.AccountKey), "127.0.0.1:9004", operators, "127.0.0.1:9000", management,
		"gatewright-VERSION-linux-amd64.tar.gz", m.archive, "-C / ", "-C "+m.root+" ", "gatewright-server VERSION", "gatewright-server "+release.Version())
	var steps []readme.Step
	for _, heading := range []string{"The first request", "Accounts, backups, stops", "Upgrade", "Watch"} {
		more, err := readme.Page(page, heading, here)
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, more...)
	}
	env := append(s.cmd.Env, fmt.Sprintf("PATH=%s%c%s%[2]c%[4]s", filepath.Dir(m.path()), os.PathListSeparator, m.stands, os.Getenv("PATH")), "GATEWRIGHT_PROFILES="+filepath.Join(t.TempDir(), "profiles.json"))
	if _, err := readme.Run(t.Context(), repository, env, steps); err != nil {
		t.Error(err)
	}
	if m.runs == s || !m.reloaded {
		t.Error("the page does not have systemd start the new version, of the unit that came with it")
	}
	if now, want := content(t, m.path()), content(t, m.binary); !bytes.Equal(now, want) {
		t.Error("what is installed after the upgrade is not what the archive has")
	}
	s = m.runs
	account := s.key()
	s.stop()

	// What the backup has is served by another machine.
	restored := filepath.Join(t.TempDir(), "data")
	other := &server{t: t, cmd: s.cmd}
	other.cmd.Env = append(other.cmd.Env, config.VarDataDir+"="+restored)
	other.command("restore", filepath.Join(elsewhere, "gatewright.backup"))
	again := unstarted(t, restored)
	a.LookAt(t, portOf(t, again.plain), portOf(t, again.secure))
	again.serve(config.VarACMEDirectory+"="+a.Directory, "SSL_CERT_FILE="+valueOf(s.cmd.Env, "SSL_CERT_FILE"))
	again.until("it is asked by the key of before", func() bool {
		out, _, err := ask(t, again.client(a.Roots()), http.MethodGet, "https://api."+domain+"/v1/who-am-i", account)
		return err == nil && out.StatusCode == http.StatusOK
	})
	again.stop()
}

// valueOf is a variable of an environment.
func valueOf(env []string, name string) string {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
