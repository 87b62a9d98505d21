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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Issuance is the kind of the durable operation that obtains one certificate of a hostname by ACME (RFC 8555). At its
// end, it begins the next operation, which renews the certificate, or retries after a failure.
const Issuance = "custom-domain.certificate"

const (
	orderState = "order"
	proveState = "prove"
	issueState = "issue"
	failState  = "fail"
)

// ACME is the source of certificates that the installation obtains and renews by ACME.
const ACME Source = "acme"

// Authority is a certificate authority that issues certificates by ACME. Its
// errors are faults if the owner of the custom domain may read them.
type Authority interface {
	// Order places an order for a hostname, with an HTTP-01 challenge if byHTTP is true, and a TLS-ALPN-01 challenge otherwise.
	Order(ctx context.Context, hostname string, byHTTP bool) (Order, error)
	// Accept notifies the authority that the hostname responds to the order's
	// challenge. It does nothing if the authority was already notified.
	Accept(ctx context.Context, o Order) error
	// Finish returns the chain in PEM that was issued for a signing request, or "" if the chain is not issued yet.
	Finish(ctx context.Context, o Order, csr []byte) (chain string, err error)
}

// BusyError is the error of an Authority that requires a pause before the next request.
type BusyError struct {
	// Fault is the message for the owner of the custom domain.
	Fault      *fault.Fault
	RetryAfter time.Duration
}

// Error implements error.
func (e *BusyError) Error() string { return e.Fault.Error() }

// Unwrap returns the fault.
func (e *BusyError) Unwrap() error { return e.Fault }

// Order is a certificate order with the responses to its challenge.
type Order struct {
	URL       string `json:"url"`
	Authz     string `json:"authz"`
	Challenge string `json:"challenge"` // "" if the hostname is already validated
	// Token and KeyAuth are the token of an HTTP-01 request and its response.
	Token   string `json:"token,omitempty"`
	KeyAuth string `json:"keyAuth,omitempty"`
	// Chain and Key are the certificate for TLS-ALPN-01, in PEM. The key is not secret, because it has no other use.
	Chain string `json:"chain,omitempty"`
	Key   string `json:"key,omitempty"`
}

// issuanceInput is the input of an Issuance.
type issuanceInput struct {
	AccountID string `json:"accountId"`
	Hostname  string `json:"hostname"`
	// Number is the number of the hostname's order. An order with an odd number uses TLS-ALPN-01, and one with an even
	// number uses HTTP-01.
	Number int `json:"number"`
}

const (
	// firstRetryDelay is the pause between a failure and the next order. Each failure doubles it, up to maxRetryDelay.
	// So there are three orders in the first hour; public authorities allow five.
	firstRetryDelay, maxRetryDelay = 15 * time.Minute, 24 * time.Hour
	// issueTimeout is the maximum time that an authority may take to issue an ordered certificate.
	issueTimeout = 15 * time.Minute
	// While an order is younger than shortPollPeriod, which is enough for most authorities, a worker polls at
	// shortPollInterval. After that, it polls at longPollInterval, which means at the next sweep (once a minute).
	shortPollInterval, longPollInterval, shortPollPeriod = 2 * time.Second, 30 * time.Second, 30 * time.Second
	// challengePropagation is the time after which every gateway responds to an order's challenge.
	challengePropagation = 2 * challengeAge
	// MaxOrders is the maximum number of certificate orders of an account in one orderWindow, including failed orders
	// and renewals. An authority usually accepts 300 orders in three hours from the whole installation, and one account
	// must not use all of them. A thousand hostnames whose certificates were issued together need some 40 renewals in
	// an orderWindow (renewalTime).
	MaxOrders   = 60
	orderWindow = 3 * time.Hour
	// challengeLifetime is the time after which a challenge expires that was not deleted at the end of its order.
	challengeLifetime = 24 * time.Hour
	// stepTimeout allows several requests to the authority, one after the other.
	stepTimeout = time.Minute
	// minProofAge is the minimum time between the verification of a hostname and its validation by the authority. After
	// this time, every gateway knows the hostname.
	minProofAge = Staleness + readTimeout
)

