package policy

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// hashOf returns a cheap hash of a password by bcrypt.
func hashOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), minBcryptCost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

// argonHashOf returns a cheap hash of a password by argon2id.
func argonHashOf(password string) string {
	salt := []byte("a salt of 16 by.")
	hash := argon2.IDKey([]byte(password), salt, 1, minArgonMemory, 1, 32)
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=1,p=1$%s$%s", minArgonMemory,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(hash))
}

// newBasicAuthPolicy returns a policy with users and other options, in the memory of a process.
func newBasicAuthPolicy(t *testing.T, memory *Memory, users map[string]string, options map[string]any) *basicAuth {
	t.Helper()
	all := map[string]any{}
	for name, value := range options {
		all[name] = value
	}
	var list []any
	for name, hash := range users {
		list = append(list, map[string]any{"name": name, "passwordHash": hash})
	}
	all["users"] = list
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	p, problems := Provision(project.Policy{
		Name: "basic", Type: basicAuthType, Handler: project.Component{Module: RuntimeModule, Options: raw},
	}, Setup{Memory: memory, Now: memory.now, Identity: project.Identity{AccountID: "a1", Deployment: "d1"}})
	if len(problems) > 0 {
		t.Fatalf("Provision(%s) problems = %v, want none", raw, problems)
	}
	return p.Inbound.(*basicAuth)
}

// basicExchange returns an exchange with values of the header Authorization.
func basicExchange(ctx context.Context, values ...string) *pipeline.Exchange {
	x := &pipeline.Exchange{
		Context: ctx, Header: http.Header{}, Client: netip.MustParseAddr("192.0.2.7"), Body: http.NoBody,
	}
	if len(values) > 0 {
		x.Header[authorization] = values
	}
	return x
}

// basic returns credentials as the header has them.
func basic(name, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+password))
}

