package customdomains

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/store"
)

// Issuing is the kind of the durable operation that obtains one certificate of a hostname by
// ACME (RFC 8555). It begins the next one, which renews it or tries again.
const Issuing = "custom-domain.certificate"

const (
	ordering = "order"
	proving  = "prove"
	issuing  = "issue"
	failing  = "fail"
)

// ACME certificates are obtained and renewed by the installation.
const ACME Source = "acme"

// Authority is a certificate authority that is asked for certificates by ACME. Its errors are
// faults where a custom domain's owner may read them.
type Authority interface {
	// Order places an order for a hostname, to be proven by HTTP-01 or else by TLS-ALPN-01.
	Order(ctx context.Context, hostname string, byHTTP bool) (Order, error)
	// Accept tells that the order's challenge is answered at the hostname, unless it was told.
	Accept(ctx context.Context, o Order) error
	// Finish gives the chain in PEM that was issued for a signing request; "" is not yet.
	Finish(ctx context.Context, o Order, csr []byte) (chain string, err error)
}

// BusyError is an Authority's that wants to be left alone for a while.
type BusyError struct {
	// Fault says so to the custom domain's owner.
	Fault *fault.Fault
	After time.Duration
}

// Error implements error.
func (e *BusyError) Error() string { return e.Fault.Error() }

// Unwrap gives the fault.
func (e *BusyError) Unwrap() error { return e.Fault }

// Order is an order of a certificate, and how its challenge is answered.
type Order struct {
	URL       string `json:"url"`
	Authz     string `json:"authz"`
	Challenge string `json:"challenge"` // "" where the hostname is proven already
	// Token and KeyAuth are what is asked for by HTTP-01, and its answer.
	Token   string `json:"token,omitempty"`
	KeyAuth string `json:"keyAuth,omitempty"`
	// Chain and Key are the answer to TLS-ALPN-01, in PEM: no secret, since it is for nothing else.
	Chain string `json:"chain,omitempty"`
	Key   string `json:"key,omitempty"`
}

// issue is what an Issuing is begun with.
type issue struct {
	AccountID string `json:"accountId"`
	Hostname  string `json:"hostname"`
	// Number counts the orders of the hostname: one of an odd number is proven by TLS-ALPN-01,
	// another by HTTP-01.
	Number int `json:"number"`
}

const (
	// firstPause is between a failure and the next order, doubled with each until longestPause:
	// three in the first hour, of five that public authorities allow.
	firstPause, longestPause = 15 * time.Minute, 24 * time.Hour
	// issueTimeout is how long an authority may take for an order.
	issueTimeout = 15 * time.Minute
	// A worker asks again by itself for as long as most authorities take; what takes longer is
	// left to sweeps, which come once a minute.
	askSoon, askLater, soon = 2 * time.Second, 30 * time.Second, 30 * time.Second
	// heardOf is after how long every gateway answers an order's challenge.
	heardOf = 2 * challengeAge
	// MaxOrders is how many certificates are ordered for an account in orderWindow at most, failed ones
	// and renewals included: an authority counts the installation's orders all together (300 in three
	// hours is usual), and no account may take them from the others. A thousand hostnames are renewed
	// at some 40 in that time.
	MaxOrders   = 60
	orderWindow = 3 * time.Hour
	// challengeLife is when a challenge that nobody has removed expires.
	challengeLife = 24 * time.Hour
	// stepTimeout is for some requests to the authority, one after the other.
	stepTimeout = time.Minute
	// proofAge is how old the proof of a hostname has to be when the authority looks: by then
	// every gateway knows it.
	proofAge = Staleness + readTimeout
)

// nextIssue is the write that begins the next operation on a hostname's certificate.
func (s *Service) nextIssue(r *record, number int, on time.Time) store.Write {
	r.Orders = number
	r.Certificate.Operation, r.Certificate.Next = "certify-"+r.ID+"-"+strconv.Itoa(number), on
	return operation.Begin(operation.Start{
		ID: r.Certificate.Operation, Kind: Issuing, Subject: r.Hostname, AccountID: r.AccountID,
		Input: issue{r.AccountID, r.Hostname, number}, NotBefore: on,
	}, s.now())
}

// certify are the writes that begin an order of a proven hostname that has no
// certificate, none where the installation has no authority.
func (s *Service) certify(r *record) []store.Write {
	if s.parts.Config.ACMEDirectory == "" || r.Alias || r.Certificate != nil {
		return nil
	}
	r.Certificate = &Certificate{Source: ACME}
	return []store.Write{s.nextIssue(r, (r.Orders+1)|1, s.now())} // an odd one, by TLS-ALPN-01
}

