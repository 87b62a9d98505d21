package tunnel_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
)

// unresponsive is a service that switches protocols and then sends nothing.
// It stays connected even after the client has closed its direction.
type unresponsive struct {
	once              sync.Once
	writeClosed, done chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (u *unresponsive) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"odd"}},
		Body: u,
	}, nil
}

func (u *unresponsive) Read([]byte) (int, error) {
	<-u.done
	return 0, io.EOF
}

func (u *unresponsive) Write(p []byte) (int, error) { return len(p), nil }

func (u *unresponsive) CloseWrite() error {
	close(u.writeClosed)
	return nil
}

func (u *unresponsive) Close() error {
	u.once.Do(func() { close(u.done) })
	return nil
}

// TestUnresponsiveServiceIsClosed checks when the agent closes the connection to a service that sends
// nothing: when the client closes its connection, and not when the client has only closed its own direction.
func TestUnresponsiveServiceIsClosed(t *testing.T) {
	service := &unresponsive{writeClosed: make(chan struct{}), done: make(chan struct{})}
	fx := newFixture(t, http.NotFoundHandler())
	o := fx.options()
	o.Transport = service
	fx.run(o)
	response, err := fx.do(http.MethodGet, "/", nil, func(r *http.Request) { r.Header.Set("Upgrade", "odd") })
	if err != nil {
		t.Fatal(err)
	}
	halfCloser, ok := response.Body.(interface{ CloseWrite() error })
	if !ok || halfCloser.CloseWrite() != nil {
		t.Fatalf("CloseWrite() of a %T fails, want no error", response.Body)
	}
	<-service.writeClosed
	select {
	case <-service.done:
		t.Error("connection to the service is closed while the client waits for the response, want it open")
	default:
	}
	_ = response.Body.Close()
	<-service.done
}
