package world

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/shared/config"
)

// Domain is the parent of all host names. No DNS has it: clients know its address.
const Domain = "bench.test"

// Certificate is a certificate for all names below Domain, which is its own authority.
type Certificate struct {
	Chain, Private string // PEM
	roots          *x509.CertPool
}

// NewCertificate makes a certificate.
func NewCertificate() (c Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, fmt.Errorf("make a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: Domain}, DNSNames: []string{Domain, "*." + Domain},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 3, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	leaf, leafErr := x509.ParseCertificate(raw)
	private, privateErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(leafErr, privateErr); err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	c.Chain = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}))
	c.Private = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	c.roots = x509.NewCertPool()
	c.roots.AddCert(leaf)
	return c, nil
}

// TLS is how clients speak to a host.
func (c Certificate) TLS(host string) *tls.Config {
	return &tls.Config{RootCAs: c.roots, ServerName: host, MinVersion: tls.VersionTLS12}
}

// ServerProcess is a process of `gatewright-server serve`, which speaks TLS.
type ServerProcess struct {
	*Product
	Certificate

	Admin string // where it answers its operators, host:port
	Chain string // the file of its certificate
}

// RunServer starts `gatewright-server serve` over the folder name. A second start over the same folder goes on with its data, and
// needs a certificate too.
func (w *World) RunServer(ctx context.Context, name string, c Certificate, env ...string) (*ServerProcess, error) {
	binary, err := w.Build(ctx, Server)
	if err != nil {
		return nil, err
	}
	dir, err := w.Folder(name)
	if err != nil {
		return nil, err
	}
	chain, private := filepath.Join(dir, "chain.pem"), filepath.Join(dir, "key.pem")
	if err := errors.Join(os.WriteFile(chain, []byte(c.Chain), 0o600), os.WriteFile(private, []byte(c.Private), 0o600)); err != nil {
		return nil, fmt.Errorf("write a certificate: %w", err)
	}
	admin, err := free.Find(ctx)
	if err != nil {
		return nil, err
	}
	p, err := w.start(ctx, name, append(append([]string{
		"env", config.VarDomain + "=" + Domain, config.VarTLSCertificate + "=" + chain, config.VarTLSKey + "=" + private,
		config.VarAdminAddr + "=" + admin.String(), config.VarPrivateUpstreams + "=true",
	}, env...), binary, "serve")...)
	if err != nil {
		return nil, err
	}
	s := &ServerProcess{Product: p, Certificate: c, Admin: admin.String(), Chain: chain}
	p.Client = &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 64, TLSClientConfig: &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasSuffix(address, "."+Domain+":443") {
				address = s.Secure()
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
	return s, nil
}

// Secure is where the server speaks TLS, host:port.
func (s *ServerProcess) Secure() string { return host(s.Product.TLS) }

// Gauges returns metrics that a process shows its operators, by their names, which have no labels. It returns an error if one is
// missing: its value would be 0, which is within every limit.
func Gauges(ctx context.Context, admin string, names ...string) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { _ = out.Body.Close() }()
	all := map[string]float64{}
	lines := bufio.NewScanner(out.Body)
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		var value float64
		if _, err := fmt.Sscan(text, &value); err == nil && slices.Contains(names, name) {
			all[name] = value
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	for _, name := range names {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("read metrics: status %d, and there is no %s", out.StatusCode, name)
		}
	}
	return all, nil
}
