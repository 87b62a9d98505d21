package tunnel

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// TestAgentCanShutDownFullConnection fills a connection with requests before the relay sends the
// request with which it waits for the agent's shutdown. A stream must be free for this request.
func TestAgentCanShutDownFullConnection(t *testing.T) {
	const streams = 5
	requests := make(chan string, 2*streams)
	agent := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			requests <- r.URL.Path
			w.WriteHeader(http.StatusNoContent)
		}),
		Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams},
	}
	agent.Protocols.SetUnencryptedHTTP2(true)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = agent.Serve(listener) }()
	defer func() { _ = agent.Close() }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLink(t.Context(), linkTransport(), conn)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 { // a second configuration must not reserve another stream
		if err := l.Configure(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		<-requests
	}
	for l.client.InFlight() > 1 { // net/http frees a stream a moment after its response
		time.Sleep(time.Millisecond)
	}
	accepted := 0
	for l.reserve() {
		accepted++
	}
	if accepted != streams-1 {
		t.Fatalf("accepted requests = %d, want %d, so that the agent can still shut down", accepted, streams-1)
	}
	go l.closeOnShutdown(t.Context())
	if got := <-requests; got != "/leaving" {
		t.Errorf("request to the agent = %s, want /leaving", got)
	}
	for range accepted {
		l.release()
	}
	<-l.Done()
}
