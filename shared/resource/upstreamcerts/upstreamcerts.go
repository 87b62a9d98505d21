// Package upstreamcerts manages a project's client certificates, which the project's handlers present to upstreams that
// require them (contract 2.10). A build adds the certificates that its routes name to the artifact, if they are enabled
// for the build's kind of environment. A change takes effect with the next build.
//
// A private key is stored sealed. Only builds and rotations of the root key decrypt it, and no response contains it.
//
// The package does not call upstreams (package upstream does). The only thing that it knows about deployments is the
// names of those that use a certificate. Package pki validates uploads. Read this file first, then use.go (for
// builds) and table.go.
package upstreamcerts

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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

const (
	// MaxCertificates is the maximum number of certificates of a project.
	MaxCertificates = 50
	// MaxNameChars is the maximum length of a name (contract 1.4).
	MaxNameChars = 120
)

// Sealer encrypts keys. context binds a sealed key to its record, so that no other record can open it.
type Sealer interface {
	Seal(ctx context.Context, plaintext []byte, context string) ([]byte, error)
	Open(ctx context.Context, sealed []byte, context string) ([]byte, error)
}

// Deployments finds the deployments that use a certificate.
type Deployments interface {
	// UsersOf returns the names of the project's deployments whose served build presents the certificate with this id.
	UsersOf(ctx context.Context, accountID, project, certificateID string) ([]string, error)
}

// Service implements the operations on certificates. It is safe for concurrent use.
type Service struct {
	parts       installation.Parts
	sealer      Sealer
	deployments Deployments
}

// Open returns the Service of an installation. deployments may be nil if the caller does not call Delete.
func Open(p installation.Parts, deployments Deployments) *Service {
	return &Service{p, p.Sealer(), deployments}
}

// Project is the project of certificates, with the permissions of the caller.
type Project struct {
	auth.Owner
	Name string
}

// Certificate is the public form of a certificate.
type Certificate struct {
	ID, Name string
	Info     pki.Info
	// Environments are the kinds of environment for which the certificate is enabled.
	Environments         []environment.Kind
	CreatedOn, UpdatedOn time.Time
}

// record is a certificate in the table.
type record struct {
	store.UnknownAttributes

	ID   string `dynamodbav:"id"`
	Name string `dynamodbav:"name"`
	// Chain is the certificate and its intermediate certificates in PEM. Key is the sealed private key.
	Chain        string             `dynamodbav:"chain"`
	Key          []byte             `dynamodbav:"key"`
	Environments []environment.Kind `dynamodbav:"environments"`
	CreatedOn    time.Time          `dynamodbav:"createdOn"`
	UpdatedOn    time.Time          `dynamodbav:"updatedOn"`
	// Uses counts the times that a build with the certificate was made the served
	// one. A deletion requires that Uses has not changed since it was read.
	Uses int64 `dynamodbav:"uses"`
}

// visibleTo reports whether a caller sees all environments for which the certificate is enabled. A caller
// that sees only some of these environments could otherwise change the certificate for the others.
func (r record) visibleTo(p Project) bool { return p.canSee(r.Environments) }