// statusOf returns the status of a policy's response, and 0 if the policy has let the exchange through.
func statusOf(response *http.Response) int {
	if response == nil {
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestBasicAuthChecksPasswords checks credentials of every kind, in both forms of hashes.
func TestBasicAuthChecksPasswords(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("p", maxBcryptPassword)
	users := map[string]string{
		"ann": hashOf(t, "a:b:c"), "böb": argonHashOf("pässwörd ☂"), "carl": hashOf(t, long),
		"dora": strings.Replace(hashOf(t, "x"), "$2a$", "$2y$", 1), "eve": hashOf(t, ""),
	}
	for _, test := range []struct {
		name   string
		values []string
		user   string // "" for 401
	}{
		{"a password with colons", []string{basic("ann", "a:b:c")}, "ann"},
		{"UTF-8 and argon2id", []string{basic("böb", "pässwörd ☂")}, "böb"},
		{"the scheme in capitals", []string{"BASIC" + strings.TrimPrefix(basic("ann", "a:b:c"), "Basic")}, "ann"},
		{"a hash by htpasswd", []string{basic("dora", "x")}, "dora"},
		{"72 bytes", []string{basic("carl", long)}, "carl"},
		{"an empty password", []string{basic("eve", "")}, "eve"},
		{"73 bytes", []string{basic("carl", long+"p")}, ""},
		{"a wrong password", []string{basic("ann", "a:b")}, ""},
		{"the password of another user", []string{basic("dora", "a:b:c")}, ""},
		{"an unknown name", []string{basic("zoe", "x")}, ""},
		{"a name in capitals", []string{basic("Ann", "a:b:c")}, ""},
		{"an empty name", []string{basic("", "a:b:c")}, ""},
		{"no header", nil, ""},
		{"two headers", []string{basic("ann", "a:b:c"), basic("ann", "a:b:c")}, ""},
		{"another scheme", []string{"Bearer x"}, ""},
		{"no scheme", []string{strings.TrimPrefix(basic("ann", "a:b:c"), "Basic ")}, ""},
		{"no colon", []string{"Basic " + base64.StdEncoding.EncodeToString([]byte("ann"))}, ""},
		{"no Base64", []string{"Basic ann:a:b:c"}, ""},
		{"Base64 without its padding", []string{strings.TrimRight(basic("ann", "a:b:cd"), "=") + "!"}, ""},
		{"a line break in the Base64", []string{basic("ann", "a:b:c") + "\r\n\r\n="}, ""},
		{"a NUL", []string{basic("ann", "a:b:c\x00")}, ""},
		{"a line break", []string{basic("ann\r\n", "a:b:c")}, ""},
		{"no UTF-8", []string{basic("ann", "a:b:c\xff")}, ""},
		{"a megabyte", []string{basic("ann", strings.Repeat("a", 1<<20))}, ""},
		{"an empty value", []string{""}, ""},
	} {
		p := newBasicAuthPolicy(t, NewMemory(time.Now), users, nil)
		x := basicExchange(t.Context(), test.values...)
		response := p.Inbound(x)
		status := statusOf(response)
		if test.user != "" {
			if status != 0 || x.User == nil || x.User.Sub != test.user || len(x.Withheld()) != 1 {
				t.Errorf("Inbound(%s) status = %d, user = %+v, withheld = %v, want 0, the user %s and Authorization",
					test.name, status, x.User, x.Withheld(), test.user)
			}
			continue
		}
		if status != http.StatusUnauthorized || x.User != nil {
			t.Errorf("Inbound(%s) status = %d, user = %+v, want 401 and none", test.name, status, x.User)
		} else if got := response.Header.Get("Www-Authenticate"); got != `Basic realm="API", charset="UTF-8"` {
			t.Errorf("Inbound(%s) WWW-Authenticate = %s, want the realm and the charset", test.name, got)
		}
	}
}

// TestBasicAuthAdmitsAnonymous checks that wrong credentials make no user, and that a mistyped password is not sent
// upstream while credentials of the upstream's own are.
func TestBasicAuthAdmitsAnonymous(t *testing.T) {
	t.Parallel()
	p := newBasicAuthPolicy(t, NewMemory(time.Now), map[string]string{"ann": hashOf(t, "right")},
		map[string]any{"allowUnauthenticatedRequests": "true"})
	for value, withheld := range map[string]int{
		basic("ann", "right"): 1, basic("ann", "wrong"): 1, basic("upstream", "own"): 0, "Bearer x": 0,
	} {
		x := basicExchange(t.Context(), value)
		if status := statusOf(p.Inbound(x)); status != 0 || len(x.Withheld()) != withheld ||
			(x.User != nil) != (value == basic("ann", "right")) {
			t.Errorf("Inbound(%s) status = %d, withheld = %v, user = %+v, want 0, %d headers and a user only for the right one",
				value, status, x.Withheld(), x.User, withheld)
		}
	}
}

// TestVerifiedPasswordsAreRemembered checks that a right password is verified once a minute, and a wrong one each time.
// A changed hash makes the remembered password useless.
func TestVerifiedPasswordsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		verifications := 0
		memory.passwords.matches = func(h passwordHash, password string) bool {
			verifications++
			return h.matches(password)
		}
		p := newBasicAuthPolicy(t, memory, map[string]string{"ann": hashOf(t, "right")}, nil)
		send := func(p *basicAuth, name, password string, wantStatus, wantVerifications int) {
			t.Helper()
			verifications = 0
			status := statusOf(p.Inbound(basicExchange(t.Context(), basic(name, password))))
			if status != wantStatus || verifications != wantVerifications {
				t.Errorf("Inbound(%s, %s) status = %d, verifications = %d, want %d and %d", name, password, status, verifications,
					wantStatus, wantVerifications)
			}
		}
		send(p, "ann", "right", 0, 1)
		send(p, "ann", "right", 0, 0)
		time.Sleep(passwordTTL - time.Nanosecond)
		send(p, "ann", "right", 0, 0)
		time.Sleep(time.Nanosecond)
		send(p, "ann", "right", 0, 1)
		send(p, "ann", "wrong", http.StatusUnauthorized, 1)
		send(p, "ann", "wrong", http.StatusUnauthorized, 1)
		// The password of the substitute of an unknown name is verified, and not remembered.
		send(p, "bob", "right", http.StatusUnauthorized, 1)
		send(p, "bob", "right", http.StatusUnauthorized, 1)
		changed := newBasicAuthPolicy(t, memory, map[string]string{"ann": hashOf(t, "other")}, nil)
		send(changed, "ann", "right", http.StatusUnauthorized, 1)
	})
}

// TestFailuresOfAnAddressAreLimited checks that an address gets 429 after too many wrong passwords, also with a right and
// remembered one, and that other addresses are served. A new deployment does not forget the failures.
func TestFailuresOfAnAddressAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, users := NewMemory(time.Now), map[string]string{"ann": hashOf(t, "right")}
		p := newBasicAuthPolicy(t, memory, users, map[string]any{"maxFailuresPerMinute": 3})
		send := func(client, password string) *http.Response {
			x := basicExchange(t.Context(), basic("ann", password))
			x.Client = netip.MustParseAddr(client)
			return p.Inbound(x)
		}
		const attacker = "2001:db8::1"
		want := func(client, password string, status int) *http.Response {
			t.Helper()
			response := send(client, password)
			if got := statusOf(response); got != status {
				t.Errorf("Inbound(password %s from %s) status = %d, want %d", password, client, got, status)
			}
			return response
		}
		want(attacker, "right", 0)
		for range 3 {
			want(attacker, "wrong", http.StatusUnauthorized)
			time.Sleep(time.Second)
		}
		p = newBasicAuthPolicy(t, memory, users, map[string]any{"maxFailuresPerMinute": 3})
		response := want("2001:db8::2", "right", http.StatusTooManyRequests) // the same /64
		if response == nil || response.Header.Get("Retry-After") != "59" {
			t.Errorf("Inbound(a right password after 3 wrong ones) = %+v, want a Retry-After of 59", response)
		}
		want("2001:db8:1::1", "right", 0)
		time.Sleep(failureWindow - time.Second - time.Nanosecond)
		want(attacker, "right", http.StatusTooManyRequests)
		time.Sleep(time.Nanosecond)
		want(attacker, "right", 0)
		want(attacker, "wrong", http.StatusUnauthorized)
		time.Sleep(failureWindow)
		want(attacker, "wrong", http.StatusUnauthorized)
		want(attacker, "wrong", http.StatusUnauthorized)
		want(attacker, "right", 0) // the first failure is forgotten
	})
}

