// Package load is what programs that measure have in common: a client that costs the
// machine little, the reverse proxy that they compare with, and children, which are their
// own program in another role.
//
// It measures nothing and knows no figure of ours. Linux alone.
//
// Read load.go for the client; proxy.go has the proxy, child.go the children.
package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options are one kind of request and how often it is sent. All are needed but Varies, Status and Number.
type Options struct {
	Address  string // host:port
	Request  []byte // as it goes over the wire, HTTP/1.1
	Answer   int64  // the bytes of the body of its answer
	Varies   bool   // whether that is not looked at
	Status   int    // of its answer, 0 for 200
	Requests int    // in all
	// Connections are how many are under way at once.
	Connections int
	// Number makes a request of its own of each: it is counted up, and stands where Request has Numbered.
	Number *atomic.Int64
}

// Numbered is the place of a number in a request.
const Numbered = "00000000"

// Run sends the requests and reads every answer. It writes bytes rather than use net/http's
// client, so that it leaves the machine to what is measured. The error is of the first answer
// that is not the one that was asked for.
func Run(ctx context.Context, o Options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(o.Requests))
	var wg sync.WaitGroup
	for range o.Connections {
		wg.Go(func() {
			if err := o.client(ctx, &left); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Learn sends the request once, and notes how long its answer is. It fails where the status is not the one that is
// expected.
func (o *Options) Learn(ctx context.Context) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write(o.Request); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != cmp.Or(o.Status, http.StatusOK) {
		return fmt.Errorf("it is answered %d %.300s: %w", response.StatusCode, text, err)
	}
	o.Answer = int64(len(text))
	return nil
}

// client speaks on one connection as long as there are requests left.
func (o Options) client(ctx context.Context, left *atomic.Int64) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	r := bufio.NewReader(conn)
	request, status, numbered := o.Request, cmp.Or(o.Status, http.StatusOK), -1
	if o.Number != nil {
		request = slices.Clone(o.Request)
		if numbered = bytes.Index(request, []byte(Numbered)); numbered < 0 {
			return errors.New("the request has no place for a number")
		}
	}
	for left.Add(-1) >= 0 && ctx.Err() == nil {
		if numbered >= 0 {
			copy(request[numbered:], fmt.Sprintf("%0*d", len(Numbered), o.Number.Add(1)))
		}
		if _, err := conn.Write(request); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			return fmt.Errorf("receive: %w", err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || !o.Varies && n != o.Answer || response.StatusCode != status {
			return fmt.Errorf("receive: status %d, %d bytes: %w", response.StatusCode, n, err)
		}
	}
	return nil
}

// Process is what is measured.
type Process interface {
	// Processor is the processor time that it has used so far.
	Processor() (time.Duration, error)
}

// Cost is a process's processor time for one of a load's requests, in µs.
func Cost(ctx context.Context, p Process, l Options) (float64, error) {
	before, err := p.Processor()
	if err != nil {
		return 0, err
	}
	if err := Run(ctx, l); err != nil {
		return 0, err
	}
	after, err := p.Processor()
	return float64((after - before).Microseconds()) / float64(l.Requests), err
}

// Median sorts values, of which there is at least one, and gives the middle one.
func Median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
