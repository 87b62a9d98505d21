package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"

	"github.com/gatewright/gatewright/internal/load"
)

// The children that speak TLS, and both protocols by it.
const (
	roleReverseTLS = "reverse-tls"
	roleGatewayTLS = "gateway-tls"
)

// spoken is a way to ask by TLS.
type spoken struct {
	name        string
	major       int
	connections int
	atOnce      int // requests, on all of them
}

var spokens = []spoken{
	{"HTTP/1.1", 1, 64, 64},
	{"HTTP/2", 2, 4, 64},
}

// localTLS is a server's with the certificate that package httptest has for 127.0.0.1, and its client's.
func localTLS() (server, client *tls.Config) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	server = &tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS13}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return server, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
}

// byTLS is net/http's server with TLS.
type byTLS struct{ *http.Server }

// Serve implements load.Server.
func (s byTLS) Serve(l net.Listener) error { return s.ServeTLS(l, "", "") }

// protocols compares the gateway with the ReverseProxy by TLS, by HTTP/1.1 and by HTTP/2, all in turn, and both protocols with each
// other. It fails where the gateway costs more than limit times the ReverseProxy by the same one.
func protocols(ctx context.Context, requests, rounds int, limit float64, profile string) error {
	upstream, err := start(ctx, "upstream", "", "")
	if err != nil {
		return err
	}
	defer upstream.Stop()
	var proxies []*load.Child
	defer func() {
		for _, p := range proxies {
			p.Stop()
		}
	}()
	for _, role := range []string{roleReverseTLS, roleGatewayTLS} {
		path := ""
		if role == roleGatewayTLS {
			path = profile
		}
		p, err := start(ctx, role, upstream.Address, path)
		if err != nil {
			return err
		}
		proxies = append(proxies, p)
	}
	_, client := localTLS()
	asking := make(map[spoken][]*http.Transport)
	for _, s := range spokens {
		asking[s] = s.transports(client)
	}
	costs := make(map[spoken]*[2][]float64) // of the ReverseProxy and the gateway
	ratios, times := make(map[spoken][]float64), [2][]float64{}
	for round := range rounds + 1 {
		var last [2]float64
		for n, s := range spokens {
			var cost [2]float64
			for i, p := range proxies {
				before, err := p.Usage()
				if err != nil {
					return err
				}
				if err := s.ask(ctx, asking[s], p.Address, requests); err != nil {
					return fmt.Errorf("ask %s by %s: %w", p.Role(), s.name, err)
				}
				after, err := p.Usage()
				if err != nil {
					return err
				}
				cost[i] = (after - before).Seconds() * 1e6 / float64(requests)
			}
			if round == 0 {
				continue // connections and caches are made in it
			}
			if costs[s] == nil {
				costs[s] = &[2][]float64{}
			}
			for i := range cost {
				costs[s][i] = append(costs[s][i], cost[i])
				if n > 0 {
					times[i] = append(times[i], cost[i]/last[i])
				}
			}
			ratios[s] = append(ratios[s], cost[1]/cost[0])
			last = cost
		}
	}
	fmt.Println("| by TLS | connections | requests at once | ReverseProxy, µs CPU | gateway, µs CPU | ratio |\n|---|---|---|---|---|---|")
	worst := 0.0
	for _, s := range spokens {
		ratio := load.Median(ratios[s])
		fmt.Printf("| %s | %d | %d | %.1f | %.1f | %.2f |\n", s.name, s.connections, s.atOnce, load.Median(costs[s][0]), load.Median(costs[s][1]), ratio)
		worst = max(worst, ratio)
	}
	fmt.Printf("\nBy HTTP/2 a request costs the ReverseProxy %.2f times what it does by HTTP/1.1, and the gateway %.2f times.\n", load.Median(times[0]), load.Median(times[1]))
	if worst > limit {
		return fmt.Errorf("the gateway costs %.2f times the ReverseProxy, the limit is %.2f", worst, limit)
	}
	return nil
}

// transports are as many as there are connections by HTTP/2, and one for all by HTTP/1.1.
func (s spoken) transports(client *tls.Config) (all []*http.Transport) {
	n := 1
	if s.major == 2 {
		n = s.connections
	}
	for range n {
		all = append(all, &http.Transport{TLSClientConfig: client.Clone(), ForceAttemptHTTP2: s.major == 2, MaxIdleConnsPerHost: s.connections, DisableCompression: true})
	}
	return all
}

// ask sends requests, and fails where an answer is not the upstream's, or comes by another protocol.
func (s spoken) ask(ctx context.Context, by []*http.Transport, address string, requests int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(requests))
	var all sync.WaitGroup
	for n := range s.atOnce {
		all.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := s.once(ctx, by[n%len(by)], address); err != nil {
					cancel(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

func (s spoken) once(ctx context.Context, by *http.Transport, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+address+target, nil)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("User-Agent", "bench")
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Accept-Language", "en")
	r.Header.Set("X-Client", "1")
	out, err := by.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = out.Body.Close() }()
	n, err := io.Copy(io.Discard, out.Body)
	if err != nil || n != answerBytes || out.StatusCode != http.StatusOK || out.ProtoMajor != s.major {
		return fmt.Errorf("answered %s by %s, %d bytes: %w", out.Status, out.Proto, n, err)
	}
	return nil
}
