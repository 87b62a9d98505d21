package mcpdocs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm/minilmtest"
)

// TestLocationOfPassage checks that the URL of a passage is that of a page of the installation if there is a page of
// its file, and that of the file in the repository otherwise.
func TestLocationOfPassage(t *testing.T) {
	s := &server{parts: installation.Parts{Config: config.Config{
		APIURL:        "https://api.example.com/dev",
		DeploymentURL: "https://{deployment}.example.com",
	}}}
	for _, tt := range []struct{ file, anchor, url string }{
		{"docs/README.md", "", "https://api.example.com/dev/docs"},
		{"docs/limits.md", "", "https://api.example.com/dev/docs/limits"},
		{"docs/limits.md", "keys", "https://api.example.com/dev/docs/limits#keys"},
		{"functions/platform/openapi.json", "V1_whoAmI", "https://api.example.com/dev/docs/reference#V1_whoAmI"},
		{
			"docs/decisions/0001-first.md", "",
			"https://github.com/gatewright/gatewright/blob/main/docs/decisions/0001-first.md",
		},
		{"docs/decisions/README.md", "", "https://github.com/gatewright/gatewright/blob/main/docs/decisions/README.md"},
		{"README.md", "five-minutes", "https://github.com/gatewright/gatewright/blob/main/README.md#five-minutes"},
	} {
		got := s.locate(t.Context(), "A title", tt.file, tt.anchor)
		if want := (location{"A title", tt.file, tt.anchor, tt.url}); got != want {
			t.Errorf("locate(%s, %q) = %+v, want %+v", tt.file, tt.anchor, got, want)
		}
	}
}

// TestSearchNote checks the notes of searches. A search by meaning has none.
func TestSearchNote(t *testing.T) {
	for _, tt := range []struct {
		mode docsearch.Mode
		busy bool
		want string
	}{
		{docsearch.Lexical, false, "cannot read the weights"},
		{docsearch.Lexical, true, "Too many others"},
		{docsearch.Semantic, false, ""},
	} {
		if got := searchNote(tt.mode, tt.busy, nil); !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("searchNote(%s, %t) = %q, want %q in it", tt.mode, tt.busy, got, tt.want)
		}
	}
}

// TestWeightsAreFoundInEachLayout checks that the file of weights is found in each layout of folders that a build or an
// installation can have.
func TestWeightsAreFoundInEachLayout(t *testing.T) {
	file, err := filepath.Abs("../../shared/management/docsearch/minilm/" + minilm.FileName)
	if err != nil {
		t.Fatal(err)
	}
	want := minilmtest.File(t)
	for _, tt := range []struct{ layout, binary, weights string }{
		{"a checkout", "dist", "shared/management/docsearch/minilm"},
		{"an archive", "usr/local/bin", "usr/local/share/gatewright"},
		{"an image, or a function's asset", ".", "."},
	} {
		root := t.TempDir()
		link := filepath.Join(root, tt.weights, minilm.FileName)
		if err := errors.Join(os.MkdirAll(filepath.Join(root, tt.binary), 0o700), os.MkdirAll(filepath.Dir(link), 0o700),
			os.Symlink(file, link)); err != nil {
			t.Fatal(err)
		}
		got, err := firstFile(filepath.Join(root, tt.binary), minilm.FileName, weightsFolders)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("firstFile(%s) of %s = %d bytes, %v, want the %d bytes of the repository's file", tt.binary,
				tt.layout, len(got), err, len(want))
		}
	}
}

// TestWeightsFileIsConfiguredOrNearBinary checks that weightsLoader reads the configured file or, if none is
// configured, the file near the binary. A configured file that does not exist must be an error, even if there is a file
// near the binary.
func TestWeightsFileIsConfiguredOrNearBinary(t *testing.T) {
	if _, err := weightsLoader("")(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("weightsLoader() without a file: error = %v, want %v", err, fs.ErrNotExist)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	writeFile := func(path, text string) string {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(path) })
		return path
	}
	configured := writeFile(filepath.Join(t.TempDir(), "w"), "configured")
	for _, tt := range []struct{ file, want string }{
		{filepath.Join(filepath.Dir(binary), "../share/gatewright", minilm.FileName), "in the folder"},
		{filepath.Join(filepath.Dir(binary), minilm.FileName), "beside it"},
	} {
		writeFile(tt.file, tt.want)
		if got, err := weightsLoader("")(); err != nil || string(got) != tt.want {
			t.Errorf("weightsLoader() with %s = %q, %v, want %q", tt.file, got, err, tt.want)
		}
	}
	if got, err := weightsLoader(configured)(); err != nil || string(got) != "configured" {
		t.Errorf("weightsLoader(%s) = %q, %v, want the configured file", configured, got, err)
	}
	if got, err := weightsLoader(configured + ".gone")(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("weightsLoader(%s.gone) = %q, %v, want %v", configured, got, err, fs.ErrNotExist)
	}
}
