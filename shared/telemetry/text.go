package telemetry

import "strings"

// MaxTextBytes is how much of a text that a client chooses a log line repeats: of its path, its host or its method.
// With more of it a client could have the log of hours replaced by a few thousand requests.
const MaxTextBytes = 512

// Clip returns a text with at most so many bytes, and "…" at the end where it was longer. Redact the text first: a part of
// a credential has no form that Redact knows.
func Clip(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	return strings.ToValidUTF8(text[:bytes], "") + "…"
}

// Text returns a text of a client as a log line repeats it: MaxTextBytes of it at most.
func Text(text string) string { return Clip(text, MaxTextBytes) }
