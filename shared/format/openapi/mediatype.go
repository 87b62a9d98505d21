package openapi

import (
	"mime"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"github.com/gatewright/gatewright/shared/base/lazy"
)

// This file reads media types and charsets.

// parseMediaType returns a media type in lower case and its parameters. It returns "" for a text that is none, and for
// one whose charset or boundary receivers can read in different ways.
func parseMediaType(text string) (mediaType string, parameters map[string]string) {
	mediaType, parameters, err := mime.ParseMediaType(text)
	if err != nil || !strings.Contains(mediaType, "/") || isAmbiguous(text) {
		return "", nil
	}
	return mediaType, parameters
}

// decidingParameters matches the parameters that decide how a body is read, also within quotation marks, and in their
// form with an asterisk (RFC 8187), which few receivers know.
var decidingParameters = lazy.Regexp(`(?i)[;\s"](charset|boundary)\s*[*=]`)

// isAmbiguous reports whether receivers can read different values of charset or boundary.
func isAmbiguous(text string) bool {
	if strings.Count(text, "=") < 2 && !strings.Contains(text, "*") { // almost all values
		return false
	}
	seen := map[string]bool{}
	for _, match := range decidingParameters().FindAllStringSubmatch(text, -1) {
		name := strings.ToLower(match[1])
		if seen[name] || strings.HasSuffix(match[0], "*") {
			return true
		}
		seen[name] = true
	}
	return false
}

// The media types of forms.
const (
	formType      = "application/x-www-form-urlencoded"
	multipartType = "multipart/form-data"
)

// isJSON reports whether a media type, which can have parameters, is JSON.
func isJSON(mediaType string) bool {
	if at := strings.IndexByte(mediaType, ';'); at >= 0 {
		mediaType = mediaType[:at]
	}
	mediaType = strings.ToLower(strings.TrimSpace(mediaType))
	return mediaType == "application/json" || mediaType == "text/json" || strings.HasSuffix(mediaType, "+json")
}

// isText reports whether bodies of a media type are checked as one text.
func isText(mediaType string) bool { return strings.HasPrefix(mediaType, "text/") }

// matchesType reports whether a media type is in a comma-separated list of media types and ranges.
func matchesType(mediaType, list string) bool {
	group, _, _ := strings.Cut(mediaType, "/")
	for item := range strings.SplitSeq(list, ",") {
		allowed, _ := parseMediaType(strings.TrimSpace(item))
		if slices.Contains([]string{mediaType, group + "/*", "*/*"}, allowed) {
			return true
		}
	}
	return false
}

// accept returns the description for the value of a Content-Type header. It returns nil for a media type that is not
// described, for a malformed value, and for a charset that the check of the media type cannot read. Only a message
// without Content-Type can have the type application/octet-stream (RFC 9110, section 8.3): receivers read different
// types from a malformed value.
func (c contents) accept(contentType string) (found *content, mediaType string, parameters map[string]string) {
	mediaType, parameters = parseMediaType(contentType)
	if mediaType == "" && strings.TrimSpace(contentType) != "" {
		return nil, "", nil
	}
	if found = c.find(mediaType); found == nil && mediaType == "" {
		found = c.find("application/octet-stream")
	}
	charset := parameters["charset"]
	switch {
	case isUTF8(charset):
	case isJSON(mediaType), mediaType == formType, mediaType == multipartType,
		found.isChecked(mediaType) && singleByteCharset(charset) == nil:
		return nil, mediaType, parameters
	}
	return found, mediaType, parameters
}

// isUTF8 reports whether text in a charset is UTF-8. Without a charset, text is UTF-8.
func isUTF8(charset string) bool {
	return slices.Contains([]string{"", "utf-8", "utf8", "us-ascii"}, strings.ToLower(charset))
}

// singleByteCharset returns the encoding of a charset that texts can have in addition to UTF-8, or nil.
func singleByteCharset(charset string) *charmap.Charmap {
	switch strings.ToLower(charset) {
	case "iso-8859-1":
		return charmap.ISO8859_1
	case "windows-1252":
		return charmap.Windows1252
	}
	return nil
}

// decodeText returns a text in a charset as UTF-8. It returns false for an unsupported charset, and for text
// that is not in the charset.
func decodeText(charset string, data []byte) (string, bool) {
	if isUTF8(charset) {
		return string(data), utf8.Valid(data)
	}
	single := singleByteCharset(charset)
	if single == nil {
		return "", false
	}
	decoded, err := single.NewDecoder().Bytes(data)
	return string(decoded), err == nil
}