// beginIssuance returns the write that begins the next operation on a hostname's certificate, which waits until
// notBefore. It also changes r, which the caller must write.
func (s *Service) beginIssuance(r *record, number int, notBefore time.Time) store.Write {
	r.Orders = number
	r.Certificate.Operation, r.Certificate.Next = "certify-"+r.ID+"-"+strconv.Itoa(number), notBefore
	return operation.Create(operation.Start{
		ID: r.Certificate.Operation, Kind: Issuance, Subject: r.Hostname, AccountID: r.AccountID,
		Input: issuanceInput{r.AccountID, r.Hostname, number}, NotBefore: notBefore,
	}, s.now())
}

// beginFirstIssuance returns the writes that begin a certificate order for a verified hostname without a certificate,
// and changes r like beginIssuance. It returns no writes if the installation has no authority, or if r is an alias or
// has a certificate.
func (s *Service) beginFirstIssuance(r *record) []store.Write {
	if s.parts.Config.ACMEDirectory == "" || r.Alias || r.Certificate != nil {
		return nil
	}
	r.Certificate = &Certificate{Source: ACME}
	return []store.Write{s.beginIssuance(r, (r.Orders+1)|1, s.now())} // an odd number: use TLS-ALPN-01
}

// IssuanceDefinition returns the definition of Issuance that uses this authority.
func (s *Service) IssuanceDefinition(a Authority) operation.Definition {
	i := issuer{s, a}
	retry := operation.Retry{Attempts: 3, InitialDelay: 10 * time.Second}
	return operation.Definition{
		Kind: Issuance, First: orderState,
		States: map[string]operation.State{
			orderState: {
				Timeout:     stepTimeout,
				Description: "orders a certificate, and has gateways answer the authority's challenge",
				Task:        i.withBackoff(i.order), Next: proveState, Alternatives: []string{operation.Succeed}, Retry: retry,
				Catch: failState,
			},
			proveState: {
				Timeout: stepTimeout, Description: "has the authority look", Task: i.withBackoff(i.prove),
				Next: issueState, Alternatives: []string{operation.Succeed}, Retry: retry, Catch: failState,
			},
			issueState: {
				Timeout: stepTimeout, Description: "has the certificate issued and served, and begins its renewal " +
					"for when a third of its time is left", Task: i.withBackoff(i.issue), Next: operation.Succeed, Retry: retry,
				Catch: failState,
			},
			failState: {
				Description: "notes why there is no certificate, and begins another attempt, ever later", Task: i.fail,
				Next: operation.Succeed, MustSucceed: true,
			},
		},
	}
}

// issuer has the tasks of an Issuance.
type issuer struct {
	*Service
	authority Authority
}

// loadDomain reads the custom domain of an operation. ok is false if the operation is obsolete: the custom domain was
// deleted, or its certificate has another source or operation.
func (i issuer) loadDomain(ctx context.Context, step operation.Step) (in issuanceInput, r record, ok bool, err error) {
	if err := step.Input(&in); err != nil {
		return in, r, false, err
	}
	r, err = i.load(ctx, in.AccountID, in.Hostname)
	return in, r, r.Certificate != nil && r.Certificate.Operation == step.ID, err
}

// versionedWrite works like replaceWrite, and also sets UpdatedOn and Version of after.
func (r record) versionedWrite(after record, now time.Time) store.Write {
	after.UpdatedOn, after.Version = now, r.Version+1
	return r.replaceWrite(after)
}

