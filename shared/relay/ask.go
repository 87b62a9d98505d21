package relay

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// asked reports whether a request is one to be carried.
func asked(r *http.Request) bool {
	written := r.URL.EscapedPath()
	return written == AskPath || strings.HasPrefix(written, AskPath+"/")
}

// ask carries a request whose pass is good, and answers as its service does or with a
// failure.
func (rl *Relay) ask(w http.ResponseWriter, r *http.Request) {
	defer rl.under.begin()()
	c, err := rl.passes.open(r)
	if err != nil {
		rl.refused(r, err)
		fail(w, refusal(err))
		return
	}
	ref, err := rl.options.Directory.Find(r.Context(), c.AccountID, c.Service, c.caller())
	if err != nil {
		fail(w, unfound(r.Context(), err))
		return
	}
	var begun atomic.Bool // whether reading the body has begun
	its := rl.proxy
	its.ModifyResponse = func(response *http.Response) error {
		// A service may answer before the body is read, and then read the body. The client sends the body only after 100.
		if r.Header.Get("Expect") != "" && !begun.Load() {
			w.WriteHeader(http.StatusContinue)
		}
		// net/http would add them to an answer that has none.
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		response.Header[fieldAnswer] = []string{ofService}
		return nil
	}
	its.Transport = carrier(func(out *http.Request) (*http.Response, error) {
		if out.Body != nil {
			out.Body = &noticed{out.Body, &begun}
		}
		return rl.carry(out.Context(), out, ref, c)
	})
	its.ServeHTTP(w, r)
}

// noticed is the body of a request. It sets begun when Read is called.
type noticed struct {
	io.ReadCloser
	begun *atomic.Bool
}

func (n *noticed) Read(buffer []byte) (int, error) {
	n.begun.Store(true)
	return n.ReadCloser.Read(buffer)
}

// refused logs that a pass was not taken. Strangers are refused for nothing, so that the lines are
// bounded.
func (rl *Relay) refused(r *http.Request, err error) {
	untold, ok := rl.lines.Next(rl.options.Now())
	if !ok {
		return
	}
	rl.options.Log.LogAttrs(r.Context(), slog.LevelWarn, "relay: a request is refused",
		slog.String("from", r.RemoteAddr), slog.Any("error", err), untold)
}

// proxy copies requests and answers, as they come.
func proxy(log *slog.Logger) httputil.ReverseProxy {
	return httputil.ReverseProxy{
		Rewrite:       rewrite,
		FlushInterval: -1, // at once
		BufferPool:    &buffers{},
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { fail(w, err) },
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func refusal(err error) error {
	for _, reason := range []error{errNoPass, errForgedPass, errOldPass} {
		if errors.Is(err, reason) {
			return errRefused
		}
	}
	return tunnel.ErrUnavailable // it is not known whether the pass is good
}

// rewrite takes off what is for the relay, and puts back what ReverseProxy takes off that is
// not: it is no client's neighbour.
func rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Path = strings.TrimPrefix(p.In.URL.Path, AskPath)
	p.Out.URL.RawPath = strings.TrimPrefix(p.In.URL.EscapedPath(), AskPath)
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Trailer = p.In.Trailer // which is filled at the body's end
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, there := p.In.Header[name]; there {
			p.Out.Header[name] = values
		}
	}
	delete(p.Out.Header, "Expect")
}

// carrier is a http.RoundTripper.
type carrier func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (c carrier) RoundTrip(r *http.Request) (*http.Response, error) { return c(r) }
