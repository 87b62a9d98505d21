package router

import "strings"

// Normalise removes dot segments from an escaped path, written plainly or as
// %2e, as every URL parser does before it sends a request (WHATWG URL, "path
// state"). A client that did not do so, or hid them, gets the route of the path
// that it really asks for, and no upstream sees a way up. Everything else is
// left as it is: double slashes, other escapes, the trailing slash.
//
// The path begins with a slash; so does the result.
func Normalise(path string) string {
	if !mayHaveDots(path) {
		return path
	}
	var kept []string
	segments := strings.Split(path[1:], "/")
	for i, segment := range segments {
		last := i == len(segments)-1
		switch dots(segment) {
		case 1:
			if last {
				kept = append(kept, "")
			}
		case 2:
			if len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "")
			}
		default:
			kept = append(kept, segment)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// HasDotSegment reports whether Normalise would change an escaped path.
func HasDotSegment(path string) bool {
	if !mayHaveDots(path) {
		return false
	}
	for segment := range strings.SplitSeq(path, "/") {
		if dots(segment) > 0 {
			return true
		}
	}
	return false
}

// mayHaveDots is quick and may be wrong in one direction only.
func mayHaveDots(path string) bool {
	for i := 0; i+1 < len(path); i++ {
		if path[i] == '/' && (path[i+1] == '.' || path[i+1] == '%') {
			return true
		}
	}
	return path != "" && (path[0] == '.' || path[0] == '%')
}

// dots returns how many dots a segment is made of if it is nothing else, written
// plainly or as %2e, and 0 for every other segment.
func dots(segment string) int {
	n := 0
	for segment != "" {
		switch {
		case segment[0] == '.':
			segment = segment[1:]
		case len(segment) >= 3 && segment[0] == '%' && segment[1] == '2' && (segment[2] == 'e' || segment[2] == 'E'):
			segment = segment[3:]
		default:
			return 0
		}
		n++
	}
	if n > 2 {
		return 0
	}
	return n
}
