package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/local/authority"
)

// flood is the size of the attacks on the product's memory: how many bodies clients send at the same time, and how
// long.
type flood struct {
	// connections is the number of HTTP/1.1 connections to the documentation's MCP server. http2 is the number of HTTP/2
	// connections to an MCP route without a key, each with streams requests.
	connections, http2, streams int
	// fast is the number of whole bodies that each of fastClients sends at the same time.
	fast int
	// duration is how long the clients of an attack continue after all its slow bodies have begun.
	duration time.Duration
}

const (
	// maxMemory is the memory in bytes that docs/one-server.md specifies for the product.
	maxMemory = 270_000_000
	// A slow body announces announcedBytes. Its client sends initialBytes of them at the beginning, then one byte every
	// byteInterval.
	initialBytes, announcedBytes = 1_000_000, 1 << 20
	byteInterval                 = 10 * time.Second
	// attacker and victim are the addresses of two clients: on Linux this machine has all addresses of 127.0.0.0/8.
	attacker, victim = "127.0.0.1", "127.0.0.2"
	docsPath         = "/mcp/docs"
	toolList         = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
)

// fastClients returns the addresses of three clients, which together can use three quarters of the memory for bodies.
func fastClients() []string { return []string{attacker, "127.0.0.3", "127.0.0.4"} }

// attackMemory sends slow bodies, and then many whole bodies. Meanwhile it measures the memory of the process, and
// checks that another client is served.
func (p *product) attackMemory(ctx context.Context, f flood) ([]result, error) {
	roots, err := p.roots()
	if err != nil {
		return nil, err
	}
	var results []result
	for _, a := range []struct {
		name  string
		begin func(ctx context.Context, started, senders *sync.WaitGroup) error
		wait  time.Duration
	}{
		{
			fmt.Sprintf("%d bodies over HTTP/1.1 that stall at 1 MB, to `%s`", f.connections, docsPath),
			func(ctx context.Context, started, senders *sync.WaitGroup) error {
				for range f.connections {
					started.Add(1)
					senders.Go(func() { p.slowConnection(ctx, started) })
				}
				return nil
			}, f.duration,
		},
		{
			fmt.Sprintf("%d over HTTP/2 on %d connections, to an MCP route", f.http2*f.streams, f.http2),
			func(ctx context.Context, started, senders *sync.WaitGroup) error {
				for range f.http2 {
					if err := p.slowStreams(ctx, roots, f.streams, started, senders); err != nil {
						return err
					}
				}
				return nil
			}, f.duration,
		},
		{fmt.Sprintf("%d connections of %d clients that send whole bodies of 1 MB, one after the other",
			f.fast*len(fastClients()), len(fastClients())), func(ctx context.Context, _, senders *sync.WaitGroup) error {
			for _, address := range fastClients() {
				for range f.fast {
					senders.Go(func() { p.fastBodies(ctx, p.clientAt(address, roots)) })
				}
			}
			return nil
		}, f.duration},
	} {
		r, err := p.measure(ctx, roots, a.wait, a.begin)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		r.class, r.name = "memory", a.name
		results = append(results, r)
	}
	return results, nil
}

