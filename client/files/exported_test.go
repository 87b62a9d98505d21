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

// TestExportIsTheSameWhateverTheOrderOfMembers, which is that of whoever has written them: a repository shows changes of objects, and none of that.
func TestExportIsTheSameWhateverTheOrderOfMembers(t *testing.T) {
	t.Parallel()
	var all []string
	for _, metadata := range []string{`{"b":{"y":1.0,"x":"\u0061"},"a":[2,1]}`, `{ "a": [2, 1], "b": {"x": "a", "y": 1.0} }`} {
		f := newFake(t, "a")
		applied(t, f, before)
		f.things("consumers")[0].fields["metadata"] = json.RawMessage(metadata)
		all = append(all, exported(t, f))
	}
	if all[0] != all[1] || !strings.Contains(all[0], "1.0\n") {
		t.Errorf("it is\n%s\nand\n%s", all[0], all[1])
	}
}

// TestMembersThatAreCalledAsReferencesAreTheirOwn: tags and metadata may have a member fromEnv, which an export writes as it is, and a file
// that is read again means no variable of the environment by it.
func TestMembersThatAreCalledAsReferencesAreTheirOwn(t *testing.T) {
	t.Parallel()
	for _, own := range []string{`{"fromEnv":"SHOP_TOKEN"}`, `{"fromFile":"../../etc/passwd"}`, `{"fromEnv":"not a name","a":"b"}`, `{"fromEnv":""}`} {
		here, there := newFake(t, "a"), newFake(t, "b")
		applied(t, here, before)
		ada := here.things("consumers")[0]
		ada.fields["tags"], ada.fields["metadata"] = json.RawMessage(own), json.RawMessage(own)
		text := exported(t, here)
		if p := compared(t, here, text, files.Options{}); len(p.Changes) > 0 {
			t.Errorf("%s: what was exported changes %+v", own, p.Changes)
		}
		applied(t, there, text)
		if again := exported(t, there); again != text {
			t.Errorf("%s: elsewhere it is\n%s\nof\n%s", own, again, text)
		}
	}
}

// TestExportIntoAFolderIsOneStep: who reads the folder sees all of it or nothing. Handles of a folder that is replaced tell.
func TestExportIntoAFolderIsOneStep(t *testing.T) {
	t.Parallel()
	if os.PathSeparator != '/' {
		t.Skip("a folder that is open is not replaced there")
	}
	f, dir := newFake(t, "a"), filepath.Join(t.TempDir(), "account")
	applied(t, f, whole)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	written := exportedTo(t, f, dir, false)
	if seen, err := reader.Readdirnames(-1); len(seen) > 0 { // the error says that it is gone, on some systems
		t.Errorf("who reads it meanwhile sees %v, %v", seen, err)
	}
	if there := names(t, dir); len(written) < 4 || !slices.Equal(there, written) {
		t.Errorf("it has %v, and is told to have %v", there, written)
	}
	if beside := names(t, filepath.Dir(dir)); len(beside) != 1 {
		t.Errorf("beside it is %v", beside)
	}
}

// TestExportWritesOverOthersOfItsOwnAlone: without --force over nothing, and with it the files of kinds that are gone go, and all others stay.
func TestExportWritesOverOthersOfItsOwnAlone(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t, "a"), t.TempDir()
	applied(t, f, whole)
	exportedTo(t, f, dir, false)
	readme := filepath.Join(dir, "README.md")
	if err := os.WriteFile(readme, []byte("ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := names(t, dir)
	for _, o := range f.things("tunnels") {
		f.remove(o)
	}
	e, err := files.Export(t.Context(), f, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.WriteFolder(dir, false); exit.Of(err) != exit.Usage || !slices.Equal(names(t, dir), before) {
		t.Errorf("without force: %v, %v", err, names(t, dir))
	}
	exportedTo(t, f, dir, true)
	want := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return name == "tunnels.yaml" })
	if got := names(t, dir); len(want) == len(before) || !slices.Equal(got, want) {
		t.Errorf("with force there is %v, want %v", got, want)
	}
	if text, err := os.ReadFile(readme); err != nil || string(text) != "ours" {
		t.Errorf("another file has %q, %v", text, err)
	}
}

func exportedTo(t *testing.T, f *fake, dir string, force bool) []string {
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

// names are those of what is in a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	there, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range there {
		all = append(all, one.Name())
	}
	return all
}

// TestEmptySecretIsNone: a variable or a file that a pipeline has left empty is told at its place, and is no value.
func TestEmptySecretIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"empty": "", "line": "\n", "value": "v\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for from, good := range map[string]bool{"fromFile: empty": false, "fromFile: line": false, "fromFile: value": true, "fromEnv: SHOP_TOKEN": true, "fromEnv: NOT_SET": false} {
		file := filepath.Join(dir, "account.yaml")
		if err := os.WriteFile(file, []byte("projects: [{name: shop, branches: [{name: main, variables: [{name: T, isSecret: true, value: {"+from+"}}]}]}]\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := compare(t.Context(), newFake(t, "a"), file, files.Options{}); (err == nil) != good || err != nil && exit.Of(err) != exit.Invalid {
			t.Errorf("%s: %s", from, told(err))
		}
	}
}
