package listen_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/gatewright/gatewright/shared/listen"
)

// TestHTTP2FloodsEndTheConnection: frames that cost their sender next to nothing. What each may
// send before is far less than what it would take to hurt.
func TestHTTP2FloodsEndTheConnection(t *testing.T) {
	for name, send := range map[string]func(f *framed, open uint32) error{
		"pings":   func(f *framed, _ uint32) error { return f.WritePing(false, [8]byte{}) },
		"answers": func(f *framed, _ uint32) error { return f.WritePing(true, [8]byte{}) },
		"settings": func(f *framed, _ uint32) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
		},
		"priorities": func(f *framed, open uint32) error {
			return f.WritePriority(open, http2.PriorityParam{Weight: 1})
		},
		"windows":            func(f *framed, _ uint32) error { return f.WriteWindowUpdate(0, 1) },
		"empty data":         func(f *framed, open uint32) error { return f.WriteData(open, false, nil) },
		"padding":            func(f *framed, open uint32) error { return f.WriteDataPadded(open, false, nil, make([]byte, 255)) },
		"frames of no kind":  func(f *framed, _ uint32) error { return f.WriteRawFrame(0xfa, 0, 0, make([]byte, 1<<10)) },
		"resets of nothing":  func(f *framed, open uint32) error { return f.WriteRSTStream(open+2, http2.ErrCodeCancel) },
		"a head without end": func(f *framed, _ uint32) error { return f.WriteContinuation(f.last+2, false, f.encode("x", "y")) },
	} {
		t.Run(name, func(t *testing.T) {
			inFrames(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, func(t *testing.T, s *secure, p pipes) {
				f := p.dialFrames(t, s)
				open := f.request(true, posted("/")...)
				synctest.Wait()
				if name == "a head without end" {
					f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: open + 2, BlockFragment: f.encode(usual("/")...)}))
				}
				most := 4 << 20 / 9
				for most > 0 && send(f, open) == nil {
					most--
				}
				if most == 0 {
					t.Error("it takes all")
				}
				f.ends()
				synctest.Wait()
				if n := s.Connections(); n != 0 {
					t.Errorf("%d connections are left", n)
				}
			})
		})
	}
}

// TestHTTP2WhatClientsSendIsNoFlood: windows of long answers, bodies by the byte, pings all day.
func TestHTTP2WhatClientsSendIsNoFlood(t *testing.T) {
	const size = 16 << 20
	s := multiplexing(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.Copy(w, io.LimitReader(zeros{}, size))
			return
		}
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}, nil)
	by := s.transport(t)
	if _, body := s.ask(t, by, http.MethodGet, "/", ""); len(body) != size {
		t.Errorf("%d bytes", len(body))
	}
	for range 10 {
		if response, _ := s.ask(t, by, http.MethodPost, "/refused", strings.Repeat("x", 1<<20)); response.StatusCode != http.StatusForbidden {
			t.Error(response.Status)
		}
	}
	f := s.dialFrames(t)
	id := f.request(true, posted("/")...)
	for range 20_000 { // each a frame and a record of TLS
		f.must(f.WriteData(id, false, []byte("message")))
	}
	f.must(f.WriteData(id, true, nil))
	if got := f.answer(id); got.status != "200" {
		t.Errorf("got %+v", got)
	}
	inFrames(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(t *testing.T, s *secure, p pipes) {
		f := p.dialFrames(t, s)
		f.request(false, usual("/")...)
		for range 20_000 {
			f.must(f.WritePing(false, [8]byte{}))
			time.Sleep(10 * time.Millisecond)
		}
		if n := s.Connections(); n != 1 {
			t.Errorf("%d connections are left", n)
		}
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestHTTP2RapidResetEndsTheConnection, however quickly handlers see it, and those who cancel now
// and then are served.
func TestHTTP2RapidResetEndsTheConnection(t *testing.T) {
	for name, of := range map[string]struct {
		handler time.Duration
		begun   bool // each request, before it is cancelled, however many cores there are
	}{"handlers that end": {}, "handlers that take their time": {handler: time.Second}, "one after another": {begun: true}} {
		var run atomic.Int32
		inFrames(t, func(_ http.ResponseWriter, r *http.Request) {
			run.Add(1)
			<-r.Context().Done()
			time.Sleep(of.handler)
		}, func(t *testing.T, s *secure, p pipes) {
			f := p.dialFrames(t, s)
			for range 10_000 {
				f.last += 2
				id := f.last + 1
				if f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.encode(usual("/")...), EndHeaders: true, EndStream: true}) != nil {
					break
				}
				if of.begun {
					synctest.Wait()
				}
				if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
					break
				}
			}
			began := time.Now()
			f.ends()
			if took := time.Since(began); took > 2*time.Second || run.Load() > 1000 {
				t.Errorf("%s: it ends after %v, and has run %d", name, took, run.Load())
			}
			time.Sleep(of.handler)
			synctest.Wait()
			if n := s.Connections(); n != 0 {
				t.Errorf("%s: %d connections are left", name, n)
			}
		})
	}
	inFrames(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/waits" {
			<-r.Context().Done()
		}
	}, func(t *testing.T, s *secure, p pipes) {
		f := p.dialFrames(t, s)
		for range 1000 {
			f.must(f.WriteRSTStream(f.request(false, usual("/waits")...), http2.ErrCodeCancel))
			synctest.Wait()
			if got := f.answer(f.request(false, usual("/")...)); got.status != "200" {
				t.Fatalf("got %+v", got)
			}
		}
	})
}

// TestHTTP2RequestsAtOnceAreBounded: those of a connection as clients are told, and in all as
// connections are.
func TestHTTP2RequestsAtOnceAreBounded(t *testing.T) {
	release := make(chan struct{})
	var waiting sync.WaitGroup
	s := multiplexing(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			waiting.Done()
			<-release
		}
	}, func(o *listen.Options) { o.Settings.Connections = 110 })
	one := s.dialFrames(t)
	waiting.Add(100)
	var ids []uint32
	for range 100 {
		ids = append(ids, one.request(false, usual("/")...))
	}
	waiting.Wait()
	if got := one.answer(one.request(false, usual("/")...)); !got.reset {
		t.Errorf("one too many of a connection: %+v", got)
	}
	// Nine more connections, the first with ten requests.
	other := s.dialFrames(t)
	for range 8 {
		s.dialFrames(t)
	}
	eventually(t, func() bool { return s.Connections() == 10 })
	waiting.Add(2)
	ids2 := []uint32{other.request(false, usual("/")...), other.request(false, usual("/")...)}
	waiting.Wait()
	if got := other.answer(other.request(false, usual("/")...)); got.status != "503" || got.kind != "application/problem+json" {
		t.Errorf("one too many in all: %+v", got)
	}
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(newClient(t, c)); len(b) > 0 {
		t.Errorf("a connection too many is answered %q", b)
	}
	close(release)
	for _, id := range ids {
		if got := one.answer(id); got.status != "200" {
			t.Fatalf("got %+v", got)
		}
	}
	for _, id := range ids2 {
		other.answer(id)
	}
	waiting.Add(20)
	for range 20 {
		ids2 = append(ids2, other.request(false, usual("/")...))
	}
	if got := other.answer(ids2[len(ids2)-1]); got.status != "200" {
		t.Errorf("places are not given back: %+v", got)
	}
}
