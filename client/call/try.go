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
	"net/url"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/apitools"
)

// The waits between tries that nobody has told otherwise, and the longest that an answer may ask for.
const (
	tries       = 5
	firstWait   = 250 * time.Millisecond
	longestWait = 2 * time.Minute
	// longestTurn is how far waits for a rate grow where the answer names less: whoever shares the key goes before, and whoever waits longer
	// than that would be the last of many.
	longestTurn = 8 * time.Second
)

// tried sends a request until it has an answer. What is asked again: 429 after the wait that it names; what gets no whole
// answer, 502, 503 and 504, if the request is repeatable.
func (a *API) tried(ctx context.Context, t *apitools.Tool, made func(context.Context) (*http.Request, error)) (*Answer, error) {
	wait, unknown := firstWait, false
	for try := 1; ; try++ {
		r, err := made(ctx)
		if err != nil {
			return nil, err
		}
		answer, err := a.once(r)
		if unknown && answer != nil && answer.Status == http.StatusNotFound && t.Method == http.MethodDelete {
			return &Answer{Status: http.StatusNoContent, Header: answer.Header}, nil // a try before has removed it, and its answer was lost
		}
		var why string
		after := wait
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, fmt.Errorf("wait for the answer of %s: %w%s", a.Access.Origin.Host, context.Cause(ctx), lost(t))
		case err != nil:
			why, unknown = a.explain(err), true
		case answer.Status == http.StatusTooManyRequests:
			why, after = "it is asked too often", retryAfter(answer.Header, min(wait, longestTurn))
		case answer.Status == http.StatusBadGateway, answer.Status == http.StatusServiceUnavailable, answer.Status == http.StatusGatewayTimeout:
			why, after, unknown = fmt.Sprintf("it answers %d", answer.Status), retryAfter(answer.Header, wait), true
		default:
			return a.read(answer)
		}
		limited := answer != nil && answer.Status == http.StatusTooManyRequests
		if try >= tries && !limited || !limited && !repeatable(t, r) || after > longestWait || lasting(err) {
			if err != nil {
				return nil, exit.With(exit.Failure, fmt.Errorf("%s: %s%s", a.Access.Origin.Host, why, lost(t)))
			}
			return a.read(answer)
		}
		if a.Waits != nil {
			a.Waits(a.Access.Origin.Host+": "+why, after)
		}
		if err := a.Sleep(ctx, after); err != nil {
			if unknown {
				err = fmt.Errorf("%w%s", err, lost(t))
			}
			return nil, fmt.Errorf("wait for %s, since %s: %w", a.Access.Origin.Host, why, err)
		}
		wait = min(2*wait, longestWait)
	}
}

// errTooLong is for an answer without an end, or one that grows as it is unpacked.
var errTooLong = fmt.Errorf("the answer has more than %d bytes", mostAnswer)

// lasting reports whether an error is there the next time too.
func lasting(err error) bool {
	name, isDNS := errors.AsType[*net.DNSError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](err)
	return isDNS && name.IsNotFound || isCertificate || isPlain || errors.Is(err, http.ErrSchemeMismatch) || errors.Is(err, errElsewhere) || errors.Is(err, errSwitched) || errors.Is(err, errTooLong)
}

// lost says that a change may have been made though its answer was lost. That it was sent with an Idempotency-Key has it be made once here; the
// next run of a command has another key.
func lost(t *apitools.Tool) string {
	if t.ReadOnly {
		return ""
	}
	return "; whether the change was made is not known"
}

// mostSilence is how long an answer that has begun may bring nothing: as long as it may take to begin (Client).
const mostSilence = time.Minute

// errSilent is for an answer that has begun, and goes on no more.
var errSilent = errors.New("it stops in the middle of its answer")

// heard is an answer's body. Whatever comes of it puts the end of the wait off.
type heard struct {
	io.Reader
	silence *time.Timer
}

func (h heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.silence.Reset(mostSilence)
	}
	return n, err
}

// once sends a request, and reads its answer to the end.
func (a *API) once(r *http.Request) (*Answer, error) {
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	answer, err := a.HTTP.Do(r.WithContext(ctx))
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // without the address, which may hold what is not for a log
		}
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	silence := time.AfterFunc(mostSilence, func() { stop(errSilent) })
	defer silence.Stop()
	body, err := io.ReadAll(io.LimitReader(heard{answer.Body, silence}, mostAnswer+1))
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	if err == nil && len(body) > mostAnswer {
		err = errTooLong
	}
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return &Answer{Status: answer.StatusCode, Header: answer.Header, Body: body}, nil
}

// read has an answer that is no good one be an error.
func (a *API) read(answer *Answer) (*Answer, error) {
	switch answer.Status / 100 {
	case 2:
		if len(bytes.TrimSpace(answer.Body)) > 0 && !isDocument(answer.Body) {
			return nil, fmt.Errorf("%s answers %d with something that is no JSON: check that it is the address of a management API", a.Access.Origin.Host, answer.Status)
		}
		return answer, nil
	case 3:
		return nil, fmt.Errorf("%s answers with a redirect to %s, which is not followed, since the key would go there: use that address if it is the installation's",
			a.Access.Origin.Host, output.Printable(hostOf(answer.Header.Get("Location"))))
	}
	return nil, a.problem(answer)
}

// mostDeep bounds how deep an answer is nested, in levels: bodies of the API have 32 at most. What indents one, as a person reads it,
// writes the square of its depth.
const mostDeep = 200

// isDocument reports whether a text is JSON that can be shown.
func isDocument(text []byte) bool {
	if !json.Valid(text) {
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for d.StackDepth() <= mostDeep {
		if _, err := d.ReadToken(); err != nil {
			return true // at its end
		}
	}
	return false
}

// hostOf is the host of an address that somebody else has written, without what else may be in it.
func hostOf(address string) string {
	switch u, err := url.Parse(address); {
	case err != nil || u.Host == "":
	case u.Scheme == "":
		return u.Host
	default:
		return u.Scheme + "://" + u.Host
	}
	return "another place"
}

// retryAfter is the wait that an answer names, in seconds or as a date, and other where it names none.
func retryAfter(header http.Header, other time.Duration) time.Duration {
	text := header.Get("Retry-After")
	const mostSeconds = 1<<31 - 1 // 68 years, as far as a duration goes and beyond what anybody waits
	n, err := strconv.ParseUint(text, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return max(time.Duration(min(n, mostSeconds))*time.Second, other)
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(time.Until(at), other)
	}
	return other
}
