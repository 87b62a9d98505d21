package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/rootkey/rootkeytest"
)

// history is a bucket that keeps versions, those of an object the newest first.
type history map[string][]kept

type kept struct {
	version
	content string
}

func (h history) put(key, content string, on time.Time) {
	h[key] = append([]kept{{version{fmt.Sprintf("v%d", len(h[key])), false, on}, content}}, h[key]...)
}

func (h history) each(_ context.Context, visit func(key string, v version) error) error {
	for _, key := range slices.Sorted(maps.Keys(h)) {
		for _, k := range h[key] {
			if err := visit(key, k.version); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h history) unmark(_ context.Context, key, id string) error {
	h[key] = slices.DeleteFunc(h[key], func(k kept) bool { return k.id == id && k.marker })
	return nil
}

func (h history) open(_ context.Context, key, id string) (io.ReadCloser, error) {
	i := slices.IndexFunc(h[key], func(k kept) bool { return k.id == id && !k.marker })
	if i < 0 {
		return nil, errors.New("there is no such version")
	}
	return io.NopCloser(strings.NewReader(h[key][i].content)), nil
}

func (h history) top(_ context.Context, key, id string) error {
	i := slices.IndexFunc(h[key], func(k kept) bool { return k.id == id && !k.marker })
	h.put(key, h[key][i].content, time.Now())
	return nil
}

// TestArtifactsAreThoseThatTheRestoredTableOpens: a rotation seals them anew under their names, so that a table of before it needs those
// of before; and who gives the restore up needs those of now. What no version opens is lost.
func TestArtifactsAreThoseThatTheRestoredTableOpens(t *testing.T) {
	s := story{then: memory.New(), now: memory.New(), keys: rootkeytest.New("key")}
	then := partsOver(t, s.then, s.keys, time.Now)
	if _, err := then.Key.Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.now = s.then.Clone()
	rotated(t, s.now, s.keys, "")
	now := partsOver(t, s.now, s.keys, time.Now)
	sealed := func(p interface {
		Seal(context.Context, []byte, string) ([]byte, error)
	}, name string,
	) string {
		raw, err := p.Seal(t.Context(), []byte("a project"), "artifact/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	h, moment, wanted := history{}, time.Now().Add(-time.Hour), map[string]bool{}
	for _, name := range []string{"d/renewed", "d/renewed-and-deleted", "d/since", "d/broken"} {
		wanted[blob.ArtifactKey(name)] = true
	}
	for _, name := range []string{"d/renewed", "d/renewed-and-deleted"} {
		h.put(blob.ArtifactKey(name), sealed(then.Sealer(), name), moment.Add(-time.Minute))
		h.put(blob.ArtifactKey(name), sealed(now.Sealer(), name), moment.Add(time.Minute))
	}
	deleted := blob.ArtifactKey("d/renewed-and-deleted")
	h[deleted] = append([]kept{{version{"m", true, moment.Add(2 * time.Minute)}, ""}}, h[deleted]...)
	h.put(blob.ArtifactKey("d/broken"), "nothing that opens", moment.Add(-time.Minute))
	h.put(blob.ArtifactKey("d/since"), sealed(now.Sealer(), "d/since"), moment.Add(time.Minute))
	h.put(blob.SourceKey("d/one"), "a source", moment.Add(-time.Minute))

	w := s.over(t, io.Discard, "")
	w.versions = h
	for range 2 { // the second time nothing is left to do
		there, back, err := w.bringBack(t.Context(), "bucket", moment, moment, wanted)
		if err == nil {
			err = w.matches(t.Context(), w.over("restored"), "bucket", back, there)
		}
		if want := []string{blob.ArtifactKey("d/renewed"), deleted}; err != nil || !slices.Equal(sortedNames(there), want) {
			t.Fatalf("there is %v, want %v (%v)", sortedNames(there), want, err)
		}
		for _, name := range []string{"d/renewed", "d/renewed-and-deleted"} {
			top := h[blob.ArtifactKey(name)][0]
			if _, err := then.Sealer().Open(t.Context(), []byte(top.content), "artifact/"+name); err != nil || top.marker {
				t.Errorf("the artifact %s does not open: %v", name, err)
			}
			if n := len(h[blob.ArtifactKey(name)]); n != 3 {
				t.Errorf("the artifact %s has %d versions", name, n)
			}
		}
	}
	if len(h[blob.SourceKey("d/one")]) != 1 || len(h[blob.ArtifactKey("d/broken")]) != 1 {
		t.Error("something else was changed")
	}

	// Given up: the installation goes on with the table of now.
	back := found{versions: map[string][]string{}}
	for key, all := range h {
		for _, k := range all {
			back.versions[key] = append(back.versions[key], k.id)
		}
	}
	if err := w.matches(t.Context(), w.over("spoilt"), "bucket", back, map[string]bool{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/renewed", "d/renewed-and-deleted"} {
		if _, err := now.Sealer().Open(t.Context(), []byte(h[blob.ArtifactKey(name)][0].content), "artifact/"+name); err != nil {
			t.Errorf("given up, the artifact %s does not open: %v", name, err)
		}
	}
}

// TestTableOfAMomentInARotationIsRestored: it has two root keys, and both open.
func TestTableOfAMomentInARotationIsRestored(t *testing.T) {
	for _, stage := range []string{"announce", "switch", "renew", "hold", "settle", ""} {
		s := story{then: memory.New(), now: memory.New(), keys: rootkeytest.New("key")}
		if _, err := partsOver(t, s.then, s.keys, time.Now).Key.Root(t.Context()); err != nil {
			t.Fatal(err)
		}
		rotated(t, s.then, s.keys, stage)
		var said bytes.Buffer
		w := s.over(t, io.Discard, "")
		w.errors = &said
		if err := w.opens(t.Context(), planned()); err != nil || !strings.Contains(said.String(), "its root key opens") {
			t.Errorf("at %q it is answered %v, %q", stage, err, said.String())
		}
		// A KMS key that is another one's is told, and nothing is made.
		s.keys.Disable("key")
		if err := w.opens(t.Context(), planned()); err == nil || !strings.Contains(err.Error(), "open the root key of restored") || strings.Contains(err.Error(), "\n") {
			t.Errorf("with a disabled KMS key it is answered %v", err)
		}
	}
	s := story{then: memory.New(), now: memory.New(), keys: rootkeytest.New("key")}
	w := s.over(t, io.Discard, "")
	if err := w.opens(t.Context(), planned()); err != nil || len(s.then.Items()) != 0 {
		t.Errorf("a table without a root key is answered %v, and has %d items", err, len(s.then.Items()))
	}
}
