package events_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit"
)

// TestPlatformsDifferencesMakeNone runs one request as each platform hands it
// over: AWS and LocalStack leave paths as they were written, MiniStack decodes
// them; the single value of a query that came twice is the first or the last.
func TestPlatformsDifferencesMakeNone(t *testing.T) {
	for file, c := range map[string]struct {
		group, operation string
		status           int
		holds            string // in the answer
	}{
		"branch-with-a-slash.aws":              {"variables", "VariablesService_create", http.StatusCreated, `"branch":"feature/x"`},
		"branch-with-a-slash.localstack":       {"variables", "VariablesService_create", http.StatusCreated, `"branch":"feature/x"`},
		"branch-with-a-slash.ministack":        {"variables", "VariablesService_create", http.StatusCreated, `"branch":"feature/x"`},
		"branch-with-a-percent-sign.aws":       {"variables", "VariablesService_create", http.StatusCreated, `"branch":"50%"`},
		"branch-with-a-percent-sign.ministack": {"variables", "VariablesService_create", http.StatusCreated, `"branch":"50%"`},
		"bare-percent-sign":                    {"variables", "", http.StatusBadRequest, "%25"},
		"bulk.aws":                             {"consumers", "ApiKeyKeysService_bulkCreate", http.StatusNotFound, "This consumer does not exist"},
		"bulk.aws-unencoded":                   {"consumers", "ApiKeyKeysService_bulkCreate", http.StatusNotFound, "This consumer does not exist"},
		"bulk.localstack":                      {"consumers", "ApiKeyKeysService_bulkCreate", http.StatusNotFound, "This consumer does not exist"},
		"bulk.ministack":                       {"consumers", "ApiKeyKeysService_bulkCreate", http.StatusNotFound, "This consumer does not exist"},
		"query-twice.aws":                      {"consumers", "ApiKeyConsumersService_list", http.StatusBadRequest, "more than once"},
		"query-twice.ministack":                {"consumers", "ApiKeyConsumersService_list", http.StatusBadRequest, "more than once"},
		"query-single-values-alone":            {"consumers", "ApiKeyConsumersService_list", http.StatusOK, `"limit":7`},
		"query-with-a-slash.aws":               {"consumers", "ApiKeyConsumersService_list", http.StatusOK, `"data":[]`},
		"body-in-base64.aws":                   {"keybuckets", "ApiKeyBucketsService_create", http.StatusOK, `"name":"fresh"`},
		"body-that-is-no-base64":               {"keybuckets", "", http.StatusBadRequest, "base64"},
		"headers-single-values-alone":          {"platform", "V1_whoAmI", http.StatusOK, `"account":"acme"`},
		"stage-prefix.aws":                     {"platform", "V1_whoAmI", http.StatusOK, `"account":"acme"`},
		"wrong-method.aws":                     {"platform", "", http.StatusMethodNotAllowed, "Allow"},
	} {
		t.Run(file, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join("platforms", file+".json"))
			if err != nil {
				t.Fatal(err)
			}
			w, key := inMemory(t, slog.New(slog.DiscardHandler))
			w.Call(key, http.MethodPost, "/v1/projects", `{"name":"shop"}`).Want(http.StatusOK)
			w.Parts.Config.DecodedPaths = strings.HasSuffix(file, ".ministack")
			out, operation := send(t, w.Parts, group(t, c.group), raw, key)
			if operation != c.operation || out.StatusCode != c.status || !strings.Contains(out.Body, c.holds) {
				t.Errorf("%q answers %d: %s", operation, out.StatusCode, out.Body)
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("platforms", "*.json"))
	if err != nil || len(files) != 20 {
		t.Errorf("%d files, error %v: name each one above, and count it", len(files), err)
	}
}

// group gives a group of operations.
func group(t *testing.T, name string) functions.Group {
	t.Helper()
	for _, g := range functions.Groups() {
		if g.Name == name {
			return g
		}
	}
	t.Fatalf("there is no group %s", name)
	return functions.Group{}
}

// TestAuditRecordsHoldTheAddressThatConnected and none that a client claims in
// X-Forwarded-For.
func TestAuditRecordsHoldTheAddressThatConnected(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("platforms", "forged-address.json"))
	if err != nil {
		t.Fatal(err)
	}
	w, key := inMemory(t, slog.New(slog.DiscardHandler))
	out, _ := send(t, w.Parts, group(t, "keybuckets"), raw, key)
	if out.StatusCode != http.StatusOK {
		t.Fatalf("answer %+v", out)
	}
	found := false
	for k, item := range w.Items.Items() {
		if !audit.IsRecord(k) {
			continue
		}
		text := textOf(t, item)
		if strings.Contains(text, "192.0.2.66") {
			t.Errorf("%s tells the address that the client claims", k.SK)
		}
		found = found || strings.Contains(text, "203.0.113.7")
	}
	if !found {
		t.Error("no audit record tells the address that connected")
	}
}

// TestNoOperationTakesTheNameThatThePlatformKeeps: API Gateway answers /ping and
// /sping itself.
func TestNoOperationTakesTheNameThatThePlatformKeeps(t *testing.T) {
	each(t, func(t *testing.T, _ functions.Group, d api.Declaration) {
		if first := strings.Split(d.Path, "/")[1]; first == "ping" || first == "sping" {
			t.Errorf("%s would never be reached", d.Path)
		}
	})
}