// Issue returns the definition of Issuing, over an authority.
func (s *Service) Issue(a Authority) operation.Definition {
	i := issuer{s, a}
	retry := operation.Retry{Attempts: 3, First: 10 * time.Second}
	return operation.Definition{
		Kind: Issuing, First: ordering,
		States: map[string]operation.State{
			ordering: {Timeout: stepTimeout, Does: "orders a certificate, and has gateways answer the authority's challenge", Task: i.patiently(i.order), Next: proving, Or: []string{operation.Succeed}, Retry: retry, Catch: failing},
			proving:  {Timeout: stepTimeout, Does: "has the authority look", Task: i.patiently(i.prove), Next: issuing, Or: []string{operation.Succeed}, Retry: retry, Catch: failing},
			issuing:  {Timeout: stepTimeout, Does: "has the certificate issued and served, and begins its renewal for when a third of its time is left", Task: i.patiently(i.issue), Next: operation.Succeed, Retry: retry, Catch: failing},
			failing:  {Does: "notes why there is no certificate, and begins another attempt, ever later", Task: i.fail, Next: operation.Succeed, Must: true},
		},
	}
}

type issuer struct {
	*Service
	authority Authority
}

// its reads the custom domain that an operation is for. There is none any more, ok is false,
// where it is gone or has a certificate from elsewhere.
func (i issuer) its(ctx context.Context, step operation.Step) (in issue, r record, ok bool, err error) {
	if err := step.Input(&in); err != nil {
		return in, r, false, err
	}
	r, err = i.load(ctx, in.AccountID, in.Hostname)
	return in, r, r.Certificate != nil && r.Certificate.Operation == step.ID, err
}

// stored is the write of a changed custom domain for which an operation stands.
func (r record) stored(after record, now time.Time) store.Write {
	after.UpdatedOn, after.Version = now, r.Version+1
	return r.replace(after)
}

func (i issuer) order(ctx context.Context, step operation.Step) (operation.Result, error) {
	in, r, ok, err := i.its(ctx, step)
	if err != nil {
		return operation.Result{}, err
	}
	if !ok {
		return operation.Result{Next: operation.Succeed}, nil
	}
	if wait, err := i.pace(ctx, in.AccountID, step); wait > 0 || err != nil {
		return operation.Result{Again: true, After: wait}, err
	}
	// By turns: who reaches the hostname at one port may not reach it at the other.
	o, err := i.authority.Order(ctx, r.Hostname, in.Number%2 == 0)
	if err != nil {
		return operation.Result{}, err
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), i.parts.Random)
	if err != nil {
		return operation.Result{}, fmt.Errorf("make the key of a certificate: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return operation.Result{}, fmt.Errorf("encode the key of a certificate: %w", err)
	}
	sealed, err := i.sealer.Seal(ctx, der, orderContext(step))
	if err != nil {
		return operation.Result{}, err
	}
	return operation.Result{
		Data: o, After: heardOf,
		Writes: []store.Write{
			// The authority took its time: the hostname may be another account's by now.
			store.Check(key(in.AccountID, in.Hostname), store.Equal(store.At("certificate", "operation"), step.ID)).Else(store.ErrStale),
			store.Put(challengeKey(r.Hostname), challenge{
				ID: r.ID, PlacedOn: step.Now, Pending: sealed, Token: o.Token, KeyAuth: o.KeyAuth, Chain: o.Chain, Key: o.Key, TTL: step.Now.Add(challengeLife).Unix(),
			}),
		},
	}, nil
}

// orders is how many certificates were ordered for an account in a window of time.
type orders struct {
	store.Rest

	Begin  time.Time `dynamodbav:"begin"`
	Placed int       `dynamodbav:"placed"`
}

// pace counts an order of an account, and gives how long to wait where it has had its share.
func (i issuer) pace(ctx context.Context, accountID string, step operation.Step) (wait time.Duration, err error) {
	begin := step.Now.UTC().Truncate(orderWindow)
	err = i.parts.Table.Again(ctx, func(ctx context.Context) error {
		var its orders
		if err := i.parts.Table.Load(ctx, store.Want(paceKey(accountID), &its)); err != nil {
			return fmt.Errorf("read an account's orders: %w", err)
		}
		if its.Begin.Before(begin) {
			its = orders{Rest: its.Rest, Begin: begin}
		}
		if its.Placed >= MaxOrders {
			wait = its.Begin.Add(orderWindow).Sub(step.Now) + spread(orderWindow/10, step.ID)
			return nil
		}
		wait = 0
		its.Placed++
		return i.parts.Table.Commit(ctx, store.Put(paceKey(accountID), its))
	})
	return wait, err
}

func orderContext(step operation.Step) string { return "custom-domain-order/" + step.ID }

func (i issuer) prove(ctx context.Context, step operation.Step) (operation.Result, error) {
	_, r, ok, err := i.its(ctx, step)
	if err != nil || !ok {
		return operation.Result{}, err // issue ends it
	}
	var o Order
	if err := step.Data(&o); err != nil {
		return operation.Result{}, err
	}
	switch {
	case o.Challenge == "":
		return operation.Result{}, nil
	case step.Now.Sub(*r.VerifiedOn) < proofAge:
		return operation.Result{Again: true, After: askSoon}, nil
	}
	return operation.Result{After: askSoon}, i.authority.Accept(ctx, o)
}

