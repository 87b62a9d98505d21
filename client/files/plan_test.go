package files_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

// TestUnlistedObjectsAreKept checks that an object that is missing in the files is deleted only if its list is complete
// and Prune is set.
func TestUnlistedObjectsAreKept(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	mustApply(t, f, fullYAML)
	count := func(text string, prune bool) (deleted, unlisted int) {
		p := mustCompare(t, f, text, files.Options{Prune: prune})
		created, changed, deleted := p.Counts()
		if created+changed > 0 {
			t.Errorf("Compare(%s) creates or changes %d objects, want 0", text, created+changed)
		}
		return deleted, len(p.Unlisted)
	}
	const partial = "keyBuckets: [{name: partners, consumers: [{name: ada}]}]"
	complete := strings.Replace(partial, "name: partners", "name: partners, complete: [consumers]", 1)
	for _, tt := range []struct {
		text              string
		prune             bool
		deleted, unlisted int
	}{
		{partial, false, 0, 0},
		{partial, true, 0, 0},
		{complete, false, 0, 1},
		{complete, true, 1, 0},
		{"complete: [tunnels]", true, 1, 0},
		{"complete: [tunnels, meteringBuckets]\ntunnels: [{name: office}]", true, 1, 0},
		{
			"keyBuckets: [{name: partners, consumers: [{name: ada, complete: [managers], managers: [ada@example.com]}]}]", true,
			1, 0,
		},
	} {
		if deleted, unlisted := count(tt.text, tt.prune); deleted != tt.deleted || unlisted != tt.unlisted {
			t.Errorf("Compare(%s) with Prune %t = %d deleted, %d unlisted, want %d and %d",
				tt.text, tt.prune, deleted, unlisted, tt.deleted, tt.unlisted)
		}
	}
}

// TestPlanContainsNoSecret checks that the plan and its journal do not contain the secret, and that the API receives
// the secret.
func TestPlanContainsNoSecret(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	path := filepath.Join(t.TempDir(), "plan")
	p := mustCompare(t, f, fullYAML, files.Options{})
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Apply(t.Context(), f, p, applyOptions(f, path)); err != nil {
		t.Fatal(err)
	}
	document, err := p.Document()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".progress"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s = %v, %v, want 0600", name, info.Mode(), err)
		}
		if strings.Contains(string(text)+string(document), token) {
			t.Errorf("%s has the secret, want it left out", name)
		}
	}
	if n := strings.Count(f.received.String(), token); n != 1 {
		t.Errorf("the API receives the secret %d times, want 1", n)
	}
	if p := mustCompare(t, f, fullYAML, files.Options{SetSecrets: true}); len(p.Changes) != 1 ||
		p.Changes[0].Secrets["value"].Env != "SHOP_TOKEN" || !p.Changes[0].Fields[0].Secret {
		t.Errorf("Compare() with SetSecrets = %+v, want one change of a secret from SHOP_TOKEN", p.Changes)
	}
}

