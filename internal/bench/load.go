package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// load sends requests over so many connections and reads every answer. It
// writes bytes rather than use net/http's client, so that the client leaves the
// machine to the proxies.
func load(ctx context.Context, address string, connections, requests int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(requests))
	var wg sync.WaitGroup
	for range connections {
		wg.Go(func() {
			if err := client(ctx, address, &left); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// client speaks on one connection as long as there are requests left.
func client(ctx context.Context, address string, left *atomic.Int64) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	request := []byte("GET " + target + " HTTP/1.1\r\nHost: bench.test\r\nAuthorization: Bearer " + key + "\r\n" +
		"User-Agent: bench\r\nAccept: application/json\r\nAccept-Language: en\r\nX-Client: 1\r\n\r\n")
	r := bufio.NewReader(conn)
	for left.Add(-1) >= 0 && ctx.Err() == nil {
		if _, err := conn.Write(request); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || n != answerBytes || response.StatusCode != http.StatusOK {
			return fmt.Errorf("receive: status %d, %d bytes: %w", response.StatusCode, n, err)
		}
	}
	return nil
}
