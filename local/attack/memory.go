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

// flood is the number of bodies that a client sends slowly at once, so that the product holds them in memory.
type flood struct {
	// connections is the number of HTTP/1.1 connections to the documentation's MCP server. http2 is the number of HTTP/2
	// connections to an MCP route without a key, each with streams requests.
	connections, http2, streams int
	// fast is the number of connections on which each client sends whole bodies.
	fast int
	// hold is how long the bodies continue after all have begun.
	hold time.Duration
}

const (
	// maxMemory is the memory of the product in docs/one-server.md, in bytes.
	maxMemory = 270_000_000
	// A slow body has promised bytes. Its client sends sentAtOnce of them at the beginning, then one byte in each drip.
	sentAtOnce, promised = 1_000_000, 1 << 20
	drip                 = 10 * time.Second
	// attacker and other are the addresses of two clients: on Linux all of 127.0.0.0/8 belong to this machine.
	attacker, other = "127.0.0.1", "127.0.0.2"
	docsPath        = "/mcp/docs"
	toolList        = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
)

// fastClients are the addresses of three clients, which together may hold three quarters of the memory for bodies.
func fastClients() []string { return []string{attacker, "127.0.0.3", "127.0.0.4"} }

// attackMemory sends slow bodies. Meanwhile it measures the memory of the process and whether another client is served.
func (p *product) attackMemory(ctx context.Context, f flood) ([]result, error) {
	roots, err := p.roots()
	if err != nil {
		return nil, err
	}
	var results []result
	for _, a := range []struct {
		name  string
		begin func(ctx context.Context, begun, senders *sync.WaitGroup) error
		wait  time.Duration
	}{
		{fmt.Sprintf("%d bodies over HTTP/1.1 that stall at 1 MB, to `%s`", f.connections, docsPath), func(ctx context.Context, begun, senders *sync.WaitGroup) error {
			for range f.connections {
				begun.Add(1)
				senders.Go(func() { p.slowConnection(ctx, begun) })
			}
			return nil
		}, f.hold},
		{fmt.Sprintf("%d over HTTP/2 on %d connections, to an MCP route", f.http2*f.streams, f.http2), func(ctx context.Context, begun, senders *sync.WaitGroup) error {
			for range f.http2 {
				if err := p.slowStreams(ctx, roots, f.streams, begun, senders); err != nil {
					return err
				}
			}
			return nil
		}, f.hold},
		{fmt.Sprintf("%d connections of %d clients that send whole bodies of 1 MB, one after the other", f.fast*len(fastClients()), len(fastClients())), func(ctx context.Context, _, senders *sync.WaitGroup) error {
			for _, address := range fastClients() {
				for range f.fast {
					senders.Go(func() { p.fastBodies(ctx, p.clientAt(address, roots)) })
				}
			}
			return nil
		}, f.hold},
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

// measure makes one attack, and measures the process until the attack ends.
func (p *product) measure(ctx context.Context, roots *x509.CertPool, hold time.Duration, begin func(ctx context.Context, begun, senders *sync.WaitGroup) error) (result, error) {
	attacking, end := context.WithCancel(ctx)
	var begun, senders, watching sync.WaitGroup
	defer senders.Wait()
	defer end()
	var most atomic.Int64
	var calls, refused atomic.Int64
	var fault atomic.Value
	watched, stop := context.WithCancel(ctx)
	defer stop()
	watching.Go(func() {
		for watched.Err() == nil {
			m, err := p.Memory()
			if err != nil {
				fault.Store(err)
				return
			}
			most.Store(max(most.Load(), m.Now))
			time.Sleep(20 * time.Millisecond)
		}
	})
	client := p.clientAt(other, roots)
	defer client.CloseIdleConnections()
	watching.Go(func() {
		for watched.Err() == nil {
			for _, at := range []struct{ url, host string }{{p.API + docsPath, ""}, {p.Gateway + mcpPath, p.hosts[""]}, {p.TLS + mcpPath, p.hosts[""]}} {
				calls.Add(1)
				if err := ask(ctx, client, at.url, at.host); err != nil {
					refused.Add(1)
					fault.CompareAndSwap(nil, err)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	if err := begin(attacking, &begun, &senders); err != nil {
		return result{}, err
	}
	begun.Wait()
	select {
	case <-time.After(hold):
	case <-ctx.Done():
	}
	stop()
	watching.Wait()
	r := result{got: fmt.Sprintf("the process takes %d MB at most, and %d of %d calls of another client succeed", most.Load()/1_000_000, calls.Load()-refused.Load(), calls.Load())}
	if r.want = r.got; most.Load() >= maxMemory || refused.Load() > 0 {
		r.want = fmt.Sprintf("less than %d MB, and all calls succeed", maxMemory/1_000_000)
		if err, ok := fault.Load().(error); ok {
			r.want += "; the first failure is: " + err.Error()
		}
	}
	return r, ctx.Err()
}

// roots returns the authorities of the product's certificates.
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

// clientAt returns a client with its own address. Over TLS it speaks HTTP/2 on one connection.
func (p *product) clientAt(address string, roots *x509.CertPool) *http.Client {
	name, _, _ := strings.Cut(p.hosts[""], ":")
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		ForceAttemptHTTP2: true, MaxConnsPerHost: 1, DialContext: dialer(address).DialContext,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12},
	}}
}

func dialer(address string) *net.Dialer {
	return &net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
}

// ask makes one call of the other client.
func ask(ctx context.Context, client *http.Client, url, host string) error {
	r, err := post(ctx, url, host, strings.NewReader(toolList))
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

func post(ctx context.Context, url, host string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return nil, fmt.Errorf("make a request: %w", err)
	}
	r.Host = host
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// slowConnection sends a slow body on a connection of its own, until ctx ends or it is refused.
func (p *product) slowConnection(ctx context.Context, begun *sync.WaitGroup) {
	at := strings.TrimPrefix(p.API, "http://")
	c, err := dialer(attacker).DialContext(ctx, "tcp", at)
	if err != nil {
		begun.Done()
		return // a client that cannot connect does no harm
	}
	defer func() { _ = c.Close() }()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", docsPath, at, promised)
	_, _ = io.WriteString(c, head)
	slowBody(ctx, c, begun)
}

// slowStreams sends slow bodies as requests on one HTTP/2 connection.
func (p *product) slowStreams(ctx context.Context, roots *x509.CertPool, streams int, begun, senders *sync.WaitGroup) error {
	client := p.clientAt(attacker, roots)
	client.Timeout = 0
	if err := ask(ctx, client, p.TLS+mcpPath, p.hosts[""]); err != nil { // which opens the connection
		return err
	}
	for range streams {
		begun.Add(1)
		from, to := io.Pipe()
		r, err := post(ctx, p.TLS+mcpPath, p.hosts[""], from)
		if err != nil {
			return err
		}
		r.ContentLength = promised
		senders.Go(func() { slowBody(ctx, to, begun) })
		senders.Go(func() {
			response, err := client.Do(r)
			_ = from.CloseWithError(io.ErrClosedPipe)
			if err == nil {
				_ = response.Body.Close()
			}
		})
	}
	return nil
}

// fastBodies sends one large message after the other, to both servers in turn.
func (p *product) fastBodies(ctx context.Context, client *http.Client) {
	defer client.CloseIdleConnections()
	body := append(bytes.Repeat([]byte(" "), sentAtOnce), toolList...)
	for i := 0; ctx.Err() == nil; i++ {
		url, host := p.API+docsPath, ""
		if i%2 == 1 {
			url, host = p.Gateway+mcpPath, p.hosts[""]
		}
		r, err := post(ctx, url, host, bytes.NewReader(body))
		if err != nil {
			return
		}
		if response, err := client.Do(r); err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	}
}

// slowBody writes the beginning of a body, and then a byte now and then.
func slowBody(ctx context.Context, to io.WriteCloser, begun *sync.WaitGroup) {
	defer func() { _ = to.Close() }()
	_, err := to.Write(bytes.Repeat([]byte(" "), sentAtOnce))
	begun.Done()
	for err == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(drip):
			_, err = to.Write([]byte(" "))
		}
	}
}
