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

// maxAnswerBytes bounds what is read of an operation's answer: it becomes a text within a message, for a
// model to read.
const maxAnswerBytes = 1 << 20

// answer is what a route has answered.
type answer struct {
	status int
	// mediaType is the content type without parameters, "" where there is none.
	mediaType string
	// data is the body, text as UTF-8.
	data []byte
	// binary says that data is no text.
	binary bool
	// fault is why there is no data, "" where there is.
	fault string
}

func (a answer) ok() bool { return a.fault == "" && a.status >= 200 && a.status < 300 }

// text is the body for people, and for a body without one the status.
func (a answer) text() string {
	switch {
	case a.fault != "":
		return a.fault
	case len(a.data) == 0 && !a.ok():
		return strings.TrimSpace(strconv.Itoa(a.status) + " " + http.StatusText(a.status))
	}
	return string(a.data)
}

// read reads an answer to its end, within the bound, and closes it.
func read(response *http.Response) answer {
	defer func() { _ = response.Body.Close() }()
	a := answer{status: response.StatusCode}
	charset := ""
	if mediaType, parameters, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err == nil {
		a.mediaType, charset = mediaType, strings.ToLower(parameters["charset"])
	}
	const tooLarge = "The operation's answer is larger than the 1 MiB that an MCP server passes on. Ask it for less."
	switch {
	case a.mediaType == "text/event-stream":
		a.fault = "The operation answers by a stream of events, which an MCP server does not pass on."
		return a
	case a.status == http.StatusSwitchingProtocols:
		a.fault = "The operation switches to another protocol, which an MCP server does not pass on."
		return a
	case response.ContentLength > maxAnswerBytes:
		a.fault = tooLarge
		return a
	}
	data, err := readCoded(response)
	switch {
	case err != nil:
		a.fault = err.Error()
	case len(data) > maxAnswerBytes:
		a.fault = tooLarge
	default:
		a.data, a.binary = decoded(data, a.mediaType, charset)
	}
	return a
}

// answerError is why an answer cannot be passed on, for people.
type answerError string

// Error implements error.
func (e answerError) Error() string { return string(e) }

const errBroken = answerError("The operation's answer broke off before its end. Try again later.")

// readCoded reads one byte more than the bound at most. Nobody has asked for a coding; who codes all the
// same does so by gzip.
func readCoded(response *http.Response) ([]byte, error) {
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
		return nil, answerError("The operation's answer is compressed by a coding that nobody has asked for. Have the upstream send what is asked for.")
	}
	data, err := io.ReadAll(io.LimitReader(body, maxAnswerBytes+1))
	if err != nil {
		return nil, errBroken
	}
	return data, nil
}

// decoded makes UTF-8 of a text. It is binary where neither its type nor its bytes are a text's.
func decoded(data []byte, mediaType, charset string) (text []byte, binary bool) {
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

// isText reports whether what has a media type is made to be read as characters.
func isText(mediaType string) bool {
	if strings.HasPrefix(mediaType, "text/") || strings.HasSuffix(mediaType, "+json") || strings.HasSuffix(mediaType, "+xml") || strings.HasSuffix(mediaType, "+yaml") {
		return true
	}
	switch mediaType {
	case "application/json", "application/xml", "application/javascript", "application/yaml", "application/x-yaml", "application/x-ndjson", "application/jsonl",
		"application/graphql", "application/sql", "application/toml", "application/x-www-form-urlencoded", "application/problem+json":
		return true
	}
	return false
}
