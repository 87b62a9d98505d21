// Package clientcas manages an account's client CAs: the certificates of the authorities that sign clients'
// certificates (specification 4.3; contract 2.3). A gateway uses Trust to verify clients' chains with the account's
// current CAs.
//
// The package accepts no connections (packages listen and handshake do), and has
// no server certificates. Package pki validates uploads.
//
// Read this file first, then trust.go (for gateways), truststore.go (for API Gateway) and table.go.
package clientcas

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// MaxNameChars is the maximum length of a name (contract 1.4).
const MaxNameChars = 120

// Service implements the operations on client CAs. It is safe for concurrent use.
type Service struct{ parts installation.Parts }

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{p} }

// CA is the public form of a client CA. It does not contain the certificate, which cannot be read after the upload.
type CA struct {
	ID, Name             string
	Info                 pki.Info
	CreatedOn, UpdatedOn time.Time
}

// record is a CA in the table.
type record struct {
	store.UnknownAttributes

	ID   string `dynamodbav:"id"`
	Name string `dynamodbav:"name"`
	// Certificate is in DER.
	Certificate []byte    `dynamodbav:"certificate"`
	Fingerprint string    `dynamodbav:"fingerprint"`
	CreatedOn   time.Time `dynamodbav:"createdOn"`
	UpdatedOn   time.Time `dynamodbav:"updatedOn"`
}

// pointer contains the ID of the CA that has a certain name or certificate in an account.
type pointer struct {
	store.UnknownAttributes

	ID string `dynamodbav:"id"`
}

func (r record) toCA() (CA, error) {
	c, err := x509.ParseCertificate(r.Certificate)
	if err != nil {
		return CA{}, fmt.Errorf("read the stored certificate of the CA %s: %w", r.ID, err)
	}
	return CA{ID: r.ID, Name: r.Name, Info: pki.NewInfo(c), CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn}, nil
}

func (r record) resource() audit.Resource {
	return audit.Resource{
		Type: "client-mtls-ca-certificate", ID: r.ID,
		Metadata: map[string]string{"name": r.Name, "fingerprint": r.Fingerprint},
	}
}

var (
	errNoCA      = fault.Missing("client mTLS CA certificate")
	errNameInUse = fault.New(fault.Conflict,
		"A client mTLS CA certificate of this name exists in the account. Choose another name.")
	errDuplicate = fault.New(fault.Conflict, "The account has this certificate already, maybe encoded in another "+
		"way. Rename that one, or delete it first.")
	errRestrictedKey = fault.New(fault.Forbidden, "This account key is limited to some projects or environments, and a "+
		"CA lets clients into all of them. Use a key without such limits.")
)

// visible reports whether a caller sees the account's CAs. A caller that is limited to projects or environments does
// not, because CAs belong to the whole account.
func visible(o auth.Owner) bool { return o.Viewer.CanSee("", "") }

// CreateInput is the input of Create.
type CreateInput struct {
	// Name is a JavaScript identifier of at most MaxNameChars ASCII characters, and no reserved word in any case. It
	// is unique in the account.
	Name string
	// Certificate is the CA's certificate in PEM.
	Certificate string
}

// Create creates a CA. It returns Invalid faults for an invalid name or certificate. If the account has reached
// limits.ClientCAs, it returns the refusal of this limit. It returns Conflict for a name in use and for a certificate
// that already exists, in any encoding. It returns Forbidden if the caller is limited to projects or environments.
func (s *Service) Create(ctx context.Context, owner auth.Owner, input CreateInput) (CA, error) {
	var invalid fault.Fields
	if text := nameError(input.Name); text != "" {
		invalid.Add("name", "%s", text)
	}
	c, text := pki.ReadCA(input.Certificate, s.parts.Now())
	if text != "" {
		invalid.Add("certificate", "%s", text)
	}
	if err := invalid.Err(); err != nil {
		return CA{}, err
	}
	if !visible(owner) {
		return CA{}, errRestrictedKey
	}
	now := store.Instant(s.parts.Now())
	r := record{
		ID: s.parts.IDs.New("mtlsca", 24), Name: input.Name, Certificate: c.Raw, Fingerprint: pki.Fingerprint(c),
		CreatedOn: now, UpdatedOn: now,
	}
	reservation, err := counts.Open(s.parts).CheckCapacity(ctx, owner.AccountID, limits.ClientCAs, setKey(owner.AccountID))
	if err != nil {
		return CA{}, err
	}
	if err := s.parts.Table.Commit(ctx,
		store.Create(key(owner.AccountID, r.ID), r),
		store.Create(fingerprintKey(owner.AccountID, r.Fingerprint), pointer{ID: r.ID}).Else(errDuplicate),
		store.Create(nameKey(owner.AccountID, r.Name), pointer{ID: r.ID}).Else(errNameInUse),
		store.Upsert(setKey(owner.AccountID), store.Add(store.At("count"), 1),
			store.Add(store.At("version"), 1)).If(reservation.If).Else(reservation.Else),
		s.publishWrite(owner, now),
		audit.Record(ctx, r.resource()),
	); err != nil {
		return CA{}, err
	}
	return r.toCA()
}

