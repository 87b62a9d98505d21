package project_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/project"
)

// entriesOf are an archive's entries before they are packed.
func entriesOf(entries []entry) iter.Seq[project.Entry] {
	return func(yield func(project.Entry) bool) {
		for _, e := range entries {
			open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(e.content)), nil }
			if !yield(project.Entry{Header: &e.Header, Open: open}) {
				return
			}
		}
	}
}

// TestWhatIsGatheredIsWhatWouldBeUnpacked: a client that asks before it packs is told what the builder would tell.
func TestWhatIsGatheredIsWhatWouldBeUnpacked(t *testing.T) {
	names := []string{
		routes, "config/b.oas.json", "config/policies.json", "config/policies.yaml", "gatewright.jsonc", "./gatewright.jsonc", "modules/a.js", "a/b/c/d", "a/b/c/e",
		"../x", "/x", `a\b`, "a\x01b", "docs//guide.md", strings.Repeat("n", 90), "é",
	}
	limits := project.DefaultLimits()
	limits.Files, limits.Entries, limits.PathBytes, limits.PathDepth, limits.FileBytes, limits.KeptBytes = 6, 8, 80, 3, 300, 500
	rapid.Check(t, func(r *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) entry {
			name := rapid.SampledFrom(names).Draw(r, "name")
			switch kind := rapid.SampledFrom([]byte{tar.TypeReg, tar.TypeReg, tar.TypeReg, tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeFifo}).Draw(r, "kind"); kind {
			case tar.TypeReg:
				return file(name, strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 200, 350, 2_000}).Draw(r, "size")))
			default:
				return special(name, kind, "x")
			}
		}), 1, 10).Draw(r, "entries")
		files, problems, err := project.Unpack(t.Context(), bytes.NewReader(archiveOf(t, entries...)), limits)
		gathered, told, gatheredErr := project.Gather(t.Context(), entriesOf(entries), limits)
		if err != nil || gatheredErr != nil {
			r.Fatal(err, gatheredErr)
		}
		if !reflect.DeepEqual(files, gathered) || !reflect.DeepEqual(problems, told) {
			r.Fatalf("gathered %v and %v, unpacked %v and %v", gathered, told, files, problems)
		}
	})
}

func TestGatherOpensWhatTheCompilerReadsAndNothingElse(t *testing.T) {
	var opened []string
	seq := func(yield func(project.Entry) bool) {
		for _, name := range []string{"modules/a.js", routes, "config/policies.yaml", "gatewright.jsonc", "modules/large", "modules/larger"} {
			h := tar.Header{Name: name, Typeflag: tar.TypeReg, Size: 2}
			if strings.Contains(name, "large") {
				h.Size = 300 << 20
			}
			yield(project.Entry{Header: &h, Open: func() (io.ReadCloser, error) {
				opened = append(opened, name)
				return io.NopCloser(strings.NewReader("{}")), nil
			}})
		}
	}
	if _, problems, err := project.Gather(t.Context(), seq, project.DefaultLimits()); err != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, `"unpacked"`) {
		t.Error(problems, err)
	}
	if want := []string{routes, "gatewright.jsonc"}; !reflect.DeepEqual(opened, want) {
		t.Errorf("opened %q, want %q", opened, want)
	}
}

func TestGatherAnswersWhatOpeningAndReadingAnswer(t *testing.T) {
	broken, ended := errors.New("no such disk"), errors.New("ended")
	one := func(open func() (io.ReadCloser, error)) iter.Seq[project.Entry] {
		h := file(routes, "{}").Header
		return func(yield func(project.Entry) bool) { yield(project.Entry{Header: &h, Open: open}) }
	}
	if _, problems, err := project.Gather(t.Context(), one(func() (io.ReadCloser, error) { return nil, broken }), project.DefaultLimits()); !errors.Is(err, broken) || problems != nil {
		t.Errorf("of an Open: %v, %v", problems, err)
	}
	if _, _, err := project.Gather(t.Context(), one(func() (io.ReadCloser, error) { return failing{broken}, nil }), project.DefaultLimits()); !errors.Is(err, broken) {
		t.Errorf("of reading: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if _, _, err := project.Gather(ctx, entriesOf([]entry{file(routes, "{}")}), project.DefaultLimits()); !errors.Is(err, ended) {
		t.Errorf("of a context: %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
func (failing) Close() error               { return nil }

// TestTooLargeIsWhatUnpackSays of the same archive.
func TestTooLargeIsWhatUnpackSays(t *testing.T) {
	noise := make([]byte, 40<<10)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	alike := file("a.txt", strings.Repeat("x", 200<<10))
	for _, c := range []struct {
		name   string
		entry  entry
		limits func(*project.Limits)
	}{
		{"the archive", file("a.bin", string(noise)), func(l *project.Limits) { l.CompressedBytes = 20 << 10 }},
		{"unpacked", alike, func(l *project.Limits) { l.UnpackedBytes = 100 << 10 }},
		{"the ratio", alike, func(l *project.Limits) { l.RatioAfter = 64 << 10 }},
		{"nothing", alike, func(*project.Limits) {}},
	} {
		limits := project.DefaultLimits()
		c.limits(&limits)
		archive := archiveOf(t, c.entry)
		_, problems, err := project.Unpack(t.Context(), bytes.NewReader(archive), limits)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if len(problems) > 0 {
			want = problems[0].Message
		}
		if got := limits.TooLarge(int64(len(archive)), int64(len(tarOf(t, c.entry)))); got != want {
			t.Errorf("%s: %q, want %q", c.name, got, want)
		}
	}
}