// TestModifiedPlanIsRefused checks that Load refuses a plan that was edited, is incomplete, or has another format.
// Write must not replace other files, and Apply must refuse a plan of another installation and a missing secret.
func TestModifiedPlanIsRefused(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(t, "a")
	path := filepath.Join(t.TempDir(), "plan")
	p := mustCompare(t, f, beforeYAML, files.Options{})
	if err := p.Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, modified := range map[string]string{
		"another value": strings.Replace(string(text), `"free"`, `"gold"`, 1), "half of a plan": string(text[:len(text)/2]),
		"text after the plan": string(text) + "{}", "empty file": "", "no plan": `{"format":0}`,
		"a later format":    strings.Replace(string(text), `"format": 2`, `"format": 3`, 1),
		"an earlier format": strings.Replace(string(text), `"format": 2`, `"format": 1`, 1),
	} {
		if err := os.WriteFile(path, []byte(modified), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Load(path); exit.CodeOf(err) != exit.Invalid ||
			strings.HasSuffix(name, "r format") != strings.Contains(err.Error(), "does not read") {
			t.Errorf("%s: Load() error = %v, want code %d and the format if it differs", name, err, exit.Invalid)
		}
	}
	if err := os.WriteFile(path, []byte("keyBuckets: []"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.Write(path); exit.CodeOf(err) != exit.Usage {
		t.Errorf("Write() over another file: error = %v, want code %d", err, exit.Usage)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Write(path), p.Write(path)); err != nil {
		t.Errorf("two Write() of a plan: error = %v, want none", err)
	}
	f.changes = nil
	for _, o := range []files.ApplyOptions{
		{Installation: "elsewhere"},
		{Installation: f.name, Getenv: func(string) string {
			return ""
		}, Path: path, Now: testNow},
	} {
		plan := mustCompare(t, newFakeAPI(t, f.name), fullYAML, files.Options{})
		if _, err := files.Apply(t.Context(), f, plan, o); exit.CodeOf(err) != exit.Usage || len(f.changes) > 0 {
			t.Errorf("Apply() to %s, without the secret: error = %v after the changes %v, want code %d after none",
				o.Installation, err, f.changes, exit.Usage)
		}
	}
}

// TestCompareSendsOnlyListRequests checks the number of requests. 20,000 objects need 20 list requests. 300 changes
// need one read, because their ETags can be computed.
func TestCompareSendsOnlyListRequests(t *testing.T) {
	t.Parallel()
	const consumers, changed, lists = 20_000, 300, 20 // 1,000 objects for each list
	var current, desired strings.Builder
	head := "keyBuckets:\n  - name: partners\n    consumers:\n"
	current.WriteString(head)
	desired.WriteString(head)
	for i := range consumers {
		fmt.Fprintf(&current, "      - {name: c%05d, tags: {plan: free}}\n", i)
		plan := "free"
		if i%(consumers/changed) == 0 && i/(consumers/changed) < changed {
			plan = "gold"
		}
		fmt.Fprintf(&desired, "      - {name: c%05d, tags: {plan: %s}}\n", i, plan)
	}
	f := newFakeAPI(t, "a")
	bucket := files.Kinds()[1]
	f.objects = append(f.objects, &fakeObject{kind: bucket, id: "partners", fields: map[string]json.RawMessage{}})
	for i := range consumers {
		name, _ := json.Marshal(fmt.Sprintf("c%05d", i))
		f.objects = append(f.objects, &fakeObject{
			kind: bucket.Children[0], scope: "/bucketName=partners", id: stringOf(name),
			fields: map[string]json.RawMessage{"name": name, "tags": json.RawMessage(`{"plan":"free"}`)},
		})
	}
	if p := mustCompare(t, f, current.String(), files.Options{}); len(p.Changes) > 0 || len(f.calls) != 1+lists {
		t.Errorf("Compare() = %d changes, %d requests, want 0, %d", len(p.Changes), len(f.calls), 1+lists)
	}
	f.calls = nil
	p := mustCompare(t, f, desired.String(), files.Options{})
	if len(p.Changes) != changed || len(f.calls) != 1+lists+1 {
		t.Errorf("Compare() = %d changes, %d requests, want %d, %d", len(p.Changes), len(f.calls), changed, 1+lists+1)
	}
	f.calls = nil
	if _, err := files.Apply(t.Context(), f, p, applyOptions(f, "")); err != nil || len(f.calls) != changed {
		t.Errorf("Apply() error = %v after %d requests, want none after %d", err, len(f.calls), changed)
	}
	// If lists and reads differ, Compare must read each changed object.
	f.listsDiffer, f.calls = true, nil
	p = mustCompare(t, f, current.String(), files.Options{})
	if len(p.Changes) != changed || len(f.calls) != 1+lists+changed {
		t.Errorf("Compare() if lists and reads differ = %d changes, %d requests, want %d, %d",
			len(p.Changes), len(f.calls), changed, 1+lists+changed)
	}
	if _, err := files.Apply(t.Context(), f, p, applyOptions(f, "")); err != nil {
		t.Errorf("Apply() if lists and reads differ: error = %v, want none", err)
	}
}
