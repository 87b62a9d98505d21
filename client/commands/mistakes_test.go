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
	"github.com/gatewright/gatewright/shared/project"
)

// TestNameInPlaceOfAnIDIsTold: what the API says of it is that it is not there, which who sees it in a list does not believe.
func TestNameInPlaceOfAnIDIsTold(t *testing.T) {
	t.Parallel()
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		refuse(w, http.StatusNotFound, "This is not there.")
	})
	const id = "tnl_ImKLVxXtfRXWvi03ndMNv8kJ"
	for words, says := range map[string]string{
		"tunnel get office":                        "TUNNEL_ID is an id, which `gatewright tunnel list` tells, and no name",
		"tunnel services get office":               "TUNNEL_ID is an id, which `gatewright tunnel list` tells, and no name",
		"ca delete partners --yes":                 "ID is an id, which `gatewright ca list` tells, and no name",
		"metering plan get price_pro --bucket mtr": "PLAN_ID is an id, which `gatewright metering plan list` tells, and no name",
		"tunnel get " + id:                         "",
		"bucket get partners":                      "",
	} {
		got := l.run("", strings.Fields(words)...)
		if got.code != exit.NotFound || !strings.Contains(got.err, "This is not there.") || !strings.Contains(got.err, says) || says == "" && strings.Contains(got.err, "is an id") {
			t.Errorf("%s: %+v", words, got)
		}
	}
}

// TestDomainIsTakenOffItsDeploymentOnPurpose: the API takes an update without a deployment for one to none, which whoever forgets the flag does not mean.
func TestDomainIsTakenOffItsDeploymentOnPurpose(t *testing.T) {
	t.Parallel()
	var bodies []string
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, body string) {
		bodies = append(bodies, body)
		_, _ = io.WriteString(w, `{"hostname":"api.example.com","deploymentName":null,"stage":"api","ownershipVerification":null,"cname":null}`)
	})
	if got := l.run("", "domain", "update", "api.example.com"); got.code != exit.Usage || !strings.Contains(got.err, "it needs --deployment") || len(bodies) > 0 {
		t.Errorf("without a flag: %+v after %q", got, bodies)
	}
	for deployment, want := range map[string]string{"": "", "shop-main-1a2b3c4": "shop-main-1a2b3c4"} {
		bodies = nil
		got := l.run("", "domain", "update", "api.example.com", "--deployment", deployment)
		if got.code != exit.OK || len(bodies) != 1 || strings.Contains(got.out, "TXT") || !strings.Contains(got.out, "api.example.com") {
			t.Fatalf("%q: %+v after %q", deployment, got, bodies)
		}
		var body map[string]any
		if err := json.Unmarshal([]byte(bodies[0]), &body); err != nil {
			t.Fatal(err)
		}
		if name, there := body["deploymentName"]; there != (want != "") || there && name != want {
			t.Errorf("%q is sent as %s", deployment, bodies[0])
		}
	}
}

// TestBinaryFileIsNotSent: JSON has no bytes, and each that is no text would become another one.
func TestBinaryFileIsNotSent(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"DER": "0\x82\x01\x0a\x02\x82\x00", "a NUL": "a\x00b", "another encoding": "caf\xe9"} {
		l := newLine(t)
		file := filepath.Join(t.TempDir(), "file")
		write(t, file, content)
		for _, words := range [][]string{
			{"ca", "create", "partners", "--certificate-file", file},
			{"variable", "set", "NAME", "--project", "shop", "--file", file},
		} {
			if got := l.run("", words...); got.code != exit.Usage || !strings.Contains(got.err, "is no text (UTF-8)") || len(l.asked) > 0 {
				t.Errorf("%s, %s: %+v after %q", name, words[0], got, l.asked)
			}
		}
	}
}

