package telemetry

import "strings"

// MaxTextBytes is the maximum size of a client's text in a log line: of a path, a host or a method.
// With longer texts a client could overwrite the log of hours with a few thousand requests.
const MaxTextBytes = 512

// Truncate returns the first bytes of a text, with "…" at the end if the text was
// longer. Redact the text first: Redact does not recognize a part of a credential.
func Truncate(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}

// Text returns a client's text for a log line: at most MaxTextBytes of it.
func Text(text string) string { return Truncate(text, MaxTextBytes) }
