package policy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/semaphore"

	"github.com/gatewright/gatewright/shared/base/clientaddr"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

const basicAuthType = "basic-auth-inbound"

// basicAuthOptions are the options of basic-auth-inbound.
type basicAuthOptions struct {
	AllowUnauthenticated bool        `json:"allowUnauthenticatedRequests"`
	Users                []basicUser `json:"users" required:"true"`
	Realm                string      `json:"realm"`
	MaxFailures          int64       `json:"maxFailuresPerMinute" minimum:"3" maximum:"1000"`
}

type basicUser struct {
	Name         string `json:"name" required:"true"`
	PasswordHash string `json:"passwordHash" required:"true"`
}

// defaultBasicAuthOptions returns the values of options that a project does not set.
func defaultBasicAuthOptions() basicAuthOptions {
	return basicAuthOptions{Realm: "API", MaxFailures: 10}
}

const (
	maxBasicUsers     = 1000
	maxBasicNameBytes = 128
	maxRealmBytes     = 128
	// maxPasswordBytes is longer than any password that people or programs use.
	maxPasswordBytes = 1024
	// passwordTTL is how long a verified password is remembered.
	passwordTTL = time.Minute
	// failureWindow is the time after that the failures of an address are forgotten.
	failureWindow = time.Minute
	// maxVerifiedPasswords and maxFailingAddresses bound what is remembered: verified passwords of a process, and
	// addresses of a policy.
	maxVerifiedPasswords = 10_000
	maxFailingAddresses  = 10_000
	// passwordSlots is the number of passwords that a process verifies at once, and maxWaitingPasswords the number of
	// requests that wait for that.
	passwordSlots       = 2
	maxWaitingPasswords = 64
)

// passwordChecks verifies passwords for all policies of a process.
type passwordChecks struct {
	verified *expiring[struct{}]
	slots    *semaphore.Weighted
	waiting  atomic.Int64
	// matches is passwordHash.matches; tests replace it.
	matches func(h passwordHash, password string) bool
}

func (c *passwordChecks) init() {
	c.verified = newExpiring[struct{}](maxVerifiedPasswords)
	c.slots = semaphore.NewWeighted(passwordSlots)
	c.matches = passwordHash.matches
}

// basicAuth admits requests with the name and the password of a user.
type basicAuth struct {
	names       map[string]passwordHash
	hashes      []passwordHash // of all users, for names that do not exist
	challenge   string
	anonymous   bool
	maxFailures int64
	memory      *Memory
	failures    *expiring[int64]
}

var _ pipeline.Inbound = (*basicAuth)(nil)

func newBasicAuth(name string, raw json.RawMessage, s *Setup) (Provisioned, []project.Problem) {
	o := defaultBasicAuthOptions()
	problems := options.Read(raw, &o)
	if len(problems) == 0 && (len(o.Users) == 0 || len(o.Users) > maxBasicUsers) {
		problems = append(problems, options.Problem("/users", "Name 1 to %d users.", maxBasicUsers))
	}
	if !isPrintable(o.Realm) || len(o.Realm) > maxRealmBytes || strings.ContainsAny(o.Realm, `"\`) {
		problems = append(problems, options.Problem("/realm", `Write at most %d characters of ASCII without " and \.`,
			maxRealmBytes))
	}
	p := &basicAuth{
		names: map[string]passwordHash{}, anonymous: o.AllowUnauthenticated, maxFailures: o.MaxFailures,
		challenge: fmt.Sprintf(`Basic realm="%s", charset="UTF-8"`, o.Realm),
	}
	problems = append(problems, p.addUsers(o.Users)...)
	if s == nil || len(problems) > 0 {
		return Provisioned{}, problems
	}
	p.memory = memoryOf(s)
	p.failures = scopeOf(p.memory, scopeName(basicAuthType, name, s.Identity), func() *expiring[int64] {
		return newExpiring[int64](maxFailingAddresses)
	})
	return Provisioned{Inbound: p}, nil
}

