package expression

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

func TestParseErrorsSayWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"https://up/${params.id":           `close each "${"`,
		"https://up/${param.id}":           "replace ${param.id}: it is unknown",
		"https://up/${params}":             "replace ${params}",
		"https://up/${method.x}":           "replace ${method.x}",
		"https://up/${request}":            "replace ${request}",
		"https://up/${request.env.A}":      "replace ${request.env.A}",
		"https://up/${request.user.email}": "use request.user.sub",
		"https://up/${}":                   "as a name with properties",
		"https://up/${a b}":                "as a name with properties",
		"https://up/${headers.}":           "as a name with properties",
		"https://up/${headers[x]}":         "as a name with properties",
		"https://up/${headers['x]}":        `close each "${"`,
		"https://up/${e(params.id}":        "close the parenthesis",
		"https://up/${process.exit(1)}":    "as a name with properties",
		"https://up/${1+1}":                "as a name with properties",
		"up.example/x":                     "begin the address",
		"ftp://up.example/x":               "begin the address",
		"//up.example/x":                   "begin the address",
		"":                                 "begin the address",
		"https://":                         "correct the host",
		"https:///x":                       "correct the host",
		"https://up example/":              "correct the host",
		"https://up:port/":                 "correct the host",
		"https://up\u0080/":                "no international domain name",
		"https://up\u00ad_/":               "no international domain name",
		"https://up/${headers[}":           "as a name with properties",
		`https://up/${headers["}`:          `close each "${"`,
		`https://up/${headers[""]}`:        "as a name with properties",
		`https://up/${headers["a'}`:        `close each "${"`,
		"https://user:secret@up/":          "take the user and password out",
		"https://up/#x":                    `take "#"`,
		"https://up\\x":                    `take "#" and "\"`,
		"https://up/100%":                  "%25",
		"https://up/../x":                  `take the "."`,
		"https://up/%2e${query.x}/%2E%2e":  `take the "."`,
		"https://up/a/.;x":                 "beside an encoded slash",
		"https://up/${query.x}%2F..":       "beside an encoded slash",
		"https://up/%00":                   "control characters",
		"${params.host}/x":                 "begin the address",
		"https://${headers.host}/x":        "write the host",
		"https://up${params.x}/y":          `put a "/"`,
		"https://up.${query.x}/y":          `put a "/"`,
		"https://up:${query.x}/y":          `put a "/"`,
	} {
		if err := Check(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Check(%s) error = %v, want it to contain %q", text, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("Check(%s) = %v, want an error without the password", text, err)
		}
	}
}

func TestUnsetHostVariableIsReported(t *testing.T) {
	for text, want := range map[string]string{
		"${env.UPSTREAM}/x":         "set the variable UPSTREAM",
		"https://${env.UPSTREAM}/x": "set the variable UPSTREAM",
		"service://${env.STOCK}/x":  "set the variable STOCK",
		"https://up/${env.PATH}/x":  "",
	} {
		if err := Check(text); err != nil {
			t.Errorf("Check(%s) = %v, want no error, since only Compile has the variables", text, err)
		}
		parsed, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parsed.Compile(map[string]string{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Compile(%s) error = %v, want it to contain %q (no error if empty)", text, err, want)
		}
	}
}

func TestLongNamesAreShortenedInErrors(t *testing.T) {
	for length, want := range map[int]string{
		60: "replace ${" + strings.Repeat("x", 60) + "}:",
		61: "replace ${" + strings.Repeat("x", 60) + "…}:",
	} {
		if _, err := Parse("${" + strings.Repeat("x", length) + "}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(name of %d bytes) error = %v, want it to contain %q", length, err, want)
		}
	}
}

func FuzzParseNeverPanics(f *testing.F) {
	for _, seed := range []string{
		"https://up/${params.id}", "${e(e(query.a))}", `${headers["a"]['b'](c)}`, "${", "}",
		"https://u/?${search}#", "service://a/../b", "service://Stock:80/${pathname}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			return
		}
		if a, err := parsed.Compile(nil); err == nil {
			_, _ = a.Resolve(&pipeline.Exchange{Path: "/"}, "", true)
		}
	})
}