var errSlow = fault.New(fault.Conflict, "The certificate authority has not issued the certificate within %s. It is tried again.", issueTimeout)

func (i issuer) issue(ctx context.Context, step operation.Step) (operation.Result, error) {
	in, r, ok, err := i.its(ctx, step)
	if err != nil || !ok {
		return operation.Result{}, err
	}
	var o Order
	if err := step.Data(&o); err != nil {
		return operation.Result{}, err
	}
	var c challenge
	if err := i.parts.Table.Get(ctx, challengeKey(r.Hostname), &c); err != nil {
		return operation.Result{}, fmt.Errorf("read the key of an order: %w", err)
	}
	der, err := i.sealer.Open(ctx, c.Pending, orderContext(step))
	if err != nil {
		return operation.Result{}, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return operation.Result{}, fmt.Errorf("read the key of a certificate: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(i.parts.Random, &x509.CertificateRequest{DNSNames: []string{r.Hostname}}, key)
	if err != nil {
		return operation.Result{}, fmt.Errorf("make a signing request: %w", err)
	}
	chain, err := i.authority.Finish(ctx, o, csr)
	switch {
	case err != nil:
		return operation.Result{}, err
	case chain == "" && step.Now.Sub(c.PlacedOn) > issueTimeout:
		return operation.Result{}, errSlow
	case chain == "" && step.Now.Sub(c.PlacedOn) > soon:
		return operation.Result{Again: true, After: askLater}, nil
	case chain == "":
		return operation.Result{Again: true, After: askSoon}, nil
	}
	its, wrongChain, wrongKey := pki.ReadServerPair(chain, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), r.Hostname, step.Now)
	if wrong := wrongChain + wrongKey; wrong != "" {
		return operation.Result{}, fault.New(fault.Conflict, "What the certificate authority has issued %s. It is tried again; upload a certificate meanwhile.", wrong)
	}
	after := r
	after.Certificate = &Certificate{
		Source: ACME, Issuer: pki.Name(its.Leaf.RawIssuer), ValidFrom: its.Leaf.NotBefore.UTC(), ValidTo: its.Leaf.NotAfter.UTC(),
	}
	writes, err := i.serving(ctx, r, its.Chain, its.Key)
	if err != nil {
		return operation.Result{}, err
	}
	begin := i.nextIssue(&after, in.Number+2, renewal(its.Leaf, step.ID)) // the same way again
	return operation.Result{Writes: append(writes, begin, r.stored(after, store.Instant(step.Now)), store.Delete(challengeKey(r.Hostname)))}, nil
}

// renewal is when a certificate is renewed: with a third of its time left, and up to a
// thirtieth earlier, so that those issued together are not renewed together.
func renewal(c *x509.Certificate, id string) time.Time {
	life := c.NotAfter.Sub(c.NotBefore)
	return store.Instant(c.NotAfter.Add(-life / 3).Add(-spread(life/30, id)))
}

// spread is a part of a span that follows from an id.
func spread(span time.Duration, id string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	const parts = 1000
	return span / parts * time.Duration(h.Sum32()%parts)
}

func (i issuer) fail(ctx context.Context, step operation.Step) (operation.Result, error) {
	return i.tryAgain(ctx, step, step.Caught, 0)
}

// patiently runs a task, and begins another attempt where the authority wants to be left alone for a while.
func (i issuer) patiently(task operation.Task) operation.Task {
	return func(ctx context.Context, step operation.Step) (operation.Result, error) {
		result, err := task(ctx, step)
		if busy, ok := errors.AsType[*BusyError](err); ok {
			return i.tryAgain(ctx, step, busy.Fault.Public, busy.After)
		}
		return result, err
	}
}

// tryAgain notes why an attempt came to nothing, and begins another one: later with each failure, and not before a pause
// that the authority has asked for, as far as that is no more than longestPause.
func (i issuer) tryAgain(ctx context.Context, step operation.Step, why string, atLeast time.Duration) (operation.Result, error) {
	in, r, ok, err := i.its(ctx, step)
	if err != nil || !ok {
		return operation.Result{Next: operation.Succeed}, err
	}
	after, its := r, *r.Certificate
	after.Certificate = &its
	its.Message, its.Failures = why, its.Failures+1
	pause := firstPause
	for range its.Failures - 1 {
		pause = min(2*pause, longestPause)
	}
	pause = max(pause, min(atLeast, longestPause))
	begin := i.nextIssue(&after, in.Number+1, store.Instant(step.Now.Add(pause).Add(spread(pause/10, step.ID))))
	return operation.Result{
		Next:   operation.Succeed,
		Writes: []store.Write{begin, r.stored(after, store.Instant(step.Now)), store.Delete(challengeKey(r.Hostname))},
	}, nil
}
