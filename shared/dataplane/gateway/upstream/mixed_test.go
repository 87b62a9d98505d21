package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// respondAsRequested responds with the ID of the request. The path selects how the response is framed, or that it is
// broken off.
func respondAsRequested(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("id")
	w.Header().Set("X-Id", id)
	text := strings.Repeat(id+";", 200)
	switch r.URL.Path {
	case "/length":
		w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	case "/chunked":
		_ = http.NewResponseController(w).Flush()
	case "/close":
		w.Header().Set("Connection", "close")
	case "/none":
		w.WriteHeader(http.StatusNoContent)
		return
	case "/early":
		w.Header().Set("X-Early", id)
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("X-Early")
	case "/abort":
		_, _ = io.WriteString(w, text[:len(text)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	case "/slow":
		select {
		case <-r.Context().Done():
			return
		case <-time.After(time.Millisecond):
		}
	}
	_, _ = io.WriteString(w, text)
}

// mixedRequests sends requests of every kind and counts their results.
type mixedRequests struct {
	client                  testClient
	url                     string
	responded, disconnected atomic.Int32
}

// send sends one request and checks that the response has its ID, unless the client disconnects first.
func (m *mixedRequests) send(t *testing.T, random *rand.Rand, id string) {
	t.Helper()
	paths := []string{"/length", "/chunked", "/close", "/none", "/early", "/abort", "/slow", "/plain"}
	methods := []string{http.MethodGet, http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodPost}
	path, method := paths[random.IntN(len(paths))], methods[random.IntN(len(methods))]
	if path == "/abort" {
		method = http.MethodGet // a response to HEAD has no body whose missing half would be noticed
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if random.IntN(4) == 0 {
		time.AfterFunc(time.Duration(random.IntN(1500))*time.Microsecond, cancel)
	}
	hint := ""
	response, err := m.client.Send(request(t, ctx, method, m.url+path+"?id="+id), func(_ int, h http.Header) {
		hint = h.Get("X-Early")
	})
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s %s: Send() error = %v, want none or %v", method, path, err, context.Canceled)
		}
		m.disconnected.Add(1)
		return
	}
	defer response.Body.Close()
	if response.Header.Get("X-Id") != id || hint != "" && hint != id {
		t.Errorf("%s %s: response = %s, hint = %s, want those of %s", method, path, response.Header.Get("X-Id"), hint, id)
	}
	if random.IntN(5) > 0 { // otherwise the body is left unread
		all, err := io.ReadAll(response.Body)
		complete := strings.Repeat(id+";", 200)
		switch {
		case err != nil && path != "/abort" && ctx.Err() == nil:
			t.Errorf("%s %s: ReadAll() error = %v, want none", method, path, err)
		case err == nil && path == "/abort":
			t.Errorf("%s /abort: ReadAll() error = nil, want an error after half the body", method)
		case err == nil && method != http.MethodHead && path != "/none" && string(all) != complete:
			t.Errorf("%s %s: body = %.40q, want %.40q", method, path, all, complete)
		case err == nil:
			m.responded.Add(1)
		}
	}
}

// TestResponsesMatchRequestsOnSharedConnections combines several events on shared connections: clients that disconnect
// at any moment, bodies left unread, servers that close connections, and responses of every framing. Each response must
// be the response to its own request, and no request may hang.
func TestResponsesMatchRequestsOnSharedConnections(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(respondAsRequested))
	t.Cleanup(server.Close)
	m := &mixedRequests{client: newClient(t, Options{MaxIdlePerHost: 8}), url: server.URL}
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 250 {
				m.send(t, random, fmt.Sprintf("%d-%d", worker, i))
			}
		})
	}
	wg.Wait()
	if m.responded.Load() < 1000 || m.disconnected.Load() < 10 {
		t.Errorf("responses = %d, disconnects = %d, want at least 1000 and 10", m.responded.Load(), m.disconnected.Load())
	}
}
