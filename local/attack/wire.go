package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// conversation is what came back on one connection.
type conversation struct {
	answers []answer
	// cut says that the other side ended the connection.
	cut bool
}

// answer is a response, with the 1xx ones before it.
type answer struct {
	status        int
	header        http.Header
	body          string
	informational []int
	// last says that the answer ends its connection.
	last bool
}

// patience is how long an attack waits for an answer, and pause is between the parts
// of what it writes, so that they arrive apart.
const (
	patience = 5 * time.Second
	pause    = 30 * time.Millisecond
)

// talk writes the parts to an address and reads answers until the other side
// ends the connection, or all that were asked for are there. methods are those of
// the requests, by which a response is read.
func talk(ctx context.Context, address string, parts, methods []string) (conversation, error) {
	var out conversation
	c, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", address)
	if err != nil {
		return out, fmt.Errorf("dial: %w", err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(2 * patience))
	go func() {
		for i, part := range parts {
			if i > 0 {
				time.Sleep(pause)
			}
			if _, err := io.WriteString(c, part); err != nil {
				return // it was refused before its end
			}
		}
	}()
	in := bufio.NewReader(c)
	for _, method := range methods {
		var a answer
		for {
			_ = c.SetReadDeadline(time.Now().Add(patience))
			response, err := http.ReadResponse(in, &http.Request{Method: method}) //nolint:bodyclose // read to its end where it has one
			if err != nil {
				out.cut = true
				return out, nil // a connection that was cut is an answer too
			}
			if response.StatusCode < 200 && response.StatusCode != http.StatusSwitchingProtocols {
				a.informational = append(a.informational, response.StatusCode)
				continue
			}
			a.status, a.header, a.last = response.StatusCode, response.Header, response.Close
			if response.StatusCode != http.StatusSwitchingProtocols {
				body, err := io.ReadAll(response.Body)
				a.body, out.cut = string(body), err != nil
			}
			break
		}
		out.answers = append(out.answers, a)
		if a.last {
			// nginx waits for 5 s before it closes, for what is still on its way.
			_ = c.SetReadDeadline(time.Now().Add(2 * patience))
			_, err := in.ReadByte()
			out.cut = errors.Is(err, io.EOF)
			return out, nil
		}
	}
	return out, nil
}

// request writes a request without a body; more are lines of its header.
func request(method, target string, more ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: {host}\r\n" + markHeader + ": {mark}\r\n" + strings.Join(append(more, "", ""), "\r\n")
}
