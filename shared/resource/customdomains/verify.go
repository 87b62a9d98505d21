package customdomains

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Verification is the kind of the durable operation that looks up the TXT record of a new custom domain. So the owner
// need not call Verify. The operation ends when the record is found, when the custom domain was deleted or verified by
// Verify, or when seven days have passed.
const Verification = "custom-domain.verify"

const lookUpState = "look"

// dnsTimeout is the maximum time that a request waits for the DNS.
const dnsTimeout = 5 * time.Second

// verificationDeadline is how long the operation looks for the TXT record of a new custom domain. Verify also works later.
const verificationDeadline = 7 * 24 * time.Hour

// lookUpInterval returns the delay before the next DNS lookup for a custom domain of the given age. The delay is short
// for a new custom domain, because its owner may be waiting. The actual delay is up to a minute longer, because the
// sweep runs once a minute. An operation makes about 220 lookups at most.
func lookUpInterval(age time.Duration) time.Duration {
	switch {
	case age < 10*time.Minute:
		return 30 * time.Second
	case age < time.Hour:
		return 5 * time.Minute
	case age < 24*time.Hour:
		return 30 * time.Minute
	}
	return time.Hour
}

// minIntervalAfterTimeout is the minimum pause after a DNS query that timed out. Without it, many hostnames with an
// unresponsive name server could keep all workers busy.
const minIntervalAfterTimeout = time.Hour

// verification is the input of a Verification.
type verification struct {
	AccountID string `json:"accountId"`
	Hostname  string `json:"hostname"`
	ID        string `json:"id"`
}

func (s *Service) beginVerification(r record) store.Write {
	return operation.Create(operation.Start{
		ID: "verify-" + r.ID, Kind: Verification, Subject: r.Hostname, AccountID: r.AccountID,
		Input: verification{r.AccountID, r.Hostname, r.ID},
	}, s.now())
}

// Definitions returns the definition of Verification. IssuanceDefinition returns the definition of Issuance.
func (s *Service) Definitions() []operation.Definition {
	return []operation.Definition{{
		Kind: Verification, First: lookUpState,
		States: map[string]operation.State{
			lookUpState: {
				Description: "looks for the TXT record of a custom domain, for seven days", Task: s.lookUpProof,
				Next: operation.Succeed,
				// These attempts are for errors of the table. After any error of the DNS, lookUpProof repeats the state
				// itself.
				Retry: operation.Retry{Attempts: 1000, InitialDelay: time.Minute, MaxDelay: time.Hour},
			},
		},
	}}
}

// lookUpProof queries the TXT record of a claim once.
func (s *Service) lookUpProof(ctx context.Context, step operation.Step) (operation.Result, error) {
	var in verification
	if err := step.Input(&in); err != nil {
		return operation.Result{}, err
	}
	r, err := s.load(ctx, in.AccountID, in.Hostname)
	if err != nil {
		return operation.Result{}, err
	}
	if r.ID != in.ID || r.VerifiedOn != nil {
		return operation.Result{}, nil // the custom domain was deleted, or is already verified
	}
	age := step.Now.Sub(r.CreatedOn)
	interval := lookUpInterval(age)
	switch err := s.checkProof(ctx, r); {
	case err == nil:
		// If the hostname belongs to another account, the conflict ends the operation. A caller of Verify gets the
		// conflict as its fault.
		return operation.Result{Writes: s.verifyWrites(&r)}, nil
	case age >= verificationDeadline:
		return operation.Result{Message: errRecordMissing.Public}, nil
	case isTimeout(err):
		interval = max(interval, minIntervalAfterTimeout)
	}
	return operation.Result{Repeat: true, Delay: interval}, nil
}

func isTimeout(err error) bool {
	netErr, ok := errors.AsType[net.Error](err)
	return ok && netErr.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// Verify queries the TXT record of a custom domain that is not verified. It returns Conflict if the record is missing,
// if the DNS does not respond, or if the hostname belongs to another account. It returns NotFound for a custom domain
// that is missing or invisible. A verified custom domain stays verified, without a query. If it has no certificate and
// the installation has an authority by now, Verify begins a certificate order.
func (s *Service) Verify(ctx context.Context, owner auth.Owner, hostname string) (Domain, error) {
	var r record
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) (err error) {
		if r, err = s.find(ctx, owner, hostname); err != nil {
			return err
		}
		var writes []store.Write
		if before := r; r.VerifiedOn != nil {
			r.UpdatedOn, r.Version = s.now(), r.Version+1
			writes = append(s.beginFirstIssuance(&r), before.replaceWrite(r))
		} else {
			if err := s.checkProof(ctx, r); err != nil {
				return err
			}
			writes = s.verifyWrites(&r)
		}
		return s.parts.Table.Commit(ctx, append(writes, audit.Record(ctx, r.resource()))...)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.toDomain(ctx, r)
}

// verifyWrites returns the writes that assign a hostname to the account, and changes r. The writes fail with a Conflict
// if the hostname belongs to another account.
func (s *Service) verifyWrites(r *record) []store.Write {
	before, writes := *r, r.changedWrites(s.parts.IDs.Digits(changeDigits))
	r.VerifiedOn, r.UpdatedOn, r.Version = new(s.now()), s.now(), r.Version+1
	writes = append(writes, s.beginFirstIssuance(r)...)
	hostWrite := store.Create(hostKey(r.Hostname), host{
		ID: r.ID, AccountID: r.AccountID, Hostname: r.Hostname, Deployment: r.servedDeployment(),
	}).Else(errOwnedByOther)
	return append([]store.Write{before.replaceWrite(*r), hostWrite}, writes...)
}

// checkProof returns nil if the TXT record of a custom domain is in the DNS, errRecordMissing if it is not, and
// errDNSUnavailable if the DNS does not respond.
func (s *Service) checkProof(ctx context.Context, r record) error {
	want, err := s.Proof(ctx, r.AccountID, r.Hostname)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	// The final dot prevents that the resolver appends the search domains of this machine.
	found, err := s.parts.DNS.LookupTXT(ctx, want.Name+".")
	if dnsErr, ok := errors.AsType[*net.DNSError](err); ok && dnsErr.IsNotFound {
		found, err = nil, nil
	}
	switch {
	case err != nil:
		return errDNSUnavailable.WithCause(err)
	case !slices.Contains(found, want.Value):
		return errRecordMissing
	}
	return nil
}

var (
	errRecordMissing = fault.New(fault.Conflict, "The DNS has no TXT record yet of the name and with the text that the "+
		"custom domain's ownershipVerification says. Set it where the zone of the hostname is kept, wait until the DNS "+
		"tells it, then repeat the request.")
	errDNSUnavailable = fault.New(fault.Conflict, "The DNS does not answer for the hostname now. Check that its zone is "+
		"delegated, then repeat the request.")
)
