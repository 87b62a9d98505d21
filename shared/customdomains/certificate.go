package customdomains

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// Source is where a certificate comes from.
type Source string

// Uploaded certificates are replaced by who uploaded them.
const Uploaded Source = "uploaded"

// Certificate is what is known of a custom domain's certificate, in its record.
type Certificate struct {
	store.Rest

	Source Source `dynamodbav:"source"`
	// ValidFrom, ValidTo and Issuer are of the one that is served, zero before the first.
	Issuer    string    `dynamodbav:"issuer,omitempty"`
	ValidFrom time.Time `dynamodbav:"validFrom"`
	ValidTo   time.Time `dynamodbav:"validTo"`
	// Operation is the one that obtains it, or renews it at Next, "" for none. Only that one
	// may change it, so that there is one order at a time.
	Operation string    `dynamodbav:"operation,omitempty"`
	Next      time.Time `dynamodbav:"next"`
	// Message says why the last attempts, as many as Failures, came to nothing.
	Message  string `dynamodbav:"message,omitempty"`
	Failures int    `dynamodbav:"failures,omitempty"`
}

// pair is a certificate as a gateway serves it.
type pair struct {
	store.Rest

	// Chain is in PEM, the certificate itself first; Key is the sealed private key in PEM.
	Chain string `dynamodbav:"chain"`
	Key   []byte `dynamodbav:"key"`
}

var (
	errNotProven     = fault.New(fault.Conflict, "The hostname is not proven to be yours yet. Verify the custom domain first.")
	errNoCertificate = fault.New(fault.NotFound, "The custom domain has no certificate to delete. Upload one to have the hostname served by TLS.")
	errIssued        = fault.New(fault.Conflict, "The certificate is one that the installation obtains and renews. Upload one, which replaces it within seconds; or delete the custom domain.")
	errAlias         = fault.New(fault.Conflict, "The custom domain is an alias, whose TLS ends before the gateway. Give the certificate to what ends it.")
)

// sealContext names the record of a hostname's key.
func sealContext(h host) string {
	return strings.Join([]string{"custom-domain", h.AccountID, h.Hostname, h.ID}, "/")
}

// Upload has a hostname be served by TLS with a certificate of the owner's, from Staleness later
// on. It answers Invalid faults for what is wrong with it, Conflict for a hostname that is not proven and
// for an alias, and NotFound for what is not there or not seen.
func (s *Service) Upload(ctx context.Context, owner auth.Owner, hostname, chain, key string) (Domain, error) {
	var after record
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		before, err := s.find(ctx, owner, hostname)
		if err != nil {
			return err
		}
		var wrong fault.Fields
		its, wrongChain, wrongKey := pki.ReadServerPair(chain, key, before.Hostname, s.parts.Now())
		if wrongChain != "" {
			wrong.Add("certificate", "%s", wrongChain)
		}
		if wrongKey != "" {
			wrong.Add("key", "%s", wrongKey)
		}
		switch err := wrong.Err(); {
		case err != nil:
			return err
		case before.Alias:
			return errAlias
		case before.VerifiedOn == nil:
			return errNotProven
		}
		after = before
		after.Certificate = &Certificate{
			Source: Uploaded, Issuer: pki.Name(its.Leaf.RawIssuer), ValidFrom: its.Leaf.NotBefore.UTC(), ValidTo: its.Leaf.NotAfter.UTC(),
		}
		after.UpdatedOn, after.Version = s.now(), before.Version+1
		served, err := s.serving(ctx, before, its.Chain, its.Key)
		if err != nil {
			return err
		}
		return s.parts.Table.Commit(ctx, append(served, before.replace(after), audit.Record(ctx, after.resource()))...)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.shown(ctx, after)
}

// DeleteCertificate ends an upload. Where the installation has an authority, the next order
// begins, and the uploaded certificate is served until that one is there, so that the hostname
// is without none; otherwise its handshakes are refused from Staleness later on. It answers NotFound for
// what is not there or not seen, also where there is no certificate, and Conflict for one
// that was not uploaded.
func (s *Service) DeleteCertificate(ctx context.Context, owner auth.Owner, hostname string) (Domain, error) {
	var after record
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		before, err := s.find(ctx, owner, hostname)
		switch its := before.Certificate; {
		case err != nil:
			return err
		case its == nil:
			return errNoCertificate
		case its.Source != Uploaded:
			return errIssued
		}
		after = before
		after.Certificate, after.UpdatedOn, after.Version = nil, s.now(), before.Version+1
		writes := s.certify(&after)
		if its := after.Certificate; its != nil {
			its.Issuer, its.ValidFrom, its.ValidTo = before.Certificate.Issuer, before.Certificate.ValidFrom, before.Certificate.ValidTo
		} else {
			writes = s.serves(before, store.Remove(store.At("certificate")))
		}
		return s.parts.Table.Commit(ctx, append(writes, before.replace(after), audit.Record(ctx, after.resource()))...)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.shown(ctx, after)
}

// serving are the writes by which a hostname is served with a certificate.
func (s *Service) serving(ctx context.Context, r record, chain, key string) ([]store.Write, error) {
	sealed, err := s.sealer.Seal(ctx, []byte(key), sealContext(host{ID: r.ID, AccountID: r.AccountID, Hostname: r.Hostname}))
	if err != nil {
		return nil, err
	}
	return s.serves(r, store.Set(store.At("certificate"), pair{Chain: chain, Key: sealed})), nil
}

// serves are the writes of a change of what is served at a hostname.
func (s *Service) serves(r record, c store.Change) []store.Write {
	return append(r.touched(s.parts.IDs.Digits(changeDigits)),
		store.Update(hostKey(r.Hostname), c).Else(store.ErrStale))
}

// Certificate implements handshake.Source.
func (d *Directory) Certificate(ctx context.Context, name string) (*tls.Certificate, error) {
	its, err := d.find(ctx, name)
	if err != nil || its == nil || its.host.Certificate == nil {
		return nil, err
	}
	its.mu.Lock()
	defer its.mu.Unlock()
	if its.certificate != nil {
		return its.certificate, nil
	}
	key, err := d.sealer.Open(ctx, its.host.Certificate.Key, sealContext(its.host))
	if errors.Is(err, seal.ErrSealed) {
		// It was remembered since before a rotation of the root key.
		var now host
		if err := d.table.Get(ctx, hostKey(its.host.Hostname), &now); err != nil {
			return nil, fmt.Errorf("read the custom domain %s again: %w", name, err)
		}
		if now.Certificate != nil && now.ID == its.host.ID {
			its.host = now
			key, err = d.sealer.Open(ctx, now.Certificate.Key, sealContext(now))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open the key of the custom domain %s: %w", name, err)
	}
	certificate, err := tls.X509KeyPair([]byte(its.host.Certificate.Chain), key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate of the custom domain %s: %w", name, err)
	}
	its.certificate = &certificate
	return its.certificate, nil
}
