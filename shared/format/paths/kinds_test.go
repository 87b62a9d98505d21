package paths

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// upstreamKind is one way that upstreams interpret a path.
type upstreamKind struct {
	backslash         bool // treats a backslash as a slash
	cutFirst, cutLast bool // cuts off path parameters before and after decoding
}

// segments returns the decoded segments that an upstream of this kind finds
// in a path. If merge is true, it leaves out empty segments except the last.
func (k upstreamKind) segments(path string, merge bool) []string {
	cut := func(text string) string {
		parts := strings.Split(text, "/")
		for i, part := range parts {
			parts[i], _, _ = strings.Cut(part, ";")
		}
		return strings.Join(parts, "/")
	}
	if k.cutFirst {
		path = cut(path)
	}
	text, err := url.PathUnescape(path)
	if err != nil {
		panic(err)
	}
	if k.backslash {
		text = strings.ReplaceAll(text, `\`, "/")
	}
	if k.cutLast {
		text = cut(text)
	}
	all := strings.Split(text[1:], "/")
	if !merge {
		return all
	}
	last := all[len(all)-1]
	return append(slices.DeleteFunc(all[:len(all)-1], func(s string) bool { return s == "" }), last)
}

// TestInterpretationsCoverAllUpstreamKinds checks all paths of up to five pieces:
// in a canonical path, no kind of upstream finds dot segments. Each kind of
// upstream interprets the path as the path itself, or as one of Interpretations.
func TestInterpretationsCoverAllUpstreamKinds(t *testing.T) {
	pieces := []string{"/", "a", ".", "..", "%2F", "%5C", ";", "%3B"}
	var kinds []upstreamKind
	for i := range 8 {
		kinds = append(kinds, upstreamKind{i&1 > 0, i&2 > 0, i&4 > 0})
	}
	seen := map[string]bool{}
	var visit func(raw string, remaining int)
	visit = func(raw string, remaining int) {
		if path, err := Canonical(raw); err == nil && !seen[path] {
			seen[path] = true
			known := [][]string{decoded(path)}
			for _, interpretation := range Interpretations(path) {
				known = append(known, decoded(interpretation))
			}
			for _, k := range kinds {
				if slices.ContainsFunc(k.segments(path, false), isDots) {
					t.Errorf("%s: an upstream of the kind %+v finds dot segments, want none", path, k)
				}
				got := k.segments(path, true)
				if !slices.ContainsFunc(known, func(segments []string) bool { return slices.Equal(segments, got) }) {
					t.Errorf("%s: an upstream of the kind %+v finds the segments %q, want one of %q", path, k, got, known)
				}
			}
		}
		if remaining == 0 || t.Failed() {
			return
		}
		for _, piece := range pieces {
			visit(raw+piece, remaining-1)
		}
	}
	visit("/", 5)
	if len(seen) < 1000 && !t.Failed() {
		t.Errorf("checked paths = %d, want at least 1000", len(seen))
	}
}

// decoded returns the decoded segments of a canonical path.
func decoded(path string) []string {
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		text, err := url.PathUnescape(segment)
		if err != nil {
			panic(err)
		}
		segments[i] = text
	}
	return segments
}
