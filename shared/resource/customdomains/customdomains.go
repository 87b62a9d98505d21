// Package customdomains is the service of an account's custom domains. A custom domain is a hostname of the account, at
// which the account's deployments are served (specification 4.4; contract 2.4).
//
// For a new custom domain, the owner must set a TXT record in the DNS. The record's text depends on the account and the
// hostname, and never changes. Until the record is found, the custom domain is only a claim, and other accounts can
// claim the same hostname. After that, the hostname belongs to this account alone in the installation, until the custom
// domain is deleted.
//
// The package does not listen for connections. It queries the DNS through installation.Resolver. Package deployments
// defines deployments.
//
// Read this file first, then hostname.go (valid hostnames), verify.go (the proof of ownership), mapping.go
// (deployments), certificate.go, issue.go (certificates by ACME), directory.go (what gateways serve), index.go (the
// list of all hostnames) and challenge.go (the validation by a certificate authority). Each record is defined next to
// its key prefix.
package customdomains

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/deployments"
)

const (
	// MaxDeployments is the maximum number of deployments of a custom domain.
	MaxDeployments = 10
)

// Stage selects the part of a deployment that a custom domain serves.
type Stage string

// The stages. A gateway serves APIs. Developer portals are not served.
const (
	API       Stage = "api"
	DevPortal Stage = "dev-portal"
)

// Service implements the operations. It is safe for concurrent use.
type Service struct {
	parts  installation.Parts
	tokens *seal.Hasher
	sealer Sealer
}

// Open returns the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{p, p.Hasher("custom-domain"), p.Sealer()} }

// Domain is the public form of a custom domain.
type Domain struct {
	ID, Account, Hostname string
	Stage                 Stage
	// Alias reports whether a proxy of the owner terminates TLS in front of the
	// gateway. If so, the installation obtains no certificate for the hostname.
	Alias bool
	// Mappings are the deployments of the custom domain, the served one first.
	Mappings []Mapping
	// Proof is the TXT record that the owner must set, nil after it was found.
	Proof *Proof
	// Certificate is nil until a certificate is uploaded or ordered.
	Certificate          *Certificate
	CreatedOn, UpdatedOn time.Time
}

// Proof is the TXT record that proves the ownership of a hostname.
type Proof struct{ Name, Value string }

const (
	// domainPrefix is the key prefix of custom domains, by their hostnames. The custom domains of an account are one
	// partition: a list reads the whole partition, and a change reads one item.
	domainPrefix store.KeyPrefix = "custom-domain"
	// countPrefix is the key prefix of the number of an account's custom domains, which is limited.
	countPrefix store.KeyPrefix = "custom-domain-count"
)

