package upstream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// piped is a round trip over a connection without buffers, whose other end is play's: what it does not read is not sent.
func piped(ctx context.Context, t *testing.T, wait time.Duration, play func(peer net.Conn)) (string, error) {
	t.Helper()
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	d := &direct{maxHeaderBytes: responseHeaderBytes}
	d.pool = pool{dial: func(context.Context, string, string) (net.Conn, error) { return near, nil }, perHost: 1, most: 1}
	defer d.pool.close()
	go play(far)
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "up.test", Path: "/"}, Header: http.Header{"Long": {strings.Repeat("long", 5000)}},
	}
	response, err := d.send(way{account: "a"}, wait, r.WithContext(ctx), nil)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	all, err := io.ReadAll(response.Body)
	return string(all), err
}

// silently reads a request, and answers nothing.
func silently(peer net.Conn) { _, _ = io.Copy(io.Discard, peer) }

func TestACallerWhoGoesEndsTheWait(t *testing.T) {
	gone := errors.New("the caller is gone")
	for name, play := range map[string]func(net.Conn){"for the answer": silently, "for the request to be taken": func(net.Conn) {}} {
		for _, after := range []time.Duration{0, 1, patience / 2, patience, patience + 1, time.Second} {
			t.Run(name+" after "+after.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancelCause(t.Context())
					start := time.Now()
					if after == 0 {
						cancel(gone)
					}
					defer time.AfterFunc(after, func() { cancel(gone) }).Stop()
					_, err := piped(ctx, t, time.Minute, play)
					if took := time.Since(start); !errors.Is(err, gone) || took > max(after, patience) {
						t.Errorf("after %v: %v", took, err)
					}
				})
			})
		}
	}
}

// TestAnUpstreamThatTakesItsTimeIsWaitedFor: neither the request nor the answer is torn by the end of patience.
func TestAnUpstreamThatTakesItsTimeIsWaitedFor(t *testing.T) {
	// By two thirds, patience is over when a part of the request is taken.
	for _, pause := range []time.Duration{0, patience * 2 / 3, patience, 3 * patience, 20 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := piped(t.Context(), t, 50*time.Second, func(peer net.Conn) {
					time.Sleep(pause)
					first := make([]byte, 100)
					_, _ = io.ReadFull(peer, first)
					time.Sleep(pause)
					asked, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(string(first)), peer)))
					if err != nil || asked.Header.Get("Long") != strings.Repeat("long", 5000) {
						t.Errorf("the request came as %v, %v", asked, err)
					}
					for _, part := range []string{"HTTP/1.1 2", "00 OK\r\nContent-Length: 6\r\n\r\n", "who", "le"} {
						time.Sleep(pause)
						_, _ = io.WriteString(peer, part)
					}
					time.Sleep(time.Hour) // bodies have no deadline
					_, _ = io.WriteString(peer, "!")
				})
				if err != nil || got != "whole!" {
					t.Errorf("got %q, %v", got, err)
				}
			})
		})
	}
}

func TestAnAnswerThatIsLateIsLateAtItsTime(t *testing.T) {
	for _, wait := range []time.Duration{time.Millisecond, patience - 1, patience, patience + 1, time.Minute} {
		t.Run(wait.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := piped(t.Context(), t, wait, silently)
				if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took != wait {
					t.Errorf("after %v: %v", took, err)
				}
			})
		})
	}
}
