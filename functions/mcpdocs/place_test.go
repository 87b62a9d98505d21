package mcpdocs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/docsearch"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/docsearch/minilm/minilmtest"
	"github.com/gatewright/gatewright/shared/installation"
)

// TestAPassageIsReadInThePagesOfTheInstallation where these have it, and else in the repository.
func TestAPassageIsReadInThePagesOfTheInstallation(t *testing.T) {
	s := &server{parts: installation.Parts{Config: config.Config{APIURL: "https://api.example.com/dev", DeploymentURL: "https://{deployment}.example.com"}}}
	for _, tt := range []struct{ file, anchor, url string }{
		{"docs/README.md", "", "https://api.example.com/dev/docs"},
		{"docs/limits.md", "", "https://api.example.com/dev/docs/limits"},
		{"docs/limits.md", "keys", "https://api.example.com/dev/docs/limits#keys"},
		{"functions/platform/openapi.json", "V1_whoAmI", "https://api.example.com/dev/docs/reference#V1_whoAmI"},
		{"docs/decisions/0001-first.md", "", "https://github.com/gatewright/gatewright/blob/main/docs/decisions/0001-first.md"},
		{"docs/decisions/README.md", "", "https://github.com/gatewright/gatewright/blob/main/docs/decisions/README.md"},
		{"README.md", "five-minutes", "https://github.com/gatewright/gatewright/blob/main/README.md#five-minutes"},
	} {
		got := s.place(t.Context(), "A title", tt.file, tt.anchor)
		if want := (place{"A title", tt.file, tt.anchor, tt.url}); got != want {
			t.Errorf("it is %+v, want %+v", got, want)
		}
	}
}

// TestTheNoteSaysWhyItIsByWords, and nothing where it is by meaning.
func TestTheNoteSaysWhyItIsByWords(t *testing.T) {
	for _, tt := range []struct {
		mode docsearch.Mode
		busy bool
		says string
	}{{docsearch.Lexical, false, "cannot read the weights"}, {docsearch.Lexical, true, "Too many others"}, {docsearch.Semantic, false, ""}} {
		if got := note(tt.mode, tt.busy, nil); !strings.Contains(got, tt.says) || (got == "") != (tt.says == "") {
			t.Errorf("%s, busy %t: %q", tt.mode, tt.busy, got)
		}
	}
}

// TestWeightsAreFoundInACheckoutAndInARelease maps the file of the repository in each layout in which the product is built or installed.
func TestWeightsAreFoundInACheckoutAndInARelease(t *testing.T) {
	file, err := filepath.Abs("../../shared/docsearch/minilm/" + minilm.FileName)
	if err != nil {
		t.Fatal(err)
	}
	want := minilmtest.File(t)
	for _, tt := range []struct{ layout, binary, weights string }{
		{"a checkout", "dist", "shared/docsearch/minilm"},
		{"an archive", "usr/local/bin", "usr/local/share/gatewright"},
		{"an image, or a function's asset", ".", "."},
	} {
		root := t.TempDir()
		link := filepath.Join(root, tt.weights, minilm.FileName)
		if err := errors.Join(os.MkdirAll(filepath.Join(root, tt.binary), 0o700), os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(file, link)); err != nil {
			t.Fatal(err)
		}
		got, err := first(filepath.Join(root, tt.binary), minilm.FileName, weightsFolders)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("first(%s) of %s = %d bytes, %v, want the %d bytes of the repository's file", tt.binary, tt.layout, len(got), err, len(want))
		}
	}
}

// TestWeightsAreThoseConfiguredOrBesideTheBinary: a configured file that does not exist is an error, and no other file replaces it.
func TestWeightsAreThoseConfiguredOrBesideTheBinary(t *testing.T) {
	if _, err := weights("")(); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("beside the tests' binary there is %v", err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	put := func(path, text string) string {
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
	configured := put(filepath.Join(t.TempDir(), "w"), "configured")
	for _, tt := range []struct{ at, want string }{
		{filepath.Join(filepath.Dir(binary), "../share/gatewright", minilm.FileName), "in the folder"},
		{filepath.Join(filepath.Dir(binary), minilm.FileName), "beside it"},
	} {
		put(tt.at, tt.want)
		if got, err := weights("")(); err != nil || string(got) != tt.want {
			t.Errorf("it is %q, %v, want %q", got, err, tt.want)
		}
	}
	if got, err := weights(configured)(); err != nil || string(got) != "configured" {
		t.Errorf("what is configured is %q, %v", got, err)
	}
	if got, err := weights(configured + ".gone")(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in the place of what is configured there is %q, %v", got, err)
	}
}
