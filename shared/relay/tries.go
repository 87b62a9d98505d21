package relay

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// maxSent is how often a request is sent at most that may be repeated, where it may have been
// seen: one at which agents or services die takes no more of them along.
const maxSent = 5

// tries are the attempts to send one request.
type tries struct {
	r    *http.Request
	body *body
	// sent counts those that may have been seen, of which there are most at most; broke is what came
	// of the last of them.
	sent  int
	most  int
	broke error
	// over ends the patience that began when the request had been sent so often as since says.
	over  *time.Timer
	since int
}

func triesOf(r *http.Request) *tries { return &tries{r: r, body: bodyOf(r), most: maxSent} }

// done gives the outcome of the last attempt, whose the body is from now on; of another one that may have
// been seen, where the last was not.
func (t *tries) done(response *http.Response, err error) (*http.Response, error) {
	t.stop()
	if err == nil {
		delete(response.Header, fieldAnswer) // which a service may have written, in the same process
		t.body.keep()
		return response, nil
	}
	t.body.end()
	if t.broke != nil && unreached(err) {
		err = t.broke
	}
	return nil, err
}

// again notes the outcome of an attempt, and reports whether there may be another one: no service
// was reached and the body is whole, or the request may be repeated (tunnel.Repeatable).
func (t *tries) again(err error) bool {
	if errors.Is(err, tunnel.ErrBroken) {
		t.sent++
		t.broke = err
	}
	switch {
	case err == nil, t.r.Context().Err() != nil:
		return false
	case unreached(err):
		return !t.body.touched()
	case errors.Is(err, tunnel.ErrBroken):
		return t.sent < t.most && tunnel.Repeatable(t.r)
	}
	return false
}

// wait waits before the next attempt, for pause or until there is news. It answers err, that of the last
// attempt, when patience is over since the request was last sent or first failed, and the
// cause of ctx when that has ended.
func (t *tries) wait(ctx context.Context, pause time.Duration, news <-chan struct{}, err error) error {
	if t.over == nil || t.since != t.sent {
		t.stop()
		t.over, t.since = time.NewTimer(patience), t.sent
	}
	look := time.NewTimer(pause)
	defer look.Stop()
	select {
	case <-news:
	case <-look.C:
	case <-t.over.C:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// stop ends the timer.
func (t *tries) stop() {
	if t.over != nil {
		t.over.Stop()
	}
}

// unreached reports whether an error says that no service was reached.
func unreached(err error) bool {
	return errors.Is(err, tunnel.ErrNoAgent) || errors.Is(err, tunnel.ErrUnavailable)
}
