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

	"github.com/gatewright/gatewright/shared/format/project"
)

// entrySeq returns entries in the form that Gather reads.
func entrySeq(entries []entry) iter.Seq[project.Entry] {
	return func(yield func(project.Entry) bool) {
		for _, e := range entries {
			open := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(e.content)), nil }
			if !yield(project.Entry{Header: &e.Header, Open: open}) {
				return
			}
		}
	}
}

// TestGatherMatchesUnpack checks that Gather, on a client, reports the same problems as Unpack in the build.
func TestGatherMatchesUnpack(t *testing.T) {
	names := []string{
		routes, "config/b.oas.json", "config/policies.json", "config/policies.yaml", "gatewright.jsonc", "./gatewright.jsonc",
		"modules/a.js", "a/b/c/d", "a/b/c/e",
		"../x", "/x", `a\b`, "a\x01b", "docs//guide.md", strings.Repeat("n", 90), "é",
	}
	limits := project.DefaultLimits()
	limits.Files, limits.Entries, limits.PathBytes, limits.PathDepth, limits.FileBytes, limits.ConfigBytes = 6, 8, 80, 3,
		300, 500
	rapid.Check(t, func(r *rapid.T) {
		entries := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) entry {
			name := rapid.SampledFrom(names).Draw(r, "name")
			switch kind := rapid.SampledFrom([]byte{
				tar.TypeReg, tar.TypeReg, tar.TypeReg, tar.TypeReg, tar.TypeDir,
				tar.TypeSymlink, tar.TypeFifo,
			}).Draw(r, "kind"); kind {
			case tar.TypeReg:
				return file(name, strings.Repeat("x", rapid.SampledFrom([]int{0, 1, 200, 350, 2_000}).Draw(r, "size")))
			default:
				return special(name, kind, "x")
			}
		}), 1, 10).Draw(r, "entries")
		files, problems, err := project.Unpack(t.Context(), bytes.NewReader(newArchive(t, entries...)), limits)
		gathered, gatheredProblems, gatheredErr := project.Gather(t.Context(), entrySeq(entries), limits)
		if err != nil || gatheredErr != nil {
			r.Fatalf("Unpack() error = %v, Gather() error = %v, want none", err, gatheredErr)
		}
		if !reflect.DeepEqual(files, gathered) || !reflect.DeepEqual(problems, gatheredProblems) {
			r.Fatalf("Gather() = %v, %v, want %v, %v as from Unpack", gathered, gatheredProblems, files, problems)
		}
	})
}

// TestGatherOpensOnlyFilesToRead checks that Gather opens only the configuration and files to which references can lead.
func TestGatherOpensOnlyFilesToRead(t *testing.T) {
	var opened []string
	seq := func(yield func(project.Entry) bool) {
		for _, name := range []string{
			"modules/a.js", routes, "config/policies.jsonc", "gatewright.jsonc", "schemas/pet.yml", "modules/large",
			"modules/larger",
		} {
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
	if _, problems, err := project.Gather(t.Context(), seq, project.DefaultLimits()); err != nil || len(problems) != 1 ||
		!strings.Contains(problems[0].Message, `"unpacked"`) {
		t.Errorf("Gather() = %v, %v, want one problem of the budget \"unpacked\" and no error", problems, err)
	}
	if want := []string{routes, "gatewright.jsonc", "schemas/pet.yml"}; !reflect.DeepEqual(opened, want) {
		t.Errorf("Gather() opened %q, want %q", opened, want)
	}
}

func TestGatherReturnsReadErrors(t *testing.T) {
	errBroken, errEnded := errors.New("no such disk"), errors.New("ended")
	single := func(open func() (io.ReadCloser, error)) iter.Seq[project.Entry] {
		h := file(routes, "{}").Header
		return func(yield func(project.Entry) bool) { yield(project.Entry{Header: &h, Open: open}) }
	}
	if _, problems, err := project.Gather(t.Context(), single(func() (io.ReadCloser, error) {
		return nil, errBroken
	}), project.DefaultLimits()); !errors.Is(err, errBroken) || problems != nil {
		t.Errorf("Gather() with a failing Open = problems %v, error %v, want no problems and %v", problems, err, errBroken)
	}
	if _, _, err := project.Gather(t.Context(), single(func() (io.ReadCloser, error) {
		return failing{errBroken}, nil
	}), project.DefaultLimits()); !errors.Is(err, errBroken) {
		t.Errorf("Gather() with a failing Read error = %v, want %v", err, errBroken)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnded)
	if _, _, err := project.Gather(ctx, entrySeq([]entry{file(routes, "{}")}), project.DefaultLimits()); !errors.Is(err,
		errEnded) {
		t.Errorf("Gather() with a canceled context error = %v, want %v", err, errEnded)
	}
}

// failing is a reader whose Read returns err.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
func (failing) Close() error               { return nil }

// TestTooLargeMatchesUnpack compares SizeProblem with Unpack for the same archive.
func TestTooLargeMatchesUnpack(t *testing.T) {
	noise := make([]byte, 40<<10)
	for i := range noise {
		noise[i] = byte(rand.IntN(256))
	}
	repetitive := file("a.txt", strings.Repeat("x", 200<<10))
	for _, c := range []struct {
		name   string
		entry  entry
		limits func(*project.Limits)
	}{
		{"the size of the archive", file("a.bin", string(noise)), func(l *project.Limits) { l.CompressedBytes = 20 << 10 }},
		{"the unpacked size", repetitive, func(l *project.Limits) { l.UnpackedBytes = 100 << 10 }},
		{"the ratio", repetitive, func(l *project.Limits) { l.RatioAfter = 64 << 10 }},
		{"within all limits", repetitive, func(*project.Limits) {}},
	} {
		limits := project.DefaultLimits()
		c.limits(&limits)
		archive := newArchive(t, c.entry)
		_, problems, err := project.Unpack(t.Context(), bytes.NewReader(archive), limits)
		if err != nil {
			t.Fatal(err)
		}
		want := ""
		if len(problems) > 0 {
			want = problems[0].Message
		}
		if got := limits.SizeProblem(int64(len(archive)), int64(len(newTar(t, c.entry)))); got != want {
			t.Errorf("%s: SizeProblem() = %q, want %q as from Unpack", c.name, got, want)
		}
	}
}
