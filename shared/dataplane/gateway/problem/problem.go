// Package problem creates the data plane's error responses: problem
// documents as contract 1.2 defines them, with the member "trace".
//
// Package api creates the problems of the management API, and huma writes them. In the data plane, a problem is an
// *http.Response. So a problem that a handler returns passes the route's outbound policies like any other response.
//
// There is only this file.
package problem

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"
)

// ContentType is the content type of problem documents (RFC 9457).
const ContentType = "application/problem+json"

// InitializationError is the title of the problem of a deployment that was built
// but can't be served. Clients recognize the problem by this title (contract 3.1).
const InitializationError = "Gateway Initialization Error"

// Document is a problem document. Detail says what the caller can do, and never repeats a value of the request.
type Document struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Errors are the violations of a request that does not match its description.
	Errors []Violation `json:"errors,omitempty"`
	Trace  Trace       `json:"trace"`
}

// Violation is a part of a request that does not match the description of its route. In is the part of the request, such as
// "query". Pointer is a JSON pointer within this part. Detail says what is required there.
type Violation struct {
	In      string `json:"in"`
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

// Trace identifies the request of a problem, and the build that served it.
type Trace struct {
	Timestamp string `json:"timestamp"`
	RequestID string `json:"requestId"`
	// BuildID is absent if no deployment was found.
	BuildID string `json:"buildId,omitempty"`
}

// New returns a document with the type and title of a status.
func New(status int, detail string) Document {
	return Document{
		Type:   "https://httpproblems.com/http-status/" + strconv.Itoa(status),
		Title:  http.StatusText(status),
		Status: status,
		Detail: detail,
	}
}

// Timestamp formats a time as in contract 1.4: RFC 3339, UTC, with milliseconds.
func Timestamp(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// Response returns a response with the document. Its body is in memory, so a caller that discards the response need not
// read or close the body.
func (d *Document) Response() *http.Response {
	body, err := json.Marshal(d)
	if err != nil {
		// Never happens with these types: strings and numbers can always be encoded.
		panic("problem: " + err.Error())
	}
	return &http.Response{
		StatusCode: d.Status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {ContentType},
			"Content-Length": {strconv.Itoa(len(body))},
		},
		ContentLength: int64(len(body)),
		Body:          io.NopCloser(bytes.NewReader(body)),
	}
}
