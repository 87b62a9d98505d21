package events_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/management/api"
)

// TestPlatformDifferencesAreHidden runs one request in the form of each platform: AWS and LocalStack pass paths as they
// were written, and MiniStack decodes them. For a repeated query parameter, the field with a single value has the first
// or the last value.
func TestPlatformDifferencesAreHidden(t *testing.T) {
	for file, c := range map[string]struct {
		group, operation string
		status           int
		wantBody         string // a part of the response
	}{
		"branch-with-a-slash.aws": {
			"variables", "VariablesService_create", http.StatusCreated, `"branch":"feature/x"`,
		},
		"branch-with-a-slash.localstack": {
			"variables", "VariablesService_create", http.StatusCreated,
			`"branch":"feature/x"`,
		},
		"branch-with-a-slash.ministack": {
			"variables", "VariablesService_create", http.StatusCreated, `"branch":"feature/x"`,
		},
		"branch-with-a-percent-sign.aws": {
			"variables", "VariablesService_create", http.StatusCreated, `"branch":"50%"`,
		},
		"branch-with-a-percent-sign.ministack": {
			"variables", "VariablesService_create", http.StatusCreated,
			`"branch":"50%"`,
		},
		"bare-percent-sign": {"variables", "", http.StatusBadRequest, "%25"},
		"bulk.aws": {
			"consumers", "ApiKeyKeysService_bulkCreate", http.StatusNotFound, "This consumer does not exist",
		},
		"bulk.aws-unencoded": {
			"consumers", "ApiKeyKeysService_bulkCreate", http.StatusNotFound,
			"This consumer does not exist",
		},
		"bulk.localstack": {
			"consumers", "ApiKeyKeysService_bulkCreate", http.StatusNotFound, "This consumer does not exist",
		},
		"bulk.ministack": {
			"consumers", "ApiKeyKeysService_bulkCreate", http.StatusNotFound, "This consumer does not exist",
		},
		"query-twice.aws": {
			"consumers", "ApiKeyConsumersService_list", http.StatusBadRequest, "more than once",
		},
		"query-twice.ministack": {
			"consumers", "ApiKeyConsumersService_list", http.StatusBadRequest, "more than once",
		},
		"query-single-values-alone": {"consumers", "ApiKeyConsumersService_list", http.StatusOK, `"limit":7`},
		"query-with-a-slash.aws":    {"consumers", "ApiKeyConsumersService_list", http.StatusOK, `"data":[]`},
		"body-in-base64.aws": {
			"keybuckets", "ApiKeyBucketsService_create", http.StatusOK, `"name":"fresh"`,
		},
		"body-that-is-no-base64":      {"keybuckets", "", http.StatusBadRequest, "base64"},
		"headers-single-values-alone": {"platform", "V1_whoAmI", http.StatusOK, `"account":"acme"`},
		"stage-prefix.aws":            {"platform", "V1_whoAmI", http.StatusOK, `"account":"acme"`},
		"wrong-method.aws":            {"platform", "", http.StatusMethodNotAllowed, "Allow"},
	} {
		t.Run(file, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("platforms", file+".json"))
			if err != nil {
				t.Fatal(err)
			}
			fx, key := newFixture(t, slog.New(slog.DiscardHandler))
			fx.Call(key, http.MethodPost, "/v1/projects", `{"name":"shop"}`).Want(http.StatusOK)
			fx.Parts.Config.DecodedPaths = strings.HasSuffix(file, ".ministack")
			out, operation := invoke(t, fx.Parts, findGroup(t, c.group), raw, key)
			if operation != c.operation || out.StatusCode != c.status || !strings.Contains(out.Body, c.wantBody) {
				t.Errorf("operation of the event = %q with status %d: %s, want %q with %d and %q",
					operation, out.StatusCode, out.Body, c.operation, c.status, c.wantBody)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("platforms", "*.json"))
	if err != nil || len(files) != 20 {
		t.Errorf("platforms has %d files (%v), want 20: 19 of this test and forged-address.json",
			len(files), err)
	}
}

// findGroup returns a group of operations.
func findGroup(t *testing.T, name string) functions.Group {
	t.Helper()
	for _, g := range functions.Groups() {
		if g.Name == name {
			return g
		}
	}
	t.Fatalf("there is no group %s, want one", name)
	return functions.Group{}
}

// TestAuditRecordsHoldClientAddress checks that audit records contain the address of the connection, and no address
// that a client claims in X-Forwarded-For.
func TestAuditRecordsHoldClientAddress(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("platforms", "forged-address.json"))
	if err != nil {
		t.Fatal(err)
	}
	fx, key := newFixture(t, slog.New(slog.DiscardHandler))
	out, _ := invoke(t, fx.Parts, findGroup(t, "keybuckets"), raw, key)
	if out.StatusCode != http.StatusOK {
		t.Fatalf("response = %+v, want status 200", out)
	}
	found := false
	for k, item := range fx.Items.Items() {
		if !audit.IsRecord(k) {
			continue
		}
		text := itemText(t, item)
		if strings.Contains(text, "192.0.2.66") {
			t.Errorf("%s has the address 192.0.2.66 that the client claims, want the address of the connection", k.SK)
		}
		found = found || strings.Contains(text, "203.0.113.7")
	}
	if !found {
		t.Error("no audit record has the address 203.0.113.7 of the connection, want one")
	}
}

// TestNoOperationUsesReservedPath checks that no operation has a path that begins with /ping or /sping, because API
// Gateway itself responds to /ping and /sping.
func TestNoOperationUsesReservedPath(t *testing.T) {
	forEachOperation(t, func(t *testing.T, _ functions.Group, d api.Declaration) {
		if first := strings.Split(d.Path, "/")[1]; first == "ping" || first == "sping" {
			t.Errorf("%s %s is below a path that the platform reserves, want another path", d.Method, d.Path)
		}
	})
}