// List returns the account's CAs in the order of their names. It returns none if the caller is limited to projects or
// environments.
func (s *Service) List(ctx context.Context, owner auth.Owner) ([]CA, error) {
	if !visible(owner) {
		return nil, nil
	}
	all, err := records(ctx, s.parts.Table, owner.AccountID)
	if err != nil {
		return nil, err
	}
	out := make([]CA, 0, len(all))
	for _, r := range all {
		ca, err := r.toCA()
		if err != nil {
			return nil, err
		}
		out = append(out, ca)
	}
	slices.SortFunc(out, func(a, b CA) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func records(ctx context.Context, table *store.Table, accountID string) ([]record, error) {
	all, err := store.Collect[record](ctx, table, store.Query{PK: partition(accountID)})
	if err != nil {
		return nil, fmt.Errorf("read an account's client CAs: %w", err)
	}
	return all, nil
}

// Read returns a CA. It returns NotFound if the CA is missing or invisible.
func (s *Service) Read(ctx context.Context, owner auth.Owner, id string) (CA, error) {
	r, err := s.read(ctx, owner, id)
	if err != nil {
		return CA{}, err
	}
	return r.toCA()
}

// Rename changes the name of a CA. It returns Invalid for an invalid name,
// NotFound for a CA that is missing or invisible, and Conflict for a name in use.
func (s *Service) Rename(ctx context.Context, owner auth.Owner, id, name string) (CA, error) {
	if text := nameError(name); text != "" {
		return CA{}, fault.InvalidField("name", "%s", text)
	}
	var r record
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) (err error) {
		if r, err = s.read(ctx, owner, id); err != nil {
			return err
		}
		before := r.Name
		r.Name, r.UpdatedOn = name, store.Instant(s.parts.Now())
		writes := []store.Write{
			store.Update(key(owner.AccountID, id), store.Set(store.At("name"), r.Name),
				store.Set(store.At("updatedOn"), r.UpdatedOn)).Else(store.ErrStale),
			audit.Record(ctx, r.resource()),
		}
		if r.Name != before {
			writes = append(writes,
				store.Delete(nameKey(owner.AccountID, before)),
				store.Create(nameKey(owner.AccountID, r.Name), pointer{ID: id}).Else(errNameInUse))
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
	if err != nil {
		return CA{}, err
	}
	return r.toCA()
}

// Delete deletes a CA. Gateways refuse clients of this CA within Staleness. Delete returns NotFound if the CA is
// missing or invisible.
func (s *Service) Delete(ctx context.Context, owner auth.Owner, id string) error {
	return s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		r, err := s.read(ctx, owner, id)
		if err != nil {
			return err
		}
		return s.parts.Table.Commit(ctx,
			store.Delete(key(owner.AccountID, id)).If(store.Exists()).Else(store.ErrStale),
			store.Delete(fingerprintKey(owner.AccountID, r.Fingerprint)),
			store.Delete(nameKey(owner.AccountID, r.Name)),
			store.Update(setKey(owner.AccountID), store.Add(store.At("count"), -1), store.Add(store.At("version"), 1)),
			s.publishWrite(owner, store.Instant(s.parts.Now())),
			audit.Record(ctx, r.resource()),
		)
	})
}

func (s *Service) read(ctx context.Context, owner auth.Owner, id string) (record, error) {
	// An invalid id is not a valid table key.
	if !visible(owner) || !idPattern.MatchString(id) {
		return record{}, errNoCA
	}
	var r record
	switch err := s.parts.Table.Get(ctx, key(owner.AccountID, id), &r); {
	case errors.Is(err, store.ErrNotFound):
		return record{}, errNoCA
	case err != nil:
		return record{}, fmt.Errorf("read a client CA: %w", err)
	}
	return r, nil
}

// publishWrite returns the write that begins a Publish operation.
func (s *Service) publishWrite(owner auth.Owner, now time.Time) store.Write {
	return operation.Create(operation.Start{
		ID: s.parts.IDs.New("tstr", 24), Kind: Publish, Subject: owner.Account, AccountID: owner.AccountID,
		Input: publishInput{AccountID: owner.AccountID},
	}, now)
}

var (
	idPattern   = regexp.MustCompile(`^mtlsca_[0-9A-Za-z]{24}$`)
	namePattern = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)
)

// reservedWords are the words of JavaScript that are not valid names (ECMA-262, sections 12.7.2
// and B, and the literals). They are rejected regardless of upper and lower case (contract 1.4).
var reservedWords = strings.Fields(`
	abstract arguments async await boolean break byte case catch char class const continue
	debugger default delete do double else enum eval export extends false final finally float for function
	goto if implements import in instanceof int interface let long native new null
	package private protected public return short static super switch synchronized
	this throw throws transient true try typeof undefined var void volatile while with yield`)

// nameError returns the validation error of a CA's name, "" for none.
func nameError(name string) string {
	switch {
	case len(name) > MaxNameChars || !namePattern.MatchString(name):
		return fmt.Sprintf("has to have 1 to %d letters, digits, _ and $, and no digit first", MaxNameChars)
	case slices.Contains(reservedWords, strings.ToLower(name)):
		return "is a reserved word of JavaScript: choose another name"
	}
	return ""
}