// order is the task that orders a certificate, and stores the challenge and the sealed key of the order.
func (i issuer) order(ctx context.Context, step operation.Step) (operation.Result, error) {
	in, r, ok, err := i.loadDomain(ctx, step)
	if err != nil {
		return operation.Result{}, err
	}
	if !ok {
		return operation.Result{Next: operation.Succeed}, nil
	}
	if delay, err := i.reserveOrder(ctx, in.AccountID, step); delay > 0 || err != nil {
		return operation.Result{Repeat: true, Delay: delay}, err
	}
	// The challenge types alternate between orders: an authority that cannot reach the hostname at one port may reach
	// it at the other.
	o, err := i.authority.Order(ctx, r.Hostname, in.Number%2 == 0)
	if err != nil {
		return operation.Result{}, err
	}
	privateKey, err := ecdsa.GenerateKey(elliptic.P256(), i.parts.Random)
	if err != nil {
		return operation.Result{}, fmt.Errorf("make the key of a certificate: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(privateKey)
	if err != nil {
		return operation.Result{}, fmt.Errorf("encode the key of a certificate: %w", err)
	}
	sealed, err := i.sealer.Seal(ctx, der, orderContext(step))
	if err != nil {
		return operation.Result{}, err
	}
	return operation.Result{
		Data: o, Delay: challengePropagation,
		Writes: []store.Write{
			// The authority's response took time, so the hostname may belong to another account by now.
			store.Check(key(in.AccountID, in.Hostname),
				store.Equal(store.At("certificate", "operation"), step.ID)).Else(store.ErrStale),
			store.Put(challengeKey(r.Hostname), challenge{
				ID: r.ID, OrderedOn: step.Now, SealedKey: sealed, Token: o.Token, KeyAuth: o.KeyAuth, Chain: o.Chain, Key: o.Key,
				TTL: step.Now.Add(challengeLifetime).Unix(),
			}),
		},
	}, nil
}

// orderCountPrefix is the key prefix of the number of recent certificate orders of each account.
const orderCountPrefix store.KeyPrefix = "custom-domain-orders"

// orderCount is the number of certificate orders of an account in a window of time.
type orderCount struct {
	store.UnknownAttributes

	WindowStart time.Time `dynamodbav:"begin"`
	Count       int       `dynamodbav:"placed"`
}

func orderCountKey(accountID string) store.Key { return orderCountPrefix.Key(accountID) }

// reserveOrder counts an order of an account. If the account has reached its limit, reserveOrder returns the time to wait.
func (i issuer) reserveOrder(
	ctx context.Context, accountID string, step operation.Step,
) (wait time.Duration, err error) {
	windowStart := step.Now.UTC().Truncate(orderWindow)
	err = i.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		var count orderCount
		if err := i.parts.Table.Load(ctx, store.Get(orderCountKey(accountID), &count)); err != nil {
			return fmt.Errorf("read an account's orders: %w", err)
		}
		if count.WindowStart.Before(windowStart) {
			count = orderCount{UnknownAttributes: count.UnknownAttributes, WindowStart: windowStart}
		}
		if count.Count >= MaxOrders {
			wait = count.WindowStart.Add(orderWindow).Sub(step.Now) + jitter(orderWindow/10, step.ID)
			return nil
		}
		wait = 0
		count.Count++
		return i.parts.Table.Commit(ctx, store.Put(orderCountKey(accountID), count))
	})
	return wait, err
}

// orderContext returns the context that binds the sealed key of an order to its operation.
func orderContext(step operation.Step) string { return "custom-domain-order/" + step.ID }

// prove is the task that notifies the authority when all gateways respond to the challenge.
func (i issuer) prove(ctx context.Context, step operation.Step) (operation.Result, error) {
	_, r, ok, err := i.loadDomain(ctx, step)
	if err != nil || !ok {
		return operation.Result{}, err // issueState ends an obsolete operation
	}
	var o Order
	if err := step.Data(&o); err != nil {
		return operation.Result{}, err
	}
	switch {
	case o.Challenge == "":
		return operation.Result{}, nil
	case step.Now.Sub(*r.VerifiedOn) < minProofAge:
		return operation.Result{Repeat: true, Delay: shortPollInterval}, nil
	}
	return operation.Result{Delay: shortPollInterval}, i.authority.Accept(ctx, o)
}

var errIssueTimeout = fault.New(fault.Conflict,
	"The certificate authority has not issued the certificate within %s. It is tried again.", issueTimeout)

