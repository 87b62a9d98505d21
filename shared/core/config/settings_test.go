package config_test

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// TestSettingsAreDocumented compares the tables in docs/local-run.md and
// docs/gateway-process.md with config.Settings. With -update it writes the tables.
func TestSettingsAreDocumented(t *testing.T) {
	checkDocumented(t, "../../../docs/local-run.md",
		map[string]config.Kind{"settings": config.Run, "bounds": config.Listening})
	checkDocumented(t, "../../../docs/gateway-process.md", map[string]config.Kind{"process": config.Process})
}

func checkDocumented(t *testing.T, path string, tables map[string]config.Kind) {
	t.Helper()
	const end = "<!-- end of the table -->"
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	for name, kind := range tables {
		begin := "<!-- table: " + name + " -->\n"
		before, rest, found := strings.Cut(page, begin)
		_, after, closed := strings.Cut(rest, end)
		if !found || !closed {
			t.Fatalf("%s has no complete table %s, want one", path, name)
		}
		var table strings.Builder
		table.WriteString("\n| variable | without it | what it may be | what |\n|---|---|---|---|\n")
		for _, s := range config.Settings() {
			if s.Kind == kind {
				fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", s.Name, describeDefault(s), s.Range,
					strings.ReplaceAll(s.Description, "_", "`_`")+s.Details)
			}
		}
		table.WriteString("\n")
		page = before + begin + table.String() + end + after
	}
	golden.Equal(t, path, page)
}

// describeDefault describes the defaults of a setting.
func describeDefault(s config.Setting) string {
	text := cmp.Or(s.Default, "none")
	if s.Server != "" {
		text += "; of a [server](one-server.md) " + s.Server
	}
	return text
}

func TestUnknownSettingIsReported(t *testing.T) {
	for _, tt := range []struct {
		environ string
		local   bool
		want    []string // texts in the lines of the error, empty for a valid variable
	}{
		{"PATH=/bin GATEWRIGHT_DATA_DIR=x GATEWRIGHT_CONNECTIONS=1 NO_COLOR=1 GATEWRIGHT", true, nil},
		{"GATEWRIGHT_TEST_GROUP=x GATEWRIGHT_SIMULATIONS=4 GATEWRIGHT_SCENARIO_API=x", true, nil},
		{
			"GATEWRIGHT_CONNECTION_PER_ADDRESS=secret", true,
			[]string{"GATEWRIGHT_CONNECTION_PER_ADDRESS: did you mean GATEWRIGHT_CONNECTIONS_PER_ADDRESS?"},
		},
		{
			"GATEWRIGHT_DATADIR=secret GATEWRIGHT_IDLE_TIME=secret", true,
			[]string{"did you mean GATEWRIGHT_DATA_DIR?", "did you mean GATEWRIGHT_IDLE_TIMEOUT?"},
		},
		{"GATEWRIGHT_data_dir=secret", true, []string{"did you mean GATEWRIGHT_DATA_DIR?"}},
		{"GATEWRIGHT_BOGUS=secret", true, []string{"there is no setting GATEWRIGHT_BOGUS: correct its name, or unset it"}},
		{"GATEWRIGHT_SIMULATION=4", true, []string{"GATEWRIGHT_SIMULATION"}},
		{"GATEWRIGHT_=secret", true, []string{"no setting GATEWRIGHT_:"}},
		{"GATEWRIGHT_TABLE=secret", true, []string{"GATEWRIGHT_TABLE is for functions"}},
		{"GATEWRIGHT_ADMIN_ADDR=x", true, nil},
		{"GATEWRIGHT_ANNOUNCE=secret", true, []string{"GATEWRIGHT_ANNOUNCE is for functions in Lambda and for gateways"}},
		{"GATEWRIGHT_ADMIN_ADDR=x GATEWRIGHT_ANNOUNCE=1s", false, nil},
		{"GATEWRIGHT_TABLE=x GATEWRIGHT_STREAMING=true", false, nil},
		{"GATEWRIGHT_SERVICE_HOST=10.0.0.11 GATEWRIGHT_GATEWAY_SERVICE_HOST=fd00::1 GATEWRIGHT_SERVICE_PORT=443 " +
			"GATEWRIGHT_SERVICE_PORT_ADMIN=8081 GATEWRIGHT_PORT=tcp://10.0.0.11:443", false, nil},
		{"GATEWRIGHT_PORT_443_TCP=tcp://10.0.0.11:443 GATEWRIGHT_PORT_443_TCP_PROTO=tcp GATEWRIGHT_PORT_443_TCP_PORT=443 " +
			"GATEWRIGHT_PORT_443_TCP_ADDR=10.0.0.11", true, nil},
		{
			"GATEWRIGHT_PORT=8080 GATEWRIGHT_SERVICE_HOST=secret", false,
			[]string{"no setting GATEWRIGHT_PORT", "no setting GATEWRIGHT_SERVICE_HOST"},
		},
		{"GATEWRIGHT_STREAMNG=secret", false, []string{"did you mean GATEWRIGHT_STREAMING?"}},
	} {
		err := config.CheckNames(strings.Fields(tt.environ), tt.local)
		var lines []string
		if err != nil {
			lines = strings.Split(err.Error(), "\n")
		}
		if len(lines) != len(tt.want) {
			t.Errorf("CheckNames(%s, %t) = %v, want %d lines", tt.environ, tt.local, err, len(tt.want))
			continue
		}
		for i, want := range tt.want {
			if !strings.Contains(lines[i], want) || strings.Contains(lines[i], "secret") {
				t.Errorf("CheckNames(%s, %t): line %d = %q, want %q in it, and no value",
					tt.environ, tt.local, i+1, lines[i], want)
			}
		}
	}
}

// TestVariablesInSourcesAreDeclared checks that all variables in Makefiles and in Go files except tests are declared.
// CheckNames would refuse an undeclared variable, and the documentation would not have it.
func TestVariablesInSourcesAreDeclared(t *testing.T) {
	names := regexp.MustCompile(`\bGATEWRIGHT_[A-Z0-9_]*[A-Z0-9]\b`)
	found := 0
	checkFile := func(path string) error {
		content, err := os.ReadFile(path)
		for _, name := range names.FindAllString(string(content), -1) {
			found++
			if config.CheckNames([]string{name + "=x"}, false) != nil && name != "GATEWRIGHT_PUBLIC" { // a variable of projects
				t.Errorf("%s has the variable %s, want only variables of Settings", path, name)
			}
		}
		return err
	}
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "dist" || len(d.Name()) > 2 && d.Name()[0] == '.'):
			return fs.SkipDir
		case d.Name() == "Makefile", strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go"):
			return checkFile(path)
		}
		return nil
	})
	if err != nil || found < 20 {
		t.Errorf("%d variables in the sources, %v, want at least 20", found, err)
	}
}

// TestClientVariablesAreIgnored checks that a server accepts the variables
// of the client, because people run servers and the client in one shell.
func TestClientVariablesAreIgnored(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		config.VarClientProfiles, config.VarClientProfile, config.VarClientURL,
		config.VarClientAccount, config.VarClientKey,
	} {
		for _, local := range []bool{false, true} {
			if err := config.CheckNames([]string{name + "=x"}, local); err != nil {
				t.Errorf("CheckNames(%s=x, %t) = %v, want nil", name, local, err)
			}
		}
	}
	if config.CheckNames([]string{config.VarClientURL + "S=x"}, false) == nil {
		t.Errorf("CheckNames(%sS=x, false) = nil, want an error", config.VarClientURL)
	}
}
