package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/limits"
)

// Streams counts what stays under way of an account: connections of other protocols, such as WebSockets, answers that come in parts,
// and, where the gateway says so (Config.StreamsAfter), whatever goes on for long.
type Streams interface {
	// Begin counts one more of an account until end is called, which is once. A refusal says that the account may have no more. An
	// error, be it a fault of any kind, says that nobody knows how many there are; the gateway lets the stream pass then, and calls end where it is
	// there: it may have been counted.
	Begin(ctx context.Context, account string) (end func(), refusal *fault.Fault, err error)
}

// ProcessStreams count those of this process, at most so many of an account at once (limits.GatewayStreams).
func ProcessStreams(most int64) Streams { return &processStreams{most: most} }

type processStreams struct {
	tenants
	most int64
}

// Begin implements Streams.
func (p *processStreams) Begin(_ context.Context, account string) (end func(), refusal *fault.Fault, err error) {
	if n, ok := p.enter(account, p.most); !ok {
		return nil, limits.GatewayStreams.Refusal(n, p.most, time.Second), nil
	}
	return func() { p.leave(account) }, nil, nil
}

// stream is what a request may be, or become while it is answered.
type stream struct {
	mu      sync.Mutex
	account string // whose request is under way (tenants), "" for none
	end     func() // of Streams.Begin, nil where it is not counted
	over    bool
}

// errBusy ends an answer that may not become a stream.
var errBusy = errors.New("gateway: the account has as many streams as it may have")

// begin has the request of an account counted as a stream, if it is not yet. It gives the fault that refuses it.
func (g *Gateway) begin(ctx context.Context, s *stream) *fault.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.config.Streams == nil || s.account == "" || s.end != nil || s.over {
		return nil
	}
	end, refusal, err := g.config.Streams.Begin(ctx, s.account)
	s.end = end
	if err != nil {
		g.config.Log.LogAttrs(ctx, slog.LevelWarn, "a stream is not counted", slog.String("account", s.account), slog.Any("error", err))
		return nil
	}
	return refusal
}

// close has the request counted no more as a stream, for good if it is over.
func (s *stream) close(over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = s.over || over
	if s.end != nil {
		s.end()
		s.end = nil
	}
}

// announced has a request that asks for a stream, and for nothing else, counted before its upstream is asked, which may have done something by
// the time that it answers. What asks for a protocol that the route does not lead to is an ordinary request.
func (g *Gateway) announced(out *writer, x *pipeline.Exchange, h pipeline.Handler) {
	switcher, is := h.(pipeline.Switcher)
	if is && switcher.Switches(x) || wantsEvents(x.Header["Accept"]) {
		x.Admit = func() *http.Response {
			if refusal := g.begin(x.Context, &out.staying); refusal != nil {
				return busy(x, refusal)
			}
			return nil
		}
	}
}

// settle has an answer counted that stays, announced or not, and none that does not. What it gives is to be answered.
func (g *Gateway) settle(out *writer, x *pipeline.Exchange, response *http.Response) *http.Response {
	if !stays(response) {
		out.staying.close(false)
		return response
	}
	refusal := g.begin(x.Context, &out.staying)
	if refusal == nil {
		return response
	}
	_ = response.Body.Close()
	return x.Told(busy(x, refusal))
}

// eventStream is the media type of server-sent events.
const eventStream = "text/event-stream"

// mediaType is the type of a field's value without its parameters, be those as odd as they may.
func mediaType(value string) string {
	kind, _, _ := strings.Cut(value, ";")
	return strings.ToLower(strings.Trim(kind, " \t"))
}

// wantsEvents reports whether a client accepts events and nothing else.
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

// stays reports whether an answer is one that goes on for as long as both sides like: another protocol, events, or parts
// that take each other's place. Parts of a known length are the ranges of a file, or a form.
func stays(response *http.Response) bool {
	if response.StatusCode == http.StatusSwitchingProtocols {
		return true
	}
	kind := mediaType(response.Header.Get("Content-Type"))
	return response.Body != http.NoBody && (kind == eventStream || strings.HasPrefix(kind, "multipart/") && response.ContentLength < 0)
}

// bound has a request that goes on for longer than Config.StreamsAfter counted as a stream, and ends it where that may not be.
// Call stop when it is answered.
func (g *Gateway) bound(out *writer, x *pipeline.Exchange) (stop func()) {
	ctx, cancel := context.WithCancelCause(x.Context)
	x.Context = ctx
	timer := time.AfterFunc(g.config.StreamsAfter, func() {
		if refusal := g.begin(ctx, &out.staying); refusal != nil {
			g.config.Log.LogAttrs(ctx, slog.LevelWarn, "a long answer was ended", slog.String("requestId", x.RequestID), slog.String("why", refusal.Public))
			cancel(errBusy)
			_ = http.NewResponseController(out.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
		}
	})
	return func() {
		timer.Stop()
		cancel(nil)
	}
}

// enter says whose request it is.
func (w *writer) enter(account string) {
	w.staying.mu.Lock()
	defer w.staying.mu.Unlock()
	w.staying.account = account
}

// leave ends what a request was counted as.
func (g *Gateway) leave(out *writer) {
	out.staying.close(true)
	g.tenants.leave(out.staying.account)
}

// busy refuses what an account has enough of under way.
func busy(x *pipeline.Exchange, refusal *fault.Fault) *http.Response {
	response := x.Problem(http.StatusTooManyRequests, refusal.Public)
	response.Header["Retry-After"] = []string{strconv.Itoa(int(refusal.RetryAfter.Seconds()))}
	return response
}
