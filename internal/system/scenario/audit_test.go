package scenario_test

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/testing/readme"
)

// TestAuditLogListsEachChangeImmediately makes changes, including one that is refused, and checks that they are listed
// immediately, with filters and page by page, while other tests change the same account.
func TestAuditLogListsEachChangeImmediately(t *testing.T) {
	t.Parallel()
	inst, name := installation, unique(t, "audit")
	s := &walkthrough{inst: inst, values: map[string]string{"accountName": inst.account, "bucketName": name}}
	const logs, buckets = "/v1/accounts/{accountName}/audit-logs", "/v1/accounts/{accountName}/key-buckets"
	countEntries := func(list object, path string) (n int) {
		for _, o := range list.data(t) {
			if route, ok := o["route"].(map[string]any); ok && route["url"] == "/v1/accounts/"+inst.account+path {
				n++
			}
		}
		return n
	}
	const bucket = buckets + "/{bucketName}"
	s.ask(t, 200, "POST", buckets, `{"name":"{bucketName}"}`)
	s.ask(t, 200, "PATCH", bucket, `{"description":"one"}`)
	s.ask(t, 400, "PATCH", bucket, `{"description":1}`)
	own := "/key-buckets/" + name
	if n := countEntries(s.ask(t, 200, "GET", logs+"?limit=100&action=key-bucket.update", ""), own); n != 2 {
		t.Errorf("%d changes of the bucket are listed at once, want 2", n)
	}
	s.ask(t, 204, "DELETE", bucket, "")
	if n := countEntries(s.ask(t, 200, "GET", logs+"?limit=100&action=key-bucket.update&success=false", ""), own); n != 1 {
		t.Errorf("%d refused changes of the bucket are listed, want 1", n)
	}
	found, query := 0, "?limit=3&action=key-bucket.delete"
	for range 100 {
		page := s.ask(t, 200, "GET", logs+query, "")
		found += countEntries(page, own)
		if page.text("next") == "" {
			break
		}
		query = "?limit=3&action=key-bucket.delete&after=" + url.QueryEscape(page.text("next"))
	}
	if found != 1 {
		t.Errorf("the pages of the audit log list the deletion %d times, want 1", found)
	}
	s.ask(t, 400, "GET", logs+"?after=made-up", "")
	s.ask(t, 400, "GET", logs+"?startDate=2026-01-01T00:00:00Z&endDate=2026-03-01T00:00:00Z", "")
}

// TestAuditLogCommands runs the commands of docs/audit-logs.md.
func TestAuditLogCommands(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	t.Parallel()
	p, err := instance.Start(t.Context(), t.TempDir(), repository, "dist/local")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	replacer := strings.NewReplacer("http://127.0.0.1:9000", p.API, ".gatewright/", p.Data()+"/")
	steps, err := readme.ReadSteps("../../../docs/audit-logs.md", "The audit log", replacer)
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GATEWRIGHT_DATA_DIR="+p.Data())
	if _, err := readme.Run(t.Context(), "../../..", env, steps); err != nil {
		t.Fatalf("run the documented commands: %v, want no error", err)
	}
}
