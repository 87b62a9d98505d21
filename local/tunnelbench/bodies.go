package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/local/instance"
)

const (
	atOnce     = 64
	mostMemory = 100 << 20 // of relay and agent, each, while so many large bodies are under way
	// settled is how long what is sent may take until all buffers on its way are full.
	settled = 3 * time.Second
)

// bodies has large bodies wait at their far end, both ways, so that all that may be between holds
// as much as it ever does.
func (w *world) bodies(ctx context.Context, table *bars.Table) error {
	if err := w.Quiet(ctx); err != nil {
		return err
	}
	before, err := w.Memory()
	if err != nil {
		return err
	}
	if err := w.upload(ctx); err != nil {
		return fmt.Errorf("send large bodies: %w", err)
	}
	if err := w.download(ctx); err != nil {
		return fmt.Errorf("fetch large bodies: %w", err)
	}
	product, err := w.Memory()
	if err != nil {
		return err
	}
	agent, err := instance.MemoryOf(w.agent.Process.Pid)
	if err != nil {
		return err
	}
	bar := fmt.Sprintf("%d MB", mostMemory>>20)
	table.Add(fmt.Sprintf("%d requests and %d answers of %d MB that wait: what gateway and relay hold then, beside the product that is idle", atOnce, atOnce, large>>20),
		bar, fmt.Sprintf("%d MB more than %d MB", (product.Most-before.Now)>>20, before.Now>>20), product.Most-before.Now < mostMemory)
	table.Add("the same: what the agent holds", bar, fmt.Sprintf("%d MB", agent.Most>>20), agent.Most < mostMemory)
	return nil
}

// upload sends bodies that the service reads only when all have been begun.
func (w *world) upload(ctx context.Context) error {
	w.service.waiting.Add(atOnce)
	group, ctx := errgroup.WithContext(ctx)
	for range atOnce {
		group.Go(func() error {
			return w.exchange(ctx, request("POST /late", w.site, large), small, func() {})
		})
	}
	group.Go(func() error {
		begun := make(chan struct{})
		go func() {
			w.service.waiting.Wait()
			close(begun)
		}()
		select {
		case <-begun:
			time.Sleep(settled)
			close(w.service.open)
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return group.Wait()
}

// download fetches answers that are read only when all have been asked for.
func (w *world) download(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range atOnce {
		group.Go(func() error {
			return w.exchange(ctx, request("GET /large", w.site, 0), large, func() { time.Sleep(settled) })
		})
	}
	return group.Wait()
}

// exchange sends a request on a connection of its own, and reads the answer after a pause.
func (w *world) exchange(ctx context.Context, request []byte, answer int64, pause func()) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.gateway())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if _, err := c.Write(request); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	pause()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil || response.StatusCode != http.StatusOK || n != answer {
		return errors.Join(err, fmt.Errorf("receive: status %d, %d bytes", response.StatusCode, n))
	}
	return nil
}
