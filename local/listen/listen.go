// Package listen opens the local run's listeners, with two things that net and
// net/http lack: an error for a port in use that says what to do, and a problem
// document for a request that net/http refuses before any handler sees it.
//
// What it is not: a server. Requests that net/http understands pass unseen.
//
// Read this file. The rules are those of contract 1.2 (every error is a
// problem) and design, section 4 (a bare % is a 400).
package listen

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/gatewright/gatewright/shared/api"
)

// On opens a TCP listener on addr whose connections speak problem documents.
// purpose and variable name the listener and its setting in the error, which
// is a full sentence for the terminal.
func On(ctx context.Context, addr, purpose, variable string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		cause := err
		if op, ok := errors.AsType[*net.OpError](err); ok {
			cause = op.Err
		}
		if errors.Is(err, syscall.EADDRINUSE) {
			return nil, fmt.Errorf("%s for %s is in use by another program: stop that program, or name another address in %s", addr, purpose, variable)
		}
		return nil, fmt.Errorf("%s for %s cannot be listened on (%w): name another address in %s", addr, purpose, cause, variable)
	}
	return listener{l}, nil
}

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &conn{TCPConn: tcp}, nil
	}
	return c, nil
}

// conn replaces the plain text with which net/http answers what it cannot
// parse. It embeds the TCP connection so that net/http finds CloseWrite.
type conn struct{ *net.TCPConn }

// refusal is how net/http begins such an answer, in one write. Answers of
// handlers have a Date and never match.
var refusal = regexp.MustCompile(`^HTTP/1\.1 ([1-5][0-9]{2}) [^\r\n]*\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n`)

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if !bytes.HasPrefix(p, []byte("HTTP/1.1 ")) {
		return c.TCPConn.Write(p)
	}
	match := refusal.FindSubmatch(p)
	if match == nil {
		return c.TCPConn.Write(p)
	}
	status, err := strconv.Atoi(string(match[1]))
	if err != nil {
		return c.TCPConn.Write(p)
	}
	if _, err := c.TCPConn.Write(problem(status)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// problem is a whole response. It has no trace: there was no request yet.
func problem(status int) []byte {
	detail := "The request is not understood as HTTP/1.1. In a path or a query, write a percent sign as %25."
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		detail = "The request's header is too large. Send fewer or shorter fields."
	case http.StatusNotImplemented:
		detail = "The request's transfer encoding is not known here. Send a Content-Length or the chunked encoding."
	case http.StatusHTTPVersionNotSupported:
		detail = "This version of HTTP is not spoken here. Use HTTP/1.1."
	}
	body, err := json.Marshal(api.Problem{
		Type:   "https://httpproblems.com/http-status/" + strconv.Itoa(status),
		Title:  http.StatusText(status),
		Status: status,
		Detail: detail,
	})
	if err != nil {
		return nil
	}
	var out strings.Builder
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		status, http.StatusText(status), len(body)+1, body)
	return []byte(out.String())
}
