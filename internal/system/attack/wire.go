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

// conversation is the result of one connection.
type conversation struct {
	responses []response
	// disconnected reports whether the server ended the connection, or sent no complete response in time.
	disconnected bool
}

// response is a final response, with the statuses of the 1xx responses before it.
type response struct {
	status        int
	header        http.Header
	body          string
	informational []int
	// closes reports whether the response announces the end of the connection.
	closes bool
}

// timeout is how long an attack waits for a response. partDelay is the time between the parts that an attack writes, so
// that they arrive separately.
const (
	timeout   = 5 * time.Second
	partDelay = 30 * time.Millisecond
)

// converse writes the parts to an address, and reads responses until each request has one, or the server ends the
// connection or sends no response in time. methods are the methods of the requests, because the end of a response
// depends on the method.
func converse(ctx context.Context, address string, parts, methods []string) (conversation, error) {
	var out conversation
	c, err := (&net.Dialer{Timeout: timeout}).DialContext(ctx, "tcp", address)
	if err != nil {
		return out, fmt.Errorf("dial: %w", err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(2 * timeout))
	go func() {
		for i, part := range parts {
			if i > 0 {
				time.Sleep(partDelay)
			}
			if _, err := io.WriteString(c, part); err != nil {
				return // the server refused the request before its end
			}
		}
	}()
	in := bufio.NewReader(c)
	for _, method := range methods {
		var a response
		for {
			_ = c.SetReadDeadline(time.Now().Add(timeout))
			//nolint:bodyclose // the body is read to its end, except after status 101
			response, err := http.ReadResponse(in, &http.Request{Method: method})
			if err != nil {
				out.disconnected = true
				return out, nil // a closed connection is a result, not an error
			}
			if response.StatusCode < 200 && response.StatusCode != http.StatusSwitchingProtocols {
				a.informational = append(a.informational, response.StatusCode)
				continue
			}
			a.status, a.header, a.closes = response.StatusCode, response.Header, response.Close
			if response.StatusCode != http.StatusSwitchingProtocols {
				body, err := io.ReadAll(response.Body)
				a.body, out.disconnected = string(body), err != nil
			}
			break
		}
		out.responses = append(out.responses, a)
		if a.closes {
			// nginx waits 5 s for data in flight before it closes the connection.
			_ = c.SetReadDeadline(time.Now().Add(2 * timeout))
			_, err := in.ReadByte()
			out.disconnected = errors.Is(err, io.EOF)
			return out, nil
		}
	}
	return out, nil
}

// request returns the text of a request without a body, with the placeholders {host} and {mark}. more are additional
// header lines.
func request(method, target string, more ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: {host}\r\n" +
		markHeader + ": {mark}\r\n" + strings.Join(append(more, "", ""), "\r\n")
}
