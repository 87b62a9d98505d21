package commands_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/call"
	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/format/project"
)

// TestNameInsteadOfIDIsExplained checks the hint for a command line with a name instead of an ID. The API only reports
// that the object does not exist, although a list shows an object with this name.
func TestNameInsteadOfIDIsExplained(t *testing.T) {
	t.Parallel()
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		respondError(w, http.StatusNotFound, "This is not there.")
	})
	const id = "tnl_ImKLVxXtfRXWvi03ndMNv8kJ"
	for line, wantText := range map[string]string{
		"tunnel get office":          "TUNNEL_ID is an id, which `gatewright tunnel list` tells, and no name",
		"tunnel services get office": "TUNNEL_ID is an id, which `gatewright tunnel list` tells, and no name",
		"ca delete partners --yes":   "ID is an id, which `gatewright ca list` tells, and no name",
		"metering plan get price_pro --bucket mtr": "PLAN_ID is an id, which `gatewright metering plan list` " +
			"tells, and no name",
		"tunnel get " + id:    "",
		"bucket get partners": "",
	} {
		got := fx.run("", strings.Fields(line)...)
		if got.code != exit.NotFound || !strings.Contains(got.err, "This is not there.") ||
			!strings.Contains(got.err, wantText) || wantText == "" && strings.Contains(got.err, "is an id") {
			t.Errorf("gatewright %s = %+v, want code %d and the hint %q", line, got, exit.NotFound, wantText)
		}
	}
}

// TestDomainUpdateNeedsDeployment checks that an update without a deployment is refused. The API would remove all
// deployments, which a user who forgets the flag does not expect.
func TestDomainUpdateNeedsDeployment(t *testing.T) {
	t.Parallel()
	var bodies []string
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		bodies = append(bodies, body)
		_, _ = io.WriteString(w,
			`{"hostname":"api.example.com","deploymentName":null,"stage":"api","ownershipVerification":null,"cname":null}`)
	})
	if got := fx.run("", "domain", "update", "api.example.com"); got.code != exit.Usage ||
		!strings.Contains(got.err, "it needs --deployment") || len(bodies) > 0 {
		t.Errorf("domain update without a flag = %+v after the bodies %q, want code %d after none",
			got, bodies, exit.Usage)
	}
	for deployment, want := range map[string]string{"": "", "shop-main-1a2b3c4": "shop-main-1a2b3c4"} {
		bodies = nil
		got := fx.run("", "domain", "update", "api.example.com", "--deployment", deployment)
		if got.code != exit.OK || len(bodies) != 1 || strings.Contains(got.out, "TXT") ||
			!strings.Contains(got.out, "api.example.com") {
			t.Fatalf("domain update --deployment %q = %+v after the bodies %q, want code 0 and the domain after one",
				deployment, got, bodies)
		}
		var body map[string]any
		if err := json.Unmarshal([]byte(bodies[0]), &body); err != nil {
			t.Fatal(err)
		}
		if name, exists := body["deploymentName"]; exists != (want != "") || exists && name != want {
			t.Errorf("domain update --deployment %q sends %s, want the deploymentName %q", deployment, bodies[0], want)
		}
	}
}

// TestBinaryFileIsRefused checks that binary content is refused: in JSON, bytes that are not text would be replaced.
func TestBinaryFileIsRefused(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"DER": "0\x82\x01\x0a\x02\x82\x00", "a NUL": "a\x00b",
		"another encoding": "caf\xe9",
	} {
		fx := newFixture(t)
		file := filepath.Join(t.TempDir(), "file")
		writeFile(t, file, content)
		for _, args := range [][]string{
			{"ca", "create", "partners", "--certificate-file", file},
			{"variable", "set", "NAME", "--project", "shop", "--file", file},
		} {
			if got := fx.run("", args...); got.code != exit.Usage || !strings.Contains(got.err, "is no text (UTF-8)") ||
				len(fx.requests) > 0 {
				t.Errorf("%s with the file %s = %+v after the requests %q, want code %d and \"is no text\" after none",
					args[0], name, got, fx.requests, exit.Usage)
			}
		}
	}
}

