package options

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/format/project"
)

// sample has options of the kinds that Read supports, except a map.
type sample struct {
	By      string          `json:"by" required:"true" enum:"user,ip"`
	Allowed int64           `json:"allowed" required:"true" minimum:"1" maximum:"100"`
	Minutes float64         `json:"minutes" minimum:"0.5"`
	Strict  bool            `json:"strict"`
	Name    string          `json:"name"`
	Header  *header         `json:"header"`
	Tags    []string        `json:"tags"`
	Extra   json.RawMessage `json:"extra"`
}

type header struct {
	Value string `json:"value" required:"true"`
}

func TestValidOptionsOverrideDefaults(t *testing.T) {
	got := sample{Name: "default"}
	problems := Read(
		json.RawMessage(
			`{"by":"ip","allowed":"12","minutes":1.5,"header":{"value":"v"},"strict":"true","tags":["a","b"],`+
				`"extra":{"x":[1]}}`), &got)
	if len(problems) > 0 {
		t.Fatalf("Read() = %v, want no problems", problems)
	}
	want := sample{
		By: "ip", Allowed: 12, Minutes: 1.5, Strict: true, Name: "default", Header: &header{"v"},
		Tags: []string{"a", "b"}, Extra: json.RawMessage(`{"x":[1]}`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Read(valid options) differs from the expected options (-want +got):\n%s", diff)
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	var got sample
	problems := Read(
		json.RawMessage(
			`{"by":"moon","minutes":"soon","strict":"yes","name":7,"header":{},"tags":["a",1],"a/b~c":1,"zeal":"secret"}`), &got)
	known := `Known ones are "by", "allowed", "minutes", "strict", "name", "header", "tags" and "extra".`
	want := []project.Problem{
		{Path: "/options/by", Message: `Write "user" or "ip".`},
		{Path: "/options/allowed", Message: `Add "allowed": it is required.`},
		{Path: "/options/minutes", Message: "Write a number, or $env(NAME) of a variable that holds one."},
		{Path: "/options/strict", Message: "Write true or false, or $env(NAME) of a variable that is one of them."},
		{Path: "/options/name", Message: "Write a string, in quotes."},
		{Path: "/options/header/value", Message: `Add "value": it is required.`},
		{Path: "/options/tags/1", Message: "Write a string, in quotes."},
		{Path: "/options/a~1b~0c", Message: "Remove this option: it is unknown here. " + known},
		{Path: "/options/zeal", Message: "Remove this option: it is unknown here. " + known},
	}
	if diff := cmp.Diff(want, problems); diff != "" {
		t.Errorf("Read(invalid options) differs from the expected problems (-want +got):\n%s", diff)
	}
}

func TestNumbersOutsideTheirRangeAreRefused(t *testing.T) {
	for raw, want := range map[string]string{
		`1`:       "",
		`100`:     "",
		`1e2`:     "",
		`"100"`:   "",
		`0`:       "Write a number of at least 1.",
		`-3`:      "Write a number of at least 1.",
		`101`:     "Write a number of at most 100.",
		`1.5`:     "Write a whole number.",
		`1e300`:   "Write a whole number.",
		`null`:    "Write a number, or $env(NAME) of a variable that holds one.",
		`"null"`:  "Write a number, or $env(NAME) of a variable that holds one.",
		`""`:      "Write a number, or $env(NAME) of a variable that holds one.",
		`[]`:      "Write a number, or $env(NAME) of a variable that holds one.",
		`"1 000"`: "Write a number, or $env(NAME) of a variable that holds one.",
	} {
		var got sample
		problems := Read(json.RawMessage(`{"by":"ip","allowed":`+raw+`}`), &got)
		message := ""
		if len(problems) == 1 && problems[0].Path == "/options/allowed" {
			message = problems[0].Message
		} else if len(problems) > 0 {
			t.Errorf("Read(%s) = %v, want at most one problem, at /options/allowed", raw, problems)
		}
		if message != want {
			t.Errorf("Read(%s): message = %q, want %q", raw, message, want)
		}
	}
}

func TestOptionsMustBeAnObject(t *testing.T) {
	for _, raw := range []string{`[]`, `"x"`, `null`, `3`, `{`} {
		var got header
		problems := Read(json.RawMessage(raw), &got)
		if len(problems) != 1 || problems[0].Path != "/options" {
			t.Errorf("Read(%s) = %v, want one problem at /options", raw, problems)
		}
	}
	var got header
	if problems := Read(nil, &got); len(problems) != 1 || problems[0].Path != "/options/value" {
		t.Errorf("Read(nil) = %v, want one problem at /options/value", problems)
	}
}
