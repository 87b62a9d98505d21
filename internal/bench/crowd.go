package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/local/instance"
)

// How many connections wait, and for what.
const (
	idle    = 10_000 // for their next request
	stalled = 1_000  // for the rest of a body, with a request to the upstream under way
)

// crowd opens connections that wait, prints what memory the gateway has then, and
// serves others beside them. The memory is bounded by most, in MB, or is beyond.
func crowd(ctx context.Context, gateway *load.Child, most int, beyond *bars.Beyond) error {
	waiting := make([]net.Conn, 0, idle+stalled)
	defer func() {
		for _, c := range waiting {
			_ = c.Close()
		}
	}()
	alone, err := resident(gateway)
	if err != nil {
		return err
	}
	for i := range idle + stalled {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", gateway.Address)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		waiting = append(waiting, c)
		if i < idle {
			err = ask(c)
		} else {
			_, err = io.WriteString(c, "POST /upload HTTP/1.1\r\nHost: bench.test\r\nAuthorization: Bearer "+key+"\r\nContent-Length: 1000\r\n\r\nbegin")
		}
		if err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second) // they come to rest
	crowded, err := resident(gateway)
	if err != nil {
		return err
	}
	const requests = 20_000
	began := time.Now()
	if err := load.Run(ctx, get(gateway.Address, 16, requests)); err != nil {
		return fmt.Errorf("load the crowded gateway: %w", err)
	}
	fmt.Printf("\nWith %d idle connections and %d whose bodies stall the gateway has %d MB (%d MB without), and serves %.0f requests a second to 16 others.\n",
		idle, stalled, crowded, alone, requests/time.Since(began).Seconds())
	if crowded > most {
		beyond.Add("the gateway has %d MB with %d connections, the limit is %d", crowded, len(waiting), most)
	}
	return nil
}

// ask sends one request and reads its answer.
func ask(c net.Conn) error {
	if _, err := io.WriteString(c, "GET "+target+" HTTP/1.1\r\nHost: bench.test\r\nAuthorization: Bearer "+key+"\r\n\r\n"); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("receive: status %d: %w", response.StatusCode, err)
	}
	return nil
}

// resident is the child's memory, in MB.
func resident(c *load.Child) (int, error) {
	m, err := instance.MemoryOf(c.PID())
	return int(m.Now >> 20), err
}
