package mcp

import (
	"bytes"
	"compress/gzip"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

// maxResponseBytes limits the size of an operation's response, which becomes a text that a model reads.
const maxResponseBytes = 1 << 20

// routeResponse is the response of a route.
type routeResponse struct {
	status int
	// mediaType is the content type without parameters, "" if there is none.
	mediaType string
	// data is the body. If it is text, it is in UTF-8.
	data []byte
	// binary is set if data is not text.
	binary bool
	// fault is the reason why data does not have the body, "" if it has.
	fault string
}

func (r routeResponse) ok() bool { return r.fault == "" && r.status >= 200 && r.status < 300 }

// text returns the fault if there is one, and otherwise the body as text. If
// the body of an unsuccessful response is empty, text returns the status.
func (r routeResponse) text() string {
	switch {
	case r.fault != "":
		return r.fault
	case len(r.data) == 0 && !r.ok():
		return strings.TrimSpace(strconv.Itoa(r.status) + " " + http.StatusText(r.status))
	}
	return string(r.data)
}

// readResponse reads a response up to maxResponseBytes, and closes it.
func readResponse(response *http.Response) routeResponse {
	defer func() { _ = response.Body.Close() }()
	out := routeResponse{status: response.StatusCode}
	charset := ""
	if mediaType, parameters, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err == nil {
		out.mediaType, charset = mediaType, strings.ToLower(parameters["charset"])
	}
	const tooLarge = "The operation's answer is larger than the 1 MiB that an MCP server passes on. Ask it for less."
	switch {
	case out.mediaType == "text/event-stream":
		out.fault = "The operation answers by a stream of events, which an MCP server does not pass on."
		return out
	case out.status == http.StatusSwitchingProtocols:
		out.fault = "The operation switches to another protocol, which an MCP server does not pass on."
		return out
	case response.ContentLength > maxResponseBytes:
		out.fault = tooLarge
		return out
	}
	data, err := readDecompressed(response)
	switch {
	case err != nil:
		out.fault = err.Error()
	case len(data) > maxResponseBytes:
		out.fault = tooLarge
	default:
		out.data, out.binary = decodeText(data, out.mediaType, charset)
	}
	return out
}

// responseError is the reason why a response can't be forwarded, for users.
type responseError string

// Error implements error.
func (e responseError) Error() string { return string(e) }

const errBroken = responseError("The operation's answer broke off before its end. Try again later.")

// readDecompressed reads a body up to one byte more than maxResponseBytes.
// The request does not accept compression, but some servers use gzip anyway.
func readDecompressed(response *http.Response) ([]byte, error) {
	var body io.Reader = response.Body
	switch coding := strings.ToLower(strings.TrimSpace(response.Header.Get("Content-Encoding"))); coding {
	case "", "identity":
	case "gzip", "x-gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, errBroken
		}
		body = unzipped
	default:
		return nil, responseError("The operation's answer is compressed by a coding that nobody has asked for. Have the " +
			"upstream send what is asked for.")
	}
	data, err := io.ReadAll(io.LimitReader(body, maxResponseBytes+1))
	if err != nil {
		return nil, errBroken
	}
	return data, nil
}

// decodeText converts a text to UTF-8. binary is true if the data is not text, according to its type and bytes.
func decodeText(data []byte, mediaType, charset string) (text []byte, binary bool) {
	switch charset {
	case "iso-8859-1", "latin1", "windows-1252", "us-ascii":
		if converted, err := charmap.Windows1252.NewDecoder().Bytes(data); err == nil && isText(mediaType) {
			return converted, false
		}
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) || mediaType != "" && !isText(mediaType) || mediaType == "" && bytes.IndexByte(data, 0) >= 0 {
		return data, len(data) > 0
	}
	return data, false
}

// isText reports whether a media type is text.
func isText(mediaType string) bool {
	if strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "+json") ||
		strings.HasSuffix(mediaType, "+xml") || strings.HasSuffix(mediaType, "+yaml") {
		return true
	}
	switch mediaType {
	case "application/json", "application/xml", "application/javascript", "application/yaml", "application/x-yaml",
		"application/x-ndjson", "application/jsonl",
		"application/graphql", "application/sql", "application/toml", "application/x-www-form-urlencoded",
		"application/problem+json":
		return true
	}
	return false
}