// measure makes one attack, and measures the process until the attack ends. begin starts the attack: it adds each slow
// body to started, whose counter goes down when the body has begun, and runs the clients in senders.
func (p *product) measure(
	ctx context.Context, roots *x509.CertPool, duration time.Duration,
	begin func(ctx context.Context, started, senders *sync.WaitGroup) error,
) (result, error) {
	attackCtx, stopAttack := context.WithCancel(ctx)
	var started, senders, watchers sync.WaitGroup
	defer senders.Wait()
	defer stopAttack()
	var peak atomic.Int64
	var calls, refused atomic.Int64
	var failure atomic.Value
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	watchers.Go(func() {
		for watchCtx.Err() == nil {
			m, err := p.Memory()
			if err != nil {
				failure.Store(err)
				return
			}
			peak.Store(max(peak.Load(), m.Now))
			time.Sleep(20 * time.Millisecond)
		}
	})
	client := p.clientAt(victim, roots)
	defer client.CloseIdleConnections()
	watchers.Go(func() {
		for watchCtx.Err() == nil {
			for _, request := range []struct{ url, host string }{
				{p.API + docsPath, ""},
				{p.Gateway + mcpPath, p.hosts[""]},
				{p.TLS + mcpPath, p.hosts[""]},
			} {
				calls.Add(1)
				if err := listTools(ctx, client, request.url, request.host); err != nil {
					refused.Add(1)
					failure.CompareAndSwap(nil, err)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	if err := begin(attackCtx, &started, &senders); err != nil {
		return result{}, err
	}
	started.Wait()
	select {
	case <-time.After(duration):
	case <-ctx.Done():
	}
	stop()
	watchers.Wait()
	r := result{got: fmt.Sprintf("the process takes %d MB at most, and %d of %d calls of another client succeed",
		peak.Load()/1_000_000, calls.Load()-refused.Load(), calls.Load())}
	if r.want = r.got; peak.Load() >= maxMemory || refused.Load() > 0 {
		r.want = fmt.Sprintf("less than %d MB, and all calls succeed", maxMemory/1_000_000)
		if err, ok := failure.Load().(error); ok {
			r.want += "; the first failure is: " + err.Error()
		}
	}
	return r, ctx.Err()
}

// roots returns the certificate authorities of the product.
func (p *product) roots() (*x509.CertPool, error) {
	certificate, err := os.ReadFile(filepath.Join(p.Data(), authority.Name))
	if err != nil {
		return nil, fmt.Errorf("read the product's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(certificate) {
		return nil, errors.New("the product's certificate is not PEM")
	}
	return roots, nil
}

// clientAt returns a client that connects from the given address. It has at most one connection to each server. With
// TLS, it uses HTTP/2.
func (p *product) clientAt(address string, roots *x509.CertPool) *http.Client {
	name, _, _ := strings.Cut(p.hosts[""], ":")
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		ForceAttemptHTTP2: true, MaxConnsPerHost: 1, DialContext: dialer(address).DialContext,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12},
	}}
}

// dialer returns a dialer that connects from the given address.
func dialer(address string) *net.Dialer {
	return &net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
}

// listTools sends a small MCP request, and returns an error if the status of the response is not 200.
func listTools(ctx context.Context, client *http.Client, url, host string) error {
	r, err := newPost(ctx, url, host, strings.NewReader(toolList))
	if err != nil {
		return err
	}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("POST %s: %w", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("POST %s status = %d, want 200: %.200s %w", url, response.StatusCode, body, err)
	}
	return nil
}

// newPost returns a POST request with a JSON body, without sending it.
func newPost(ctx context.Context, url, host string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return nil, fmt.Errorf("create a request: %w", err)
	}
	r.Host = host
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// slowConnection sends a slow body on a separate connection, until ctx ends or the product refuses it.
func (p *product) slowConnection(ctx context.Context, started *sync.WaitGroup) {
	target := strings.TrimPrefix(p.API, "http://")
	c, err := dialer(attacker).DialContext(ctx, "tcp", target)
	if err != nil {
		started.Done()
		return // a client that cannot connect does no harm
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n",
		docsPath, target, announcedBytes)
	_, _ = io.WriteString(c, head)
	slowBody(ctx, c, started)
}

// slowStreams opens an HTTP/2 connection and starts to send slow bodies on it, each in a request.
func (p *product) slowStreams(
	ctx context.Context, roots *x509.CertPool, streams int, started, senders *sync.WaitGroup,
) error {
	client := p.clientAt(attacker, roots)
	client.Timeout = 0
	if err := listTools(ctx, client, p.TLS+mcpPath, p.hosts[""]); err != nil { // this request opens the connection
		return err
	}
	for range streams {
		started.Add(1)
		bodyReader, bodyWriter := io.Pipe()
		r, err := newPost(ctx, p.TLS+mcpPath, p.hosts[""], bodyReader)
		if err != nil {
			return err
		}
		r.ContentLength = announcedBytes
		senders.Go(func() { slowBody(ctx, bodyWriter, started) })
		senders.Go(func() {
			response, err := client.Do(r)
			_ = bodyReader.CloseWithError(io.ErrClosedPipe)
			if err == nil {
				_ = response.Body.Close()
			}
		})
	}
	return nil
}

// fastBodies sends large messages one after another, in turn to the documentation's MCP server and to the MCP route.
func (p *product) fastBodies(ctx context.Context, client *http.Client) {
	defer client.CloseIdleConnections()
	body := append(bytes.Repeat([]byte(" "), initialBytes), toolList...)
	for i := 0; ctx.Err() == nil; i++ {
		url, host := p.API+docsPath, ""
		if i%2 == 1 {
			url, host = p.Gateway+mcpPath, p.hosts[""]
		}
		r, err := newPost(ctx, url, host, bytes.NewReader(body))
		if err != nil {
			return
		}
		if response, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
}

// slowBody writes the beginning of a body, and then one byte every byteInterval until ctx ends or a write fails.
func slowBody(ctx context.Context, to io.WriteCloser, started *sync.WaitGroup) {
	defer func() { _ = to.Close() }()
	_, err := to.Write(bytes.Repeat([]byte(" "), initialBytes))
	started.Done()
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(byteInterval):
			_, err = to.Write([]byte(" "))
		}
	}
}
