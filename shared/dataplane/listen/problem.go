package listen

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/management/api"
)

// These are the refusals for other reasons than the form of a head, which package framing refuses.
var (
	errSlowHead = &framing.Refusal{
		Status: http.StatusRequestTimeout,
		Detail: "The request's header did not come to its end in time. Send it at once.",
	}
	errTooManyConnections = &framing.Refusal{
		Status: http.StatusServiceUnavailable,
		Detail: "There are as many connections as are served at once, from this address or in all. Close those that are " +
			"not used, and come again in a few seconds.",
	}
	errNotHTTP = &framing.Refusal{
		Status: http.StatusBadRequest,
		Detail: "The request is not understood as HTTP/1.1. In a path or a query, write a percent sign as %25.",
	}
)

// refusalFromResponse returns the refusal for a request that net/http has refused. p is the beginning of net/http's
// response. The refusal has the status of this response, or 400 if that is not a known status.
func refusalFromResponse(p []byte) *framing.Refusal {
	_, rest, _ := bytes.Cut(p, []byte(" "))
	if len(rest) < 3 {
		return errNotHTTP
	}
	status, err := strconv.Atoi(string(rest[:3]))
	if err != nil || status == http.StatusBadRequest || http.StatusText(status) == "" {
		return errNotHTTP
	}
	return &framing.Refusal{
		Status: status,
		Detail: "The request is not served as it was sent. Change it before you repeat it.",
	}
}

// refusals creates responses without a handler, and logs them.
type refusals struct {
	ids        IDs
	log        *slog.Logger
	logLimiter *rate.Limiter
	unlogged   atomic.Int64 // refusals that were not logged since the last log line
}

// Anybody can cause refusals at no cost, so their log lines are rate-limited.
const (
	logLinesPerSecond = 1
	logBurst          = 60
)

// response returns a complete response with a refusal, and logs the refusal.
// Neither the response nor the log line contains text that the client has sent.
func (re *refusals) response(r *framing.Refusal, client net.Addr) []byte {
	return problem(r, re.logRefusal(r, client), time.Now())
}

// writeTo writes a refusal over HTTP/2.
func (re *refusals) writeTo(w http.ResponseWriter, r *framing.Refusal, client net.Addr) {
	id := re.logRefusal(r, client)
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Content-Type", "application/problem+json")
	if r.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(problemBody(r, id, time.Now())) //nolint:gosec // the problem contains no text of the client
}

// retryAfter is the Retry-After of refusals with status 503, in seconds.
const retryAfter = "5"

// logRefusal logs a refusal, and returns its ID.
func (re *refusals) logRefusal(r *framing.Refusal, client net.Addr) string {
	id := re.ids.UUID()
	if re.logLimiter.Allow() {
		from, _, _ := net.SplitHostPort(client.String())
		re.log.Info("request refused", "requestId", id, "status", r.Status, "detail", r.Detail, "client", from, "untold",
			re.unlogged.Swap(0))
	} else {
		re.unlogged.Add(1)
	}
	return id
}

// logFlood logs that an HTTP/2 connection was ended because its client exceeded a limit.
func (re *refusals) logFlood(client net.Addr, reason string) {
	if !re.logLimiter.Allow() {
		re.unlogged.Add(1)
		return
	}
	from, _, _ := net.SplitHostPort(client.String())
	re.log.Info("a connection is ended: its client floods it", "with", reason, "client", from, "untold",
		re.unlogged.Swap(0))
}

// logMissingProxyHeader logs a trusted proxy's connection that is closed because it does not begin
// with a PROXY header. The log lines are rate-limited, because a misconfigured proxy connects often.
func (re *refusals) logMissingProxyHeader(proxy net.Addr, err error) {
	if !re.logLimiter.Allow() {
		re.unlogged.Add(1)
		return
	}
	from, _, _ := net.SplitHostPort(proxy.String())
	re.log.Warn("a proxy's connection has no PROXY header", "proxy", from, "error", err, "untold", re.unlogged.Swap(0))
}

// problemBody returns the body of the response with a refusal: a problem document with the ID of the refusal.
func problemBody(r *framing.Refusal, id string, at time.Time) []byte {
	body, err := json.Marshal(api.Problem{
		Type:   "https://httpproblems.com/http-status/" + strconv.Itoa(r.Status),
		Title:  http.StatusText(r.Status),
		Status: r.Status,
		Detail: r.Detail,
		Trace:  &api.Trace{RequestID: id, Timestamp: api.Timestamp(at)},
	})
	if err != nil {
		return nil
	}
	return append(body, '\n')
}

// problem returns the complete HTTP/1.1 response with a refusal.
func problem(r *framing.Refusal, id string, at time.Time) []byte {
	body := problemBody(r, id, at)
	out := make([]byte, 0, 512)
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(r.Status), 10)
	out = append(out, ' ')
	out = append(out, http.StatusText(r.Status)...)
	out = append(out, "\r\nDate: "...)
	out = at.UTC().AppendFormat(out, http.TimeFormat)
	out = append(out, "\r\nX-Request-Id: "...)
	out = append(out, id...)
	out = append(out, "\r\nContent-Type: application/problem+json\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(len(body)), 10)
	if r.Status == http.StatusServiceUnavailable {
		out = append(out, "\r\nRetry-After: "+retryAfter...)
	}
	out = append(out, "\r\nConnection: close\r\n\r\n"...)
	return append(out, body...)
}