// canSee reports whether the caller sees the project and all these kinds of environment in it.
func (p Project) canSee(kinds []environment.Kind) bool {
	return p.Viewer.CanSeeProject(p.Name) && !slices.ContainsFunc(kinds, func(k environment.Kind) bool {
		return !p.Viewer.CanSee(p.Name, string(k))
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

func (r record) toCertificate() (Certificate, error) {
	c, err := r.leaf()
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{
		ID: r.ID, Name: r.Name, Info: pki.NewInfo(c), Environments: r.Environments,
		CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn,
	}, nil
}

func (p Project) resource(r record) audit.Resource {
	return audit.Resource{
		Type: "mtls-certificate", ID: r.ID,
		Metadata: map[string]string{"project": p.Name, "name": r.Name},
	}
}

var (
	errNoProject     = fault.Missing("project")
	errNoCertificate = fault.Missing("mTLS certificate")
	errNameInUse     = fault.New(fault.Conflict, "An mTLS certificate of this name exists in the project. Choose "+
		"another name, or delete that one first.")
	errTooMany = fault.New(fault.Invalid, "The project has %d mTLS certificates, which is the most it can have. "+
		"Delete one that no deployment uses any more.", MaxCertificates)
	errRestrictedKey = fault.New(fault.Forbidden,
		"This account key is limited to some environments: enable the certificate for those alone.")
)

// CreateInput is the input of Create.
type CreateInput struct {
	// Name has 1 to MaxNameChars letters, digits and _. It does not begin with a digit, and is unique in the project.
	Name string
	// Certificate is the certificate in PEM, followed by its intermediate certificates,
	// if any. Key is the certificate's private key in PEM, not encrypted.
	Certificate, Key string
	Environments     []environment.Kind
}

var (
	idPattern   = regexp.MustCompile(`^cert_[0-9A-Za-z]{24}$`)
	namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// Create creates a certificate. It returns Invalid faults for an invalid input and for a project
// that already has MaxCertificates. It returns NotFound for a project that is missing or invisible,
// Forbidden for environments that the caller does not see, and Conflict for a name in use.
func (s *Service) Create(ctx context.Context, at Project, n CreateInput) (Certificate, error) {
	var invalid fault.Fields
	if len(n.Name) > MaxNameChars || !namePattern.MatchString(n.Name) {
		invalid.Add("name", "has to have 1 to %d letters, digits and _, and no digit first", MaxNameChars)
	}
	pair, chainProblem, keyProblem := pki.ReadPair(n.Certificate, n.Key, s.parts.Now())
	if chainProblem != "" {
		invalid.Add("certificate", "%s", chainProblem)
	}
	if keyProblem != "" {
		invalid.Add("key", "%s", keyProblem)
	}
	if len(n.Environments) == 0 {
		invalid.Add("environments", "has to name at least one of production, preview and development")
	}
	if err := invalid.Err(); err != nil {
		return Certificate{}, err
	}
	switch {
	case !at.Viewer.CanSeeProject(at.Name):
		return Certificate{}, errNoProject
	case !at.canSee(n.Environments):
		return Certificate{}, errRestrictedKey
	}
	now := store.Instant(s.parts.Now())
	r := record{
		ID: s.parts.IDs.New("cert", 24), Name: n.Name, Chain: pair.Chain, Environments: sortedKinds(n.Environments),
		CreatedOn: now, UpdatedOn: now,
	}
	var err error
	if r.Key, err = s.sealer.Seal(ctx, []byte(pair.Key), sealContext(at, r.ID)); err != nil {
		return Certificate{}, err
	}
	count := store.At("count")
	if err := s.parts.Table.Commit(ctx,
		store.Check(store.ProjectKey(at.AccountID, at.Name), store.ProjectActive()).Else(errNoProject),
		store.Create(at.key(r.ID), r),
		store.Create(at.nameKey(r.Name), pointer{ID: r.ID}).Else(errNameInUse),
		store.Upsert(at.countKey(), store.Add(count, 1)).
			If(store.Or(store.Lacks(count), store.Less(count, MaxCertificates))).Else(errTooMany),
		audit.Record(ctx, at.resource(r)),
	); err != nil {
		return Certificate{}, err
	}
	return r.toCertificate()
}

// pointer is the record of a certificate's name: it contains the id of the certificate.
type pointer struct {
	store.UnknownAttributes

	ID string `dynamodbav:"id"`
}

// sortedKinds returns kinds without duplicates, in the order of environment.Kinds.
func sortedKinds(kinds []environment.Kind) []environment.Kind {
	return slices.DeleteFunc(environment.Kinds(), func(k environment.Kind) bool { return !slices.Contains(kinds, k) })
}

// List returns the project's certificates that the caller sees, in the order of
// their names. It returns NotFound if the project is missing or invisible.
func (s *Service) List(ctx context.Context, at Project) ([]Certificate, error) {
	if !at.Viewer.CanSeeProject(at.Name) {
		return nil, errNoProject
	}
	all, err := s.records(ctx, at)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		if err := s.parts.Table.RequireProject(ctx, at.AccountID, at.Name, errNoProject); err != nil {
			return nil, err
		}
	}
	var out []Certificate
	for _, r := range all {
		if !r.visibleTo(at) {
			continue
		}
		c, err := r.toCertificate()
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

// Read returns a certificate. It returns NotFound if the certificate is missing or invisible.
func (s *Service) Read(ctx context.Context, at Project, id string) (Certificate, error) {
	r, err := s.read(ctx, at, id)
	if err != nil {
		return Certificate{}, err
	}
	return r.toCertificate()
}

func (s *Service) read(ctx context.Context, at Project, id string) (record, error) {
	// An invalid id is not a valid table key.
	if !at.Viewer.CanSeeProject(at.Name) || !idPattern.MatchString(id) {
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

// Enable enables a certificate for exactly these kinds of environment, for later builds. Without kinds, the certificate
// is disabled. It returns NotFound for a certificate that is missing or invisible, and Forbidden for environments that
// the caller does not see.
func (s *Service) Enable(ctx context.Context, at Project, id string, kinds []environment.Kind) (Certificate, error) {
	var r record
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) (err error) {
		r, err = s.read(ctx, at, id)
		switch {
		case err != nil:
			return err
		case !at.canSee(kinds):
			return errRestrictedKey
		}
		r.Environments, r.UpdatedOn = sortedKinds(kinds), store.Instant(s.parts.Now())
		return s.parts.Table.Commit(ctx,
			store.Update(at.key(id), store.Set(store.At("environments"), r.Environments),
				store.Set(store.At("updatedOn"), r.UpdatedOn)).Else(store.ErrStale),
			audit.Record(ctx, at.resource(r)),
		)
	})
	if err != nil {
		return Certificate{}, err
	}
	return r.toCertificate()
}

// Delete deletes a certificate. It returns NotFound for a certificate that is missing
// or invisible, and Conflict while a deployment's served build uses the certificate.
func (s *Service) Delete(ctx context.Context, at Project, id string) error {
	return s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		r, err := s.read(ctx, at, id)
		if err != nil {
			return err
		}
		// If another build with the certificate is served after this call, Uses in the record that was read above
		// changes, and the commit below fails.
		users, err := s.deployments.UsersOf(store.WithoutReadSet(ctx, "the certificate's own record counts its uses"),
			at.AccountID, at.Name, id)
		if err != nil {
			return err
		}
		if len(users) > 0 {
			return inUseFault(users)
		}
		return s.parts.Table.Commit(ctx,
			store.Delete(at.key(id)).If(store.Equal(store.At("uses"), r.Uses)).Else(store.ErrStale),
			store.Delete(at.nameKey(r.Name)),
			store.Update(at.countKey(), store.Add(store.At("count"), -1)),
			audit.Record(ctx, at.resource(r)),
		)
	})
}

// inUseFault returns a fault with the names of some of the deployments that use a certificate.
func inUseFault(users []string) error {
	const maxListed = 5
	names := strings.Join(users[:min(maxListed, len(users))], ", ")
	if omitted := len(users) - maxListed; omitted > 0 {
		names += fmt.Sprintf(" and %d more", omitted)
	}
	return fault.New(fault.Conflict, "The certificate is in use by %s. Deploy without it, or delete what uses it, first.",
		names)
}

// sealContext returns the context that binds a sealed key to a certificate's record.
func sealContext(at Project, id string) string {
	return strings.Join([]string{"mtls-certificate", at.AccountID, at.Name, id}, "/")
}
