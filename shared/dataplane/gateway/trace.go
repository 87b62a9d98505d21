package gateway

import (
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// traceParent returns the W3C trace context to send upstream (https://www.w3.org/TR/trace-context/, section 3): the
// traceparent and tracestate fields. in is the header of the client's request. traceParent continues the client's trace
// with a span of the gateway. If the client has sent no trace, or a malformed one, it starts a new trace, which has no
// state. If this gateway traces requests, the traceparent field has the trace and the ID of the given span. Otherwise
// the new span has a random ID and is not recorded.
func traceParent(in http.Header, source IDs, span telemetry.Span) (parent string, state []string) {
	if values := in["Traceparent"]; len(values) == 1 {
		if trace, flags, ok := parseTraceParent(values[0]); ok {
			if span.TraceID() == trace {
				return span.Traceparent(), in["Tracestate"]
			}
			if span.Enabled() {
				return span.Traceparent(), nil
			}
			return "00-" + trace + "-" + spanID(source) + "-" + flags, in["Tracestate"]
		}
	}
	if span.Enabled() {
		return span.Traceparent(), nil
	}
	// 00: not sampled. A service that samples sets the flag in its own span.
	return "00-" + nonZero(source, 32) + "-" + spanID(source) + "-00", nil
}

func spanID(source IDs) string { return nonZero(source, 16) }

// nonZero returns n random hexadecimal digits that are not all zero: all zeros are an invalid ID in this format.
func nonZero(source IDs, n int) string {
	for {
		if id := source.Hex(n); strings.Trim(id, "0") != "" {
			return id
		}
	}
}

// parseTraceParent parses version-trace-parent-flags. A later version can have more fields after the flags. They are ignored.
func parseTraceParent(text string) (trace, flags string, ok bool) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return "", "", false
	}
	version, trace, parent, flags := text[:2], text[3:35], text[36:52], text[53:55]
	switch {
	case !isHex(version) || !isHex(trace) || !isHex(parent) || !isHex(flags),
		version == "ff",
		version == "00" && len(text) != length,
		len(text) > length && text[length] != '-',
		strings.Trim(trace, "0") == "", strings.Trim(parent, "0") == "":
		return "", "", false
	}
	return trace, flags, true
}

// isHex reports whether a text has only hexadecimal digits in lower case, as this format requires.
func isHex(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
