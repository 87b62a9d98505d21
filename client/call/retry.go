package call

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// These are the limits of repeated requests: the maximum number of attempts, and the first and the longest wait between
// them. After status 429 a request is repeated even if maxAttempts is reached. If a response demands a longer wait than
// maxBackoff, the request fails.
const (
	maxAttempts    = 5
	initialBackoff = 250 * time.Millisecond
	maxBackoff     = 2 * time.Minute
	// maxRateLimitBackoff is the maximum wait after status 429 if the response does not demand a longer wait. Other
	// users of the key continue in the meantime, so a client that waits longer would rarely succeed.
	maxRateLimitBackoff = 8 * time.Second
)

// doWithRetry sends a request and returns its response. After status 429 it waits at least as long as the response
// demands, and repeats the request. If the request is repeatable, doWithRetry also repeats it after an error that is
// not permanent, an incomplete response, and status 502, 503 or 504. If the outcome of a deletion is unknown and its
// repetition finds no object, the deletion counts as successful.
func (a *API) doWithRetry(
	ctx context.Context, t *apitools.Tool, newRequest func(context.Context) (*http.Request, error),
) (*Response, error) {
	backoff, outcomeUnknown := initialBackoff, false
	for attempt := 1; ; attempt++ {
		r, err := newRequest(ctx)
		if err != nil {
			return nil, err
		}
		r, wasSent := TraceSent(r)
		resp, err := a.doOnce(r)
		outcomeUnknown = outcomeUnknown || err != nil && wasSent()
		if outcomeUnknown && resp != nil && resp.Status == http.StatusNotFound && t.Method == http.MethodDelete {
			// An earlier attempt has probably deleted the object, and its response was lost.
			return &Response{Status: http.StatusNoContent, Header: resp.Header}, nil
		}
		var reason string
		delay := backoff
		switch {
		case err != nil && ctx.Err() != nil:
			err := fmt.Errorf("wait for the answer of %s: %w", a.Access.Origin.Host, context.Cause(ctx))
			if outcomeUnknown {
				err = fmt.Errorf("%w%s", err, unknownOutcomeSuffix(t))
			}
			return nil, err
		case err != nil:
			reason = a.explain(err)
		case resp.Status == http.StatusTooManyRequests:
			reason, delay = "it is asked too often", retryAfter(resp.Header, min(backoff, maxRateLimitBackoff))
		case resp.Status == http.StatusBadGateway, resp.Status == http.StatusServiceUnavailable,
			resp.Status == http.StatusGatewayTimeout:
			reason, delay, outcomeUnknown = fmt.Sprintf("it answers %d", resp.Status), retryAfter(resp.Header, backoff), true
		default:
			return a.checkStatus(resp)
		}
		limited := resp != nil && resp.Status == http.StatusTooManyRequests
		if attempt >= maxAttempts && !limited || !limited && !isRepeatable(t, r) || delay > maxBackoff || isPermanent(err) {
			if err != nil {
				if outcomeUnknown {
					reason += unknownOutcomeSuffix(t)
				}
				return nil, exit.WithCode(exit.Failure, fmt.Errorf("%s: %s", a.Access.Origin.Host, reason))
			}
			return a.checkStatus(resp)
		}
		if a.OnWait != nil {
			a.OnWait(a.Access.Origin.Host+": "+reason, delay)
		}
		if err := a.Sleep(ctx, delay); err != nil {
			if outcomeUnknown {
				err = fmt.Errorf("%w%s", err, unknownOutcomeSuffix(t))
			}
			return nil, fmt.Errorf("wait for %s, since %s: %w", a.Access.Origin.Host, reason, err)
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// errResponseTooLarge is the error for a response that is endless, or that grows too large when it is decompressed.
var errResponseTooLarge = fmt.Errorf("the answer has more than %d bytes", maxResponseSize)

// TraceSent returns a copy of a request, and a function that reports whether the copy was sent. Then the server may
// have handled it, even if no response has come. net/http can send a request a second time over another connection, so
// the last error does not say whether an earlier connection has sent it.
func TraceSent(r *http.Request) (traced *http.Request, wasSent func() bool) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	return r.WithContext(httptrace.WithClientTrace(r.Context(), trace)), sent.Load
}

// isPermanent reports whether an error will occur again in the next attempt.
func isPermanent(err error) bool {
	name, isDNS := errors.AsType[*net.DNSError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	return isDNS && name.IsNotFound || isCertificate || notTLS || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.Is(err, errNotLoopback) || errors.Is(err, errProtocolSwitch) || errors.Is(err, errResponseTooLarge)
}

// unknownOutcomeSuffix returns the end of an error message for a request whose response was lost. It warns that the
// change may have been made: the next run of the command has another Idempotency-Key, and would make the change a
// second time. unknownOutcomeSuffix returns "" for a request that changes nothing.
func unknownOutcomeSuffix(t *apitools.Tool) string {
	if t.ReadOnly {
		return ""
	}
	return "; whether the change was made is not known"
}

// bodyIdleTimeout is how long the body of a response may pause. It is equal to the maximum time until a response begins
// (NewHTTPClient).
const bodyIdleTimeout = time.Minute

// errBodyIdle is the error for a response that has begun and does not continue.
var errBodyIdle = errors.New("it stops in the middle of its answer")

// idleTimeoutReader is the body of a response. Each read that returns data restarts the timer, which cancels the
// request.
type idleTimeoutReader struct {
	io.Reader
	timer *time.Timer
}

func (r idleTimeoutReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if n > 0 {
		r.timer.Reset(bodyIdleTimeout)
	}
	return n, err
}

// doOnce sends a request and reads the whole response.
func (a *API) doOnce(r *http.Request) (*Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	resp, err := a.HTTP.Do(r.WithContext(ctx))
	if err != nil {
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err // without the URL, which may contain secrets
		}
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	idleTimer := time.AfterFunc(bodyIdleTimeout, func() { cancel(errBodyIdle) })
	defer idleTimer.Stop()
	body, err := io.ReadAll(io.LimitReader(idleTimeoutReader{resp.Body, idleTimer}, maxResponseSize+1))
	if err != nil && errors.Is(context.Cause(ctx), errBodyIdle) {
		err = errBodyIdle
	}
	if err == nil && len(body) > maxResponseSize {
		err = errResponseTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return &Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, nil
}

// checkStatus returns resp, or an error if the response is unsuccessful or has a body that is not JSON with at most
// maxDepth levels.
func (a *API) checkStatus(resp *Response) (*Response, error) {
	switch resp.Status / 100 {
	case 2:
		if len(bytes.TrimSpace(resp.Body)) > 0 && !isShowableJSON(resp.Body) {
			return nil, fmt.Errorf("%s answers %d with something that is no JSON: check that it is the address of a "+
				"management API", a.Access.Origin.Host, resp.Status)
		}
		return resp, nil
	case 3:
		return nil, fmt.Errorf("%s answers with a redirect to %s, which is not followed, since the key would go there: use "+
			"that address if it is the installation's",
			a.Access.Origin.Host, output.Printable(schemeAndHost(resp.Header.Get("Location"))))
	}
	return nil, a.problem(resp)
}

// maxDepth is the maximum nesting depth of a response that the client accepts. The API's own responses have at most 32
// levels. The size of indented output grows with the square of the depth.
const maxDepth = 200

// isShowableJSON reports whether a text is valid JSON with at most maxDepth levels.
func isShowableJSON(text []byte) bool {
	if !json.Valid(text) {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for d.StackDepth() <= maxDepth {
		if _, err := d.ReadToken(); err != nil {
			return true // at the end of the text
		}
	}
	return false
}

// schemeAndHost returns the scheme and the host of an address from an untrusted source, without its other parts. It
// returns "another place" if the address has no host.
func schemeAndHost(address string) string {
	switch u, err := url.Parse(address); {
	case err != nil || u.Host == "":
	case u.Scheme == "":
		return u.Host
	default:
		return u.Scheme + "://" + u.Host
	}
	return "another place"
}

// retryAfter returns the wait that the field Retry-After demands. The field contains seconds or a date. retryAfter
// returns minimum if the field demands no wait or a shorter one.
func retryAfter(header http.Header, minimum time.Duration) time.Duration {
	text := header.Get("Retry-After")
	const maxSeconds = 1<<31 - 1 // 68 years: longer than any wait, and no overflow of a duration
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return max(time.Duration(min(n, maxSeconds))*time.Second, minimum)
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(time.Until(date), minimum)
	}
	return minimum
}
