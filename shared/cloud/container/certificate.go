package container

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/owncert"
	"github.com/gatewright/gatewright/shared/service"
)

// certificate is where a service's own comes from: the text of a variable, or two files, which are read
// again when they change.
type certificate struct {
	variable, text string
	file, key      string
	// opened is the source of the certificate, nil before secure.
	opened handshake.Source
}

// certificateOf looks at a service's certificate before anything listens. It is nil for no TLS: over an emulator
// alone, which is on this machine.
func certificateOf(s service.Service, c config.Config, getenv func(string) string) (*certificate, error) {
	own := &certificate{variable: s.Certificate, text: getenv(s.Certificate)}
	if s.CertificateFile != "" {
		own.file, own.key = getenv(s.CertificateFile), getenv(s.KeyFile)
	}
	files := own.file != "" || own.key != ""
	switch {
	case s.Port.Protocol != service.TLS, own.text == "" && !files && c.DynamoDBEndpoint != "":
		return nil, nil // which is an answer
	case own.text != "" && files:
		return nil, fmt.Errorf("read the environment: %s has a certificate, and %s and %s name another: set either", s.Certificate, s.CertificateFile, s.KeyFile)
	case files && (own.file == "" || own.key == ""):
		return nil, fmt.Errorf("read the environment: %s and %s go together: set both to the files of the certificate and of its key", s.CertificateFile, s.KeyFile)
	case own.text == "" && !files && s.CertificateFile != "":
		return nil, fmt.Errorf("read the environment: neither %s nor %s is set: the one has the certificate chain and the private key of %s, as PEM, the other names the chain's file, and %s its key's",
			s.Certificate, s.CertificateFile, s.Name, s.KeyFile)
	case own.text == "" && !files:
		return nil, fmt.Errorf("read the environment: %s is not set: it has the certificate chain and the private key of %s, as PEM", s.Certificate, s.Name)
	}
	var err error
	if files {
		err = owncert.Check(own.file, own.key)
	} else {
		_, err = owncert.OpenText(own.variable, own.text, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("read the environment: %w", err)
	}
	return own, nil
}

// open opens the certificate for the names that owns reports. It has to be for all of hosts.
func (c *certificate) open(ctx context.Context, log *slog.Logger, owns func(string) bool, hosts ...string) (source handshake.Source, err error) {
	if c.text != "" {
		source, err = owncert.OpenText(c.variable, c.text, ownNames(owns), hosts...)
	} else {
		source, err = owncert.OpenFiles(ctx, owncert.FileOptions{Certificate: c.file, Key: c.key, Names: ownNames(owns), For: hosts, Now: time.Now, Log: log})
	}
	if err != nil {
		return nil, fmt.Errorf("read the environment: %w", err)
	}
	c.opened = source
	return source, nil
}

// ownNames are a process's names, at all of which it says itself whether anything is served.
type ownNames func(name string) bool

var _ owncert.Names = ownNames(nil)

// Owns implements owncert.Names.
func (o ownNames) Owns(name string) bool { return o(name) }

// Served implements owncert.Names.
func (ownNames) Served(context.Context, string) (bool, error) { return true, nil }

// secure is how handshakes are answered, nil for no TLS, and which requests have come on another name's: by the
// process, if it has a way, and by the one certificate otherwise.
func (c *certificate) secure(ctx context.Context, process service.Process, log *slog.Logger) (*tls.Config, func(*http.Request) bool, error) {
	if c == nil {
		return nil, nil, nil
	}
	if by, ok := process.(service.Securer); ok {
		its, err := by.Secure(func(owns func(string) bool, host string) (handshake.Source, error) {
			return c.open(ctx, log, owns, host)
		})
		return its, by.Misdirected, err
	}
	source, err := c.open(ctx, log, func(string) bool { return true })
	if err != nil {
		return nil, nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { //nolint:contextcheck // a handshake has a context of its own
			return source.Certificate(hello.Context(), hello.ServerName)
		},
	}, nil, nil
}
