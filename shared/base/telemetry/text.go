package telemetry

import "strings"

// MaxTextBytes is the maximum size of a client's text in a log line: of a path, a host or a method. If there were no
// limit, a few thousand requests with long texts could push hours of lines out of a log of limited size.
const MaxTextBytes = 512

// Truncate returns a text of at most this many bytes unchanged. It returns the first bytes of a longer text, with "…"
// at the end. Redact the text first: Redact does not recognize a part of a credential.
func Truncate(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}

// Text returns a client's text for a log line: at most MaxTextBytes of it.
func Text(text string) string { return Truncate(text, MaxTextBytes) }
