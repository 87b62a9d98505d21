package relay

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// isServiceRequest reports whether a request is from a gateway or another relay, for a service behind a tunnel.
func isServiceRequest(r *http.Request) bool {
	path := r.URL.EscapedPath()
	return path == RequestPath || strings.HasPrefix(path, RequestPath+"/")
}

// serveRequest forwards a request if its pass is valid. It writes the service's response, or a failure.
func (rl *Relay) serveRequest(w http.ResponseWriter, r *http.Request) {
	defer rl.inFlight.begin()()
	c, err := rl.passes.verify(r)
	if err != nil {
		rl.logRefused(r, err)
		writeFailure(w, refusalError(err))
		return
	}
	ref, err := rl.options.Directory.Find(r.Context(), c.AccountID, c.Service, c.caller())
	if err != nil {
		writeFailure(w, lookupError(r.Context(), err))
		return
	}
	var bodyRead atomic.Bool // whether a read of the body has started
	rp := rl.proxy
	rp.ModifyResponse = func(response *http.Response) error {
		// The client sends the body only after it has received the status 100 (Continue). A service can respond
		// before it reads the body, so send the status before the response.
		if r.Header.Get("Expect") != "" && !bodyRead.Load() {
			w.WriteHeader(http.StatusContinue)
		}
		// Otherwise net/http would add these fields to a response without them.
		w.Header()["Date"], w.Header()["Content-Type"] = nil, nil
		response.Header[fieldResult] = []string{fromService}
		return nil
	}
	rp.Transport = roundTripperFunc(func(out *http.Request) (*http.Response, error) {
		if out.Body != nil {
			out.Body = &trackedBody{out.Body, &bodyRead}
		}
		return rl.forward(out.Context(), out, ref, c)
	})
	rp.ServeHTTP(w, r)
}

// trackedBody is the body of a request. It sets wasRead when Read is called.
type trackedBody struct {
	io.ReadCloser
	wasRead *atomic.Bool
}

func (b *trackedBody) Read(buffer []byte) (int, error) {
	b.wasRead.Store(true)
	return b.ReadCloser.Read(buffer)
}

// logRefused logs that a pass was refused. Clients without a valid pass can cause these log lines,
// so the lines are rate-limited.
func (rl *Relay) logRefused(r *http.Request, err error) {
	unlogged, ok := rl.logLimiter.Allow(rl.options.Now())
	if !ok {
		return
	}
	rl.options.Log.LogAttrs(r.Context(), slog.LevelWarn, "relay: a request is refused",
		slog.String("from", r.RemoteAddr), slog.Any("error", err), unlogged)
}

// newProxy returns a proxy that streams requests and responses.
func newProxy(log *slog.Logger) httputil.ReverseProxy {
	return httputil.ReverseProxy{
		Rewrite:       rewrite,
		FlushInterval: -1, // immediately
		BufferPool:    &bufferPool{},
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, err error) { writeFailure(w, err) },
		ErrorLog:      slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// refusalError returns the failure to report for an error of passes.verify.
func refusalError(err error) error {
	for _, reason := range []error{errNoPass, errForgedPass, errOldPass} {
		if errors.Is(err, reason) {
			return errPassRefused
		}
	}
	return tunnel.ErrUnavailable // it is not known whether the pass is valid
}

// rewrite removes RequestPath and the field Expect, which are for the relay. It
// restores the forwarding fields that ReverseProxy removes: the gateway has set them.
func rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Path = strings.TrimPrefix(p.In.URL.Path, RequestPath)
	p.Out.URL.RawPath = strings.TrimPrefix(p.In.URL.EscapedPath(), RequestPath)
	p.Out.URL.RawQuery = p.In.URL.RawQuery
	p.Out.Trailer = p.In.Trailer // filled at the end of the body
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if values, exists := p.In.Header[name]; exists {
			p.Out.Header[name] = values
		}
	}
	delete(p.Out.Header, "Expect")
}

// roundTripperFunc is an http.RoundTripper.
type roundTripperFunc func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