// TestUpdateOfNothingIsTold, for every command that updates: the API would answer as if something had been changed.
func TestUpdateOfNothingIsTold(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	updates := 0
	commands.CheckVerbs(t, func(path string, v commands.Verb) {
		words := strings.Fields(path)[1:]
		if words[len(words)-1] != "update" {
			return
		}
		updates++
		var changed []string
		op, err := call.Operation(v.Operation)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range v.Takes {
			inBody := slices.ContainsFunc(op.Arguments, func(a project.Argument) bool { return a.Name == g.Argument && a.Place == project.InProperty })
			switch {
			case g.Word:
				words = append(words, "x")
			case inBody:
				changed = append(changed, "--"+g.Flag)
			case g.Required:
				words = append(words, "--"+g.Flag, "x")
			}
		}
		got := l.run("", words...)
		if got.code != exit.Usage || len(l.asked) > 0 || got.out != "" {
			t.Errorf("%q: %+v after %q", words, got, l.asked)
		}
		for _, flag := range changed {
			if !v.Body && !strings.Contains(got.err, flag) && !strings.Contains(got.err, "it needs ") {
				t.Errorf("%q does not tell %s: %s", words, flag, got.err)
			}
		}
		if v.Body {
			file := filepath.Join(t.TempDir(), "body")
			write(t, file, "{}")
			if got := l.run("", append(words, "--body", file)...); got.code != exit.Usage || len(l.asked) > 0 || !strings.Contains(got.err, changed[0]) {
				t.Errorf("%q with a body of nothing: %+v after %q", words, got, l.asked)
			}
			write(t, file, `{"metadata":null}`)
			if got := l.run("", append(words, "--body", file)...); got.code != exit.OK && strings.Contains(got.err, "nothing to change") {
				t.Errorf("%q with a body: %+v", words, got)
			}
			l.asked = nil
		}
	})
	if updates < 5 {
		t.Errorf("there are %d commands that update", updates)
	}
}

// TestServicesOfATunnelAreShownWhole: who may call each, and nothing that is cut off.
func TestServicesOfATunnelAreShownWhole(t *testing.T) {
	t.Parallel()
	services := `{"version":1,"services":[]}`
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, services) })
	if got := l.run("", "tunnel", "services", "get", "tnl_1"); got.code != exit.OK || !strings.Contains(got.out, "There are none: `gatewright tunnel services put`") {
		t.Errorf("of none: %+v", got)
	}
	services = `{"version":1,"services":[{"name":"stock","endpoint":"http://stock.example.com:8080/a-path-that-is-longer-than-a-cell","configurations":[` +
		`{"project":"shop","accessibleBy":["production","preview"]},{"project":"blog\u001b[2J","accessibleBy":["development"]}]},{"name":"price","endpoint":"http://localhost:1","configurations":[]}]}`
	const endpoint = "http://stock.example.com:8080/a-path-that-is-longer-than-a-cell"
	gap := strings.Repeat(" ", len(endpoint)-len("endpoint")+2)
	want := "NAME   ENDPOINT" + gap + "PROJECT      ACCESSIBLE BY\n" +
		"stock  " + endpoint + "  shop         production, preview\n" +
		"stock  " + endpoint + "  blog\\x1b[2J  development\n" +
		"price  http://localhost:1" + strings.Repeat(" ", len(endpoint)-len("http://localhost:1")+2) + "             nobody\n"
	if got := l.run("", "tunnel", "services", "get", "tnl_1"); got.code != exit.OK || got.out != want {
		t.Errorf("it ends with %d and shows\n%s\nwant\n%s", got.code, got.out, want)
	}
}

// TestOneObjectIsShownWhole: what a list would cut off, who asks for one object reads to its end.
func TestOneObjectIsShownWhole(t *testing.T) {
	t.Parallel()
	const meters = `{"requests":{"max":1000},"a-meter-of-a-longer-name":{"max":200},"another":{"max":30},"last":{"max":4}}`
	l := newLineOf(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if strings.HasSuffix(r.URL.Path, "/plans") {
			_, _ = io.WriteString(w, `{"data":[{"id":"plan_1","meters":`+meters+`}],"total":1,"limit":100,"offset":0}`)
			return
		}
		_, _ = io.WriteString(w, `{"id":"plan_1","meters":`+meters+`}`)
	})
	if got := l.run("", "metering", "plan", "get", "plan_1", "--bucket", "mtr_1"); got.code != exit.OK || !strings.Contains(got.out, meters+"\n") {
		t.Errorf("one: %+v", got)
	}
	if got := l.run("", "metering", "plan", "list", "--bucket", "mtr_1"); got.code != exit.OK || strings.Contains(got.out, "last") || !strings.Contains(got.out, "…") {
		t.Errorf("a list: %+v", got)
	}
}