// TestEmptyUpdateIsRefused checks that every update command requires a change. The API would respond as if it had
// changed something.
func TestEmptyUpdateIsRefused(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	updates := 0
	commands.CheckVerbs(t, func(path string, v commands.Verb) {
		args := strings.Fields(path)[1:]
		if args[len(args)-1] != "update" {
			return
		}
		updates++
		var memberFlags []string // the flags that set members of the body
		op, err := call.Operation(v.Operation)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range v.Parameters {
			inBody := slices.ContainsFunc(op.Arguments, func(a project.Argument) bool {
				return a.Name == p.Argument && a.Location == project.InProperty
			})
			switch {
			case p.Positional:
				args = append(args, "x")
			case inBody:
				memberFlags = append(memberFlags, "--"+p.Flag)
			case p.Required:
				args = append(args, "--"+p.Flag, "x")
			}
		}
		got := fx.run("", args...)
		if got.code != exit.Usage || len(fx.requests) > 0 || got.out != "" {
			t.Errorf("gatewright %q = %+v after the requests %q, want code %d after none", args, got, fx.requests, exit.Usage)
		}
		for _, flag := range memberFlags {
			if !v.Body && !strings.Contains(got.err, flag) && !strings.Contains(got.err, "it needs ") {
				t.Errorf("gatewright %q: stderr = %s, want a hint at %s", args, got.err, flag)
			}
		}
		if v.Body {
			file := filepath.Join(t.TempDir(), "body")
			writeFile(t, file, "{}")
			if got := fx.run("", append(args, "--body", file)...); got.code != exit.Usage || len(fx.requests) > 0 ||
				!strings.Contains(got.err, memberFlags[0]) {
				t.Errorf("gatewright %q with the body {} = %+v after the requests %q, want code %d and %q after none",
					args, got, fx.requests, exit.Usage, memberFlags[0])
			}
			writeFile(t, file, `{"metadata":null}`)
			if got := fx.run("", append(args, "--body", file)...); got.code != exit.OK &&
				strings.Contains(got.err, "nothing to change") {
				t.Errorf("gatewright %q with a body = %+v, want no error about an empty change", args, got)
			}
			fx.requests = nil
		}
	})
	if updates < 5 {
		t.Errorf("%d commands update an object, want at least 5", updates)
	}
}

// TestTunnelServicesAreNotTruncated checks that the table shows which projects can call each service, without
// truncating a value.
func TestTunnelServicesAreNotTruncated(t *testing.T) {
	t.Parallel()
	services := `{"version":1,"services":[]}`
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, services) })
	if got := fx.run("", "tunnel", "services", "get", "tnl_1"); got.code != exit.OK ||
		!strings.Contains(got.out, "There are none: `gatewright tunnel services put`") {
		t.Errorf("tunnel services get without services = %+v, want code 0 and how to add one", got)
	}
	services = `{"version":1,"services":[{"name":"stock",` +
		`"endpoint":"http://stock.example.com:8080/a-path-that-is-longer-than-a-cell","configurations":[` +
		`{"project":"shop","accessibleBy":["production","preview"]},{"project":"blog\u001b[2J",` +
		`"accessibleBy":["development"]}]},{"name":"price","endpoint":"http://localhost:1","configurations":[]}]}`
	const endpoint = "http://stock.example.com:8080/a-path-that-is-longer-than-a-cell"
	gap := strings.Repeat(" ", len(endpoint)-len("endpoint")+2)
	want := "NAME   ENDPOINT" + gap + "PROJECT      ACCESSIBLE BY\n" +
		"stock  " + endpoint + "  shop         production, preview\n" +
		"stock  " + endpoint + "  blog\\x1b[2J  development\n" +
		"price  http://localhost:1" + strings.Repeat(" ", len(endpoint)-len("http://localhost:1")+2) + "             nobody\n"
	if got := fx.run("", "tunnel", "services", "get", "tnl_1"); got.code != exit.OK || got.out != want {
		t.Errorf("tunnel services get = %d with\n%s\nwant 0 with\n%s", got.code, got.out, want)
	}
}

// TestSingleObjectIsNotTruncated checks that a single object is shown completely, including values that a table with
// several rows would truncate.
func TestSingleObjectIsNotTruncated(t *testing.T) {
	t.Parallel()
	const meters = `{"requests":{"max":1000},"a-meter-of-a-longer-name":{"max":200},"another":{"max":30},"last":{"max":4}}`
	fx := newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if strings.HasSuffix(r.URL.Path, "/plans") {
			_, _ = io.WriteString(w, `{"data":[{"id":"plan_1","meters":`+meters+`}],"total":1,"limit":100,"offset":0}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"plan_1","meters":`+meters+`}`)
	})
	if got := fx.run("", "metering", "plan", "get", "plan_1", "--bucket", "mtr_1"); got.code != exit.OK ||
		!strings.Contains(got.out, meters+"\n") {
		t.Errorf("metering plan get = %+v, want code 0 and all meters", got)
	}
	if got := fx.run("", "metering", "plan", "list", "--bucket", "mtr_1"); got.code != exit.OK ||
		strings.Contains(got.out, "last") || !strings.Contains(got.out, "…") {
		t.Errorf("metering plan list = %+v, want code 0 and truncated meters", got)
	}
}
