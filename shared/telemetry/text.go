package telemetry

import "strings"

// MaxTextBytes is the largest size of a client's text in a log line: of a path, a host or a method. With longer texts a
// client could overwrite the log of hours with a few thousand requests.
const MaxTextBytes = 512

// Clip returns the first bytes of a text, with "…" at the end if the text was longer. Redact the text first: Redact does not
// recognize a part of a credential.
func Clip(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}

// Text returns a client's text for a log line: MaxTextBytes of it at most.
func Text(text string) string { return Clip(text, MaxTextBytes) }
