package listen_test

import (
	"crypto/rand"
	"crypto/tls"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen"
)

// departing is a server whose end a test brings about, with what comes to it over pipes.
type departing struct {
	*listen.Server
	pipes
	t     *testing.T
	ended chan struct{} // closed when Shutdown has returned
}

// inDeparture runs a test in a bubble, with a server there. At /slow it answers one byte, and the other after the time that the
// query says.
func inDeparture(t *testing.T, test func(*departing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &departing{pipes: make(pipes), t: t, ended: make(chan struct{})}
		d.Server = listen.New(listen.Options{
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "2")
				wait, _ := time.ParseDuration(r.URL.RawQuery)
				if r.URL.Path == "/silent" {
					time.Sleep(wait)
				}
				_, _ = io.WriteString(w, "o")
				_ = http.NewResponseController(w).Flush()
				if r.URL.Path == "/slow" {
					time.Sleep(wait)
				}
				_, _ = io.WriteString(w, "k")
			}),
			Settings: defaults(t), IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
		})
		served := make(chan error, 1)
		go func() { served <- d.Serve(d.pipes) }()
		test(d)
		<-d.ended
		if err := <-served; err != http.ErrServerClosed { //nolint:errorlint // it is that very one
			t.Errorf("Serve returns %v", err)
		}
		if n := d.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// shutdown begins to end it, and returns when it has come as far as it does by itself.
func (d *departing) shutdown() {
	go func() {
		defer close(d.ended)
		if err := d.Shutdown(d.t.Context()); err != nil {
			d.t.Errorf("shut down: %v", err)
		}
	}()
	synctest.Wait()
}

func (d *departing) hasEnded() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

func get(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n" }

// ok reads an answer, and whether it says that it is the last.
func (c *client) ok() (last bool) {
	c.t.Helper()
	response, body := c.answer()
	if response.StatusCode != http.StatusOK || body != "ok" {
		c.t.Fatalf("answered %s %q", response.Status, body)
	}
	return response.Close
}

// TestRequestInTheMomentOfShutdownIsAnswered where the answer before it could not say that it is the last: its head was written
// before the end was announced, and its end came within the announcement.
func TestRequestInTheMomentOfShutdownIsAnswered(t *testing.T) {
	for name, pause := range map[string]time.Duration{
		"at once":            0,
		"when it has rested": time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			inDeparture(t, func(d *departing) {
				c := d.dial(d.t).send(get("/slow?14s"))
				time.Sleep(time.Second)
				d.Leave()
				time.Sleep(15*time.Second - pause)
				if c.ok() {
					t.Error("an answer says that it is the last before it can know")
				}
				time.Sleep(pause)
				d.shutdown() // announced for 15 s
				c.send(get("/"))
				if !c.ok() {
					t.Error("the next answer does not say that it is the last")
				}
				c.end()
			})
		})
	}
}

// TestAnswerThatOutlivesTheAnnouncementIsFollowedByAnother on its connection, if the client asks in time.
func TestAnswerThatOutlivesTheAnnouncementIsFollowedByAnother(t *testing.T) {
	inDeparture(t, func(d *departing) {
		c := d.dial(d.t).send(get("/slow?30s"))
		time.Sleep(time.Second)
		d.Leave()
		time.Sleep(15 * time.Second)
		d.shutdown()
		if c.ok() {
			t.Error("an answer says that it is the last before it can know")
		}
		time.Sleep(14 * time.Second)
		if !c.send(get("/")).ok() {
			t.Error("the next answer does not say that it is the last")
		}
		c.end()
	})
}

// TestConnectionThatIsNotUsedIsClosed when its last answer is as long ago as the end was announced, and not before. What has
// been idle since the announcement is closed with it.
func TestConnectionThatIsNotUsedIsClosed(t *testing.T) {
	inDeparture(t, func(d *departing) {
		old := d.dial(d.t).send(get("/"))
		old.ok()
		c := d.dial(d.t).send(get("/slow?5s"))
		time.Sleep(time.Second)
		d.Leave()
		c.ok() // 5 s later, since the client begins to read now
		time.Sleep(11 * time.Second)
		began := time.Now()
		d.shutdown()
		if d.hasEnded() {
			t.Error("it ends while a request may be under way")
		}
		if took := c.ends(); took < 5*time.Second || took > 5*time.Second+100*time.Millisecond { // idle for 11 s, and announced for 16

			t.Errorf("it is closed after %v", took)
		}
		old.end()
		<-d.ended
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("it ends after %v", took)
		}
	})
}

// TestClientThatGoesIsNotWaitedFor: what may come no more holds nothing up.
func TestClientThatGoesIsNotWaitedFor(t *testing.T) {
	inDeparture(t, func(d *departing) {
		c := d.dial(d.t).send(get("/slow?14s"))
		time.Sleep(time.Second)
		d.Leave()
		time.Sleep(15 * time.Second)
		c.ok()
		_ = c.Close()
		began := time.Now()
		d.shutdown()
		<-d.ended
		if took := time.Since(began); took > time.Second {
			t.Errorf("it ends after %v", took)
		}
	})
}

