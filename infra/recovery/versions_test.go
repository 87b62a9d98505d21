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

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/rootkey/rootkeytest"
)

// memoryBucket is a versionedBucket in memory. It has the versions of each object by key, newest first.
type memoryBucket map[string][]storedVersion

type storedVersion struct {
	version
	content string
}

// put adds a version of an object as its newest version.
func (b memoryBucket) put(key, content string, modifiedAt time.Time) {
	b[key] = append([]storedVersion{{version{fmt.Sprintf("v%d", len(b[key])), false, modifiedAt}, content}}, b[key]...)
}

// walk visits all versions of all objects, sorted by key.
func (b memoryBucket) walk(_ context.Context, visit func(key string, v version) error) error {
	for _, key := range slices.Sorted(maps.Keys(b)) {
		for _, k := range b[key] {
			if err := visit(key, k.version); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeMarker removes a delete marker.
func (b memoryBucket) removeMarker(_ context.Context, key, id string) error {
	b[key] = slices.DeleteFunc(b[key], func(k storedVersion) bool { return k.id == id && k.marker })
	return nil
}

func (b memoryBucket) open(_ context.Context, key, id string) (io.ReadCloser, error) {
	i := slices.IndexFunc(b[key], func(k storedVersion) bool { return k.id == id && !k.marker })
	if i < 0 {
		return nil, errors.New("there is no such version")
	}
	return io.NopCloser(strings.NewReader(b[key][i].content)), nil
}

// makeNewest adds a copy of a version as the newest version.
func (b memoryBucket) makeNewest(_ context.Context, key, id string) error {
	i := slices.IndexFunc(b[key], func(k storedVersion) bool { return k.id == id && !k.marker })
	b.put(key, b[key][i].content, time.Now())
	return nil
}

// TestArtifactVersionsMatchTheRestoredRootKey checks that a restore makes the right versions of artifacts the newest. A
// rotation seals artifacts again under the same names, so a table from before the rotation needs the old versions. If
// the operator abandons the restore, the new versions are needed again. An artifact without a version that opens is
// lost.
func TestArtifactVersionsMatchTheRestoredRootKey(t *testing.T) {
	s := scenario{earlier: memory.New(), current: memory.New(), kms: rootkeytest.New("key")}
	earlier := partsOver(t, s.earlier, s.kms, time.Now)
	if _, err := earlier.Key.Root(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.current = s.earlier.Clone()
	rotateRootKey(t, s.current, s.kms, "")
	current := partsOver(t, s.current, s.kms, time.Now)
	seal := func(p interface {
		Seal(context.Context, []byte, string) ([]byte, error)
	}, name string,
	) string {
		raw, err := p.Seal(t.Context(), []byte("a project"), "artifact/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	bucket, moment, referenced := memoryBucket{}, time.Now().Add(-time.Hour), map[string]bool{}
	for _, name := range []string{"d/renewed", "d/renewed-and-deleted", "d/created-later", "d/broken"} {
		referenced[blob.ArtifactKey(name)] = true
	}
	for _, name := range []string{"d/renewed", "d/renewed-and-deleted"} {
		bucket.put(blob.ArtifactKey(name), seal(earlier.Sealer(), name), moment.Add(-time.Minute))
		bucket.put(blob.ArtifactKey(name), seal(current.Sealer(), name), moment.Add(time.Minute))
	}
	deleted := blob.ArtifactKey("d/renewed-and-deleted")
	bucket[deleted] = append([]storedVersion{{version{"m", true, moment.Add(2 * time.Minute)}, ""}}, bucket[deleted]...)
	bucket.put(blob.ArtifactKey("d/broken"), "nothing that opens", moment.Add(-time.Minute))
	bucket.put(blob.ArtifactKey("d/created-later"), seal(current.Sealer(), "d/created-later"), moment.Add(time.Minute))
	bucket.put(blob.SourceKey("d/one"), "a source", moment.Add(-time.Minute))

	w := s.newWork(t, io.Discard, "")
	w.versions = bucket
	for range 2 { // the second run must change nothing
		present, restored, err := w.restoreDeletedObjects(t.Context(), "bucket", moment, moment, referenced)
		if err == nil {
			err = w.restoreArtifacts(t.Context(), w.openInstallation("restored"), "bucket", restored, present)
		}
		if want := []string{blob.ArtifactKey("d/renewed"), deleted}; err != nil || !slices.Equal(sortedKeys(present), want) {
			t.Fatalf("present objects = %v, error %v, want %v and no error", sortedKeys(present), err, want)
		}
		for _, name := range []string{"d/renewed", "d/renewed-and-deleted"} {
			newest := bucket[blob.ArtifactKey(name)][0]
			if _, err := earlier.Sealer().Open(t.Context(), []byte(newest.content), "artifact/"+name); err != nil ||
				newest.marker {
				t.Errorf("artifact %s: Open() = %v, delete marker: %v, want no error and no marker", name, err, newest.marker)
			}
			if n := len(bucket[blob.ArtifactKey(name)]); n != 3 {
				t.Errorf("artifact %s has %d versions, want 3", name, n)
			}
		}
	}
	for _, key := range []string{blob.SourceKey("d/one"), blob.ArtifactKey("d/broken")} {
		if n := len(bucket[key]); n != 1 {
			t.Errorf("%s has %d versions, want 1", key, n)
		}
	}

	// If the operator abandons the restore, the installation continues with the current table.
	restored := restoredObjects{versions: map[string][]string{}}
	for key, versions := range bucket {
		for _, k := range versions {
			restored.versions[key] = append(restored.versions[key], k.id)
		}
	}
	if err := w.restoreArtifacts(t.Context(), w.openInstallation("damaged"), "bucket", restored,
		map[string]bool{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/renewed", "d/renewed-and-deleted"} {
		if _, err := current.Sealer().Open(t.Context(), []byte(bucket[blob.ArtifactKey(name)][0].content),
			"artifact/"+name); err != nil {
			t.Errorf("after the abandoned restore Open(artifact %s) = %v, want no error", name, err)
		}
	}
}

// TestTableRestoredDuringARotationOpens checks that the root keys of a table can be unwrapped in each stage of a
// rotation, and not with a disabled KMS key. A table without a root key gets none.
func TestTableRestoredDuringARotationOpens(t *testing.T) {
	for _, stage := range []string{"announce", "switch", "renew", "hold", "settle", ""} {
		s := scenario{earlier: memory.New(), current: memory.New(), kms: rootkeytest.New("key")}
		if _, err := partsOver(t, s.earlier, s.kms, time.Now).Key.Root(t.Context()); err != nil {
			t.Fatal(err)
		}
		rotateRootKey(t, s.earlier, s.kms, stage)
		var logs bytes.Buffer
		w := s.newWork(t, io.Discard, "")
		w.errors = &logs
		if err := w.checkRootKey(t.Context(), testPlan()); err != nil ||
			!strings.Contains(logs.String(), "its root key opens") {
			t.Errorf("checkRootKey(stage %q) = %v, log %q, want no error and \"its root key opens\"", stage, err,
				logs.String())
		}
		// With a disabled KMS key, checkRootKey returns an error.
		s.kms.Disable("key")
		if err := w.checkRootKey(t.Context(), testPlan()); err == nil ||
			!strings.Contains(err.Error(), "open the root key of restored") || strings.Contains(err.Error(), "\n") {
			t.Errorf("checkRootKey(disabled KMS key) = %v, want one line with \"open the root key of restored\"", err)
		}
	}
	s := scenario{earlier: memory.New(), current: memory.New(), kms: rootkeytest.New("key")}
	w := s.newWork(t, io.Discard, "")
	if err := w.checkRootKey(t.Context(), testPlan()); err != nil || len(s.earlier.Items()) != 0 {
		t.Errorf("checkRootKey(no root key) = %v, and the table has %d items, want no error and none", err,
			len(s.earlier.Items()))
	}
}
