// Package certificates is the service of an account's client CAs: the certificates of
// those who sign the certificates that clients show (specification 4.3; contract 2.3).
// A gateway verifies by them, through Trust, that a client's chain leads to one of
// the account's CAs now.
//
// What it is not: it knows no listener and no handshake (packages listen and
// handshake), it holds no certificate of a server's, and what is wrong with an upload
// package pki says.
//
// Read this file first, then trust.go (what a gateway
// asks), truststore.go (what API Gateway reads) and table.go.
package certificates

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

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/store"
)

// MaxNameChars bounds a name (contract 1.4).
const MaxNameChars = 120

// Service does the operations. It is safe for concurrent use.
type Service struct{ parts installation.Parts }

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{p} }

// CA is a client CA as its owner sees it. Its certificate is never shown again.
type CA struct {
	ID, Name             string
	Info                 pki.Info
	CreatedOn, UpdatedOn time.Time
}

// record is a CA in the table.
type record struct {
	store.Rest

	ID   string `dynamodbav:"id"`
	Name string `dynamodbav:"name"`
	// Certificate is in DER.
	Certificate []byte    `dynamodbav:"certificate"`
	Fingerprint string    `dynamodbav:"fingerprint"`
	CreatedOn   time.Time `dynamodbav:"createdOn"`
	UpdatedOn   time.Time `dynamodbav:"updatedOn"`
}

// pointer leads from what is unique in an account to the CA that has it.
type pointer struct {
	store.Rest

	ID string `dynamodbav:"id"`
}

func (r record) shown() (CA, error) {
	c, err := x509.ParseCertificate(r.Certificate)
	if err != nil {
		return CA{}, fmt.Errorf("read the stored certificate of the CA %s: %w", r.ID, err)
	}
	return CA{ID: r.ID, Name: r.Name, Info: pki.InfoOf(c), CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn}, nil
}

func (r record) resource() audit.Resource {
	return audit.Resource{Type: "client-mtls-ca-certificate", ID: r.ID, Metadata: map[string]string{"name": r.Name, "fingerprint": r.Fingerprint}}
}

var (
	errNoCA      = fault.Missing("client mTLS CA certificate")
	errNameInUse = fault.New(fault.Conflict, "A client mTLS CA certificate of this name exists in the account. Choose another name.")
	errUploaded  = fault.New(fault.Conflict, "The account has this certificate already, maybe encoded in another way. Rename that one, or delete it first.")
	errLimited   = fault.New(fault.Forbidden, "This account key is limited to some projects or environments, and a CA lets clients into all of them. Use a key without such limits.")
)

// visible reports whether a caller sees the account's CAs, which belong to none of its
// projects and environments.
func visible(o auth.Owner) bool { return o.Viewer.MaySee("", "") }

// New is what a CA is made of.
type New struct {
	// Name is a JavaScript identifier of at most MaxNameChars, unique in the account.
	Name string
	// Certificate is the CA's certificate in PEM.
	Certificate string
}

// Create makes a CA. It answers Invalid faults for a bad name or certificate, the
// refusal of limits.ClientCAs, Conflict for a name in use and for a certificate that is
// there, however it is encoded, and Forbidden to a caller with limits.
func (s *Service) Create(ctx context.Context, owner auth.Owner, n New) (CA, error) {
	var wrong fault.Fields
	if text := wrongName(n.Name); text != "" {
		wrong.Add("name", "%s", text)
	}
	c, text := pki.ReadCA(n.Certificate, s.parts.Now())
	if text != "" {
		wrong.Add("certificate", "%s", text)
	}
	if err := wrong.Err(); err != nil {
		return CA{}, err
	}
	if !visible(owner) {
		return CA{}, errLimited
	}
	now := store.Instant(s.parts.Now())
	r := record{
		ID: s.parts.IDs.New("mtlsca", 24), Name: n.Name, Certificate: c.Raw, Fingerprint: pki.Fingerprint(c),
		CreatedOn: now, UpdatedOn: now,
	}
	room, err := counts.Open(s.parts).Beside(ctx, owner.AccountID, limits.ClientCAs, setKey(owner.AccountID))
	if err != nil {
		return CA{}, err
	}
	if err := s.parts.Table.Commit(ctx,
		store.Create(key(owner.AccountID, r.ID), r),
		store.Create(fingerprintKey(owner.AccountID, r.Fingerprint), pointer{ID: r.ID}).Else(errUploaded),
		store.Create(nameKey(owner.AccountID, r.Name), pointer{ID: r.ID}).Else(errNameInUse),
		store.Upsert(setKey(owner.AccountID), store.Add(store.At("count"), 1), store.Add(store.At("version"), 1)).If(room.If).Else(room.Else),
		s.publish(owner, now),
		audit.Record(ctx, r.resource()),
	); err != nil {
		return CA{}, err
	}
	return r.shown()
}

