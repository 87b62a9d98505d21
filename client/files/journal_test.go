package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/files"
)

// TestStartedPlanIsNotReplaced checks that a plan that is partly applied cannot be replaced: its journal would be used
// for the new plan. A plan must also be refused if its journal is that of another plan.
func TestStartedPlanIsNotReplaced(t *testing.T) {
	t.Parallel()
	f, path := newFakeAPI(t, "a"), filepath.Join(t.TempDir(), "plan")
	first, second := mustCompare(t, f, beforeYAML, files.Options{}),
		mustCompare(t, f, "tunnels: [{name: other}, {name: another}]", files.Options{})
	if err := first.Write(path); err != nil {
		t.Fatal(err)
	}
	errCut, callsBefore := errors.New("cut off"), len(f.calls)
	f.onCall = func(n int, after bool) error {
		if n == callsBefore+2 && !after {
			return errCut
		}
		return nil
	}
	if _, err := files.Apply(t.Context(), f, first, applyOptions(f, path)); !errors.Is(err, errCut) {
		t.Fatalf("Apply() with a failing second request: error = %v, want %v", err, errCut)
	}
	f.onCall, f.changes = nil, nil
	if err := second.Write(path); exit.CodeOf(err) != exit.Usage {
		t.Errorf("Write() over a plan that was started: error = %v, want code %d", err, exit.Usage)
	}
	if loaded, err := files.Load(path); err != nil || loaded.Digest != first.Digest {
		t.Errorf("Load() = %+v, %v, want the first plan", loaded, err)
	}
	if err := os.Remove(path); err != nil { // replace the plan's file by other means
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Apply(t.Context(), f, second, applyOptions(f, path)); exit.CodeOf(err) != exit.Usage ||
		len(f.changes) > 0 {
		t.Errorf("Apply() with the journal of another plan: error = %v after the changes %v, want code %d after none",
			err, f.changes, exit.Usage)
	}
	if _, err := files.Apply(t.Context(), f, first, applyOptions(f, path)); err != nil ||
		len(f.changes) != len(first.Changes)-1 {
		t.Errorf("Apply() that resumes: error = %v after the changes %v, want none after %d",
			err, f.changes, len(first.Changes)-1)
	}
}

// TestPlanReplacesOnlyPlans checks that Write does not replace any other file, including empty, irregular and
// unreadable files. A pipe must not block it.
func TestPlanReplacesOnlyPlans(t *testing.T) {
	t.Parallel()
	f, dir := newFakeAPI(t, "a"), t.TempDir()
	plan := mustCompare(t, f, beforeYAML, files.Options{})
	path := filepath.Join(dir, "plan")
	for range 2 {
		if err := plan.Write(path); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := mkfifo(pipe); err != nil {
		t.Fatal(err)
	}
	// Write the beginning of a plan into the pipe. If Write reads the pipe, the test then fails, and does not block.
	if writer, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
		defer func() { _ = writer.Close() }()
		if _, err := writer.Write(text[:100]); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(os.Symlink("itself", filepath.Join(dir, "itself")),
		os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600), os.WriteFile(filepath.Join(dir, "text"), []byte("mine"),
			0o600), os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "itself", "empty", "text", "folder"} {
		original, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Write(filepath.Join(dir, name)); exit.CodeOf(err) != exit.Usage ||
			!strings.Contains(err.Error(), "is not written over") {
			t.Errorf("Write(%s) error = %v, want code %d and \"is not written over\"", name, err, exit.Usage)
		}
		if current, err := os.Lstat(filepath.Join(dir, name)); err != nil || !os.SameFile(current, original) {
			t.Errorf("Write(%s) replaces the file (%v), want the same file", name, err)
		}
	}
}

// TestJournalMustBeRegularFile checks that Apply refuses a pipe as its journal, without blocking and without a change.
func TestJournalMustBeRegularFile(t *testing.T) {
	t.Parallel()
	f, path := newFakeAPI(t, "a"), filepath.Join(t.TempDir(), "plan")
	plan := mustCompare(t, f, beforeYAML, files.Options{})
	if err := errors.Join(plan.Write(path), mkfifo(path+".progress")); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Apply(t.Context(), f, plan, applyOptions(f, path)); exit.CodeOf(err) != exit.Usage ||
		!strings.Contains(err.Error(), path+".progress cannot be opened") || len(f.changes) > 0 {
		t.Errorf("Apply() with a pipe as journal: error = %v after the changes %v, want code %d and the path after none",
			err, f.changes, exit.Usage)
	}
}

// TestUnrecognizedJournalIsKept checks that Apply replaces an incomplete first line, but refuses a file that another
// program has written, and keeps it unchanged.
func TestUnrecognizedJournalIsKept(t *testing.T) {
	t.Parallel()
	for text, recognized := range map[string]bool{
		"{": true, `{"plan":"ab`: true, `{"name":"theirs"}`: false,
		`{"plan":7}`: false, "{}": false, "theirs": false,
	} {
		f, path := newFakeAPI(t, "a"), filepath.Join(t.TempDir(), "plan")
		plan := mustCompare(t, f, beforeYAML, files.Options{})
		if err := errors.Join(plan.Write(path), os.WriteFile(path+".progress", []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err := files.Apply(t.Context(), f, plan, applyOptions(f, path))
		if recognized && err != nil || !recognized &&
			(exit.CodeOf(err) != exit.Usage || !strings.Contains(err.Error(), "of another plan") || len(f.changes) > 0) {
			t.Errorf("Apply() with the journal %q: error = %v after the changes %v, want none: %t, otherwise code %d after none",
				text, err, f.changes, recognized, exit.Usage)
		}
		if content, err := os.ReadFile(path + ".progress"); !recognized && (err != nil || string(content) != text) {
			t.Errorf("the journal %q is now %q, %v, want no change", text, content, err)
		}
	}
}

// TestOldCreationIsNotRepeated checks that Apply does not repeat the creation of an object after the API has forgotten
// its Idempotency-Key: this would create a second object.
func TestOldCreationIsNotRepeated(t *testing.T) {
	t.Parallel()
	for elapsed, resumes := range map[time.Duration]bool{22 * time.Hour: true, 24 * time.Hour: false} {
		f, path := newFakeAPI(t, "a"), filepath.Join(t.TempDir(), "plan")
		if err := mustCompare(t, f, "tunnels: [{name: office}]", files.Options{}).Write(path); err != nil {
			t.Fatal(err)
		}
		p, err := files.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		errLost := errors.New("the answer is lost")
		f.onCall = func(_ int, after bool) error {
			if after {
				return errLost
			}
			return nil
		}
		if _, err := files.Apply(t.Context(), f, p, applyOptions(f, path)); !errors.Is(err, errLost) {
			t.Fatalf("Apply() with lost responses: error = %v, want %v", err, errLost)
		}
		f.onCall, f.calls = nil, nil
		options := applyOptions(f, path)
		options.Now = func() time.Time { return testNow().Add(elapsed) }
		_, err = files.Apply(t.Context(), f, p, options)
		if (err == nil) != resumes || err != nil && exit.CodeOf(err) != exit.Conflict ||
			resumes != slices.Contains(f.calls, "TunnelService_create") || len(f.objectsOf("tunnels")) != 1 {
			t.Errorf("%s later: Apply() error = %v after the calls %v, with %d tunnels, want a second create request: %t, "+
				"and 1 tunnel", elapsed, err, f.calls, len(f.objectsOf("tunnels")), resumes)
		}
	}
}

// TestPlanDigestCoversEachField checks that a plan with any modified field is not applied.
func TestPlanDigestCoversEachField(t *testing.T) {
	t.Parallel()
	f, path := newFakeAPI(t, "a"), filepath.Join(t.TempDir(), "plan")
	for field := range reflect.TypeFor[files.Plan]().Fields() {
		p := mustCompare(t, f, beforeYAML, files.Options{})
		v := reflect.ValueOf(p).Elem().FieldByIndex(field.Index)
		switch value := v.Interface().(type) {
		case int:
			v.SetInt(v.Int() + 1)
		case string:
			v.SetString(value + "x")
		case time.Time:
			v.Set(reflect.ValueOf(value.Add(time.Second)))
		case []string:
			v.Set(reflect.ValueOf(append(value, "x")))
		case []files.Change:
			v.Set(reflect.ValueOf(value[1:]))
		default:
			t.Fatalf("the field %s has the type %s, want one that the test can change", field.Name, field.Type)
		}
		if err := p.Write(path); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Load(path); exit.CodeOf(err) != exit.Invalid {
			t.Errorf("Load() of a plan with another %s: error = %v, want code %d", field.Name, err, exit.Invalid)
		}
	}
}
