package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// How clients ask while processes end.
const (
	askersAtOnce = 8
	// pause is what a client takes between an answer and its next request.
	pause = 2 * time.Millisecond
	// slowEvery of a client's requests takes slow, which is longer than a process announces its end: it is under way when no more
	// are taken.
	slowEvery = 50
	slow      = 1500 * time.Millisecond
	quick     = 20 // ms at most, of the others
)

// once is a body that cannot be sent again, so that no transport repeats a request whose connection ended.
type once struct{ io.Reader }

// askers are clients that ask all the time, each on connections that it keeps. A request is lost where it has no answer, or not the upstream's.
type askers struct {
	asked, lost atomic.Int64

	mu    sync.Mutex
	first error // why the first one was lost
}

// run asks at an address until ctx ends. Requests that are under way then are waited for.
func (l *askers) run(ctx context.Context, address, key string, transport func() http.RoundTripper) {
	var all sync.WaitGroup
	for range askersAtOnce {
		all.Go(func() {
			c := &http.Client{Transport: transport(), Timeout: 30 * time.Second}
			defer c.CloseIdleConnections()
			for n := 1; ctx.Err() == nil; n++ {
				wait := time.Duration(rand.IntN(quick)) * time.Millisecond //nolint:gosec // no secret
				if n%slowEvery == 0 {
					wait = slow
				}
				l.asked.Add(1)
				if err := ask(context.WithoutCancel(ctx), c, fmt.Sprintf("%s/wait/%d", address, wait.Milliseconds()), key); err != nil {
					l.lost.Add(1)
					l.mu.Lock()
					if l.first == nil {
						l.first = err
					}
					l.mu.Unlock()
				}
				time.Sleep(pause)
			}
		})
	}
	all.Wait()
}

// ask sends something, and fails unless the upstream's answer comes whole.
func ask(ctx context.Context, c *http.Client, address, key string) error {
	const text = "something"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, once{strings.NewReader(text)})
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	r.ContentLength = int64(len(text))
	r.Header.Set("Authorization", "Bearer "+key)
	out, err := c.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = out.Body.Close() }()
	got, err := io.ReadAll(out.Body)
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	if out.StatusCode != http.StatusOK || string(got) != body {
		return fmt.Errorf("answered %d %.300s", out.StatusCode, got)
	}
	return nil
}
