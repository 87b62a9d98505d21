package tunnel

import (
	"io"
	"net/http"
)

// clientStream has the data from the client on a connection that
// switches protocols. HTTP/2 sends the data as the body of a request.
type clientStream struct {
	read  *io.PipeReader
	write *io.PipeWriter
}

// upgradeRequest converts a client's request to switch protocols into a request that HTTP/2 can
// send. It changes r. It also returns the stream for the client's data.
func upgradeRequest(r *http.Request, protocol string) (*http.Request, *clientStream) {
	read, write := io.Pipe()
	r.Header[fieldUpgrade] = []string{protocol}
	delete(r.Header, "Connection")
	delete(r.Header, "Upgrade")
	r.Body, r.ContentLength = read, -1
	return r, &clientStream{read, write}
}

// abort closes a stream that is not needed, because the service
// does not switch protocols. It does nothing on a nil clientStream.
func (s *clientStream) abort() {
	if s != nil {
		_ = s.write.CloseWithError(io.ErrClosedPipe)
		_ = s.read.Close()
	}
}

// upgradeResponse converts the response to HTTP/1: status 101, with a body that is also an io.Writer.
func (s *clientStream) upgradeResponse(response *http.Response, protocol string, release func()) *http.Response {
	response.StatusCode, response.Status = http.StatusSwitchingProtocols, "101 Switching Protocols"
	response.Header["Connection"], response.Header["Upgrade"] = []string{"Upgrade"}, []string{protocol}
	delete(response.Header, "Content-Length")
	response.ContentLength = 0 // as in net/http: otherwise, code that writes the response would end the connection
	response.Body = &duplex{ReadCloser: response.Body, up: s, release: release}
	return response
}

// duplex has both directions of a connection that has switched protocols.
type duplex struct {
	io.ReadCloser
	up      *clientStream
	release func()
}

var _ io.ReadWriteCloser = (*duplex)(nil)

func (d *duplex) Write(p []byte) (int, error) { return d.up.write.Write(p) }

// CloseWrite ends the client's direction: the service can still send data.
func (d *duplex) CloseWrite() error { return d.up.write.Close() }

// Close ends both directions.
func (d *duplex) Close() error {
	d.release()
	_ = d.up.write.Close()
	return d.ReadCloser.Close()
}