// TestAnswerThatBeginsAfterLeaveIsTheLast, whenever its request came; also one of which the handler says nothing.
func TestAnswerThatBeginsAfterLeaveIsTheLast(t *testing.T) {
	inDeparture(t, func(d *departing) {
		c := d.dial(d.t).send(get("/silent?5s"))
		time.Sleep(time.Second)
		d.Leave()
		if !c.ok() {
			t.Error("it does not say so")
		}
		c.end()
		d.shutdown()
	})
	synctest.Test(t, func(t *testing.T) {
		p, begun, end := make(pipes), make(chan struct{}), make(chan struct{})
		s := listen.New(listen.Options{
			Handler:  http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(begun); <-end }),
			Settings: defaults(t), IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
		})
		served := make(chan error, 1)
		go func() { served <- s.Serve(p) }()
		c := p.dial(t).send(get("/"))
		<-begun
		s.Leave()
		close(end)
		if response, _ := c.answer(); !response.Close || response.StatusCode != http.StatusOK {
			t.Errorf("of nothing it says %s, last %v", response.Status, response.Close)
		}
		_ = s.Shutdown(t.Context())
		<-served
	})
}

// TestHeadThatHasBegunIsWaitedFor: its first bytes came before connections end.
func TestHeadThatHasBegunIsWaitedFor(t *testing.T) {
	inDeparture(t, func(d *departing) {
		d.Leave()
		c := d.dial(d.t)
		time.Sleep(15 * time.Second)
		c.send("GET / HT")
		synctest.Wait()
		d.shutdown()
		time.Sleep(3 * time.Second)
		c.send("TP/1.1\r\nHost: a\r\n\r\n")
		if !c.ok() {
			t.Error("it does not say that it is the last")
		}
	})
}

// TestConnectionThatHasJustComeGetsItsFirstAnswer: its client was sent here before the end was known to whoever did.
func TestConnectionThatHasJustComeGetsItsFirstAnswer(t *testing.T) {
	inDeparture(t, func(d *departing) {
		d.Leave()
		time.Sleep(15 * time.Second)
		c := d.dial(d.t)
		synctest.Wait()
		d.shutdown()
		time.Sleep(800 * time.Millisecond) // it rests by then
		if !c.send(get("/")).ok() {
			t.Error("it does not say that it is the last")
		}
	})
}

// TestEndThatNobodyHasAnnouncedIsNotDelayed, as that of a server that is to stop.
func TestEndThatNobodyHasAnnouncedIsNotDelayed(t *testing.T) {
	inDeparture(t, func(d *departing) {
		c := d.dial(d.t).send(get("/"))
		c.ok()
		began := time.Now()
		d.shutdown()
		<-d.ended
		if took := time.Since(began); took > time.Second {
			t.Errorf("it ends after %v", took)
		}
		c.end()
	})
}

// goneAway reads until the client is told to go, and gives the last stream that it is told of.
func (f *framed) goneAway() uint32 {
	f.t.Helper()
	for got := range f.received {
		if got.kind == http2.FrameGoAway {
			if got.code != http2.ErrCodeNo {
				f.t.Errorf("it is told to go for %v", got.code)
			}
			return got.stream
		}
		f.note(got)
	}
	f.t.Fatal("the connection ends, and nothing was said")
	return 0
}

// slowly answers at once, and at /slow after half a minute.
func slowly(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/slow" {
		time.Sleep(30 * time.Second)
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<15))
	}
	_, _ = w.Write(body)
}

// TestHTTP2LeavesWithoutARefusal: the first GOAWAY refuses nothing, so that what crosses it is answered, a POST as well; the last
// one names what was taken.
func TestHTTP2LeavesWithoutARefusal(t *testing.T) {
	inFrames(t, slowly, func(t *testing.T, s *secure, p pipes) {
		f := p.dialFrames(t, s)
		slow := f.request(false, usual("/slow")...)
		half := f.request(true, posted("/")...)
		f.must(f.WriteData(half, false, []byte("be")))
		synctest.Wait()
		s.Leave()
		if last := f.goneAway(); last != math.MaxInt32 {
			t.Errorf("it is told at first that %d is the last", last)
		}
		f.must(f.WriteData(half, true, []byte("gun")))
		if got := f.answer(half); got.status != "200" || got.body != "begun" {
			t.Errorf("what had begun: %+v", got)
		}
		crossed := f.request(true, posted("/")...) // as if it had not come yet
		f.must(f.WriteData(crossed, true, []byte("crossed")))
		if got := f.answer(crossed); got.status != "200" || got.body != "crossed" {
			t.Errorf("what crossed it: %+v", got)
		}
		time.Sleep(15 * time.Second)
		ended := make(chan error, 1)
		go func() { ended <- s.Shutdown(t.Context()) }()
		if last := f.goneAway(); last != crossed {
			t.Errorf("it is told in the end that %d is the last, and not %d", last, crossed)
		}
		if got := f.answer(slow); got.status != "200" || len(got.body) != 1<<15 || got.reset {
			t.Errorf("what ran: %+v", got)
		}
		f.ends()
		if err := <-ended; err != nil || s.Connections() != 0 {
			t.Errorf("%d connections are left: %v", s.Connections(), err)
		}
	})
}