// record is a custom domain in the table.
type record struct {
	store.UnknownAttributes

	ID        string `dynamodbav:"id"`
	AccountID string `dynamodbav:"accountId"`
	Account   string `dynamodbav:"account"`
	Hostname  string `dynamodbav:"hostname"`
	Stage     Stage  `dynamodbav:"stage"`
	Alias     bool   `dynamodbav:"alias"`
	// Mappings are the deployments, the served one first.
	Mappings  []Mapping `dynamodbav:"mappings"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
	// VerifiedOn is the time when the TXT record was found, nil for a custom domain that is not verified.
	VerifiedOn *time.Time `dynamodbav:"verifiedOn,omitempty"`
	// Shard is the shard of indexPrefix that contains the hostname once it is verified. Callers can neither see nor
	// choose the shard (shardOf).
	Shard string `dynamodbav:"shard"`
	// Certificate is nil until a certificate is uploaded or ordered.
	Certificate *Certificate `dynamodbav:"certificate,omitempty"`
	// Orders is the number of the last certificate order, 0 before the first.
	Orders  int   `dynamodbav:"orders,omitempty"`
	Version int64 `dynamodbav:"version"`
}

func partition(accountID string) string { return domainPrefix.Partition(accountID) }

func key(accountID, hostname string) store.Key { return store.KeyIn(partition(accountID), hostname) }

func countKey(accountID string) store.Key { return countPrefix.Key(accountID) }

func (r record) exists() bool { return r.ID != "" }

func (s *Service) toDomain(ctx context.Context, r record) (Domain, error) {
	d := Domain{
		ID: r.ID, Account: r.Account, Hostname: r.Hostname, Stage: r.Stage, Alias: r.Alias,
		Mappings: r.Mappings, Certificate: r.Certificate, CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn,
	}
	if r.VerifiedOn != nil {
		return d, nil
	}
	proof, err := s.Proof(ctx, r.AccountID, r.Hostname)
	d.Proof = &proof
	return d, err
}

// Proof returns the TXT record that proves an account's ownership of a hostname. The record never changes. It differs
// for each account, so that no account can use the record of another.
func (s *Service) Proof(ctx context.Context, accountID, hostname string) (Proof, error) {
	text, err := s.tokens.Hash(ctx, accountID+"/"+hostname)
	return Proof{txtRecordPrefix + hostname, text}, err
}

func (r record) resource() audit.Resource {
	return audit.Resource{
		Type: "custom-domain", ID: r.Hostname,
		Metadata: map[string]string{"deployment": r.servedDeployment()},
	}
}

var (
	errNoDomain = fault.Missing("custom domain")
	errInUse    = fault.New(fault.Conflict, "The account has a custom domain of this hostname. Update that one, or "+
		"name a deployment that it does not lead to yet.")
	errOwnedByOther = fault.New(fault.Conflict, "Another account of this installation has proven that the hostname is "+
		"its own. It has to delete its custom domain first.")
	errRestrictedKey = fault.New(fault.NotFound, "This account key is limited to some projects or environments, and "+
		"sees no custom domains, which are the whole account's. Use a key without such limits.")
	errStageMismatch = fault.New(fault.Conflict, "The custom domain has another stage, or is an alias where this one is "+
		"none. Neither can change: delete it, and create it anew.")
)

// visible reports whether a caller sees the account's custom domains. A caller that is limited to projects or
// environments does not, because custom domains belong to the whole account.
func visible(o auth.Owner) bool { return o.Viewer.CanSee("", "") }

// CreateInput is the input of Create.
type CreateInput struct {
	Hostname string
	// Deployment is the name of the deployment to add, "" for a new custom domain without a deployment.
	Deployment string
	// Stage is the stage of the deployment that is served; "" means API.
	Stage Stage
	Alias bool
	// Default makes Deployment the served one, even if the custom domain already has deployments.
	Default bool
}

// Create creates a custom domain, or adds a deployment to an existing one. Its faults are:
//
// Invalid for an invalid hostname, and for a deployment of a working copy.
//
// NotFound for a missing deployment, and for a caller that is limited to projects or environments.
//
// Forbidden for a new hostname if the account has reached limits.CustomDomains.
//
// Conflict if the account already has the hostname and the input has another stage or alias, names no deployment, or
// names a deployment that is already mapped. Also Conflict if the custom domain already has MaxDeployments.
//
// Create does not reveal whether another account has the hostname: only a caller that proves its ownership learns this.
func (s *Service) Create(ctx context.Context, owner auth.Owner, input CreateInput) (Domain, error) {
	hostname, problem := parseHostname(input.Hostname, s.parts.Config)
	if problem != "" {
		return Domain{}, fault.InvalidField("hostname", "%s", problem)
	}
	if !visible(owner) {
		return Domain{}, errRestrictedKey
	}
	if input.Stage == "" {
		input.Stage = API
	}
	var after record
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		before, err := s.load(ctx, owner.AccountID, hostname)
		switch {
		case err != nil:
			return err
		case before.exists() && (before.Stage != input.Stage || before.Alias != input.Alias):
			return errStageMismatch
		case before.exists() && (input.Deployment == "" || before.hasDeployment(input.Deployment)):
			return errInUse
		}
		after = before
		if !before.exists() {
			after = record{
				ID: s.parts.IDs.Ordered("cdm", 26), AccountID: owner.AccountID, Account: owner.Account, Hostname: hostname,
				Stage: input.Stage, Alias: input.Alias, CreatedOn: s.now(), Shard: shardOf(s.parts.IDs.Digits(changeDigits)),
			}
		}
		if input.Deployment != "" {
			m, err := s.mapping(ctx, owner, input.Deployment)
			if err != nil {
				return err
			}
			if after, err = after.withMapping(m, input.Default); err != nil {
				return err
			}
		}
		return s.commitChange(ctx, before, &after)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.toDomain(ctx, after)
}

// commitChange replaces before with after in the table, together with all related writes. It sets UpdatedOn and Version
// of after. For a new custom domain, before is the zero record.
func (s *Service) commitChange(ctx context.Context, before record, after *record) error {
	after.UpdatedOn, after.Version = s.now(), before.Version+1
	writes := append(before.attachmentWrites(*after), audit.Record(ctx, after.resource()))
	if before.exists() {
		writes = append(writes, before.replaceWrite(*after))
		if before.VerifiedOn != nil && before.servedDeployment() != after.servedDeployment() {
			writes = append(writes, store.Update(hostKey(after.Hostname),
				store.Set(store.At("deployment"), after.servedDeployment())).Else(store.ErrStale))
			writes = append(writes, after.changedWrites(s.parts.IDs.Digits(changeDigits))...)
		}
	} else {
		reservation, err := counts.Open(s.parts).CheckCapacity(ctx, after.AccountID, limits.CustomDomains,
			countKey(after.AccountID))
		if err != nil {
			return err
		}
		writes = append(writes,
			store.Create(key(after.AccountID, after.Hostname), *after).Else(store.ErrStale),
			store.Upsert(countKey(after.AccountID), store.Add(store.At("count"), 1)).If(reservation.If).Else(reservation.Else),
			s.beginVerification(*after),
		)
	}
	return s.parts.Table.Commit(ctx, writes...)
}

// changeDigits is the length of the ID of a change. It is long enough that IDs are unique.
const changeDigits = 16

// replaceWrite returns the write that replaces the custom domain with after. It fails with store.ErrStale if the custom
// domain has changed since r was read.
func (r record) replaceWrite(after record) store.Write {
	return store.Put(key(r.AccountID, r.Hostname), after).If(store.And(
		store.Equal(store.At("id"), r.ID), store.Equal(store.At("version"), r.Version))).Else(store.ErrStale)
}

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

// load reads a custom domain. The result has no ID if it does not exist.
func (s *Service) load(ctx context.Context, accountID, hostname string) (r record, err error) {
	if err := s.parts.Table.Load(ctx, store.Get(key(accountID, hostname), &r)); err != nil {
		return record{}, fmt.Errorf("read a custom domain: %w", err)
	}
	return r, nil
}

// List returns the account's custom domains sorted by hostname. It returns none if the caller is limited to projects or
// environments.
func (s *Service) List(ctx context.Context, owner auth.Owner) ([]Domain, error) {
	if !visible(owner) {
		return nil, nil
	}
	all, err := store.Collect[record](ctx, s.parts.Table, store.Query{PK: partition(owner.AccountID)})
	if err != nil {
		return nil, fmt.Errorf("read an account's custom domains: %w", err)
	}
	out := make([]Domain, 0, len(all))
	for _, r := range all {
		d, err := s.toDomain(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Read returns a custom domain. It returns NotFound if the custom domain is missing or invisible.
func (s *Service) Read(ctx context.Context, owner auth.Owner, hostname string) (Domain, error) {
	r, err := s.find(ctx, owner, hostname)
	if err != nil {
		return Domain{}, err
	}
	return s.toDomain(ctx, r)
}

// find returns a custom domain of the caller's account. text is its hostname as the caller wrote it. find returns
// NotFound if the custom domain is missing or invisible.
func (s *Service) find(ctx context.Context, owner auth.Owner, text string) (record, error) {
	hostname, problem := parseHostname(text, s.parts.Config)
	// An invalid hostname is not a valid table key.
	if !visible(owner) || problem != "" {
		return record{}, errNoDomain
	}
	r, err := s.load(ctx, owner.AccountID, hostname)
	if err == nil && !r.exists() {
		err = errNoDomain
	}
	return r, err
}

// Update changes the deployments of a custom domain. If deployment is "", Update removes all of them. If the custom
// domain does not have the deployment yet, the deployment replaces the served one, even if notDefault is true. If the
// custom domain already has the deployment, Update moves it to the first place, so that it is served. If notDefault is
// true in this case, Update does not change the order.
//
// Update returns NotFound for a custom domain or deployment that is missing or invisible, Invalid for a deployment of a
// working copy, and Conflict if notDefault is true, the deployment is the served one, and the custom domain has other
// deployments.
func (s *Service) Update(
	ctx context.Context, owner auth.Owner, hostname, deployment string, notDefault bool,
) (Domain, error) {
	var after record
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		before, err := s.find(ctx, owner, hostname)
		if err != nil {
			return err
		}
		after = before
		switch {
		case deployment == "":
			after.Mappings = nil
		case before.hasDeployment(deployment):
			if after, err = before.withDefault(deployment, notDefault); err != nil {
				return err
			}
		default:
			m, err := s.mapping(ctx, owner, deployment)
			if err != nil {
				return err
			}
			after = before.withServed(m)
		}
		return s.commitChange(ctx, before, &after)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.toDomain(ctx, after)
}

// Delete deletes a custom domain. If deployment is not "", Delete only removes this deployment from the custom domain.
// Gateways stop serving the hostname or the deployment within Staleness. Delete returns NotFound for a custom domain
// that is missing or invisible, and for a deployment that the custom domain does not have.
func (s *Service) Delete(ctx context.Context, owner auth.Owner, hostname, deployment string) error {
	return s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		r, err := s.find(ctx, owner, hostname)
		switch {
		case err != nil:
			return err
		case deployment == "":
			return s.deleteDomain(ctx, r)
		case !r.hasDeployment(deployment):
			return errNotMapped
		}
		if err := reportRemovals(ctx, 0, 1, 0); err != nil {
			return err
		}
		after := r.withoutMapping(deployment)
		return s.commitChange(ctx, r, &after)
	})
}

func (s *Service) deleteDomain(ctx context.Context, r record) error {
	certificates := 0
	if r.Certificate != nil {
		certificates = 1
	}
	if err := reportRemovals(ctx, 1, len(r.Mappings), certificates); err != nil {
		return err
	}
	writes := append(r.attachmentWrites(record{AccountID: r.AccountID}),
		store.Delete(key(r.AccountID, r.Hostname)),
		store.Update(countKey(r.AccountID), store.Add(store.At("count"), -1)),
		audit.Record(ctx, r.resource()),
	)
	if r.VerifiedOn != nil {
		writes = append(writes, store.Delete(hostKey(r.Hostname)))
		writes = append(writes, r.removedWrites()...)
	}
	return s.parts.Table.Commit(ctx, writes...)
}

// reportRemovals reports to a dry run how many resources a deletion removes.
func reportRemovals(ctx context.Context, domains, mappings, certificates int) error {
	return store.ReportRemovals(ctx, func(context.Context) (map[string]int, error) {
		return map[string]int{
			"customDomains": domains, "customDomainMappings": mappings,
			"customDomainCertificates": certificates,
		}, nil
	})
}

// attachmentWrites returns the writes that update the number of custom domains of each deployment and project, for a
// change from r to after.
func (r record) attachmentWrites(after record) []store.Write {
	return deployments.AttachmentWrites(after.AccountID, r.attachments(), after.attachments())
}