// addUsers adds users, and returns the problems of their options.
func (b *basicAuth) addUsers(users []basicUser) (problems []project.Problem) {
	for i, user := range users {
		at := "/users/" + strconv.Itoa(i)
		_, duplicate := b.names[user.Name]
		switch {
		case user.Name == "": // reported, because the name is required
		case !isBasicText(user.Name) || strings.Contains(user.Name, ":") || len(user.Name) > maxBasicNameBytes:
			problems = append(problems, options.Problem(at+"/name", "Write a name of at most %d bytes without colons and "+
				"control characters: in the header, the first colon ends the name.", maxBasicNameBytes))
		case duplicate:
			problems = append(problems, options.Problem(at+"/name", "Remove this user or change the name: another user has it."))
		}
		if user.PasswordHash == "" {
			continue // reported, because the hash is required
		}
		hash, fault := parsePasswordHash(user.PasswordHash)
		if fault != "" {
			problems = append(problems, options.Problem(at+"/passwordHash", "%s", fault))
		}
		b.names[user.Name] = hash
		b.hashes = append(b.hashes, hash)
	}
	return problems
}

// isPrintable reports whether a text has only printable characters of ASCII.
func isPrintable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}

// isBasicText reports whether a text can be a name or a password (RFC 7617, section 2.1).
func isBasicText(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0
}

// basicAuthImplements reports whether a basic-auth-inbound policy implements a scheme.
func basicAuthImplements(scheme project.SecurityScheme, _ project.Policy, _ []project.Policy) bool {
	return scheme.Type == "http" && scheme.HTTPScheme == "basic"
}

// basicAuthHeader returns the name of the header with the credentials.
func basicAuthHeader(project.Policy) string { return authorization }

const authorization = "Authorization"

// The details of 401 responses. A wrong password and an unknown name have the same one.
const (
	noCredentials    = "Send the name and the password of a user in the header Authorization, with the scheme Basic."
	wrongCredentials = "The name or the password is wrong. Correct it, or ask the owner of the API for a new password."
)

// Inbound checks the name and the password. The header is not sent upstream if the password is right, or if the name is
// that of a user: otherwise a mistyped password would be in the logs of the upstream.
func (b *basicAuth) Inbound(x *pipeline.Exchange) *http.Response {
	values := x.Field(authorization)
	delete(x.Trailer, authorization)
	if len(values) == 0 {
		return b.refuseUnlessAnonymous(x, noCredentials)
	}
	if len(values) > 1 {
		x.Withhold(authorization)
		return b.refuseUnlessAnonymous(x, noCredentials)
	}
	scheme, encoded, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(scheme, "Basic") {
		return b.refuseUnlessAnonymous(x, noCredentials)
	}
	encoded = strings.TrimSpace(encoded)
	name, password, ok := parseBasic(encoded)
	if !ok {
		return b.refuseUnlessAnonymous(x, "Send the name, a colon and the password in UTF-8, "+
			"encoded as Base64, and no control characters.")
	}
	hash, known := b.names[name]
	if known {
		x.Withhold(authorization)
		x.WithholdText(encoded)
	}
	client := b.memory.fingerprint(clientaddr.Canonical(x.Client).String())
	if refusal := b.refuseFailing(x, client); refusal != nil {
		return refusal
	}
	if !known {
		hash = b.substitute(name)
	}
	matches, refusal := b.check(x, client, hash, name, password)
	switch {
	case refusal != nil:
		return refusal
	case !matches || !known:
		b.countFailure(client)
		return b.refuseUnlessAnonymous(x, wrongCredentials)
	}
	x.User = &pipeline.User{Sub: name}
	return nil
}

// parseBasic returns the name and the password of credentials (RFC 7617, section 2).
func parseBasic(encoded string) (name, password string, ok bool) {
	if len(encoded) > base64.StdEncoding.EncodedLen(maxBasicNameBytes+1+maxPasswordBytes) {
		return "", "", false
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") { // the decoder skips line breaks
		return "", "", false
	}
	name, password, ok = strings.Cut(string(decoded), ":")
	return name, password, ok && isBasicText(name) && isBasicText(password)
}

// substitute returns the hash that takes the place of the hash of an unknown name, so that both take the same time. A
// name always has the same substitute.
func (b *basicAuth) substitute(name string) passwordHash {
	f := b.memory.fingerprint("substitute", name)
	return b.hashes[(int(f[0])<<16|int(f[1])<<8|int(f[2]))%len(b.hashes)]
}

