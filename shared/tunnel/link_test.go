package tunnel

import (
	"net"
	"net/http"
	"testing"
	"time"
)

// TestAgentCanLeaveAFullConnection: requests that come between the agent's first answer and the question whether it leaves,
// as many as there may be, leave that question its stream.
func TestAgentCanLeaveAFullConnection(t *testing.T) {
	const streams = 5
	asked := make(chan string, 2*streams)
	agent := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- r.URL.Path
			w.WriteHeader(http.StatusNoContent)
		}),
		Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: streams},
	}
	agent.Protocols.SetUnencryptedHTTP2(true)
	at, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = agent.Serve(at) }()
	defer func() { _ = agent.Close() }()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", at.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLink(t.Context(), linkTransport(), conn)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for range 2 { // another configuration takes no second stream
		if err := l.Configure(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		<-asked
	}
	for l.client.InFlight() > 1 { // net/http forgets a stream a moment after its answer is there
		time.Sleep(time.Millisecond)
	}
	taken := 0
	for l.take() {
		taken++
	}
	if taken != streams-1 {
		t.Fatalf("%d requests have room beside the one by which the agent leaves, want %d", taken, streams-1)
	}
	go l.closeWhenLeft(t.Context())
	if got := <-asked; got != "/leaving" {
		t.Errorf("the agent is asked for %s", got)
	}
	for range taken {
		l.giveBack()
	}
	<-l.Done()
}
