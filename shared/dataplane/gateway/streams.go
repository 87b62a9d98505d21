package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// Streams counts the streams of each account. Streams are connections that have switched to another
// protocol such as WebSocket, responses of unlimited duration such as server-sent events, and,
// if Config.StreamThreshold is set, all requests that take longer than this threshold.
type Streams interface {
	// Begin counts another stream of an account until end is called. If end is not nil, the caller must call it exactly
	// once. If refusal is set, the account has reached its limit. An error means that the count is unknown: the
	// gateway then allows the stream, and still calls end if it is not nil, because the stream may have been counted.
	Begin(ctx context.Context, account string) (end func(), refusal *fault.Fault, err error)
}

// NewProcessStreams returns Streams that count only the streams of this
// process. limit is the maximum per account (limits.GatewayStreams), 0 for no limit.
func NewProcessStreams(limit int64) Streams { return &processStreams{limit: limit} }

type processStreams struct {
	accountCounter
	limit int64
}

// Begin implements Streams.
func (p *processStreams) Begin(_ context.Context, account string) (end func(), refusal *fault.Fault, err error) {
	if n, ok := p.reserve(account, p.limit); !ok {
		return nil, limits.GatewayStreams.Refusal(n, p.limit, time.Second), nil
	}
	return func() { p.release(account) }, nil, nil
}

// stream is the state of a request as a stream: each request can become a stream before its response ends.
type stream struct {
	mu      sync.Mutex
	account string // the account that the request counts for, "" before reserveSlot has counted the request
	end     func() // from Streams.Begin, nil if the stream is not counted
	long    bool   // the request has taken longer than Config.StreamThreshold
	ended   bool   // the request has ended, so it can't become a stream again
}

// errTooManyStreams is the cause with which trackLongRequest cancels a request that would become a stream, although
// its account has reached the limit of streams.
var errTooManyStreams = errors.New("gateway: the account has as many streams as it may have")

// setLong records that the request has taken longer than Config.StreamThreshold.
func (s *stream) setLong() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.long = true
}

// setAccount sets the account of the request.
func (s *stream) setAccount(account string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.account = account
}

// beginStream counts the request as a stream of its account, unless it is counted already. It returns a fault if the
// account has reached its limit. It counts nothing if Config.Streams is nil, if the account is not known, or if the
// request has ended.
func (r *request) beginStream(ctx context.Context) *fault.Fault {
	config, s := &r.g.config, &r.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if config.Streams == nil || s.account == "" || s.end != nil || s.ended {
		return nil
	}
	end, refusal, err := config.Streams.Begin(ctx, s.account)
	s.end = end
	if err != nil {
		config.Log.LogAttrs(ctx, slog.LevelWarn, "a stream is not counted", slog.String("account", s.account),
			slog.Any("error", err))
		return nil
	}
	return refusal
}

// close stops counting the request as a stream. If final is true, the request can't become a stream again. If final is
// false, a request that has taken longer than Config.StreamThreshold stays counted.
func (s *stream) close(final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.long && !final {
		return
	}
	s.ended = s.ended || final
	if s.end != nil {
		s.end()
		s.end = nil
	}
}

// setAdmit sets the exchange's Admit for a request whose successful response is a stream: the request asks to switch to
// a protocol that the route supports, or its client accepts only server-sent events. Admit counts the stream before
// the upstream is called, because the upstream could act before it responds. If the response is not a
// stream, countStream stops counting it.
func (r *request) setAdmit(h pipeline.Handler) {
	x := &r.x
	switcher, isSwitcher := h.(pipeline.Switcher)
	if isSwitcher && switcher.Switches(x) || wantsEvents(x.Header["Accept"]) {
		x.Admit = func() *http.Response {
			if refusal := r.beginStream(x.Context); refusal != nil {
				return r.tooManyRequests(refusal)
			}
			return nil
		}
	}
}

// countStream counts the request as a stream if its response is a stream. Otherwise it stops counting the request,
// unless the request is already longer than Config.StreamThreshold. It returns the response to send, which is a problem
// if the account has reached its limit.
func (r *request) countStream(response *http.Response) *http.Response {
	if !isLongLived(response) {
		r.stream.close(false)
		return response
	}
	refusal := r.beginStream(r.x.Context)
	if refusal == nil {
		return response
	}
	_ = response.Body.Close()
	return r.x.ApplyResponseFields(r.tooManyRequests(refusal))
}

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// mediaType returns the media type in a field's value, in lower case and without its parameters. The parameters can be
// invalid.
func mediaType(value string) string {
	kind, _, _ := strings.Cut(value, ";")
	return strings.ToLower(strings.Trim(kind, " \t"))
}

// wantsEvents reports whether a client accepts only server-sent events. accepted are the values of its Accept field.
func wantsEvents(accepted []string) bool {
	for _, value := range accepted {
		for part := range strings.SplitSeq(value, ",") {
			if mediaType(part) != eventStream {
				return false
			}
		}
	}
	return len(accepted) > 0
}

// isLongLived reports whether a response can last for as long as both sides want: a
// switch to another protocol, events, or multipart content of unknown length, whose parts
// can replace each other. Multipart content of known length is a file's ranges or a form.
func isLongLived(response *http.Response) bool {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return true
	}
	kind := mediaType(response.Header.Get("Content-Type"))
	return response.Body != http.NoBody && (kind == eventStream || strings.HasPrefix(kind, "multipart/") &&
		response.ContentLength < 0)
}

// trackLongRequest counts a request as a stream when it has taken Config.StreamThreshold. If the account has reached
// its limit of streams, trackLongRequest cancels the request instead. Call stop when the response has ended.
func (r *request) trackLongRequest() (stop func()) {
	ctx, cancel := context.WithCancelCause(r.x.Context)
	r.x.Context = ctx
	timer := time.AfterFunc(r.g.config.StreamThreshold, func() {
		r.stream.setLong()
		if refusal := r.beginStream(ctx); refusal != nil {
			r.g.config.Log.LogAttrs(ctx, slog.LevelWarn, "a long answer was ended", slog.String("requestId", r.x.RequestID),
				slog.String("why", refusal.Public))
			cancel(errTooManyStreams)
			_ = http.NewResponseController(r.out.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
		}
	})
	return func() {
		timer.Stop()
		cancel(nil)
	}
}
