package api

import (
	"bytes"
	"net/http"
)

// bufferedResponse is a response that is not sent yet.
type bufferedResponse struct {
	status int
	header http.Header
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*bufferedResponse)(nil)

func newBufferedResponse() *bufferedResponse { return &bufferedResponse{header: http.Header{}} }

// Header implements http.ResponseWriter.
func (r *bufferedResponse) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *bufferedResponse) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *bufferedResponse) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// succeeded reports whether the response is a success.
func (r *bufferedResponse) succeeded() bool {
	return r.status != 0 && r.status < http.StatusMultipleChoices
}

// send sends the response.
func (r *bufferedResponse) send(w http.ResponseWriter) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body.Bytes())
}
