// Package customdomains is the service of an account's custom domains: hostnames of its
// own at which its deployments are served (specification 4.4; contract 2.4).
//
// Whoever creates one gets a TXT record to set, whose text is of the account and the hostname
// and stays the same. Until it is found in the DNS the custom domain is a claim, which keeps
// nobody else from theirs; from then on the hostname is the account's, and no other's of
// the installation, until it is deleted.
//
// What it is not: it listens nowhere and asks the DNS through installation.Resolver. Which
// deployments there are, package deployments knows.
//
// Read this file first, then hostname.go (which names may be one), verify.go (the proof),
// mapping.go (deployments), certificate.go, issue.go (certificates by ACME), directory.go and
// challenge.go (what a gateway asks), and table.go.
package customdomains

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// MaxDeployments is how many deployments a custom domain leads to at most.
	MaxDeployments = 10
)

// Stage is what of a deployment a custom domain serves.
type Stage string

// The stages. A gateway serves APIs; nothing serves developer portals.
const (
	API       Stage = "api"
	DevPortal Stage = "dev-portal"
)

// Service does the operations. It is safe for concurrent use.
type Service struct {
	parts  installation.Parts
	tokens *seal.Hasher
	sealer Sealer
}

// Open makes the Service of an installation.
func Open(p installation.Parts) *Service { return &Service{p, p.Hasher("custom-domain"), p.Sealer()} }

// Domain is a custom domain as its owner sees it.
type Domain struct {
	ID, Account, Hostname string
	Stage                 Stage
	// Alias says that TLS ends before the gateway, at a proxy of the owner's: no certificate
	// is obtained for the hostname.
	Alias bool
	// Mappings are the deployments that it leads to, the served one first.
	Mappings []Mapping
	// Proof is the TXT record to set, nil once it was found.
	Proof *Proof
	// Certificate is nil before there is one.
	Certificate          *Certificate
	CreatedOn, UpdatedOn time.Time
}

// Proof is the TXT record by which a hostname's owner shows that it is theirs.
type Proof struct{ Name, Value string }

// record is a custom domain in the table.
type record struct {
	store.Rest

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
	// VerifiedOn is when the TXT record was found, nil before.
	VerifiedOn *time.Time `dynamodbav:"verifiedOn,omitempty"`
	// Shard is where gateways find the hostname, once it is proven. Nobody is told.
	Shard string `dynamodbav:"shard"`
	// Certificate is nil before there is one.
	Certificate *Certificate `dynamodbav:"certificate,omitempty"`
	// Orders is the number of the last order of a certificate, 0 before the first.
	Orders  int   `dynamodbav:"orders,omitempty"`
	Version int64 `dynamodbav:"version"`
}

// host is what is served at a hostname: all that a gateway needs of it, in one read.
type host struct {
	store.Rest

	// ID is the custom domain's: one that is made again has another.
	ID        string `dynamodbav:"id"`
	AccountID string `dynamodbav:"accountId"`
	Hostname  string `dynamodbav:"hostname"`
	// Deployment is the served one, "" for none.
	Deployment string `dynamodbav:"deployment"`
	// Certificate is nil where the hostname is not served by TLS.
	Certificate *pair `dynamodbav:"certificate,omitempty"`
}

func (r record) exists() bool { return r.ID != "" }

