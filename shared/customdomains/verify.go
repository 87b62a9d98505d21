package customdomains

import (
	"context"
	"errors"
	"net"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// Verification is the kind of the durable operation that looks for the TXT record of a
// new custom domain until it is there, so that nobody has to ask for it.
const Verification = "custom-domain.verify"

const looking = "look"

// lookTimeout bounds what a request waits for the DNS.
const lookTimeout = 5 * time.Second

// giveUpAfter is how long a new custom domain's TXT record is looked for. Verify
// looks later too.
const giveUpAfter = 7 * 24 * time.Hour

// pauseAt is how long is waited before the next look at a custom domain that is so old, and then
// for a sweep, which comes each minute: short while somebody waits for it, and some 250 looks in all.
func pauseAt(age time.Duration) time.Duration {
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

// silentPause is how long is waited at least where the DNS has let a look wait in vain: many
// hostnames with a name server that never answers would keep the workers from all else.
const silentPause = time.Hour

type verification struct {
	AccountID string `json:"accountId"`
	Hostname  string `json:"hostname"`
	ID        string `json:"id"`
}

func (s *Service) beginVerification(r record) store.Write {
	return operation.Begin(operation.Start{
		ID: "verify-" + r.ID, Kind: Verification, Subject: r.Hostname, AccountID: r.AccountID,
		Input: verification{r.AccountID, r.Hostname, r.ID},
	}, s.now())
}

// Definitions returns the definitions of the durable operations.
func (s *Service) Definitions() []operation.Definition {
	return []operation.Definition{{
		Kind: Verification, First: looking,
		States: map[string]operation.State{
			looking: {
				Does: "looks for the TXT record of a custom domain, for seven days", Task: s.look, Next: operation.Succeed,
				// The DNS of a stranger may answer anything for a while.
				Retry: operation.Retry{Attempts: 1000, First: time.Minute, Longest: time.Hour},
			},
		},
	}}
}

// look is one look for the TXT record of a claim.
func (s *Service) look(ctx context.Context, step operation.Step) (operation.Result, error) {
	var in verification
	if err := step.Input(&in); err != nil {
		return operation.Result{}, err
	}
	r, err := s.load(ctx, in.AccountID, in.Hostname)
	if err != nil {
		return operation.Result{}, err
	}
	if r.ID != in.ID || r.VerifiedOn != nil {
		return operation.Result{}, nil // it is gone, or somebody was faster
	}
	age := step.Now.Sub(r.CreatedOn)
	pause := pauseAt(age)
	switch err := s.prove(ctx, r); {
	case err == nil:
		// A conflict ends the operation; whoever asks for the proof hears of it.
		return operation.Result{Writes: s.verified(&r)}, nil
	case age >= giveUpAfter:
		return operation.Result{Message: errUnproven.Public}, nil
	case isTimeout(err):
		pause = max(pause, silentPause)
	}
	return operation.Result{Again: true, After: pause}, nil
}

func isTimeout(err error) bool {
	failed, ok := errors.AsType[net.Error](err)
	return ok && failed.Timeout() || errors.Is(err, context.DeadlineExceeded)
}

// Verify looks for the TXT record of a custom domain now. It answers Conflict where it is not there, and
// where the DNS does not answer, and where the hostname is another account's; and NotFound for what is not there or not seen. One that was verified stays so, and
// gets a certificate where there was no authority for it before.
func (s *Service) Verify(ctx context.Context, owner auth.Owner, hostname string) (Domain, error) {
	var r record
	err := s.parts.Table.Again(ctx, func(ctx context.Context) (err error) {
		if r, err = s.find(ctx, owner, hostname); err != nil {
			return err
		}
		var writes []store.Write
		if before := r; r.VerifiedOn != nil {
			r.UpdatedOn, r.Version = s.now(), r.Version+1
			writes = append(s.certify(&r), before.replace(r))
		} else {
			if err := s.prove(ctx, r); err != nil {
				return err
			}
			writes = s.verified(&r)
		}
		return s.parts.Table.Commit(ctx, append(writes, audit.Record(ctx, r.resource()))...)
	})
	if err != nil {
		return Domain{}, err
	}
	return s.shown(ctx, r)
}

// verified are the writes by which a hostname is the account's from now on, a Conflict
// where it is another's.
func (s *Service) verified(r *record) []store.Write {
	before, writes := *r, r.touched(s.parts.IDs.Digits(changeDigits))
	r.VerifiedOn, r.UpdatedOn, r.Version = new(s.now()), s.now(), r.Version+1
	writes = append(writes, s.certify(r)...)
	own := store.Create(hostKey(r.Hostname), host{
		ID: r.ID, AccountID: r.AccountID, Hostname: r.Hostname, Deployment: r.served(),
	}).Else(errTaken)
	return append([]store.Write{before.replace(*r), own}, writes...)
}

// prove answers nil if the TXT record of a custom domain is in the DNS.
func (s *Service) prove(ctx context.Context, r record) error {
	want, err := s.Proof(ctx, r.AccountID, r.Hostname)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	// With the dot no search domain of this machine's is tried behind it.
	found, err := s.parts.DNS.LookupTXT(ctx, want.Name+".")
	if failed, ok := errors.AsType[*net.DNSError](err); ok && failed.IsNotFound {
		found, err = nil, nil
	}
	switch {
	case err != nil:
		return errSilent.Because(err)
	case !slices.Contains(found, want.Value):
		return errUnproven
	}
	return nil
}

var (
	errUnproven = fault.New(fault.Conflict, "The DNS has no TXT record yet of the name and with the text that the custom domain's ownershipVerification says. Set it where the zone of the hostname is kept, wait until the DNS tells it, then repeat the request.")
	errSilent   = fault.New(fault.Conflict, "The DNS does not answer for the hostname now. Check that its zone is delegated, then repeat the request.")
)
