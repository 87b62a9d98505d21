package tunnel_test

import (
	"io"
	"net/http"
	"sync"
	"testing"
)

// silent is a service that has switched protocols, says nothing, and does not mind that it is
// told nothing more.
type silent struct {
	once           sync.Once
	halfway, ended chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (s *silent) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusSwitchingProtocols, Header: http.Header{"Connection": {"Upgrade"}, "Upgrade": {"odd"}}, Body: s,
	}, nil
}

func (s *silent) Read([]byte) (int, error) {
	<-s.ended
	return 0, io.EOF
}

func (s *silent) Write(p []byte) (int, error) { return len(p), nil }

func (s *silent) CloseWrite() error {
	close(s.halfway)
	return nil
}

func (s *silent) Close() error {
	s.once.Do(func() { close(s.ended) })
	return nil
}

// TestSilentServiceIsLeft when the client closes a connection that has switched, and not when it has
// said all.
func TestSilentServiceIsLeft(t *testing.T) {
	service := &silent{halfway: make(chan struct{}), ended: make(chan struct{})}
	w := newWorld(t, http.NotFoundHandler())
	o := w.options()
	o.Transport = service
	w.run(o)
	response, err := w.ask(http.MethodGet, "/", nil, func(r *http.Request) { r.Header.Set("Upgrade", "odd") })
	if err != nil {
		t.Fatal(err)
	}
	half, ok := response.Body.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		t.Fatalf("a %T has no half to close", response.Body)
	}
	<-service.halfway
	select {
	case <-service.ended:
		t.Error("it is left by a client that waits for its answer")
	default:
	}
	_ = response.Body.Close()
	<-service.ended
}
