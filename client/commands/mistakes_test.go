package commands_test

import (
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
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
