// Package problem makes the data plane's error responses: problem documents
// as contract 1.2 shapes them, with the trace of contract 1.2's "trace" row.
//
// It is not the management API's problem writer (package api): that one
// answers through huma, this one answers with an *http.Response that travels
// back through a route's outbound policies like any other.
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

// ContentType is what problem documents are served as (RFC 9457).
const ContentType = "application/problem+json"

// InitializationError is the title that clients know a deployment by that was
// built but can't be served (contract 3.1).
const InitializationError = "Gateway Initialization Error"

// Document is a problem document. Detail tells the caller what to do and never
// repeats a value of the request.
type Document struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"`
	Trace    Trace  `json:"trace"`
}

// Trace tells which request a problem belongs to and which build answered it.
type Trace struct {
	Timestamp string `json:"timestamp"`
	RequestID string `json:"requestId"`
	// BuildID is absent where no deployment was found.
	BuildID string `json:"buildId,omitempty"`
}

// New makes a document with the type and title that belong to a status.
func New(status int, detail string) Document {
	return Document{
		Type:   "https://httpproblems.com/http-status/" + strconv.Itoa(status),
		Title:  http.StatusText(status),
		Status: status,
		Detail: detail,
	}
}

// Timestamp returns a time as contract 1.4 writes it: RFC 3339, UTC, with
// milliseconds.
func Timestamp(t time.Time) string {
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// Response makes the response that carries the document. Its body is in memory,
// so leaving it unread costs nothing.
func (d *Document) Response() *http.Response {
	body, err := json.Marshal(d)
	if err != nil {
		// Strings and numbers always encode: only a changed type can get here.
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
