package customdomains

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Source is the origin of a certificate.
type Source string

// Uploaded is the source of certificates that their owner uploads and replaces.
const Uploaded Source = "uploaded"

// Certificate is the state of a custom domain's certificate, in its record.
type Certificate struct {
	store.UnknownAttributes

	Source Source `dynamodbav:"source"`
	// ValidFrom, ValidTo and Issuer describe the served certificate. They are zero before the first certificate.
	Issuer    string    `dynamodbav:"issuer,omitempty"`
	ValidFrom time.Time `dynamodbav:"validFrom"`
	ValidTo   time.Time `dynamodbav:"validTo"`
	// Operation is the ID of the operation that obtains the certificate, or renews it at the time Next, "" for none.
	// No other operation may change the certificate, so that at most one order is in progress.
	Operation string    `dynamodbav:"operation,omitempty"`
	Next      time.Time `dynamodbav:"next"`
	// Message is the reason why the last attempt failed. Failures is the number of attempts that have failed since the
	// last certificate.
	Message  string `dynamodbav:"message,omitempty"`
	Failures int    `dynamodbav:"failures,omitempty"`
}

// pair is a certificate as gateways read it.
type pair struct {
	store.UnknownAttributes

	// Chain is the certificate chain in PEM, with the hostname's own certificate first. Key is the sealed private key in PEM.
	Chain string `dynamodbav:"chain"`
	Key   []byte `dynamodbav:"key"`
}

var (
	errNotVerified = fault.New(fault.Conflict,
		"The hostname is not proven to be yours yet. Verify the custom domain first.")
	errNoCertificate = fault.New(fault.NotFound,
		"The custom domain has no certificate to delete. Upload one to have the hostname served by TLS.")
	errIssued = fault.New(fault.Conflict, "The certificate is one that the installation obtains and renews. "+
		"Upload one, which replaces it within seconds; or delete the custom domain.")
	errAliasCertificate = fault.New(fault.Conflict, "The custom domain is an alias, whose TLS ends before the gateway. "+
		"Give the certificate to what ends it.")
)

// sealContext returns the context that binds a sealed key to the record of its hostname.
func sealContext(h host) string {
	return strings.Join([]string{"custom-domain", h.AccountID, h.Hostname, h.ID}, "/")
}

// Upload sets the owner's own certificate for a hostname. Gateways serve it within Staleness. Upload returns Invalid
// faults for an invalid certificate or key. It returns Conflict for a hostname that is not verified and for an alias.
// It returns NotFound for a custom domain that is missing or invisible.
func (s *Service) Upload(ctx context.Context, owner auth.Owner, hostname, chain, key string) (Domain, error) {
	var after record
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		before, err := s.find(ctx, owner, hostname)
		if err != nil {
			return err
		}
		var invalid fault.Fields
		cert, chainProblem, keyProblem := pki.ReadServerPair(chain, key, before.Hostname, s.parts.Now())
		if chainProblem != "" {
			invalid.Add("certificate", "%s", chainProblem)
		}
		if keyProblem != "" {
			invalid.Add("key", "%s", keyProblem)
		}
		switch err := invalid.Err(); {
		case err != nil:
			return err
		case before.Alias:
			return errAliasCertificate
		case before.VerifiedOn == nil:
			return errNotVerified
		}
		after = before
		after.Certificate = &Certificate{
			Source: Uploaded, Issuer: pki.Name(cert.Leaf.RawIssuer), ValidFrom: cert.Leaf.NotBefore.UTC(),
			ValidTo: cert.Leaf.NotAfter.UTC(),
		}
		after.UpdatedOn, after.Version = s.now(), before.Version+1
		writes, err := s.serveCertificateWrites(ctx, before, cert.Chain, cert.Key)
		if err != nil {
			return err
		}
		return s.parts.Table.Commit(ctx, append(writes, before.replaceWrite(after), audit.Record(ctx, after.resource()))...)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.toDomain(ctx, after)
}

// DeleteCertificate deletes an uploaded certificate. If the installation has a certificate authority, DeleteCertificate
// begins a certificate order. Gateways serve the deleted certificate until the ordered one is available, so that the
// hostname always has a certificate. Without an authority, gateways refuse TLS handshakes for the hostname after
// Staleness. DeleteCertificate returns NotFound for a custom domain that is missing or invisible or has no certificate,
// and Conflict for a certificate that was not uploaded.
func (s *Service) DeleteCertificate(ctx context.Context, owner auth.Owner, hostname string) (Domain, error) {
	var after record
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		before, err := s.find(ctx, owner, hostname)
		switch cert := before.Certificate; {
		case err != nil:
			return err
		case cert == nil:
			return errNoCertificate
		case cert.Source != Uploaded:
			return errIssued
		}
		after = before
		after.Certificate, after.UpdatedOn, after.Version = nil, s.now(), before.Version+1
		writes := s.beginFirstIssuance(&after)
		if cert := after.Certificate; cert != nil {
			cert.Issuer, cert.ValidFrom, cert.ValidTo = before.Certificate.Issuer, before.Certificate.ValidFrom,
				before.Certificate.ValidTo
		} else {
			writes = s.servedDataWrites(before, store.Remove(store.At("certificate")))
		}
		return s.parts.Table.Commit(ctx, append(writes, before.replaceWrite(after), audit.Record(ctx, after.resource()))...)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.toDomain(ctx, after)
}

// serveCertificateWrites returns the writes after which gateways serve a hostname with this certificate.
func (s *Service) serveCertificateWrites(ctx context.Context, r record, chain, key string) ([]store.Write, error) {
	sealed, err := s.sealer.Seal(ctx, []byte(key),
		sealContext(host{ID: r.ID, AccountID: r.AccountID, Hostname: r.Hostname}))
	if err != nil {
		return nil, err
	}
	return s.servedDataWrites(r, store.Set(store.At("certificate"), pair{Chain: chain, Key: sealed})), nil
}

// servedDataWrites returns the writes that apply a change to the served data of a hostname.
func (s *Service) servedDataWrites(r record, c store.Change) []store.Write {
	return append(r.changedWrites(s.parts.IDs.Digits(changeDigits)),
		store.Update(hostKey(r.Hostname), c).Else(store.ErrStale))
}

// Certificate implements handshake.Source.
func (d *Directory) Certificate(ctx context.Context, name string) (*tls.Certificate, error) {
	e, err := d.find(ctx, name)
	if err != nil || e == nil || e.host.Certificate == nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.certificate != nil {
		return e.certificate, nil
	}
	key, err := d.sealer.Open(ctx, e.host.Certificate.Key, sealContext(e.host))
	if errors.Is(err, seal.ErrSealed) {
		// The cached key may be older than a rotation of the root key.
		var current host
		if err := d.table.Get(ctx, hostKey(e.host.Hostname), &current); err != nil {
			return nil, fmt.Errorf("read the custom domain %s again: %w", name, err)
		}
		if current.Certificate != nil && current.ID == e.host.ID {
			e.host = current
			key, err = d.sealer.Open(ctx, current.Certificate.Key, sealContext(current))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the key of the custom domain %s: %w", name, err)
	}
	certificate, err := tls.X509KeyPair([]byte(e.host.Certificate.Chain), key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the custom domain %s: %w", name, err)
	}
	e.certificate = &certificate
	return e.certificate, nil
}
