package gobuild_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestVulnFailsOnFindings runs make vuln with a program in place of govulncheck and a folder in place of the database.
func TestVulnFailsOnFindings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"curl", "sh"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is missing: %v", name, err)
		}
	}
	const skipped = "make vuln: no module was compared"
	for _, tt := range []struct {
		name, govulncheck, onUnreachable string
		reachable, wantErr               bool
		want                             string
	}{
		{"no finding", "exit 0", "", true, false, "asked for ./..."},
		{"a finding", "exit 3", "", true, true, "asked for ./..."},
		{"a finding in continuous integration", "exit 3", "skip", true, true, "asked for ./..."},
		{"an unreachable database in continuous integration", "exit 0", "skip", false, false, skipped},
		{"an unreachable database", "exit 0", "", false, true, skipped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			checker := filepath.Join(folder, "govulncheck")
			err := os.WriteFile(checker, []byte("#!/bin/sh\necho asked for \"$@\"\n"+tt.govulncheck+"\n"), 0o700)
			if tt.reachable {
				index := filepath.Join(folder, "index")
				err = errors.Join(err, os.Mkdir(index, 0o700), os.WriteFile(filepath.Join(index, "modules.json"), []byte("[]"),
					0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "make", "vuln", "GOVULNCHECK="+checker, "UNREACHABLE="+tt.onUnreachable)
			cmd.Dir = repository
			cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "GOVULNDB=file://"+filepath.ToSlash(folder))
			out, err := cmd.CombinedOutput()
			if (err != nil) != tt.wantErr {
				t.Errorf("make vuln error = %v, want one: %t\n%s", err, tt.wantErr, out)
			}
			if !strings.Contains(string(out), tt.want) {
				t.Errorf("make vuln prints %q, want %q in it", out, tt.want)
			}
			if tt.want == skipped && strings.Contains(string(out), "asked for") {
				t.Errorf("make vuln without the database = %s, want govulncheck skipped", out)
			}
		})
	}
}
