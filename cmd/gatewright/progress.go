package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// progress tells of an agent's connections: a person in sentences, a machine in JSON.
type progress struct {
	log   *slog.Logger
	json  bool
	relay string // its host
	of    int    // connections that there shall be

	mu   sync.Mutex
	open int
	// last is the failure that was told last, of which attempt: connections fail together.
	last        string
	lastAttempt int
}

// tell writes one line: the sentence for a person; for a machine the event, with its attributes.
func (p *progress) tell(ctx context.Context, level slog.Level, event, sentence string, attrs ...slog.Attr) {
	if !p.json {
		p.log.LogAttrs(ctx, level, sentence) //nolint:sloglint // a sentence for a person
		return
	}
	p.log.LogAttrs(ctx, level, event, attrs...) //nolint:sloglint // one of this file's few words
}

// counted is told how many connections there are (tunnel.AgentOptions.Notify).
func (p *progress) counted(ctx context.Context, open int) {
	p.mu.Lock()
	more := open > p.open
	p.open = open
	if more {
		p.last = ""
	}
	p.mu.Unlock()
	event, level, sentence := "connected", slog.LevelInfo, fmt.Sprintf("connected: %d of %d connections to %s", open, p.of, p.relay)
	switch {
	case open > p.of:
		sentence = fmt.Sprintf("connected: %d connections to %s, while %d of them end", open, p.relay, open-p.of)
	case !more && ctx.Err() != nil:
		event, sentence = "disconnected", fmt.Sprintf("disconnected: %d of %d connections to %s are left", open, p.of, p.relay)
	case !more && open < p.of:
		event, level, sentence = "disconnected", slog.LevelWarn, fmt.Sprintf("lost a connection: %d of %d to %s are left", open, p.of, p.relay)
	}
	p.tell(ctx, level, event, sentence, slog.Int("open", open), slog.Int("of", p.of), slog.String("relay", p.relay))
}

// failed is told of an attempt in vain (tunnel.AgentOptions.Failed).
func (p *progress) failed(ctx context.Context, err error, attempt int, wait time.Duration) {
	if errors.Is(err, tunnel.ErrLost) {
		return // the count has told it
	}
	why := p.explain(err)
	p.mu.Lock()
	told := p.last == why && attempt <= p.lastAttempt
	// Without a connection it is the last word that counts, with which the agent ends.
	told = told || errors.Is(err, tunnel.ErrRefused) && p.open == 0
	p.last, p.lastAttempt = why, attempt
	p.mu.Unlock()
	if told {
		return
	}
	again := wait.Round(100 * time.Millisecond)
	p.tell(ctx, slog.LevelWarn, "no connection", why+"; trying again in "+again.String(),
		slog.String("relay", p.relay), slog.String("error", why), slog.Int("attempt", attempt), slog.Float64("againSeconds", again.Seconds()))
}

// explain says what is wrong with a connection, and what may be done about it.
func (p *progress) explain(err error) string {
	answered, isAnswer := errors.AsType[*tunnel.AnswerError](err)
	unknown, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, isPlain := errors.AsType[tls.RecordHeaderError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	name, isDNS := errors.AsType[*net.DNSError](err)
	timeout, isNet := errors.AsType[net.Error](err)
	source, isToken := errors.AsType[tokenError](err)
	switch {
	case errors.Is(err, tunnel.ErrRefused):
		return p.relay + " refuses the token, which was rotated, it seems; connections that are there stay. Put the present one in its place"
	case isToken: // the relay was not asked
		return printable(source.Error())
	case isAnswer && answered.Status == http.StatusServiceUnavailable:
		return p.relay + " takes no agents just now (503)"
	case isAnswer && answered.Status == http.StatusTooManyRequests:
		return p.relay + " has as many connections of the tunnel as it may have (429); end some of its agents"
	case isAnswer:
		return fmt.Sprintf("%s answers %s: check that it is a relay's address; where a proxy is in between, --websocket may get through", p.relay, strings.TrimPrefix(answered.Error(), "the relay answers "))
	case isUnknown && unknown.Cert != nil, errors.As(err, new(x509.UnknownAuthorityError)):
		return "the certificate of " + p.relay + " is of an authority that this machine does not trust; if it is one of yours, name its certificate with --ca-file"
	case isCertificate:
		return "the certificate of " + p.relay + " is not its own, or not valid now: " + printable(cause(err).Error())
	case isPlain, errors.Is(err, http.ErrSchemeMismatch):
		return p.relay + " does not speak TLS: check the port"
	case isDNS && name.IsNotFound:
		return "there is no machine of the name in " + p.relay
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at " + p.relay
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && timeout.Timeout():
		return p.relay + " does not answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return p.relay + " ends the connection without an answer"
	case errors.Is(err, tunnel.ErrNoRelay):
		return "what answers at " + p.relay + " is no relay, or a proxy in between does not let it through; --websocket may"
	}
	return p.relay + " can't be reached: " + printable(cause(err).Error())
}

// cause is the innermost of an error that wraps one.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// maxPrintable is how much of somebody's text is shown, in bytes.
const maxPrintable = 300

// printable is a text of somebody else's for a terminal: on one line, without what moves its
// cursor.
func printable(text string) string {
	if len(text) > maxPrintable {
		text = strings.ToValidUTF8(text[:maxPrintable], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}
