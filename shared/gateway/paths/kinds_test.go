package paths

import (
	"net/url"
	"slices"
	"strings"
	"testing"
)

// kind is a way in which upstreams read a path.
type kind struct {
	backslash         bool // is a slash
	cutFirst, cutLast bool // path parameters, before decoding and after
}

// segments is what a path consists of for such an upstream, decoded. Where one
// says merge, it leaves empty ones out but for the last.
func (k kind) segments(path string, merge bool) []string {
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

// TestNoKindOfUpstreamReadsWhatTheGatewayDoesNot goes through all paths of up to
// five pieces: in a canonical one no kind of upstream finds dots, wherever they
// stand, and what it makes of the path is the path itself or one of its readings.
func TestNoKindOfUpstreamReadsWhatTheGatewayDoesNot(t *testing.T) {
	pieces := []string{"/", "a", ".", "..", "%2F", "%5C", ";", "%3B"}
	var kinds []kind
	for i := range 8 {
		kinds = append(kinds, kind{i&1 > 0, i&2 > 0, i&4 > 0})
	}
	seen := map[string]bool{}
	var visit func(raw string, left int)
	visit = func(raw string, left int) {
		if path, err := Canonical(raw); err == nil && !seen[path] {
			seen[path] = true
			known := [][]string{decoded(path)}
			for _, reading := range Readings(path) {
				known = append(known, decoded(reading))
			}
			for _, k := range kinds {
				if slices.ContainsFunc(k.segments(path, false), isDots) {
					t.Errorf("%s: dots show for an upstream that reads %+v", path, k)
				}
				got := k.segments(path, true)
				if !slices.ContainsFunc(known, func(segments []string) bool { return slices.Equal(segments, got) }) {
					t.Errorf("%s: is %q for an upstream that reads %+v, which is none of %q", path, got, k, known)
				}
			}
		}
		if left == 0 || t.Failed() {
			return
		}
		for _, piece := range pieces {
			visit(raw+piece, left-1)
		}
	}
	visit("/", 5)
	if len(seen) < 1000 && !t.Failed() {
		t.Errorf("only %d paths were looked at", len(seen))
	}
}

// decoded is a canonical path's segments.
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
