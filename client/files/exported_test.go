package files_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

// TestExportIgnoresMemberOrder checks that the order of members in responses does not change an export, so that a
// repository shows only changes of objects.
func TestExportIgnoresMemberOrder(t *testing.T) {
	t.Parallel()
	var exports []string
	for _, metadata := range []string{
		`{"b":{"y":1.0,"x":"\u0061"},"a":[2,1]}`,
		`{ "a": [2, 1], "b": {"x": "a", "y": 1.0} }`,
	} {
		f := newFakeAPI(t, "a")
		mustApply(t, f, beforeYAML)
		f.objectsOf("consumers")[0].fields["metadata"] = json.RawMessage(metadata)
		exports = append(exports, mustExport(t, f))
	}
	if exports[0] != exports[1] || !strings.Contains(exports[0], "1.0\n") {
		t.Errorf("two Export() =\n%s\nand\n%s\nwant the same text with 1.0", exports[0], exports[1])
	}
}

// TestTagNamedLikeReferenceIsKept checks tags and metadata with a member fromEnv or fromFile. An export must have the
// member unchanged, and reading the file must not use it as a Reference.
func TestTagNamedLikeReferenceIsKept(t *testing.T) {
	t.Parallel()
	for _, object := range []string{
		`{"fromEnv":"SHOP_TOKEN"}`, `{"fromFile":"../../etc/passwd"}`,
		`{"fromEnv":"not a name","a":"b"}`, `{"fromEnv":""}`,
	} {
		source, target := newFakeAPI(t, "a"), newFakeAPI(t, "b")
		mustApply(t, source, beforeYAML)
		consumer := source.objectsOf("consumers")[0]
		consumer.fields["tags"], consumer.fields["metadata"] = json.RawMessage(object), json.RawMessage(object)
		text := mustExport(t, source)
		if p := mustCompare(t, source, text, files.Options{}); len(p.Changes) > 0 {
			t.Errorf("%s: Compare() of an export = %+v, want no change", object, p.Changes)
		}
		mustApply(t, target, text)
		if reexported := mustExport(t, target); reexported != text {
			t.Errorf("%s: Export() of the other account =\n%s\nwant\n%s", object, reexported, text)
		}
	}
}

// TestExportToFolderIsAtomic checks that the folder gets all files in one step: a reader that has opened the empty
// folder before must not see any of the files.
func TestExportToFolderIsAtomic(t *testing.T) {
	t.Parallel()
	if os.PathSeparator != '/' {
		t.Skip("Windows cannot replace a folder that is open")
	}
	f, dir := newFakeAPI(t, "a"), filepath.Join(t.TempDir(), "account")
	mustApply(t, f, fullYAML)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	written := exportToFolder(t, f, dir, false)
	// On some systems, Readdirnames returns an error because the folder was removed.
	if visible, err := reader.Readdirnames(-1); len(visible) > 0 {
		t.Errorf("during WriteFolder() a reader of the folder has %v, %v, want no files", visible, err)
	}
	if existing := fileNames(t, dir); len(written) < 4 || !slices.Equal(existing, written) {
		t.Errorf("WriteFolder() = %v, the folder has %v, want the same, and at least 4", written, existing)
	}
	if siblings := fileNames(t, filepath.Dir(dir)); len(siblings) != 1 {
		t.Errorf("WriteFolder() leaves %v in the parent folder, want the folder alone", siblings)
	}
}

// TestForcedExportKeepsOtherFiles checks that an export overwrites no files without force. With force, it must remove
// the files of lists that are now empty, and keep all other files.
func TestForcedExportKeepsOtherFiles(t *testing.T) {
	t.Parallel()
	f, dir := newFakeAPI(t, "a"), t.TempDir()
	mustApply(t, f, fullYAML)
	exportToFolder(t, f, dir, false)
	readme := filepath.Join(dir, "README.md")
	if err := os.WriteFile(readme, []byte("ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := fileNames(t, dir)
	for _, o := range f.objectsOf("tunnels") {
		f.remove(o)
	}
	e, err := files.Export(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.WriteFolder(dir, false); exit.CodeOf(err) != exit.Usage || !slices.Equal(fileNames(t, dir), before) {
		t.Errorf("WriteFolder() without force: error = %v, files %v, want code %d and %v",
			err, fileNames(t, dir), exit.Usage, before)
	}
	exportToFolder(t, f, dir, true)
	want := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return name == "tunnels.yaml" })
	if got := fileNames(t, dir); len(want) == len(before) || !slices.Equal(got, want) {
		t.Errorf("WriteFolder() with force: files %v, want %v", got, want)
	}
	if text, err := os.ReadFile(readme); err != nil || string(text) != "ours" {
		t.Errorf("WriteFolder() with force: another file has %q, %v, want ours", text, err)
	}
}

func exportToFolder(t *testing.T, f *fakeAPI, dir string, force bool) []string {
	t.Helper()
	e, err := files.Export(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	written, err := e.WriteFolder(dir, force)
	if err != nil {
		t.Fatal(err)
	}
	return written
}

// fileNames returns the names in a folder.
func fileNames(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}

// TestEmptySecretIsRefused checks that a reference to a missing variable, or to an empty file, is a problem of the
// files, and that the empty text is not used as a secret.
func TestEmptySecretIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "line": "\n", "value": "v\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for ref, valid := range map[string]bool{
		"fromFile: empty": false, "fromFile: line": false, "fromFile: value": true,
		"fromEnv: SHOP_TOKEN": true, "fromEnv: NOT_SET": false,
	} {
		file := filepath.Join(dir, "account.yaml")
		if err := os.WriteFile(file, []byte("projects: [{name: shop, branches: [{name: main, variables: [{name: T, "+
			"isSecret: true, value: {"+ref+"}}]}]}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := compare(t.Context(), newFakeAPI(t, "a"), file, files.Options{}); (err == nil) != valid ||
			err != nil && exit.CodeOf(err) != exit.Invalid {
			t.Errorf("Compare() with the secret {%s}: error = %s, want none: %t, otherwise code %d",
				ref, errorText(err), valid, exit.Invalid)
		}
	}
}
