package corpus_test

import (
	"slices"
	"testing"

	"github.com/gatewright/gatewright/internal/corpus"
)

func TestListIsReadAsItIsWritten(t *testing.T) {
	want := []corpus.Refusal{
		{File: "a/b.json", Stage: corpus.StageInit, Count: 1, Reason: `no "…" of N`},
		{File: "c.json", Stage: corpus.StageTool, Count: 17, Reason: "error:\tbody"},
	}
	got, err := corpus.ParseRefusals(corpus.FormatRefusals(want))
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("ParseRefusals(FormatRefusals()) = %v, %v, want %v", got, err, want)
	}
	if _, err := corpus.ParseRefusals([]byte("a.json\tinit\t1\n")); err == nil {
		t.Error("ParseRefusals(a line with three fields) error = nil, want an error")
	}
}

func TestCompareReportsNewAndMissingRefusals(t *testing.T) {
	refusal := func(file string, count int, reason string) corpus.Refusal {
		return corpus.Refusal{File: file, Stage: corpus.StageBuild, Count: count, Reason: reason}
	}
	listed := []corpus.Refusal{
		refusal("a", 2, "same"), refusal("a", 2, "fewer"), refusal("a", 2, "gone"), refusal("a", 2, "more"),
		refusal("unchecked", 1, "same"),
	}
	now := []corpus.Refusal{
		refusal("a", 2, "same"), refusal("a", 1, "fewer"), refusal("a", 3, "more"), refusal("b", 1, "new"),
	}
	more, fewer := corpus.Compare(listed, now, map[string]bool{"a": true, "b": true})
	reasons := func(all []corpus.Difference) (out []string) {
		for _, d := range all {
			out = append(out, d.Reason)
		}
		return out
	}
	if got, want := reasons(more), []string{"more", "new"}; !slices.Equal(got, want) {
		t.Errorf("Compare() more = %q, want %q", got, want)
	}
	if got, want := reasons(fewer), []string{"fewer", "gone"}; !slices.Equal(got, want) {
		t.Errorf("Compare() fewer = %q, want %q", got, want)
	}
}

// TestCheckReportsRefusals checks descriptions with one mistake each.
func TestCheckReportsRefusals(t *testing.T) {
	checker, err := corpus.NewChecker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer checker.Close()
	const head = `{"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": {"/a": {"post": {` +
		`"responses": {"200": {"description": "d"}}`
	for _, test := range []struct {
		text  string
		stage corpus.Stage
	}{
		{`{"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "paths": {}}`, corpus.StageInit},
		{head + `, "requestBody": {"$ref": "#/components/requestBodies/missing"}}}}}`, corpus.StageBuild},
		{head + `, "parameters": [{"name": "p", "in": "query", "required": true,
			"schema": {"type": "string", "enum": []}}]}}}}`, corpus.StageBuild},
		{head + `, "parameters": [{"name": "p", "in": "query", "required": true,
			"schema": {"type": "integer", "minimum": 2, "maximum": 1}}]}}}}`, corpus.StageSample},
		{head + `, "requestBody": {"required": true, "content": {"image/png": {}}}}}}}`, corpus.StageOffer},
		{head + `}}}}`, ""},
	} {
		result, err := checker.Check(t.Context(), corpus.Description{Name: "a.json", Text: []byte(test.text)})
		if err != nil {
			t.Errorf("Check(%s) error = %v, want a result", test.text, err)
			continue
		}
		isExpected := len(result.Refusals) > 0 && result.Refusals[0].Stage == test.stage ||
			len(result.Refusals) == 0 && test.stage == ""
		if !isExpected {
			t.Errorf("Check(%s) = %v, want a refusal at the stage %q", test.text, result.Refusals, test.stage)
		}
	}
}