func (s *Service) shown(ctx context.Context, r record) (Domain, error) {
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

// Proof gives the TXT record by which an account proves that a hostname is its own: always
// the same, and another for each account, so that none uses another's.
func (s *Service) Proof(ctx context.Context, accountID, hostname string) (Proof, error) {
	text, err := s.tokens.Hash(ctx, accountID+"/"+hostname)
	return Proof{challengeLabel + hostname, text}, err
}

func (r record) resource() audit.Resource {
	return audit.Resource{Type: "custom-domain", ID: r.Hostname, Metadata: map[string]string{"deployment": r.served()}}
}

var (
	errNoDomain = fault.Missing("custom domain")
	errInUse    = fault.New(fault.Conflict, "The account has a custom domain of this hostname. Update that one, or name a deployment that it does not lead to yet.")
	errTaken    = fault.New(fault.Conflict, "Another account of this installation has proven that the hostname is its own. It has to delete its custom domain first.")
	errLimited  = fault.New(fault.NotFound, "This account key is limited to some projects or environments, and sees no custom domains, which are the whole account's. Use a key without such limits.")
	errKind     = fault.New(fault.Conflict, "The custom domain has another stage, or is an alias where this one is none. Neither can change: delete it, and create it anew.")
)

// visible reports whether a caller sees the account's custom domains, which belong to
// none of its projects and environments.
func visible(o auth.Owner) bool { return o.Viewer.MaySee("", "") }

// New is what a custom domain is made of.
type New struct {
	Hostname string
	// Deployment is the one that it leads to, "" for none yet.
	Deployment string
	// Stage is API for "".
	Stage Stage
	Alias bool
	// Default has the deployment be served, where others are there already.
	Default bool
}

// Create makes a custom domain, or has one that is there lead to a further deployment. It
// answers Invalid faults for a bad hostname and a deployment of a working copy; the refusal of limits.CustomDomains;
// NotFound for a deployment that is not there and to a caller with limits;
// and Conflict where the account has the hostname already and leads to the deployment or to none
// more. Whether another account has it, only who proves that it is theirs is told.
func (s *Service) Create(ctx context.Context, owner auth.Owner, n New) (Domain, error) {
	hostname, wrong := parse(n.Hostname, s.parts.Config)
	if wrong != "" {
		return Domain{}, fault.InvalidField("hostname", "%s", wrong)
	}
	if !visible(owner) {
		return Domain{}, errLimited
	}
	if n.Stage == "" {
		n.Stage = API
	}
	var after record
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		before, err := s.load(ctx, owner.AccountID, hostname)
		switch {
		case err != nil:
			return err
		case before.exists() && (before.Stage != n.Stage || before.Alias != n.Alias):
			return errKind
		case before.exists() && (n.Deployment == "" || before.leadsTo(n.Deployment)):
			return errInUse
		}
		after = before
		if !before.exists() {
			after = record{
				ID: s.parts.IDs.Ordered("cdm", 26), AccountID: owner.AccountID, Account: owner.Account, Hostname: hostname,
				Stage: n.Stage, Alias: n.Alias, CreatedOn: s.now(), Shard: shardOf(s.parts.IDs.Digits(changeDigits)),
			}
		}
		if n.Deployment != "" {
			m, err := s.mapping(ctx, owner, n.Deployment)
			if err != nil {
				return err
			}
			if after, err = after.with(m, n.Default); err != nil {
				return err
			}
		}
		return s.change(ctx, before, &after)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.shown(ctx, after)
}

// change commits what a custom domain becomes: before is without an ID for one that is new.
func (s *Service) change(ctx context.Context, before record, after *record) error {
	after.UpdatedOn, after.Version = s.now(), before.Version+1
	writes := append(before.reattached(*after), audit.Record(ctx, after.resource()))
	if before.exists() {
		writes = append(writes, before.replace(*after))
		if before.VerifiedOn != nil && before.served() != after.served() {
			writes = append(writes, store.Update(hostKey(after.Hostname), store.Set(store.At("deployment"), after.served())).Else(store.ErrStale))
			writes = append(writes, after.touched(s.parts.IDs.Digits(changeDigits))...)
		}
	} else {
		room, err := counts.Open(s.parts).Beside(ctx, after.AccountID, limits.CustomDomains, countKey(after.AccountID))
		if err != nil {
			return err
		}
		writes = append(writes,
			store.Create(key(after.AccountID, after.Hostname), *after).Else(store.ErrStale),
			store.Upsert(countKey(after.AccountID), store.Add(store.At("count"), 1)).If(room.If).Else(room.Else),
			s.beginVerification(*after),
		)
	}
	return s.parts.Table.Commit(ctx, writes...)
}

// changeDigits is how long the id of a change of what is served is: two never meet.
const changeDigits = 16

// replace is the write of what a custom domain becomes.
func (r record) replace(after record) store.Write {
	return store.Put(key(r.AccountID, r.Hostname), after).If(store.And(
		store.Equal(store.At("id"), r.ID), store.Equal(store.At("version"), r.Version))).Else(store.ErrStale)
}

func (s *Service) now() time.Time { return store.Instant(s.parts.Now()) }

// load reads a custom domain, without an ID where there is none.
func (s *Service) load(ctx context.Context, accountID, hostname string) (r record, err error) {
	if err := s.parts.Table.Load(ctx, store.Want(key(accountID, hostname), &r)); err != nil {
		return record{}, fmt.Errorf("read a custom domain: %w", err)
	}
	return r, nil
}

// List gives the account's custom domains in the order of their hostnames; a caller with
// limits sees none.
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
		d, err := s.shown(ctx, r)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Read gives a custom domain. One that is not there or not seen is NotFound.
func (s *Service) Read(ctx context.Context, owner auth.Owner, hostname string) (Domain, error) {
	r, err := s.find(ctx, owner, hostname)
	if err != nil {
		return Domain{}, err
	}
	return s.shown(ctx, r)
}

func (s *Service) find(ctx context.Context, owner auth.Owner, text string) (record, error) {
	hostname, wrong := parse(text, s.parts.Config)
	// What is no hostname is no key to ask for.
	if !visible(owner) || wrong != "" {
		return record{}, errNoDomain
	}
	r, err := s.load(ctx, owner.AccountID, hostname)
	if err == nil && !r.exists() {
		err = errNoDomain
	}
	return r, err
}

// Update has a custom domain lead to a deployment in place of the served one, or to none
// of any for "". Where it leads to that deployment already, and to others, that one is served
// from now on, unless notDefault is set. It answers NotFound for what is not there or not
// seen, and Invalid for a deployment of a working copy.
func (s *Service) Update(ctx context.Context, owner auth.Owner, hostname, deployment string, notDefault bool) (Domain, error) {
	var after record
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		before, err := s.find(ctx, owner, hostname)
		if err != nil {
			return err
		}
		after = before
		switch {
		case deployment == "":
			after.Mappings = nil
		case before.leadsTo(deployment):
			if after, err = before.preferring(deployment, notDefault); err != nil {
				return err
			}
		default:
			m, err := s.mapping(ctx, owner, deployment)
			if err != nil {
				return err
			}
			after = before.reassigned(m)
		}
		return s.change(ctx, before, &after)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.shown(ctx, after)
}

// Delete removes a custom domain, or, with the name of a deployment, has it lead there no
// more. Gateways serve it no more from Staleness later on. It answers NotFound for what is
// not there or not seen.
func (s *Service) Delete(ctx context.Context, owner auth.Owner, hostname, deployment string) error {
	return s.parts.Table.Again(ctx, func(ctx context.Context) error {
		r, err := s.find(ctx, owner, hostname)
		switch {
		case err != nil:
			return err
		case deployment == "":
			return s.remove(ctx, r)
		case !r.leadsTo(deployment):
			return errNotMapped
		}
		if err := removes(ctx, 0, 1, 0); err != nil {
			return err
		}
		after := r.without(deployment)
		return s.change(ctx, r, &after)
	})
}

func (s *Service) remove(ctx context.Context, r record) error {
	certificates := 0
	if r.Certificate != nil {
		certificates = 1
	}
	if err := removes(ctx, 1, len(r.Mappings), certificates); err != nil {
		return err
	}
	writes := append(r.reattached(record{AccountID: r.AccountID}),
		store.Delete(key(r.AccountID, r.Hostname)),
		store.Update(countKey(r.AccountID), store.Add(store.At("count"), -1)),
		audit.Record(ctx, r.resource()),
	)
	if r.VerifiedOn != nil {
		writes = append(writes, store.Delete(hostKey(r.Hostname)))
		writes = append(writes, r.gone()...)
	}
	return s.parts.Table.Commit(ctx, writes...)
}

// removes tells a dry run how much a deletion takes away.
func removes(ctx context.Context, domains, mappings, certificates int) error {
	return store.Removes(ctx, func(context.Context) (map[string]int, error) {
		return map[string]int{"customDomains": domains, "customDomainMappings": mappings, "customDomainCertificates": certificates}, nil
	})
}

// reattached are the writes by which deployments know how many custom domains lead to
// them.
func (r record) reattached(after record) []store.Write {
	return deployments.Reattached(after.AccountID, r.attachments(), after.attachments())
}