// TestHTTP2ConnectionThatComesLateIsToldWithItsAnswer, once: a client that is told before would come again and again.
func TestHTTP2ConnectionThatComesLateIsToldWithItsAnswer(t *testing.T) {
	inFrames(t, slowly, func(t *testing.T, s *secure, p pipes) {
		s.Leave()
		f := p.dialFrames(t, s)
		time.Sleep(time.Second)
		if len(f.received) > 0 {
			t.Errorf("it is told %+v before it asks", <-f.received)
		}
		for range 3 {
			f.request(false, usual("/")...)
		}
		synctest.Wait()
		told := 0
		for len(f.received) > 0 {
			if got := <-f.received; got.kind == http2.FrameGoAway {
				if told++; got.stream != math.MaxInt32 {
					t.Errorf("it is told that %d is the last", got.stream)
				}
			} else {
				f.note(got)
			}
		}
		for id := uint32(1); id <= 5; id += 2 {
			if got := f.soFar[id]; got == nil || got.status != "200" {
				t.Errorf("stream %d: %+v", id, got)
			}
		}
		if told != 1 {
			t.Errorf("it is told %d times", told)
		}
	})
}

// TestHTTP2ShutdownAloneDrains: what runs is answered, and what comes is told to go elsewhere.
func TestHTTP2ShutdownAloneDrains(t *testing.T) {
	inFrames(t, slowly, func(t *testing.T, s *secure, p pipes) {
		f := p.dialFrames(t, s)
		slow := f.request(false, usual("/slow")...)
		synctest.Wait()
		go func() { _ = s.Shutdown(t.Context()) }()
		if last := f.goneAway(); last != slow {
			t.Errorf("it is told that %d is the last", last)
		}
		if got := f.answer(slow); got.status != "200" || len(got.body) != 1<<15 || got.reset {
			t.Errorf("what ran: %+v", got)
		}
		f.ends()
		synctest.Wait()
		if n := s.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// TestHTTP2GoClientLosesNothing as it posts what it cannot send again, while the server leaves: each on a connection
// of its own. Those that share one lose what Go's transport was about to send, whatever the server does.
func TestHTTP2GoClientLosesNothing(t *testing.T) {
	s := multiplexing(t, nil, slowly, nil)
	asked := make(chan error)
	const clients, each = 8, 50
	for range clients {
		by := s.transport(t)
		go func() {
			for range each {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+s.listener.Addr().String(), io.MultiReader(strings.NewReader("body")))
				if err == nil {
					var out *http.Response
					if out, err = by.RoundTrip(r); err == nil {
						_, err = io.Copy(io.Discard, out.Body)
						_ = out.Body.Close()
					}
				}
				asked <- err
			}
		}()
	}
	for n := range clients * each {
		if n == clients*each/4 {
			s.Leave()
		}
		if err := <-asked; err != nil {
			t.Errorf("request %d is lost: %v", n, err)
		}
	}
}

// TestHTTP2NeedsAnAdequateCipher, as RFC 9113 has it (section 9.2.2): a client is told so.
func TestHTTP2NeedsAnAdequateCipher(t *testing.T) {
	s := multiplexing(t, nil, slowly, nil)
	for cipher, want := range map[uint16]bool{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA:    false,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256: true,
	} {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(deadline.Long()))
		over := tls.Client(c, &tls.Config{
			RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"h2"},
			MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{cipher},
		})
		t.Cleanup(func() { _ = c.Close() })
		if err := over.HandshakeContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if want {
			_, _ = io.WriteString(over, http2.ClientPreface)
		}
		first, err := http2.NewFramer(io.Discard, over).ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := first.(*http2.SettingsFrame); ok != want {
			t.Errorf("%s: it says %v at first", tls.CipherSuiteName(cipher), first)
		}
		if away, ok := first.(*http2.GoAwayFrame); !want && (!ok || away.ErrCode != http2.ErrCodeInadequateSecurity) {
			t.Errorf("%s: it says %v", tls.CipherSuiteName(cipher), first)
		}
	}
}

// TestServerThatHasEndedServesNothing, in whichever order it was told to end and to serve.
func TestServerThatHasEndedServesNothing(t *testing.T) {
	s := listen.New(listen.Options{
		Handler: http.HandlerFunc(slowly), Settings: defaults(t), IDs: ids.NewSource(rand.Reader, time.Now), Log: slog.New(slog.DiscardHandler),
	})
	s.Leave()
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := listen.On(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(l); err != http.ErrServerClosed { //nolint:errorlint // it is that very one
		t.Errorf("Serve returns %v", err)
	}
	if _, err := l.Accept(); err == nil {
		t.Error("somebody listens still")
	}
}
