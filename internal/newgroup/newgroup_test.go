package main

import (
	"bytes"
	"go/format"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/repolint"
)

// repository is the path of the repository's root from this package.
const repository = "../.."

func TestInvalidNamesAreRefused(t *testing.T) {
	for _, c := range []struct{ name, noun, scope, want string }{
		{"", "", "projects", "make group NAME=custom-domains NOUN=custom-domain"},
		{"badges", "", "projects", "make group NAME="},
		{"Badges", "badge", "projects", "lower-case letters"},
		{"badges2", "badge", "projects", "lower-case letters"},
		{"a/../bs", "badge", "projects", "lower-case letters"},
		{"badges", "badge_", "projects", "NOUN=badge_: give one to three words"},
		{"badge", "badge", "projects", "give a plural, such as badges"},
		{"badge", "coin", "projects", "give a plural, such as coins"},
		{"badges", "coin", "projects", "is no plural of NOUN=coin"},
		{"branches", "branch", "projects", "the parameter {branchName}"},
		{"interfaces", "interface", "projects", "means something in Go"},
		{"errors", "error", "projects", "means something in Go"},
		{"bytes", "byte", "projects", "means something in Go"},
		{"key-buckets", "key-bucket", "projects", "functions/keybuckets exists"},
		{"audits", "audit", "projects", ""},
		{"platforms", "platform", "projects", "events/platforms exists"},
		{"keys", "key", "projects", "shared/resource/keys exists"},
		{"variants", "variable", "projects", "calls another thing {variableName}"},
		{"badges", "badge", "medals", "choose one of accounts, account-keys, audit-logs"},
		{"badges", "badge", "audit-logs", ""},
	} {
		g, err := newGroup(c.name, c.noun)
		if err == nil {
			err = g.chooseScope(repository, c.scope)
		}
		if err == nil {
			err = g.checkUnused(repository)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("NAME=%s NOUN=%s SCOPE=%s: error = %v, want one with %q, or none if this is empty", c.name, c.noun,
				c.scope, err, c.want)
		}
	}
}

// TestTemplatesUseTheNames checks that each form of a name is in the right places.
func TestTemplatesUseTheNames(t *testing.T) {
	g, err := newGroup("edge-certificates", "edge-certificate")
	if err != nil {
		t.Fatal(err)
	}
	if err := g.chooseScope(repository, "ca-certificates"); err != nil {
		t.Fatal(err)
	}
	files, err := g.files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"functions/edgecertificates/doc.go": {"on edge certificates, which"},
		"functions/edgecertificates/handlers.go": {
			"edgecertificates.NewEdgeCertificate{",
			"in.EdgeCertificateName",
		},
		"functions/edgecertificates/operations.go": {
			`"EdgeCertificatesService_create"`,
			"Create an edge certificate", "auth.CACertificates.Write()", `"edge-certificate.create"`, "{edgeCertificateName}",
			`Title:       "Edge certificates"`,
		},
		"functions/edgecertificates/lambda/main.go":           {"cloud.Serve(edgecertificates.Bind)"},
		"functions/edgecertificates/edgecertificates_test.go": {"ca-certificates:write"},
		"events/edgecertificates/samples.json":                {`"edgeCertificateName": `},
		"shared/resource/edgecertificates/edgecertificates.go": {
			"An edge certificate of this name exists",
			`fault.Missing("edge certificate")`,
		},
		"shared/resource/edgecertificates/table.go":                 {`store.KeyPrefix = "edge-certificates"`},
		"shared/resource/edgecertificates/edgecertificates_test.go": {"package edgecertificates_test"},
	} {
		for _, text := range want {
			if !bytes.Contains(files[name], []byte(text)) {
				t.Errorf("%s lacks %q, want it there:\n%s", name, text, files[name])
			}
		}
		delete(files, name)
	}
	if len(files) > 0 {
		t.Errorf("files() also returns %v, want no more files", slices.Sorted(maps.Keys(files)))
	}
}

func TestGroupIsAddedToTheList(t *testing.T) {
	before, err := os.ReadFile(filepath.Join(repository, groupList))
	if err != nil {
		t.Fatal(err)
	}
	after, err := group{Package: "badges"}.addToList(before)
	if err != nil {
		t.Fatal(err)
	}
	var added []string
	remaining := strings.SplitAfter(string(before), "\n")
	for line := range strings.SplitAfterSeq(string(after), "\n") {
		if len(remaining) > 0 && line == remaining[0] {
			remaining = remaining[1:]
		} else {
			added = append(added, strings.TrimSpace(line))
		}
	}
	if want := []string{
		`"` + repolint.Module + `/functions/badges"`,
		"{badges.Group, badges.Bind},",
	}; len(remaining) > 0 ||
		!slices.Equal(added, want) {
		t.Errorf("addToList() adds %q and loses %q, want %q and nothing lost", added, remaining, want)
	}
	if formatted, err := format.Source(after); err != nil || !bytes.Equal(formatted, after) {
		t.Errorf("addToList() = source with the format error %v, want formatted source:\n%s", err, after)
	}
	if _, err := (group{Package: "badges"}).addToList([]byte("package functions\n")); err == nil ||
		!strings.Contains(err.Error(), "by hand") {
		t.Errorf("addToList() of a file without a list = %v, want an error with \"by hand\"", err)
	}
}

// TestFailureChangesNothing checks that a failure leaves no new files or folders, and does not change the list.
func TestFailureChangesNothing(t *testing.T) {
	const other = "package other\n\nimport \"" + repolint.Module +
		"/shared/core/store\"\n\n// s has others.\nconst s store.KeyPrefix = \"badges\"\n"
	for name, c := range map[string]struct {
		tree map[string]string
		want string
	}{
		"a group that does not compile":   {map[string]string{}, "do not compile"},
		"a key prefix of another package": {map[string]string{"shared/other/other.go": other}, "another NAME is needed"},
		"a list of another form":          {map[string]string{groupList: "package functions\n"}, "by hand"},
		"a missing list":                  {map[string]string{groupList: ""}, "no such file"},
		"a folder created in the meantime": {
			map[string]string{"shared/resource/badges/table.go": "package badges\n"},
			"file exists",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put := func(name, text string) {
				t.Helper()
				if err := os.MkdirAll(filepath.Join(root, path.Dir(name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			source, err := os.ReadFile(filepath.Join(repository, groupList))
			if err != nil {
				t.Fatal(err)
			}
			put(groupList, string(source))
			put("events/doc.go", "package events\n")
			for name, text := range c.tree {
				if put(name, text); text == "" {
					if err := os.Remove(filepath.Join(root, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			before := contents(t, root)
			g, err := newGroup("badges", "badge")
			if err != nil {
				t.Fatal(err)
			}
			g.Scope, g.ScopeText = "Projects", "projects"
			if err := g.write(t.Context(), root); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("write() error = %v, want one with %q", err, c.want)
			}
			if after := contents(t, root); !maps.Equal(before, after) {
				t.Errorf("write() with an error leaves %q, want %q", after, before)
			}
		})
	}
}

// contents returns the texts of the files below a folder, by path. It also contains the paths of folders, which end
// with a slash.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	if err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			out[p+"/"] = ""
			return err
		}
		text, err := os.ReadFile(p)
		out[p] = string(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return out
}
