package world

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The lengths of the upstream's answers, in bytes.
const (
	Small = 1 << 10
	Large = 10 << 20
)

// Answer is the upstream's answer to all requests but those for /large: JSON of Small bytes.
var Answer = `{"data":{"text":"` + strings.Repeat("x", Small-20) + `"}}`

// Upstream is a server behind the product. It answers /wait/N after N milliseconds, and /late when Open was called; /large has a
// large answer.
type Upstream struct {
	*httptest.Server

	// Late are the requests for /late that have not arrived.
	Late sync.WaitGroup
	open chan struct{}
}

// Open has the requests for /late read and answered.
func (u *Upstream) Open() { close(u.open) }

// Host is where it listens, host:port.
func (u *Upstream) Host() string { return host(u.URL) }

func newUpstream() *Upstream {
	u := &Upstream{open: make(chan struct{})}
	u.Server = httptest.NewServer(Handler(func() {
		u.Late.Done()
		<-u.open
	}))
	return u
}

// Handler is what an Upstream serves. late is called for each request for /late before its body is read; nil for none.
func Handler(late func()) http.Handler {
	small, large := []byte(Answer), bytes.Repeat([]byte("x"), Large)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := small
		switch {
		case strings.HasPrefix(r.URL.Path, "/wait/"):
			ms, err := strconv.Atoi(path.Base(r.URL.Path))
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			time.Sleep(time.Duration(ms) * time.Millisecond)
		case r.URL.Path == "/large":
			body = large
		case r.URL.Path == "/late" && late != nil:
			late()
		}
		if n, err := io.Copy(io.Discard, r.Body); err != nil || r.ContentLength >= 0 && n != r.ContentLength {
			panic(http.ErrAbortHandler) // half a body gets no answer
		}
		w.Header()["Content-Type"] = []string{"application/json"}
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
		_, _ = w.Write(body)
	})
}
