package api

import (
	"bytes"
	"net/http"
)

// draft is an answer that is not sent yet.
type draft struct {
	status int
	header http.Header
	body   bytes.Buffer
}

var _ http.ResponseWriter = (*draft)(nil)

func newDraft() *draft { return &draft{header: http.Header{}} }

// Header implements http.ResponseWriter.
func (d *draft) Header() http.Header { return d.header }

// WriteHeader implements http.ResponseWriter.
func (d *draft) WriteHeader(status int) {
	if d.status == 0 {
		d.status = status
	}
}

// Write implements http.ResponseWriter.
func (d *draft) Write(b []byte) (int, error) {
	d.WriteHeader(http.StatusOK)
	return d.body.Write(b)
}

// succeeded reports whether the answer is that of a success.
func (d *draft) succeeded() bool { return d.status != 0 && d.status < http.StatusMultipleChoices }

// send answers with the draft.
func (d *draft) send(w http.ResponseWriter) {
	for name, values := range d.header {
		w.Header()[name] = values
	}
	w.WriteHeader(d.status)
	_, _ = w.Write(d.body.Bytes())
}
