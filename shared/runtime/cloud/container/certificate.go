package container

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/runtime/servercert"
	"github.com/gatewright/gatewright/shared/runtime/service"
)

// certificate is the configured certificate of a service: the text of
// a variable, or two files, which are read again when they change.
type certificate struct {
	variable, text string
	file, keyFile  string
	// source provides the opened certificate. It is nil until open is called.
	source handshake.Source
}

// newCertificate reads the configuration of a service's certificate and checks the certificate, before the service
// listens. It returns nil if the service runs without TLS: if its protocol is not TLS, or if no certificate is set and
// the table is an emulator (config.Config.DynamoDBEndpoint).
func newCertificate(s service.Service, c config.Config, getenv func(string) string) (*certificate, error) {
	cert := &certificate{variable: s.Certificate, text: getenv(s.Certificate)}
	if s.CertificateFile != "" {
		cert.file, cert.keyFile = getenv(s.CertificateFile), getenv(s.KeyFile)
	}
	files := cert.file != "" || cert.keyFile != ""
	switch {
	case s.Port.Protocol != service.TLS, cert.text == "" && !files && c.DynamoDBEndpoint != "":
		return nil, nil // nil is a valid result
	case cert.text != "" && files:
		return nil, fmt.Errorf("read the environment: %s has a certificate, and %s and %s name another: set either",
			s.Certificate, s.CertificateFile, s.KeyFile)
	case files && (cert.file == "" || cert.keyFile == ""):
		return nil, fmt.Errorf("read the environment: %s and %s go together: set both to the files of the certificate "+
			"and of its key", s.CertificateFile, s.KeyFile)
	case cert.text == "" && !files && s.CertificateFile != "":
		return nil, fmt.Errorf("read the environment: neither %s nor %s is set: the one has the certificate chain and the "+
			"private key of %s, as PEM, the other names the chain's file, and %s its key's",
			s.Certificate, s.CertificateFile, s.Name, s.KeyFile)
	case cert.text == "" && !files:
		return nil, fmt.Errorf("read the environment: %s is not set: it has the certificate chain and the private key "+
			"of %s, as PEM", s.Certificate, s.Name)
	}
	var err error
	if files {
		err = servercert.Check(cert.file, cert.keyFile)
	} else {
		_, err = servercert.OpenText(cert.variable, cert.text, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("read the environment: %w", err)
	}
	return cert, nil
}

// open opens the certificate for the names for which owns returns true. The certificate must be valid for all of hosts.
func (c *certificate) open(
	ctx context.Context, log *slog.Logger, owns func(string) bool, hosts ...string,
) (source handshake.Source, err error) {
	if c.text != "" {
		source, err = servercert.OpenText(c.variable, c.text, processNames(owns), hosts...)
	} else {
		source, err = servercert.OpenFiles(ctx, servercert.FileOptions{
			Certificate: c.file, Key: c.keyFile, Names: processNames(owns),
			Hosts: hosts, Now: time.Now, Log: log,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the environment: %w", err)
	}
	c.source = source
	return source, nil
}

// processNames reports whether a name belongs to the process. It reports each of these names
// as served, because the process itself responds to requests for names without a deployment.
type processNames func(name string) bool

var _ servercert.Names = processNames(nil)

// Owns implements servercert.Names.
func (p processNames) Owns(name string) bool { return p(name) }

// Served implements servercert.Names.
func (processNames) Served(context.Context, string) (bool, error) { return true, nil }

// secure returns the TLS configuration, and a function that reports whether a request belongs on another connection. If
// the process is a Securer, it provides both. Otherwise the certificate is used for all names, and the function is nil.
// Without TLS, secure returns nil for both.
func (c *certificate) secure(
	ctx context.Context, process service.Process, log *slog.Logger,
) (*tls.Config, func(*http.Request) bool, error) {
	if c == nil {
		return nil, nil, nil
	}
	if securer, ok := process.(service.Securer); ok {
		cfg, err := securer.Secure(func(owns func(string) bool, host string) (handshake.Source, error) {
			return c.open(ctx, log, owns, host)
		})
		return cfg, securer.Misdirected, err
	}
	source, err := c.open(ctx, log, func(string) bool { return true })
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		//nolint:contextcheck // a handshake has a context of its own
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return source.Certificate(hello.Context(), hello.ServerName)
		},
	}, nil, nil
}
