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

// TestPlanThatIsUnderWayIsNotReplaced: how far a plan is applied stands beside it, and would be taken for the other's.
func TestPlanThatIsUnderWayIsNotReplaced(t *testing.T) {
	t.Parallel()
	f, path := newFake(t, "a"), filepath.Join(t.TempDir(), "plan")
	first, second := compared(t, f, before, files.Options{}), compared(t, f, "tunnels: [{name: other}, {name: another}]", files.Options{})
	if err := first.Write(path); err != nil {
		t.Fatal(err)
	}
	cut, begun := errors.New("cut off"), len(f.asked)
	f.fails = func(n int, after bool) error {
		if n == begun+2 && !after {
			return cut
		}
		return nil
	}
	if _, err := files.Apply(t.Context(), f, first, applying(f, path)); !errors.Is(err, cut) {
		t.Fatal(err)
	}
	f.fails, f.done = nil, nil
	if err := second.Write(path); exit.Of(err) != exit.Usage {
		t.Errorf("another plan is written over it: %v", err)
	}
	if kept, err := files.Load(path); err != nil || kept.Digest != first.Digest {
		t.Errorf("there is %+v, %v", kept, err)
	}
	if err := os.Remove(path); err != nil { // somebody moves the other one there
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Apply(t.Context(), f, second, applying(f, path)); exit.Of(err) != exit.Usage || len(f.done) > 0 {
		t.Errorf("the other goes on where the first was: it ends with %v, and has made %v", err, f.done)
	}
	if _, err := files.Apply(t.Context(), f, first, applying(f, path)); err != nil || len(f.done) != len(first.Changes)-1 {
		t.Errorf("the first does not go on: %v, with %v", err, f.done)
	}
}

// TestPlanIsWrittenOverAPlanAlone: what is there stays, be it empty, no file, or unreadable, and a pipe is not waited for.
func TestPlanIsWrittenOverAPlanAlone(t *testing.T) {
	t.Parallel()
	f, dir := newFake(t, "a"), t.TempDir()
	plan := compared(t, f, before, files.Options{})
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
	if end, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil { // so that who reads it all the same has a plan's begin, and need not wait
		defer func() { _ = end.Close() }()
		if _, err := end.Write(text[:100]); err != nil {
			t.Fatal(err)
		}
	}
	err = errors.Join(os.Symlink("itself", filepath.Join(dir, "itself")), os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600), os.WriteFile(filepath.Join(dir, "text"), []byte("mine"), 0o600), os.Mkdir(filepath.Join(dir, "folder"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "itself", "empty", "text", "folder"} {
		there, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := plan.Write(filepath.Join(dir, name)); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "is not written over") {
			t.Errorf("%s: it ends with %v", name, err)
		}
		if now, err := os.Lstat(filepath.Join(dir, name)); err != nil || !os.SameFile(now, there) {
			t.Errorf("%s is another by then: %v", name, err)
		}
	}
}

// TestProgressIsKeptInAFileAlone: a pipe, which nobody writes to, is not waited for, and nothing is changed.
func TestProgressIsKeptInAFileAlone(t *testing.T) {
	t.Parallel()
	f, path := newFake(t, "a"), filepath.Join(t.TempDir(), "plan")
	plan := compared(t, f, before, files.Options{})
	if err := errors.Join(plan.Write(path), mkfifo(path+".progress")); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Apply(t.Context(), f, plan, applying(f, path)); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), path+".progress cannot be opened") || len(f.done) > 0 {
		t.Errorf("it ends with %v, and has made %v", err, f.done)
	}
}

// TestProgressIsNoFileOfOthers: what is torn off a first line is sent for again, and what somebody else has under that name stays as it is.
func TestProgressIsNoFileOfOthers(t *testing.T) {
	t.Parallel()
	for text, ours := range map[string]bool{"{": true, `{"plan":"ab`: true, `{"name":"theirs"}`: false, `{"plan":7}`: false, "{}": false, "theirs": false} {
		f, path := newFake(t, "a"), filepath.Join(t.TempDir(), "plan")
		plan := compared(t, f, before, files.Options{})
		if err := errors.Join(plan.Write(path), os.WriteFile(path+".progress", []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		_, err := files.Apply(t.Context(), f, plan, applying(f, path))
		if ours && err != nil || !ours && (exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "of another plan") || len(f.done) > 0) {
			t.Errorf("%s: it ends with %v, and has made %v", text, err, f.done)
		}
		if left, err := os.ReadFile(path + ".progress"); !ours && (err != nil || string(left) != text) {
			t.Errorf("%s: it has %q now, %v", text, left, err)
		}
	}
}

// TestCreationThatWasBegunADayAgoIsNotSentAgain: the API has forgotten its Idempotency-Key, and would make a second one.
func TestCreationThatWasBegunADayAgoIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for later, goesOn := range map[time.Duration]bool{22 * time.Hour: true, 24 * time.Hour: false} {
		f, path := newFake(t, "a"), filepath.Join(t.TempDir(), "plan")
		if err := compared(t, f, "tunnels: [{name: office}]", files.Options{}).Write(path); err != nil {
			t.Fatal(err)
		}
		p, err := files.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		lost := errors.New("the answer is lost")
		f.fails = func(_ int, after bool) error {
			if after {
				return lost
			}
			return nil
		}
		if _, err := files.Apply(t.Context(), f, p, applying(f, path)); !errors.Is(err, lost) {
			t.Fatal(err)
		}
		f.fails, f.asked = nil, nil
		again := applying(f, path)
		again.Now = func() time.Time { return now().Add(later) }
		_, err = files.Apply(t.Context(), f, p, again)
		if (err == nil) != goesOn || err != nil && exit.Of(err) != exit.Conflict || goesOn != slices.Contains(f.asked, "TunnelService_create") || len(f.things("tunnels")) != 1 {
			t.Errorf("%s later it ends with %v after %v, and there are %d tunnels", later, err, f.asked, len(f.things("tunnels")))
		}
	}
}

// TestEachFieldOfAPlanIsReviewed: whatever is another one after the plan was written, by whom ever, it is applied no more.
func TestEachFieldOfAPlanIsReviewed(t *testing.T) {
	t.Parallel()
	f, path := newFake(t, "a"), filepath.Join(t.TempDir(), "plan")
	for field := range reflect.TypeFor[files.Plan]().Fields() {
		p := compared(t, f, before, files.Options{})
		v := reflect.ValueOf(p).Elem().FieldByIndex(field.Index)
		switch of := v.Interface().(type) {
		case int:
			v.SetInt(v.Int() + 1)
		case string:
			v.SetString(of + "x")
		case time.Time:
			v.Set(reflect.ValueOf(of.Add(time.Second)))
		case []string:
			v.Set(reflect.ValueOf(append(of, "x")))
		case []files.Change:
			v.Set(reflect.ValueOf(of[1:]))
		default:
			t.Fatalf("this test does not know the kind of %s", field.Name)
		}
		if err := p.Write(path); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Load(path); exit.Of(err) != exit.Invalid {
			t.Errorf("%s is another one, and it ends with %v", field.Name, err)
		}
	}
}
