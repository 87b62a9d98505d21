package corpus_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/corpus"
)

func TestPagesAreSplitAtHeadings(t *testing.T) {
	const page = `# Keys

About *keys*, and [buckets](buckets.md).
It goes on.

## What holds

- An entry
  in two lines
- **Another** one with ` + "`code`" + `

| of a key | what |
|---|---|
| ` + "`label`" + ` | its name |

` + "```sh\ncurl is left out\n```" + `

### Deeper, with marks!

Below.

## What holds

> Quoted.

<!-- a comment -->
`
	got := corpus.Page("docs/keys.md", []byte(page))
	want := []docsearch.Passage{
		{Title: "Keys", Path: "docs/keys.md", Text: "About keys, and buckets. It goes on."},
		{
			Title: "Keys › What holds", Path: "docs/keys.md", Anchor: "what-holds",
			Text: "An entry in two lines\nAnother one with `code`\nof a key | what\n`label` | its name",
		},
		{
			Title: "Keys › What holds › Deeper, with marks!", Path: "docs/keys.md", Anchor: "deeper-with-marks",
			Text: "Below.",
		},
		{Title: "Keys › What holds", Path: "docs/keys.md", Anchor: "what-holds-1", Text: "Quoted."},
	}
	if !slices.Equal(got, want) {
		t.Errorf("Page() =\n%q, want\n%q", got, want)
	}
}

func TestLongSectionsAreSplitAtParagraphs(t *testing.T) {
	words := func(n int) string { return strings.TrimSpace(strings.Repeat("key ", n)) }
	half := corpus.MaxPassageTokens / 2
	tests := []struct {
		name       string
		paragraphs []string
		wantTokens []int // of each passage
	}{
		{"paragraphs that fit into one passage", []string{words(half), words(half)}, []int{2 * half}},
		{
			"paragraphs that fill two passages",
			[]string{words(half), words(half), words(1), words(half)},
			[]int{2 * half, half + 1},
		},
		{
			"a long paragraph, split between sentences",
			[]string{words(half) + ". K" + words(half) + ". K" + words(half) + "."},
			[]int{half + 1, half + 1, half + 1},
		},
		{
			"a long sentence, split between words",
			[]string{words(2*corpus.MaxPassageTokens + 3)},
			[]int{corpus.MaxPassageTokens, corpus.MaxPassageTokens, 3},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for _, p := range corpus.Page("docs/keys.md", []byte("# Keys\n\n"+strings.Join(tt.paragraphs, "\n\n"))) {
				got = append(got, corpus.EstimateTokens(p.Text))
			}
			if !slices.Equal(got, tt.wantTokens) {
				t.Errorf("estimated tokens of the passages of Page() = %v, want %v", got, tt.wantTokens)
			}
		})
	}
}

func TestEstimateTokens(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "key": 1, "a key": 2, "a, b.": 4, "identity": 2, "`x-y`": 5, "2026": 1, "deployments of gateways": 5,
	} {
		if got := corpus.EstimateTokens(text); got != want {
			t.Errorf("EstimateTokens(%q) = %d, want %d", text, got, want)
		}
	}
}

// TestOperations checks that each operation is a passage with its query parameters and the fields of its body. Its path
// parameters and headers are left out.
func TestOperations(t *testing.T) {
	const document = `{"paths": {"/v1/keys/{id}": {"delete": {"operationId": "Keys_delete", "summary": "Delete a key",
		"tags": ["Keys"]},
		"patch": {"operationId": "Keys_update", "summary": "Update a key", "description": "Takes a minute.", "tags": ["Keys"],
			"parameters": [{"name": "id", "in": "path", "description": "The id."},
				{"name": "If-Match", "in": "header", "description": "An ETag."},
				{"name": "force", "in": "query", "description": "Does it anyway."}],
			"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Update"}}}}}}},
		"components": {"schemas": {"Update": {"properties": {"label": {"description": "Its name."}, "n": {}}}}}}`
	got, err := corpus.Operations([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	want := []docsearch.Passage{
		{
			Title: "API › Keys › Update a key", Path: corpus.OpenAPIFile, Anchor: "Keys_update",
			Text: "Update a key: `PATCH /v1/keys/{id}`\nTakes a minute.\n" +
				"`force` (query) | Does it anyway.\n`label` (body) | Its name.",
		},
		{
			Title: "API › Keys › Delete a key", Path: corpus.OpenAPIFile, Anchor: "Keys_delete",
			Text: "Delete a key: `DELETE /v1/keys/{id}`",
		},
	}
	if !slices.Equal(got, want) {
		t.Errorf("Operations() =\n%q, want\n%q", got, want)
	}
}

// TestRepositoryPassagesAreBounded checks the lengths of the passages of this repository's documentation. It also
// checks that certain sections have passages, that each passage has a title, and that docs/search-quality.md has no
// passages.
func TestRepositoryPassagesAreBounded(t *testing.T) {
	content, err := corpus.Read(os.DirFS("../../../.."))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, p := range content.Passages {
		sections[p.Section()] = true
		if n := corpus.EstimateTokens(p.Text); n == 0 || n > corpus.MaxPassageTokens {
			t.Errorf("a passage of %s has %d estimated tokens, want 1 to %d", p.Section(), n, corpus.MaxPassageTokens)
		}
		if p.Title == "" {
			t.Errorf("a passage of %s has an empty title, want one", p.Section())
		}
	}
	for _, section := range []string{
		"docs/README.md#", "docs/problems.md#conflict", "docs/api.md#safe-retries",
		corpus.OpenAPIFile + "#ApiKeyConsumersService_rollKey",
	} {
		if !sections[section] {
			t.Errorf("section %s has no passage, want one", section)
		}
	}
	if sections["docs/search-quality.md#"] {
		t.Error("docs/search-quality.md is in the corpus, want it excluded: its figures are measured with the corpus")
	}
}

func TestReadSplitsQuestionsAndRefusesMissingSections(t *testing.T) {
	files := func(questions string) fstest.MapFS {
		return fstest.MapFS{
			"docs/keys.md":       {Data: []byte("# Keys\n\nText.\n")},
			corpus.OpenAPIFile:   {Data: []byte("{}")},
			corpus.QuestionsFile: {Data: []byte(questions)},
		}
	}
	content, err := corpus.Read(files("# docs/keys.md#\nWhat is a key? And what for?\nHow long is it?\n"))
	want := "[{docs/keys.md# What is a key?} {docs/keys.md# And what for?} {docs/keys.md# How long is it?}]"
	if got := fmt.Sprint(content.Questions); err != nil || got != want {
		t.Errorf("Read() questions = %s, error = %v, want %s and no error", got, err, want)
	}
	if _, err := corpus.Read(files("# docs/keys.md#gone\nWhat?\n")); err == nil ||
		!strings.Contains(err.Error(), "docs/keys.md#gone") {
		t.Errorf("Read() with a question of a missing section: error = %v, want one with docs/keys.md#gone", err)
	}
}
