package relay

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// maxAttempts is the maximum number of attempts that a service may have received, for a request that may be repeated.
// So a request that crashes agents or services crashes at most this many of them.
const maxAttempts = 5

// attempts counts the attempts to send one request, and has the request's body.
type attempts struct {
	r    *http.Request
	body *body
	// sent is the number of attempts that a service may have received, and
	// maxSent its maximum. brokenErr is the error of the last of these attempts.
	sent      int
	maxSent   int
	brokenErr error
	// timeout fires after agentWait. sentAtStart is the value of sent when the timer was started.
	timeout     *time.Timer
	sentAtStart int
}

func newAttempts(r *http.Request) *attempts {
	return &attempts{r: r, body: newBody(r), maxSent: maxAttempts}
}

// finish returns the result of the last attempt. A response takes over the request's body; after an error, finish
// closes the body. If the last attempt reached no service, but a service may have received an earlier attempt, finish
// returns brokenErr.
func (a *attempts) finish(response *http.Response, err error) (*http.Response, error) {
	a.stopTimeout()
	if err == nil {
		delete(response.Header, fieldResult) // of a local agent's response, the field is the service's own
		a.body.handOver()
		return response, nil
	}
	a.body.release()
	if a.brokenErr != nil && isUnreached(err) {
		err = a.brokenErr
	}
	return nil, err
}

// shouldRetry records the result of an attempt. It reports whether another attempt is possible: if no service was
// reached, the body must be unread. If a service may have received the request, the request must be repeatable
// (tunnel.Repeatable) and a.sent less than a.maxSent. No other attempt is possible after a response or any other
// error, or when the request's context has ended.
func (a *attempts) shouldRetry(err error) bool {
	if errors.Is(err, tunnel.ErrBroken) {
		a.sent++
		a.brokenErr = err
	}
	switch {
	case err == nil, a.r.Context().Err() != nil:
		return false
	case isUnreached(err):
		return !a.body.wasRead()
	case errors.Is(err, tunnel.ErrBroken):
		return a.sent < a.maxSent && tunnel.Repeatable(a.r)
	}
	return false
}

// waitRetry waits before the next attempt, until delay has passed or changed is closed. It returns err, the error of
// the last attempt, if agentWait has passed since the request was last sent or first failed. It returns the cause of
// ctx if ctx has ended.
func (a *attempts) waitRetry(ctx context.Context, delay time.Duration, changed <-chan struct{}, err error) error {
	if a.timeout == nil || a.sentAtStart != a.sent {
		a.stopTimeout()
		a.timeout, a.sentAtStart = time.NewTimer(agentWait), a.sent
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-a.timeout.C:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// stopTimeout stops the timer.
func (a *attempts) stopTimeout() {
	if a.timeout != nil {
		a.timeout.Stop()
	}
}

// isUnreached reports whether an error means that no service was reached.
func isUnreached(err error) bool {
	return errors.Is(err, tunnel.ErrNoAgent) || errors.Is(err, tunnel.ErrUnavailable)
}