// List gives the account's CAs, in the order of their names; a caller with limits sees
// none.
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
		ca, err := r.shown()
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

// Read gives a CA. It answers NotFound for one that is not there or not seen.
func (s *Service) Read(ctx context.Context, owner auth.Owner, id string) (CA, error) {
	r, err := s.read(ctx, owner, id)
	if err != nil {
		return CA{}, err
	}
	return r.shown()
}

// Rename gives a CA another name. It answers Invalid for a bad
// name, NotFound for a CA that is not there or not seen, and Conflict for a name in
// use.
func (s *Service) Rename(ctx context.Context, owner auth.Owner, id, name string) (CA, error) {
	if text := wrongName(name); text != "" {
		return CA{}, fault.InvalidField("name", "%s", text)
	}
	var r record
	err := s.parts.Table.Again(ctx, func(ctx context.Context) (err error) {
		if r, err = s.read(ctx, owner, id); err != nil {
			return err
		}
		before := r.Name
		r.Name, r.UpdatedOn = name, store.Instant(s.parts.Now())
		writes := []store.Write{
			store.Update(key(owner.AccountID, id), store.Set(store.At("name"), r.Name), store.Set(store.At("updatedOn"), r.UpdatedOn)).Else(store.ErrStale),
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
	return r.shown()
}

// Delete removes a CA: a gateway refuses its clients from Staleness later on. It
// answers NotFound for one that is not there or not seen.
func (s *Service) Delete(ctx context.Context, owner auth.Owner, id string) error {
	return s.parts.Table.Again(ctx, func(ctx context.Context) error {
		r, err := s.read(ctx, owner, id)
		if err != nil {
			return err
		}
		return s.parts.Table.Commit(ctx,
			store.Delete(key(owner.AccountID, id)).If(store.Exists()).Else(store.ErrStale),
			store.Delete(fingerprintKey(owner.AccountID, r.Fingerprint)),
			store.Delete(nameKey(owner.AccountID, r.Name)),
			store.Update(setKey(owner.AccountID), store.Add(store.At("count"), -1), store.Add(store.At("version"), 1)),
			s.publish(owner, store.Instant(s.parts.Now())),
			audit.Record(ctx, r.resource()),
		)
	})
}

func (s *Service) read(ctx context.Context, owner auth.Owner, id string) (record, error) {
	// What is no id is no key to ask for.
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

// publish is the write that begins to write the truststore anew.
func (s *Service) publish(owner auth.Owner, now time.Time) store.Write {
	return operation.Begin(operation.Start{
		ID: s.parts.IDs.New("tstr", 24), Kind: Publish, Subject: owner.Account, AccountID: owner.AccountID,
		Input: publishInput{AccountID: owner.AccountID},
	}, now)
}

var (
	idPattern   = regexp.MustCompile(`^mtlsca_[0-9A-Za-z]{24}$`)
	namePattern = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)
)

// reserved are the words of JavaScript that are no names in it (ECMA-262, sections
// 12.7.2 and B, and the literals): names are refused in whatever case (contract 1.4).
var reserved = strings.Fields(`
	abstract arguments async await boolean break byte case catch char class const continue debugger default delete do double
	else enum eval export extends false final finally float for function goto if implements import in instanceof int interface
	let long native new null package private protected public return short static super switch synchronized this throw throws
	transient true try typeof undefined var void volatile while with yield`)

// wrongName says what is wrong with the name of a CA, "" for nothing.
func wrongName(name string) string {
	switch {
	case len(name) > MaxNameChars || !namePattern.MatchString(name):
		return fmt.Sprintf("has to have 1 to %d letters, digits, _ and $, and no digit first", MaxNameChars)
	case slices.Contains(reserved, strings.ToLower(name)):
		return "is a reserved word of JavaScript: choose another name"
	}
	return ""
}
