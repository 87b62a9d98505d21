// Package mtlscertificates is the service of a project's client certificates: what
// its handlers show to upstreams that demand one (contract 2.10). A build puts those
// that its routes name into the artifact, as far as they are enabled for its kind of
// environment; a change takes effect with the next build.
//
// A private key is sealed, and opened by builds alone. Nothing shows it.
//
// What it is not: it knows no upstream (package upstream does) and no deployment, but
// for the names of those that use a certificate. What is wrong with an upload
// package pki says. Read this file first, then use.go (what builds ask) and table.go.
package mtlscertificates

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// MaxCertificates is how many certificates a project has at most.
	MaxCertificates = 50
	// MaxNameChars bounds a name (contract 1.4).
	MaxNameChars = 120
)

// Sealer encrypts keys. context ties a sealed key to its record, so that it opens
// nowhere else.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Deployments tells which deployments use a certificate.
type Deployments interface {
	// UsersOf gives the names of the project's deployments whose served build shows the
	// certificate of this id.
	UsersOf(ctx context.Context, accountID, project, certificateID string) ([]string, error)
}

// Service does the operations. It is safe for concurrent use.
type Service struct {
	parts       installation.Parts
	sealer      Sealer
	deployments Deployments
}

// Open makes the Service of an installation. deployments may be nil for who deletes
// nothing.
func Open(p installation.Parts, deployments Deployments) *Service {
	return &Service{p, p.Sealer(), deployments}
}

// Project is where certificates belong, and what of it the caller may see.
type Project struct {
	auth.Owner
	Name string
}

// Certificate is a certificate as its owner sees it.
type Certificate struct {
	ID, Name string
	Info     pki.Info
	// Environments are the kinds of environment that it is enabled for.
	Environments         []environment.Kind
	CreatedOn, UpdatedOn time.Time
}

// record is a certificate in the table.
type record struct {
	store.Rest

	ID   string `dynamodbav:"id"`
	Name string `dynamodbav:"name"`
	// Chain is in PEM, the certificate itself first; Key is the sealed private key.
	Chain        string             `dynamodbav:"chain"`
	Key          []byte             `dynamodbav:"key"`
	Environments []environment.Kind `dynamodbav:"environments"`
	CreatedOn    time.Time          `dynamodbav:"createdOn"`
	UpdatedOn    time.Time          `dynamodbav:"updatedOn"`
	// Uses counts the builds that have come to be served with it: a deletion holds only
	// while none does.
	Uses int64 `dynamodbav:"uses"`
}

// visibleTo reports whether a caller sees all of the environments that the certificate
// is enabled for. Who sees a part of them could change it for the others.
func (r record) visibleTo(p Project) bool { return p.sees(r.Environments) }

func (p Project) sees(kinds []environment.Kind) bool {
	return p.Viewer.SeesProject(p.Name) && !slices.ContainsFunc(kinds, func(k environment.Kind) bool {
		return !p.Viewer.MaySee(p.Name, string(k))
	})
}

func (r record) leaf() (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(r.Chain))
	if block == nil {
		return nil, fmt.Errorf("read the stored certificate %s: it is not in PEM", r.ID)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the stored certificate %s: %w", r.ID, err)
	}
	return c, nil
}

func (r record) shown() (Certificate, error) {
	c, err := r.leaf()
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{
		ID: r.ID, Name: r.Name, Info: pki.InfoOf(c), Environments: r.Environments,
		CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn,
	}, nil
}

func (p Project) resource(r record) audit.Resource {
	return audit.Resource{Type: "mtls-certificate", ID: r.ID, Metadata: map[string]string{"project": p.Name, "name": r.Name}}
}

var (
	errNoProject     = fault.Missing("project")
	errNoCertificate = fault.Missing("mTLS certificate")
	errNameInUse     = fault.New(fault.Conflict, "An mTLS certificate of this name exists in the project. Choose another name, or delete that one first.")
	errTooMany       = fault.New(fault.Invalid, "The project has %d mTLS certificates, which is the most it can have. Delete one that no deployment uses any more.", MaxCertificates)
	errLimited       = fault.New(fault.Forbidden, "This account key is limited to some environments: enable the certificate for those alone.")
)

