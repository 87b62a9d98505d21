package tunnel

import (
	"io"
	"net/http"
)

// upward is a client's half of a connection that shall switch protocols, while nobody
// knows whether the service does: HTTP/2 has a request's body for it.
type upward struct {
	read  *io.PipeReader
	write *io.PipeWriter
}

// sendUpgrade gives the request as HTTP/2 takes it.
func sendUpgrade(r *http.Request, protocol string) (*http.Request, *upward) {
	read, write := io.Pipe()
	r.Header[fieldUpgrade] = []string{protocol}
	delete(r.Header, "Connection")
	delete(r.Header, "Upgrade")
	r.Body, r.ContentLength = read, -1
	return r, &upward{read, write}
}

// abort ends a half that nobody needs. A nil upward has none.
func (u *upward) abort() {
	if u != nil {
		_ = u.write.CloseWithError(io.ErrClosedPipe)
		_ = u.read.Close()
	}
}

// switched gives the answer as HTTP/1 has it: 101, with a body that is written to as well.
func (u *upward) switched(response *http.Response, protocol string, over func()) *http.Response {
	response.StatusCode, response.Status = http.StatusSwitchingProtocols, "101 Switching Protocols"
	response.Header["Connection"], response.Header["Upgrade"] = []string{"Upgrade"}, []string{protocol}
	delete(response.Header, "Content-Length")
	response.ContentLength = 0 // as that of net/http: who writes it on would end the connection else
	response.Body = &duplex{ReadCloser: response.Body, up: u, over: over}
	return response
}

// duplex is both halves of a connection that has switched protocols.
type duplex struct {
	io.ReadCloser
	up   *upward
	over func()
}

var _ io.ReadWriteCloser = (*duplex)(nil)

func (d *duplex) Write(p []byte) (int, error) { return d.up.write.Write(p) }

// CloseWrite ends the client's half: the service may still answer.
func (d *duplex) CloseWrite() error { return d.up.write.Close() }

// Close ends both halves.
func (d *duplex) Close() error {
	d.over()
	_ = d.up.write.Close()
	return d.ReadCloser.Close()
}