// TestPasswordsWaitForEachOther checks that at most two passwords are verified at once, that the number of waiting
// requests is bounded, and that a request stops waiting when its client has gone.
func TestPasswordsWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		var running, most atomic.Int64
		release := make(chan struct{})
		memory.passwords.matches = func(passwordHash, string) bool {
			most.Store(max(most.Load(), running.Add(1)))
			<-release
			running.Add(-1)
			return true
		}
		p := newBasicAuthPolicy(t, memory, map[string]string{"ann": hashOf(t, "right")}, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var statuses sync.Map
		start := func(ctx context.Context, i int) {
			go func() {
				statuses.Store(i, statusOf(p.Inbound(basicExchange(ctx, basic("ann", strconv.Itoa(i))))))
			}()
			synctest.Wait()
		}
		for i := range passwordSlots {
			start(t.Context(), i)
		}
		for i := range maxWaitingPasswords - 1 {
			start(t.Context(), passwordSlots+i)
		}
		const gone, beyond = 1000, 1001
		start(ctx, gone)
		start(t.Context(), beyond)
		if status, _ := statuses.Load(beyond); status != http.StatusServiceUnavailable {
			t.Errorf("Inbound(while %d requests wait) status = %v, want 503", maxWaitingPasswords, status)
		}
		cancel()
		synctest.Wait()
		if status, _ := statuses.Load(gone); status != http.StatusServiceUnavailable {
			t.Errorf("Inbound(canceled) status = %v, want 503", status)
		}
		close(release)
		synctest.Wait()
		if waiting := memory.passwords.waiting.Load(); most.Load() != passwordSlots || waiting != 0 {
			t.Errorf("passwords verified at once = %d, waiting at the end = %d, want %d and 0", most.Load(), waiting,
				passwordSlots)
		}
		if status, _ := statuses.Load(passwordSlots); status != 0 {
			t.Errorf("Inbound(after waiting) status = %v, want 0", status)
		}
	})
}

// TestUnknownNamesTakeAHash checks that a password of an unknown name is verified like that of a user, with hashes of all
// users, and always with the same one for a name.
func TestUnknownNamesTakeAHash(t *testing.T) {
	t.Parallel()
	memory, seen := NewMemory(time.Now), map[string]bool{}
	memory.passwords.matches = func(h passwordHash, _ string) bool {
		seen[h.text] = true
		return false
	}
	users := map[string]string{"ann": hashOf(t, "a"), "bob": argonHashOf("b")}
	p := newBasicAuthPolicy(t, memory, users, map[string]any{"maxFailuresPerMinute": 1000})
	for i := range 200 {
		name := strconv.Itoa(i)
		if first, second := p.substitute(name), p.substitute(name); first.text != second.text {
			t.Errorf("substitute(%s) differs between two calls, want the same hash", name)
		}
		if status := statusOf(p.Inbound(basicExchange(t.Context(), basic(name, "x")))); status != http.StatusUnauthorized {
			t.Errorf("Inbound(unknown name) status = %d, want 401", status)
		}
	}
	if len(seen) != len(users) {
		t.Errorf("hashes that unknown names were compared with = %d, want %d", len(seen), len(users))
	}
}

// TestExpiringIsBounded checks that a table has no more entries than its bound, and that ended entries make room.
func TestExpiringIsBounded(t *testing.T) {
	t.Parallel()
	e, now := newExpiring[int](2), time.Unix(1e9, 0)
	put := func(key byte, validity time.Duration) {
		e.put(fingerprint{key}, int(key), now, now.Add(validity))
	}
	put(1, 5*time.Second)
	put(2, time.Minute)
	now = now.Add(5 * time.Second)
	put(3, time.Minute)
	for key, want := range map[byte]bool{1: false, 2: true, 3: true} {
		if _, ok := e.get(fingerprint{key}, now); ok != want {
			t.Errorf("get(%d) = %t, want %t", key, ok, want)
		}
	}
	put(4, time.Minute)
	if len(e.entries) != 2 || e.hasRoom(now) {
		t.Errorf("entries = %d, has room: %t, want 2 and false", len(e.entries), e.hasRoom(now))
	}
	if _, ok := e.get(fingerprint{4}, now); !ok {
		t.Error("get(the last entry) = false, want true")
	}
}
