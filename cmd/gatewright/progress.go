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

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// progress reports an agent's connections: as sentences for people, or as JSON for programs.
type progress struct {
	log     *slog.Logger
	useJSON bool
	relay   string // the relay's host
	total   int    // the intended number of connections

	mu   sync.Mutex
	open int
	// lastReason is the reason of the last failed attempt, "" after a connection was opened. lastAttempt is the number of
	// this attempt. With them, the same failure of several connections is reported only once.
	lastReason  string
	lastAttempt int
}

// report writes one line: the sentence for people, or the event with its attributes for programs.
func (p *progress) report(ctx context.Context, level slog.Level, event, sentence string, attrs ...slog.Attr) {
	if !p.useJSON {
		p.log.LogAttrs(ctx, level, sentence) //nolint:sloglint // a sentence for a person
		return
	}
	p.log.LogAttrs(ctx, level, event, attrs...) //nolint:sloglint // event is one of a few constants in this file
}

// connectionsChanged reports a change of the number of connections (tunnel.AgentOptions.Notify).
func (p *progress) connectionsChanged(ctx context.Context, open int) {
	p.mu.Lock()
	increased := open > p.open
	p.open = open
	if increased {
		p.lastReason = ""
	}
	p.mu.Unlock()
	event, level, sentence := "connected", slog.LevelInfo, fmt.Sprintf("connected: %d of %d connections to %s", open,
		p.total, p.relay)
	switch {
	case open > p.total:
		sentence = fmt.Sprintf("connected: %d connections to %s, while %d of them end", open, p.relay, open-p.total)
	case !increased && ctx.Err() != nil:
		event, sentence = "disconnected", fmt.Sprintf("disconnected: %d of %d connections to %s are left", open, p.total,
			p.relay)
	case !increased && open < p.total:
		event, level, sentence = "disconnected", slog.LevelWarn, fmt.Sprintf("lost a connection: %d of %d to %s are left",
			open, p.total, p.relay)
	}
	p.report(ctx, level, event, sentence, slog.Int("open", open), slog.Int("of", p.total), slog.String("relay", p.relay))
}

// attemptFailed reports an attempt that failed (tunnel.AgentOptions.OnFailure).
func (p *progress) attemptFailed(ctx context.Context, err error, attempt int, wait time.Duration) {
	if errors.Is(err, tunnel.ErrConnectionLost) {
		return // connectionsChanged has already reported it
	}
	reason := p.explain(err)
	p.mu.Lock()
	reported := p.lastReason == reason && attempt <= p.lastAttempt
	// If no connection is open, the agent ends with ErrRefused, and connectExitCode reports the error.
	reported = reported || errors.Is(err, tunnel.ErrRefused) && p.open == 0
	p.lastReason, p.lastAttempt = reason, attempt
	p.mu.Unlock()
	if reported {
		return
	}
	delay := wait.Round(100 * time.Millisecond)
	p.report(ctx, slog.LevelWarn, "no connection", reason+"; trying again in "+delay.String(),
		slog.String("relay", p.relay), slog.String("error", reason), slog.Int("attempt", attempt),
		slog.Float64("againSeconds", delay.Seconds()))
}

// explain returns a text that says what is wrong with a connection, and what the user can do about it.
func (p *progress) explain(err error) string {
	statusErr, isStatus := errors.AsType[*tunnel.StatusError](err)
	authorityErr, isUnknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, notTLS := errors.AsType[tls.RecordHeaderError](err)
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	dnsErr, isDNS := errors.AsType[*net.DNSError](err)
	netErr, isNet := errors.AsType[net.Error](err)
	tokenErr, isToken := errors.AsType[tokenError](err)
	switch {
	case errors.Is(err, tunnel.ErrRefused):
		return p.relay + " refuses the token, which was rotated, it seems; connections that are there stay. Put the " +
			"present one in its place"
	case isToken: // the token could not be read, so no request was sent
		return printable(tokenErr.Error())
	case isStatus && statusErr.Status == http.StatusServiceUnavailable:
		return p.relay + " takes no agents just now (503)"
	case isStatus && statusErr.Status == http.StatusTooManyRequests:
		return p.relay + " has as many connections of the tunnel as it may have (429); end some of its agents"
	case isStatus:
		return fmt.Sprintf("%s answers %s: check that it is a relay's address; where a proxy is in between, --websocket "+
			"may get through", p.relay, strings.TrimPrefix(statusErr.Error(), "the relay answers "))
	case isUnknown && authorityErr.Cert != nil, errors.As(err, new(x509.UnknownAuthorityError)):
		return "the certificate of " + p.relay + " is of an authority that this machine does not trust; if it is one of " +
			"yours, name its certificate with --ca-file"
	case isCertificate:
		return "the certificate of " + p.relay + " is not its own, or not valid now: " + printable(innermost(err).Error())
	case notTLS, errors.Is(err, http.ErrSchemeMismatch):
		return p.relay + " does not speak TLS: check the port"
	case isDNS && dnsErr.IsNotFound:
		return "there is no machine of the name in " + p.relay
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at " + p.relay
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), isNet && netErr.Timeout():
		return p.relay + " does not answer in time"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET),
		errors.Is(err, syscall.EPIPE):
		return p.relay + " ends the connection without an answer"
	case errors.Is(err, tunnel.ErrNotRelay):
		return "what answers at " + p.relay + " is no relay, or a proxy in between does not let it through; --websocket may"
	}
	return p.relay + " can't be reached: " + printable(innermost(err).Error())
}

// innermost returns the innermost error that err wraps, or err if it wraps none.
func innermost(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

// maxPrintable is the maximum length of untrusted text in a message, in bytes.
const maxPrintable = 300

// printable returns untrusted text for a terminal: on one line, without control characters.
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