// issue is the task that polls the authority until the certificate is issued. Then gateways serve the certificate, and
// the operation that renews it begins.
func (i issuer) issue(ctx context.Context, step operation.Step) (operation.Result, error) {
	in, r, ok, err := i.loadDomain(ctx, step)
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
	der, err := i.sealer.Open(ctx, c.SealedKey, orderContext(step))
	if err != nil {
		return operation.Result{}, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return operation.Result{}, fmt.Errorf("read the key of a certificate: %w", err)
	}
	csr, err := x509.CreateCertificateRequest(i.parts.Random, &x509.CertificateRequest{DNSNames: []string{r.Hostname}},
		key)
	if err != nil {
		return operation.Result{}, fmt.Errorf("make a signing request: %w", err)
	}
	chain, err := i.authority.Finish(ctx, o, csr)
	switch {
	case err != nil:
		return operation.Result{}, err
	case chain == "" && step.Now.Sub(c.OrderedOn) > issueTimeout:
		return operation.Result{}, errIssueTimeout
	case chain == "" && step.Now.Sub(c.OrderedOn) > shortPollPeriod:
		return operation.Result{Repeat: true, Delay: longPollInterval}, nil
	case chain == "":
		return operation.Result{Repeat: true, Delay: shortPollInterval}, nil
	}
	// The certificate can be valid only since the authority has issued it, which is after step.Now.
	cert, chainProblem, keyProblem := pki.ReadServerPair(chain,
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), r.Hostname, i.parts.Now())
	if problem := chainProblem + keyProblem; problem != "" {
		return operation.Result{},
			fault.New(fault.Conflict, "What the certificate authority has issued %s. It is tried again; upload a "+
				"certificate meanwhile.", problem)
	}
	after := r
	after.Certificate = &Certificate{
		Source: ACME, Issuer: pki.Name(cert.Leaf.RawIssuer), ValidFrom: cert.Leaf.NotBefore.UTC(),
		ValidTo: cert.Leaf.NotAfter.UTC(),
	}
	writes, err := i.serveCertificateWrites(ctx, r, cert.Chain, cert.Key)
	if err != nil {
		return operation.Result{}, err
	}
	// the number plus 2 has the same challenge type
	renewalWrite := i.beginIssuance(&after, in.Number+2, renewalTime(cert.Leaf, step.ID))
	return operation.Result{Writes: append(writes, renewalWrite, r.versionedWrite(after, store.Instant(step.Now)),
		store.Delete(challengeKey(r.Hostname)))}, nil
}

// renewalTime returns the time when a certificate is renewed: when a third of its lifetime remains, or up to a
// thirtieth of its lifetime earlier. The difference depends on id, so that certificates that were issued together are
// not renewed together.
func renewalTime(c *x509.Certificate, id string) time.Time {
	lifetime := c.NotAfter.Sub(c.NotBefore)
	return store.Instant(c.NotAfter.Add(-lifetime / 3).Add(-jitter(lifetime/30, id)))
}

// jitter returns a part of a period, from 0 to almost the whole period. The part depends only on id.
func jitter(period time.Duration, id string) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	const parts = 1000
	return period / parts * time.Duration(h.Sum32()%parts)
}

// fail is the task that records the error of a state and begins the next attempt.
func (i issuer) fail(ctx context.Context, step operation.Step) (operation.Result, error) {
	return i.retryLater(ctx, step, step.CaughtMessage, 0)
}

// withBackoff returns a task that runs task. If the authority requires a pause, the operation ends, and the next
// attempt begins after the pause.
func (i issuer) withBackoff(task operation.Task) operation.Task {
	return func(ctx context.Context, step operation.Step) (operation.Result, error) {
		result, err := task(ctx, step)
		if busy, ok := errors.AsType[*BusyError](err); ok {
			return i.retryLater(ctx, step, busy.Fault.Public, busy.RetryAfter)
		}
		return result, err
	}
}

// retryLater records why an attempt failed, and begins the next attempt. The delay grows with each failure, up to
// maxRetryDelay. It is at least minDelay, the pause that the authority requires, but not more than maxRetryDelay. A
// jitter of up to a tenth is added.
func (i issuer) retryLater(
	ctx context.Context, step operation.Step, message string, minDelay time.Duration,
) (operation.Result, error) {
	in, r, ok, err := i.loadDomain(ctx, step)
	if err != nil || !ok {
		return operation.Result{Next: operation.Succeed}, err
	}
	after, cert := r, *r.Certificate
	after.Certificate = &cert
	cert.Message, cert.Failures = message, cert.Failures+1
	delay := firstRetryDelay
	for range cert.Failures - 1 {
		delay = min(2*delay, maxRetryDelay)
	}
	delay = max(delay, min(minDelay, maxRetryDelay))
	retryWrite := i.beginIssuance(&after, in.Number+1, store.Instant(step.Now.Add(delay).Add(jitter(delay/10, step.ID))))
	return operation.Result{
		Next: operation.Succeed,
		Writes: []store.Write{
			retryWrite, r.versionedWrite(after, store.Instant(step.Now)),
			store.Delete(challengeKey(r.Hostname)),
		},
	}, nil
}