// New is what a certificate is made of.
type New struct {
	// Name has 1 to MaxNameChars letters, digits and _, no digit first, and is unique in
	// the project.
	Name string
	// Certificate is in PEM, with its intermediates behind it if it has any; Key is its
	// private key in PEM, not encrypted.
	Certificate, Key string
	Environments     []environment.Kind
}

var (
	idPattern   = regexp.MustCompile(`^cert_[0-9A-Za-z]{24}$`)
	namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Create makes a certificate. It answers Invalid faults for what is wrong with it and
// for a project that has MaxCertificates, NotFound for a project that is not there or
// not seen, Forbidden for environments that the caller does not see, and Conflict for
// a name in use.
func (s *Service) Create(ctx context.Context, at Project, n New) (Certificate, error) {
	var wrong fault.Fields
	if len(n.Name) > MaxNameChars || !namePattern.MatchString(n.Name) {
		wrong.Add("name", "has to have 1 to %d letters, digits and _, and no digit first", MaxNameChars)
	}
	pair, wrongChain, wrongKey := pki.ReadPair(n.Certificate, n.Key, s.parts.Now())
	if wrongChain != "" {
		wrong.Add("certificate", "%s", wrongChain)
	}
	if wrongKey != "" {
		wrong.Add("key", "%s", wrongKey)
	}
	if len(n.Environments) == 0 {
		wrong.Add("environments", "has to name at least one of production, preview and development")
	}
	if err := wrong.Err(); err != nil {
		return Certificate{}, err
	}
	switch {
	case !at.Viewer.SeesProject(at.Name):
		return Certificate{}, errNoProject
	case !at.sees(n.Environments):
		return Certificate{}, errLimited
	}
	now := store.Instant(s.parts.Now())
	r := record{
		ID: s.parts.IDs.New("cert", 24), Name: n.Name, Chain: pair.Chain, Environments: inOrder(n.Environments),
		CreatedOn: now, UpdatedOn: now,
	}
	var err error
	if r.Key, err = s.sealer.Seal(ctx, []byte(pair.Key), sealContext(at, r.ID)); err != nil {
		return Certificate{}, err
	}
	count := store.At("count")
	if err := s.parts.Table.Commit(ctx,
		store.Check(store.ProjectKey(at.AccountID, at.Name), store.ProjectStands()).Else(errNoProject),
		store.Create(at.key(r.ID), r),
		store.Create(at.nameKey(r.Name), pointer{ID: r.ID}).Else(errNameInUse),
		store.Upsert(at.countKey(), store.Add(count, 1)).
			If(store.Or(store.Lacks(count), store.Less(count, MaxCertificates))).Else(errTooMany),
		audit.Record(ctx, at.resource(r)),
	); err != nil {
		return Certificate{}, err
	}
	return r.shown()
}

// pointer leads from a name to the certificate that has it.
type pointer struct {
	store.Rest

	ID string `dynamodbav:"id"`
}

// inOrder gives kinds each once, in the order in which people read them.
func inOrder(kinds []environment.Kind) []environment.Kind {
	return slices.DeleteFunc(environment.Kinds(), func(k environment.Kind) bool { return !slices.Contains(kinds, k) })
}

// List gives the project's certificates that the caller sees, in the order of their
// names. A project that is not there or not seen is NotFound.
func (s *Service) List(ctx context.Context, at Project) ([]Certificate, error) {
	if !at.Viewer.SeesProject(at.Name) {
		return nil, errNoProject
	}
	all, err := s.records(ctx, at)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		if err := s.parts.Table.ProjectThere(ctx, at.AccountID, at.Name, errNoProject); err != nil {
			return nil, err
		}
	}
	var out []Certificate
	for _, r := range all {
		if !r.visibleTo(at) {
			continue
		}
		c, err := r.shown()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Certificate) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

func (s *Service) records(ctx context.Context, at Project) ([]record, error) {
	all, err := store.Collect[record](ctx, s.parts.Table, store.Query{PK: at.partition()})
	if err != nil {
		return nil, fmt.Errorf("read a project's mTLS certificates: %w", err)
	}
	return all, nil
}

// Read gives a certificate. One that is not there or not seen is NotFound.
func (s *Service) Read(ctx context.Context, at Project, id string) (Certificate, error) {
	r, err := s.read(ctx, at, id)
	if err != nil {
		return Certificate{}, err
	}
	return r.shown()
}

func (s *Service) read(ctx context.Context, at Project, id string) (record, error) {
	// What is no id is no key to ask for.
	if !at.Viewer.SeesProject(at.Name) || !idPattern.MatchString(id) {
		return record{}, errNoCertificate
	}
	var r record
	switch err := s.parts.Table.Get(ctx, at.key(id), &r); {
	case errors.Is(err, store.ErrNotFound), err == nil && !r.visibleTo(at):
		return record{}, errNoCertificate
	case err != nil:
		return record{}, fmt.Errorf("read an mTLS certificate: %w", err)
	}
	return r, nil
}

// Enable has a certificate be enabled for these kinds of environment and no others, for
// builds from now on; none disables it. It answers NotFound for a certificate
// that is not there or not seen, and Forbidden for environments that the caller does
// not see.
func (s *Service) Enable(ctx context.Context, at Project, id string, kinds []environment.Kind) (Certificate, error) {
	var r record
	err := s.parts.Table.Again(ctx, func(ctx context.Context) (err error) {
		r, err = s.read(ctx, at, id)
		switch {
		case err != nil:
			return err
		case !at.sees(kinds):
			return errLimited
		}
		r.Environments, r.UpdatedOn = inOrder(kinds), store.Instant(s.parts.Now())
		return s.parts.Table.Commit(ctx,
			store.Update(at.key(id), store.Set(store.At("environments"), r.Environments), store.Set(store.At("updatedOn"), r.UpdatedOn)).Else(store.ErrStale),
			audit.Record(ctx, at.resource(r)),
		)
	})
	if err != nil {
		return Certificate{}, err
	}
	return r.shown()
}

// Delete removes a certificate. It answers NotFound for one that is not there or not
// seen, and Conflict while a deployment is served with it.
func (s *Service) Delete(ctx context.Context, at Project, id string) error {
	return s.parts.Table.Again(ctx, func(ctx context.Context) error {
		r, err := s.read(ctx, at, id)
		if err != nil {
			return err
		}
		// What is found holds while no build has come to be served with it since: each
		// changes the record that was read above.
		users, err := s.deployments.UsersOf(store.Undecided(ctx, "the certificate's own record counts its uses"), at.AccountID, at.Name, id)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return inUse(users)
		}
		return s.parts.Table.Commit(ctx,
			store.Delete(at.key(id)).If(store.Equal(store.At("uses"), r.Uses)).Else(store.ErrStale),
			store.Delete(at.nameKey(r.Name)),
			store.Update(at.countKey(), store.Add(store.At("count"), -1)),
			audit.Record(ctx, at.resource(r)),
		)
	})
}

// inUse names some of the deployments that keep a certificate.
func inUse(users []string) error {
	const most = 5
	named := strings.Join(users[:min(most, len(users))], ", ")
	if more := len(users) - most; more > 0 {
		named += fmt.Sprintf(" and %d more", more)
	}
	return fault.New(fault.Conflict, "The certificate is in use by %s. Deploy without it, or delete what uses it, first.", named)
}

// sealContext names a certificate's record.
func sealContext(at Project, id string) string {
	return strings.Join([]string{"mtls-certificate", at.AccountID, at.Name, id}, "/")
}