// check reports whether a password has a hash. It returns a response if the password could not be verified.
func (b *basicAuth) check(
	x *pipeline.Exchange, client fingerprint, hash passwordHash, name, password string,
) (matches bool, refusal *http.Response) {
	checks := &b.memory.passwords
	credentials := b.memory.fingerprint("password", hash.text, name, password)
	if checks.isVerified(credentials, b.memory.now()) {
		return true, nil
	}
	if err := checks.acquire(x.Context); err != nil {
		x.Cause = fmt.Errorf("wait for the check of a password: %w", err)
		response := x.Problem(http.StatusServiceUnavailable,
			"Too many passwords are being checked. Repeat the request after the time in Retry-After.")
		response.Header["Retry-After"] = []string{"5"}
		return false, response
	}
	defer checks.slots.Release(1)
	// Other requests of the client can have failed while this one was waiting.
	if refusal := b.refuseFailing(x, client); refusal != nil {
		return false, refusal
	}
	// The same password can have been verified meanwhile.
	if checks.isVerified(credentials, b.memory.now()) {
		return true, nil
	}
	if !checks.matches(hash, password) {
		return false, nil
	}
	if _, known := b.names[name]; known { // an unknown name can have the password of its substitute
		checks.remember(credentials, b.memory.now())
	}
	return true, nil
}

var errPasswordsBusy = errors.New("policy: too many requests wait for the check of a password")

// acquire waits until a password can be verified. The caller releases the slot.
func (c *passwordChecks) acquire(ctx context.Context) error {
	if c.slots.TryAcquire(1) {
		return nil
	}
	if c.waiting.Add(1) > maxWaitingPasswords {
		c.waiting.Add(-1)
		return errPasswordsBusy
	}
	defer c.waiting.Add(-1)
	return c.slots.Acquire(ctx, 1)
}

func (c *passwordChecks) isVerified(credentials fingerprint, now time.Time) bool {
	c.verified.mu.Lock()
	defer c.verified.mu.Unlock()
	_, ok := c.verified.get(credentials, now)
	return ok
}

func (c *passwordChecks) remember(credentials fingerprint, now time.Time) {
	c.verified.mu.Lock()
	defer c.verified.mu.Unlock()
	c.verified.put(credentials, struct{}{}, now, now.Add(passwordTTL))
}

// refuseFailing returns a 429 response to a client with too many failures, also if its password is right: otherwise the
// client could go on guessing passwords that are remembered.
func (b *basicAuth) refuseFailing(x *pipeline.Exchange, client fingerprint) *http.Response {
	now := b.memory.now()
	b.failures.mu.Lock()
	count, _ := b.failures.get(client, now)
	end := b.failures.entries[client].end
	b.failures.mu.Unlock()
	if count < b.maxFailures {
		return nil
	}
	response := x.Problem(http.StatusTooManyRequests,
		"Too many wrong passwords came from this address. Wait for the time in Retry-After.")
	response.Header["Retry-After"] = []string{strconv.FormatInt(wholeSeconds(end.Sub(now)), 10)}
	return response
}

// countFailure counts a failure of a client. Its failures are forgotten a minute after the first one, or a minute after
// the failure that reached the limit.
func (b *basicAuth) countFailure(client fingerprint) {
	now := b.memory.now()
	b.failures.mu.Lock()
	defer b.failures.mu.Unlock()
	count, counted := b.failures.get(client, now)
	end := b.failures.entries[client].end
	if count++; !counted || count == b.maxFailures {
		end = now.Add(failureWindow)
	}
	b.failures.put(client, count, now, end)
}

// refuseUnlessAnonymous returns a 401 response, or nil if the route also allows requests without a user.
func (b *basicAuth) refuseUnlessAnonymous(x *pipeline.Exchange, detail string) *http.Response {
	if b.anonymous {
		return nil
	}
	response := x.Problem(http.StatusUnauthorized, detail)
	response.Header["Www-Authenticate"] = []string{b.challenge}
	return response
}
