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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/listen/framing"
)

// The refusals that are not of a head's form.
var (
	errSlowHead = &framing.Refusal{
		Status: http.StatusRequestTimeout,
		Detail: "The request's header did not come to its end in time. Send it at once.",
	}
	errManyConnections = &framing.Refusal{
		Status: http.StatusServiceUnavailable,
		Detail: "There are as many connections as are served at once, from this address or in all. Close those that are not used, and come again in a few seconds.",
	}
	errNotHTTP = &framing.Refusal{
		Status: http.StatusBadRequest,
		Detail: "The request is not understood as HTTP/1.1. In a path or a query, write a percent sign as %25.",
	}
)

// refusalOf is what net/http refuses, with the status that it has written.
func refusalOf(p []byte) *framing.Refusal {
	_, rest, _ := bytes.Cut(p, []byte(" "))
	if len(rest) < 3 {
		return errNotHTTP
	}
	status, err := strconv.Atoi(string(rest[:3]))
	if err != nil || status == http.StatusBadRequest || http.StatusText(status) == "" {
		return errNotHTTP
	}
	return &framing.Refusal{Status: status, Detail: "The request is not served as it was sent. Change it before you repeat it."}
}

// refusals are what is answered in place of a handler.
type refusals struct {
	ids   IDs
	log   *slog.Logger
	lines *rate.Limiter
	left  atomic.Int64 // refusals without a line since the last one with it
}

// A refusal costs a stranger nothing, so that their lines are bounded: one a second
// in the long run, more after a time of quiet.
const (
	linesPerSecond = 1
	linesAtOnce    = 60
)

// answer is a whole response that refuses what a client does, and writes its line,
// in which nothing is that the client has sent.
func (f *refusals) answer(r *framing.Refusal, client net.Addr) []byte {
	return problem(r, f.known(r, client), time.Now())
}

// tell is the same by HTTP/2.
func (f *refusals) tell(w http.ResponseWriter, r *framing.Refusal, client net.Addr) {
	id := f.known(r, client)
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("Content-Type", "application/problem+json")
	if r.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(problemBody(r, id, time.Now())) //nolint:gosec // G705: nothing in it is the client's
}

// retryAfter is what clients are told that come while there are too many.
const retryAfter = "5"

// known writes the line of a refusal, and gives what it is known by.
func (f *refusals) known(r *framing.Refusal, client net.Addr) string {
	id := f.ids.UUID()
	if f.lines.Allow() {
		from, _, _ := net.SplitHostPort(client.String())
		f.log.Info("request refused", "requestId", id, "status", r.Status, "detail", r.Detail, "client", from, "untold", f.left.Swap(0))
	} else {
		f.left.Add(1)
	}
	return id
}

// flooded writes the line of a connection by HTTP/2 that is ended.
func (f *refusals) flooded(client net.Addr, of string) {
	if !f.lines.Allow() {
		f.left.Add(1)
		return
	}
	from, _, _ := net.SplitHostPort(client.String())
	f.log.Info("a connection is ended: its client floods it", "with", of, "client", from, "untold", f.left.Swap(0))
}

// unintroduced writes the line of a trusted proxy's connection that is closed, since it
// does not begin with a PROXY header. Proxies that are set up wrong connect often.
func (f *refusals) unintroduced(proxy net.Addr, err error) {
	if !f.lines.Allow() {
		f.left.Add(1)
		return
	}
	from, _, _ := net.SplitHostPort(proxy.String())
	f.log.Warn("a proxy's connection has no PROXY header", "proxy", from, "error", err, "untold", f.left.Swap(0))
}

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

// problem is a whole response.
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
